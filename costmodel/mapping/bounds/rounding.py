"""By how much lower bounds are lowered to be safe from the rounding of floating-point sums.

It stands apart because kernels use it, which are compiled anew when a module that they import changes.
"""

ROUNDING = 1 - 1e-12
"""Bounds are lowered by this factor, because the cost model adds floating-point numbers in another order.

That changes a sum by about 1e-15 of it. The exact mapper lowers its floating-point counts by the same factor
before it rounds them up; ``solvers.tolerance.SAME_COST`` is the same amount, for comparisons of costs."""
