"""A network on a chip of tiles: a schedule, and what it costs.

A schedule is a resource-allocation tree (``tree/``, SET's section 3). A segment is a sub-tree that has the
whole chip to itself for a while; ``segment/`` evaluates it. ``leaf/`` finds how each of its layers is cut
among tiles, ``boxes/`` defines what tiles then read, make and send one another, ``mesh/`` counts the
transfers, and ``starts.py`` says when each node runs. ``row_bands.py`` has segments that run some rows of an
image at a time, ``reductions.py`` layers whose input channels are cut. ``transitions.py`` counts what a
segment saves by fetching its first data while the segment before it ends. ``evaluate.py`` adds up the
segments of a tree.

``whole_chip/`` is the other way to run a layer: its loop nest mapped on the whole chip. ``fused_groups/`` is
that of several layers: a fused mapping of a part of them on every tile. ``tile_cost.py`` is the protocol by
which the model asks what a part of a layer costs within a tile, and ``tile_counts/`` counts that for a
mapping. ``bounds/`` bounds all schedules of a network; ``program/`` writes what every tile does.
``layer_graph/`` has the network as schedulers see it. ``pe_mesh/`` is not about chips of tiles: it writes
one layer's mapping as a program of a mesh of PEs.

Start with ``tree/tree.py``, then ``evaluate.py``. Within
``costmodel`` only ``formats`` and ``published`` may import this package.
"""
