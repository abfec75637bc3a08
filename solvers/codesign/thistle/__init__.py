"""Thistle's co-design: hardware sizes and tilings in one geometric program (Vaidya et al., CGO 2022).

Start with ``program.py`` (the paper's Eq. 5). ``hardware.py`` has its sizes, energies (Eq. 4) and area,
``layer_costs.py`` and ``loops.py`` what a layer costs, and ``geometric_program.py`` solves it.
``layer_programs.py`` and ``relaxation.py`` choose loop orders, ``members.py`` rounds to architectures, and
``solver.py`` runs it all.
"""

from solvers.codesign.thistle.layer_programs import RelaxedOptimum
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.relaxation import relaxed_optimum
from solvers.codesign.thistle.solver import VERSION, solve

__all__ = ["VERSION", "Params", "RelaxedOptimum", "relaxed_optimum", "solve"]
