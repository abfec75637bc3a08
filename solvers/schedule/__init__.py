"""Solvers for a whole network on a tiled chip: which RA tree runs it with the least energy and delay.

Start with ``problem.py``, which states the problem; ``chip_model.py`` counts what a tree costs. Four solvers
look for trees: ``set/`` anneals them (SET), ``kapla/`` prunes and ranks chains of segments (KAPLA), and
``layer_pipeline.py`` and ``layer_sequential.py`` anneal within the two patterns that are older than both.
All four ask ``tiles/`` what a part of a layer costs on one tile.
"""
