"""One leaf of an RA tree: a layer on a group of tiles, in its cheapest partition and placement.

Start with ``leaf.py``, the search. ``leaf_cost.py`` has its result, and ``leaf_runs.py`` says how the leaf
runs in time. ``leaf_layer.py`` has what all leaves of a layer share, ``partition_rows.py`` the partitions
that fit the tiles' buffers, and ``reduction.py`` leaves whose input channels are cut. ``partitions.py`` lists
how a layer may be cut; ``streams.py`` says where its data comes from and goes. ``kernels/`` has what is
compiled.
"""
