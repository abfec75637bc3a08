"""What is computed: layers, the network that they make up, and the library of networks.

A :class:`~costmodel.workload.network.Layer` is a loop nest over tensors with affine projections. A
:class:`~costmodel.workload.network.Network` is a graph of operators, some of which have layers. Start with
``network.py``; ``operators.py`` makes layers from the shapes of an operator's tensors, ``library/`` holds the
built-in networks, and ``training.py`` derives a training step. Nothing here knows hardware.
"""
