"""Solvers that choose an architecture of a family together with the mappings of its layers.

``family.py`` says which architectures there are, ``problem.py`` what is asked, ``bounds.py`` what none can be
better than; ``thistle/`` solves it as geometric programs (Thistle, section IV). Start with ``problem.py``.
"""
