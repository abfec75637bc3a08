"""Plans of graphs whose operators are cut: which cut, a bound for all of them, and the solver of one of them.

``solver.py`` puts them together: start there. ``segments.py`` chooses the cut, ``bounds.py`` has the bound,
which ``barriers.py`` and ``frontiers.py`` prove.
"""
