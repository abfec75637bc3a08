"""CoSA: schedules by constrained optimisation (Huang et al., ISCA 2021), in a form open solvers prove."""

from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
