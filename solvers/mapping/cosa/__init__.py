"""CoSA: schedules by constrained optimisation (Huang et al., ISCA 2021), for solvers that everybody has.

The programs are written so that CP-SAT and HiGHS solve them to proven optimality. Start with ``solver.py``.
"""

from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
