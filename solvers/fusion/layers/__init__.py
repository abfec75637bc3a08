"""The solver of fused groups of layers on an architecture; ``solver.py`` tells how it goes, start there.

``problem.py`` has the question and its checker, ``structures.py`` lists what layers can share and keep,
``floors.py`` bounds each of that by arithmetic and ``insides.py`` by what a layer costs inside the chip.
``parts.py`` asks the exact mapper for the nests of a layer's part (``questions.py``), ``options.py`` has what
a layer can hoist and what it then costs at least, and ``choices.py`` what all layers can hoist together.
Bounds are corners (``corners.py``).
"""

from solvers.fusion.layers.solver import VERSION, Params, solve

__all__ = ["VERSION", "Params", "solve"]
