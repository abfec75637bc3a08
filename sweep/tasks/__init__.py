"""Tasks: one solve each, as frozen data with an identity, and what a worker does with them.

``kinds.py`` lists the kinds of tasks; each of the other modules has one kind, or what its answers become.
``chips/`` has those of chips of tiles.
"""
