"""The built-in chips and, in ``tiles/``, their tiles, one YAML file each; :mod:`costmodel.formats.chips`
reads them.
"""
