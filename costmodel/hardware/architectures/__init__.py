"""The built-in architectures, one YAML file each; :mod:`costmodel.formats.architectures` reads them."""
