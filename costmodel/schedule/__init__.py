"""A network on a chip of tiles: a schedule, and what it costs.

A schedule is a resource-allocation tree (``tree/``, SET's section 3). A segment (``segment.py``) is a
sub-tree that has the whole chip to itself for a while. ``boxes/`` says what tiles read, make and send one
another when a layer is cut among them. ``leaf/`` finds how each layer is cut, ``mesh/`` counts transfers,
``buffers.py`` what tiles hold, ``starts.py`` when each node runs. ``row_bands.py`` has segments that run some
rows of an image at a time, ``reductions.py`` layers whose input channels are cut. ``transitions.py`` lets a
segment fetch while the one before it ends, and ``evaluate.py`` adds up segments.

``whole_chip/`` is the other way to run a layer: its loop nest mapped on the whole chip. ``tile_cost.py`` is
the protocol by which the model asks what a part of a layer costs within a tile, and ``tile_counts/`` counts
that for a mapping. ``bounds/`` bounds all schedules of a network; ``program/`` writes what every tile does.
``layer_graph/`` has the network as schedulers see it.

Start with ``tree/tree.py``, then ``evaluate.py``. Within
``costmodel`` only ``formats`` and ``published`` may import this package.
"""
