"""A layer's tiled loop nest as posynomials of its trip counts: the paper's Algorithm 1 and Eq. 3.

Start with ``expressions.py``: Algorithm 1's footprints and volumes, by names of variables. ``orders.py``
groups the loop orders that give equal expressions, ``tiling.py`` says which trip counts are variables and
which are fixed, ``volumes.py`` makes arrays of the expressions, and ``costs.py`` adds them up to energy, time
and capacities. It is used by ``search`` and by Thistle's co-design, and imports ``convex``.
"""
