"""The report of a run: one HTML page that needs no network.

Start with ``page.py``, which puts the sections together. ``data.py`` reads all that they show, once;
``html.py`` makes elements in which whatever comes from data is escaped; ``report.js`` draws the charts.
"""
