"""The exact solver of fused mappings; ``solver.py`` tells how it goes, start there.

``structures.py`` lists what neighbours can share, ``options.py`` what an einsum can hoist within it,
``nests.py`` the nests that are left to the einsum, by ``nest_kernel.py``. ``bounds.py`` has what is certain
without a search, ``fronts.py`` sums of costs.
"""

from solvers.fusion.exact.solver import VERSION, Params, solve

__all__ = ["VERSION", "Params", "solve"]
