"""Thistle (Vaidya et al., CGO 2022): a geometric program for every class of loop orders, then rounding.

Start with ``disciplined.py``, which states the program as the paper does, and ``expressions.py``, which makes
its data volumes (Algorithm 1). ``tiling.py`` has the variables, ``orders.py`` the classes of loop orders,
``costs.py`` the objective and the constraints. ``class_search.py`` solves the programs best first,
``rounding.py`` makes mappings of their optima, ``proof.py`` a lower bound, and ``solver.py`` runs it all.
"""

from solvers.mapping.thistle.params import Params
from solvers.mapping.thistle.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
