"""Solvers for a whole network on a tiled chip: which RA tree runs it with the least energy and delay.

``problem.py`` has the problem, ``chip_model.py`` counts. ``set/`` anneals trees (SET), ``kapla/`` prunes
chains of segments (KAPLA), ``layer_pipeline.py`` and ``layer_sequential.py`` are the patterns before them.
``tiles/`` says what parts of layers cost on a tile, which all of them ask. Start with ``problem.py``.
"""
