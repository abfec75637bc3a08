"""COSMA (the paper): order, allocation and replacement of tensors in one buffer, decided together.

``solver.py`` is the exact solver, a best-first search (``search.py``) over states (``moves.py``) with a lower
bound (``estimate.py``). ``counts.py`` is a search whose states count what is alike instead of naming
it, which bounds what is too large for the other. ``integer_program.py`` is the paper's program as printed,
which checks the search on small graphs.
"""
