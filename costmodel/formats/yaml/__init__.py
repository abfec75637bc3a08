"""Our own YAML files: architectures and chips, their keys, units and overrides.

``architecture.py`` and ``chip.py`` describe the formats. ``safe_yaml.py`` reads any YAML file from
a stranger, bounded in size, and ``file_keys.py`` turns pydantic's complaints into InputError.
"""
