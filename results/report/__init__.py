"""The report of a run: one HTML page that needs no network. ``report.py`` puts its sections together."""
