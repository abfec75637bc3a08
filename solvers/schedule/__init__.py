"""Solvers for a whole network on a tiled chip: which RA tree runs it with the least energy and delay.

Start with ``problem.py``, which states the problem; ``chip_model.py`` counts what a tree costs. Five solvers
look for trees: ``set/`` anneals them (SET), ``kapla/`` prunes and ranks chains of segments (KAPLA),
``segment_chain.py`` finds the best of a smaller space of such chains exactly, of segments that ``blocks.py``
makes among others, and joins neighbours by ``joining.py``; ``layer_pipeline.py`` and ``layer_sequential.py``
anneal within the two patterns that are older than all. ``exhaustive.py`` tries every
tree of small networks, to measure the others by. All ask ``tiles/`` what a part of a layer costs on one tile.
"""
