"""Which programs are solved, and what becomes of their optima: mappings, and a lower bound.

``class_search.py`` solves the programs of classes of loop orders best first. ``rounding.py`` makes mappings
with whole trip counts of an optimum. ``proof.py`` runs the same search over programs that never exceed the
cost model; its argument stands whole at the head of the file. Only ``solver.py`` uses these. Start with
``class_search.py``.
"""
