"""The schema: every table's columns with type, unit and meaning. ``tables.py`` is the door; ``columns.py``
says what a column is.
"""
