"""Thistle's co-design: hardware sizes and tilings in one geometric program (Vaidya et al., CGO 2022)."""

from solvers.codesign.thistle.layer_programs import RelaxedOptimum
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.relaxation import relaxed_optimum
from solvers.codesign.thistle.solver import VERSION, solve

__all__ = ["VERSION", "Params", "RelaxedOptimum", "relaxed_optimum", "solve"]
