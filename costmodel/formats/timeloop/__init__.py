"""Timeloop's files (0.3 and 0.4): architectures, problems, constraints and mappings, read and written.

``files.py`` finds the sections that several files make up together; the other modules read one section each,
and ``export.py`` writes a mapping, ``chip_files.py`` all files of an architecture and the mappings on it.
"""
