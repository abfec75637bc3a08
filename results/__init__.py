"""What came back from a study: stored rows, the Pareto front, and the report.

``store/`` writes rows and finds answers again, ``front/`` says which designs are on the front and how certain
that is, ``report/`` draws one HTML page; each may import those before it. This package imports none of the
other four. Start with ``store/folder.py``, whose docstring shows how a run is written and read.
"""
