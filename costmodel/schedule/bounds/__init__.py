"""Proven lower bounds on the energy and cycles of all schedules of a network on a chip.

``bounds.py`` puts the bounds together. ``compulsory.py`` counts the bits that every schedule moves, and
``staying.py`` finds the tensors that cannot stay on the chip, which add to them. ``leaves.py`` bounds each
layer by the ways to cut it among tiles. ``waiting.py`` bounds the time of layers whose weights do not fit the
buffers together. Solvers ask here, to say how far from the best an answer may be.
"""
