"""The schema: the columns of every result table with type, unit and meaning.

Start with ``tables.py``, which has all tables; code outside this folder imports that, and ``rows.py``, which
has the rows as types. ``columns.py`` says what a column, a table and a stored row are, ``shared_columns.py``
has the columns that several tables have, and ``chips.py`` the tables of studies of chips.
"""
