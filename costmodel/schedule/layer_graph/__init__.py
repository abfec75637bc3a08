"""A network as a chip's scheduler sees it: layers for one sample, and whose outputs each of them reads.

``graph.py`` has the value; ``reader.py`` makes it from a network, node by node, and refuses by name what a
schedule cannot have; ``library.py`` finds one by name or in a file.
"""
