"""One leaf of an RA tree: a layer on a group of tiles, its cheapest partition and placement.

``leaf.py`` is the door; ``partitions.py`` lists how a layer may be cut, ``ranges_kernel.py`` says which data
every part needs, ``leaf_kernel.py`` searches. Files that end in ``_kernel`` are compiled.
"""
