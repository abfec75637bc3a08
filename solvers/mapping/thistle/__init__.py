"""Thistle (Vaidya et al., CGO 2022): a geometric program for every class of loop orders, then rounding.

Three folders in an order; each may import itself and those before it:

* ``convex/``: posynomials, the programs made of them, how these are solved, what their optima prove. It
  knows nothing of layers. ``convex/disciplined.py`` states the program as the paper does: start there.
* ``nest/``: the tiled loop nest of a layer, as posynomials. ``nest/expressions.py`` is Algorithm 1.
* ``search/``: which programs are solved in which order, rounding of their optima, and the lower bound.

``solver.py`` beside them runs it all: bound, programs, rounding, polish. Other solvers use what is exported
here; Thistle's co-design also uses ``convex`` and ``nest``, as its programs have the same expressions.
"""

from solvers.mapping.thistle.params import Params
from solvers.mapping.thistle.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
