"""KAPLA's layer solver (Li and Gao, 2023): stacking and caching level by level, from the inside out."""

from solvers.mapping.kapla.params import Params
from solvers.mapping.kapla.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
