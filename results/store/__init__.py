"""The store: run folders of Parquet files, and answers found again in all of them.

Start with ``folder.py``, which reads and writes one run folder. Rows lie in a journal (``journal.py``) until
enough of them make a Parquet file, called a part (``parts.py``). ``schema/`` has the columns of every table
with units and meanings. ``known_answers.py`` finds the answers of earlier runs. ``remote/`` is for run
folders behind a URI. Nothing here imports ``front/`` or ``report/``.
"""
