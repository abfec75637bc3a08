"""Geometric programs without a word about layers: what they are, how they are solved, what is proven.

A geometric program is convex in the logarithms of its variables, so a local optimum is a global one.
Expressions are built with named variables (``signomial.py``) and become arrays once (``program.py``, which
also says what a whole program is). ``cones.py`` writes a program as exponential cones for Clarabel, which
``exponential_cones.py`` calls. ``certificate.py`` turns the multipliers of an optimum into a lower bound that
holds whatever Clarabel's tolerances were. ``disciplined.py`` is the same program in CVXPY's words, to be read
first and to be tested against; nothing in the product imports it.
"""
