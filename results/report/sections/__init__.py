"""The sections of the report, one a module.

Each module has a function ``..._section`` that takes the ``RunData`` of a run and returns a
``ReportSection``, or None where the run has no data for it. ``spending.py``, ``layers.py`` and ``compare.py``
also have what other sections share: colours of levels, the rows of a design's layers, and comparisons with
the baseline.
"""
