"""The built-in studies, one YAML file each: `archsweep list studies` names them, `archsweep run NAME` runs
one.
"""
