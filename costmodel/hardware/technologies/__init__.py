"""The built-in technologies, one YAML file each; :mod:`costmodel.formats.technologies` reads them."""
