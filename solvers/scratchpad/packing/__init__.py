"""Packing: addresses in one memory for buffers of known lifetimes, found or proven impossible.

``search.py`` explains the complete search and proves it; ``kernel.py`` and ``capacity_kernel.py`` are its
compiled half, over the arrays of ``sections.py`` (the problem) and ``state.py`` (what a search changes).
"""

from solvers.scratchpad.packing.params import Params
from solvers.scratchpad.packing.problem import Addresses, Buffer, PackingProblem, violations
from solvers.scratchpad.packing.solver import VERSION, solve

__all__ = ["VERSION", "Addresses", "Buffer", "PackingProblem", "Params", "solve", "violations"]
