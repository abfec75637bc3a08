"""Programs of layers that have the whole chip, with their data in DRAM.

``mapped_layer.py`` writes a layer whose loop nest is mapped on all tiles: start there. ``mapped_plan.py``
says where a tile's data lies while it goes through the loops of DRAM, and ``nest_numbers.py`` which elements
an iteration takes. ``streamed_layer.py`` writes a layer without products, plane by plane.
"""
