"""The exact mapper: the best mapping of a layer on an architecture, and the proof that it is."""

from solvers.mapping.exact.params import Params
from solvers.mapping.exact.solver import VERSION, Solving, solve

__all__ = ["VERSION", "Params", "Solving", "solve"]
