"""Transfers between DRAM and tiles, and among tiles, as bytes on the links of the mesh.

Messages go along the row of their source first, then along columns (XY routing); a multicast is one tree.
``mesh_kernel.py`` measures trees, ``senders_kernel.py`` many trees to the same tiles at once,
``flows_kernel.py`` adds up what DRAM exchanges with tiles, and ``transfer_kernel.py`` counts all transfers
of a placed leaf; files that end in ``_kernel`` are compiled. ``deliveries.py`` counts the same links for
layers mapped on the whole chip, whose tiles need data in groups that ``tile_groups.py`` finds. Start with
``transfer_kernel.py``.
"""
