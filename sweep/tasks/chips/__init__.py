"""Tasks of studies of chips: schedules, and what they need to know first.

Start with ``schedule.py``, the task; ``schedule_answer.py`` solves it. ``tile_costs.py`` asks what parts of
layers cost on a tile; ``scheduling_costs.py`` is how these costs travel. ``tree_costing.py`` costs a tree of
another chip, ``tree_refinement.py`` goes on from one, and ``program.py`` writes the program of a schedule.
"""
