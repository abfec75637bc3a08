"""The compiled half of the exact mapper: loops over assignments, tiles and loop orders, in machine code.

They work on the arrays of :mod:`solvers.mapping.exact.tables`. ``bound_kernel.py`` bounds,
``search_kernel.py`` searches; the others count what both need.
"""
