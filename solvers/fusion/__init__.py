"""Solvers that map a chain of einsums together: what neighbours share, and where intermediates stay.

``problem.py`` has the problem and the independent checker, ``exact/`` the solver that proves its answers.
Start with ``problem.py``.
"""
