"""KAPLA's layer solver (Li and Gao, 2023): stacking and caching level by level, from the inside out.

Start with ``bottom_up.py``, which is Algorithm 1. ``orders.py`` has its loop orders, ``filling.py`` its
*stack* and *cache*, ``ladders.py`` the factors that these may take, ``estimate.py`` its cost of a partial
scheme, and ``schemes.py`` the arrays that hold the schemes.
"""

from solvers.mapping.kapla.params import Params
from solvers.mapping.kapla.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
