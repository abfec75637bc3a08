"""The store: run folders of Parquet parts with journals, their schema, and answers found again.

``folder.py`` reads and writes a run folder, ``schema.py`` has the columns of every table with units and
meanings.
"""
