"""The exact mapper: the best mapping of a layer on an architecture, and the proof that it is.

``solver.py`` is the whole of it from above: assignments of spatial factors and kept tensors in the order of
their bounds (``assignments.py``), the loops of each by branch and bound (``kernels/search_kernel.py``). Start
there; then ``tables.py`` for what the numbers are, and ``kernels/bound_kernel.py`` for why the bound is one.
``docs/exact.md`` tells it without code. Other solvers use nothing but what is exported here.
"""

from solvers.mapping.exact.params import Params
from solvers.mapping.exact.solver import VERSION, Solving, solve

__all__ = ["VERSION", "Params", "Solving", "solve"]
