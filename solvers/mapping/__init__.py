"""Solvers for one layer on one architecture: which mapping costs least.

``problem.py`` has the problem and ``space/`` which mappings it allows. Every other folder or module is one
solver (``exact``, ``cosa``, ``thistle``, ``kapla``, ``learned_annealing``, ``auto``, ``random_search``,
``hybrid``, ``exhaustive``), whose ``solve`` returns an Outcome that the cost model has counted. Start with
``problem.py``, then ``exact/solver.py``.
"""
