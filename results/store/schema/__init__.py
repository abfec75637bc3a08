"""The schema: the columns of every result table with type, unit and meaning.

``tables.py`` lists all tables and is what others import; ``columns.py`` says what a column, a table and a
stored row are, ``rows.py`` has the rows as types, ``shared_columns.py`` the columns that several tables have.
"""
