"""What one segment of a schedule costs: a sub-tree that has the whole chip to itself while it runs.

Start with ``segment.py``, which evaluates the cuts of a segment; ``leaf_nodes.py`` evaluates its leaves.
``planned_nodes.py`` has what is known of nodes before they get tiles, ``node_cost.py`` the result.
``allocation.py`` divides tiles among the children of an S cut, ``buffers.py`` counts the bits that tiles
hold, ``times.py`` the time that nodes take, and ``known_nodes.py`` remembers nodes, which makes searches
quick.
"""
