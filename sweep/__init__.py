"""A study from its file to its report: the package that puts the other four together.

``study/`` reads the file, ``search/`` proposes designs, ``tasks/`` is what workers solve and ``blocks/`` what
they are handed many at a time. ``run/`` is the loop, ``forecast/`` says beforehand how long it takes,
``silicon/`` holds the cost model against measured machines, and ``cli/`` is the command. Start with
``study/study.py``, then ``run/run.py``.
"""

VERSION = "0.2.0"
"""The version of archsweep, as in pyproject.toml; a driver and its workers must have the same."""

PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")
"""The top-level packages that archsweep is made of."""
