"""Packing: buffers of known lifetimes placed in a memory, found or proven impossible."""

from solvers.scratchpad.packing.params import Params
from solvers.scratchpad.packing.problem import Addresses, Buffer, PackingProblem, violations
from solvers.scratchpad.packing.solver import VERSION, solve

__all__ = ["VERSION", "Addresses", "Buffer", "PackingProblem", "Params", "solve", "violations"]
