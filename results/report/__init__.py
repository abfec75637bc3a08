"""The report of a run: one HTML page that needs no network.

``page.py`` puts the sections together and is what others import. ``data.py`` reads all that they show, once;
``html.py`` makes elements in which whatever comes from data is escaped; ``report.js`` draws the charts.
"""
