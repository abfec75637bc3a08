"""Annealing guided by a learned cost model (AutoTVM, Chen et al. 2018), which KAPLA's evaluation calls M.

Start with ``search.py``: chains walk on a model's predictions, the best new mappings are measured, and the
model learns from them.
"""

from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.learned_annealing.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
