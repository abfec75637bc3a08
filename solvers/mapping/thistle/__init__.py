"""Thistle: a geometric program for every class of loop orders (Vaidya et al., CGO 2022), made whole again."""

from solvers.mapping.thistle.params import Params
from solvers.mapping.thistle.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
