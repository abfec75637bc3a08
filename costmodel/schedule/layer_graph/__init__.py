"""A network as a chip's scheduler sees it: layers for one sample, and whose outputs each of them reads.

``layer.py`` has one layer and its iteration space, ``graph.py`` the network: start there. ``sources.py`` says
which layer computes which elements of a tensor, or that DRAM has them. ``reader.py`` makes a graph from a
:class:`~costmodel.workload.network.Network`, node by node, and refuses by name what a schedule cannot have;
``training.py`` derives a training step from it, and ``stated.py`` makes a network of a graph whose layers
were stated one by one. While a network is read, ``layout.py`` says where the elements of every value lie, and
``drafts.py`` has the layers. :mod:`costmodel.formats.layer_graphs` finds a layer graph by name or in a file.
"""
