"""Solvers for a whole network on a tiled chip: which RA tree runs it with the least energy and delay.

Start with ``problem.py``, which states the problem; ``chip_model.py`` counts what a tree costs. Eight
solvers look for trees:

- ``set/`` anneals them (SET);
- ``kapla/`` prunes and ranks chains of segments (KAPLA);
- ``segment_chain/`` finds the best of a smaller space of such chains exactly, and improves it step by step;
- ``layer_pipeline.py`` and ``layer_sequential.py`` anneal within the two patterns that are older than SET;
- ``tangram/`` finds the best chain of Tangram's segments, the other baseline of SET's paper;
- ``auto.py`` asks three of those above and improves the best of their trees;
- ``exhaustive.py`` tries every tree of small networks, to measure the others by.

All ask ``tiles/`` for the cost of a part of a layer on one tile, ``whole_chip_costs.py`` for that of a layer
on the whole chip, and ``fused_groups.py`` for that of layers mapped together.
"""
