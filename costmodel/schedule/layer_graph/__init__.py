"""A network as a chip's scheduler sees it: layers for one sample, and whose outputs each of them reads.

``layer.py`` has one layer and its iteration space, ``graph.py`` the network: start there. ``sources.py`` says
which layer computes which elements of a tensor, or that DRAM has them, ``element_bits.py`` how wide they are,
and ``order.py`` gives another order of the layers. ``training.py`` derives a training step from a graph, and
``stated.py`` makes a network of a graph whose layers were stated one by one. ``reading/`` makes a graph of a
:class:`~costmodel.workload.network.Network`; :mod:`costmodel.formats.layer_graphs` finds one by name.
"""
