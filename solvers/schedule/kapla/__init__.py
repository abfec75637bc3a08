"""KAPLA's inter-layer scheduling (Li and Gao, 2023): pruned and prioritised chains of segments."""

from solvers.schedule.kapla.params import Params
from solvers.schedule.kapla.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
