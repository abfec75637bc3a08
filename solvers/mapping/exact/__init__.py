"""The exact mapper: the best mapping of a layer on an architecture, and the proof that it is.

An *assignment* is a choice of spatial factors and of the tensors that each level keeps. Assignments are
searched in the order of their lower bounds (``assignments.py``); the temporal loops of each are found by
branch and bound (``kernels/search_kernel.py``). ``solver.py`` joins the two: start there. Then read
``tables.py`` for what the arrays hold, and ``kernels/bound_kernel.py`` for the bound and its proof.
``docs/exact.md`` tells all this without code. Other solvers use nothing but what is exported here.
"""

from solvers.mapping.exact.params import Params
from solvers.mapping.exact.solver import VERSION, Solving, code, solve

__all__ = ["VERSION", "Params", "Solving", "code", "solve"]
