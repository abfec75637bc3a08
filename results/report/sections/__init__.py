"""The sections of the report, in a folder for each question of its reader, in the order of the page.

A module has a function ``..._section`` that takes the ``RunData`` of a run and returns a ``ReportSection``,
or None where the run has no data for it; ``results/report/page.py`` puts them together. What several sections
show lies outside: the rows of a design's layers in ``design_layers.py``, colours in ``colors.py``.
"""
