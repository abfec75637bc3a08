"""Annealing guided by a learned cost model (AutoTVM, Chen et al. 2018): the M of KAPLA's evaluation."""

from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.learned_annealing.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
