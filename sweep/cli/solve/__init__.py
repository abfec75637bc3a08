"""``archsweep solve``: one problem, one answer. ``options.py`` has the options; each other module does one
family.
"""
