"""Transfers between DRAM and tiles, and among tiles, as bits on the links of the mesh.

Messages go along the row of their source first, then along columns (XY routing); a multicast is one tree.
``mesh_kernel.py`` measures trees, ``senders_kernel.py`` many trees to the same tiles at once, and
``flows_kernel.py`` adds up what DRAM exchanges with tiles; these three are compiled, and ``geometry.py`` lays
out a chip's mesh as their arrays. Code that depends on a leaf and its partition is in ``leaf/``.
``deliveries.py`` counts the same links for layers mapped on the whole chip, whose tiles need data in groups
that ``tile_groups.py`` finds. Start with ``mesh_kernel.py``.
"""
