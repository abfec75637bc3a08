"""What is computed: layers, the network that they make up, and the library of networks.

A :class:`~costmodel.workload.network.Layer` is a loop nest over tensors with affine projections
(``projection.py``), for the counters of mappings as for the boxes that a chip's tiles compute. A
:class:`~costmodel.workload.network.Network` is a graph of operators, some of which have layers. Start with
``network.py``.

``operators.py`` is the one table of operators. ``convolutions.py`` and ``products.py`` make layers from the
shapes of an operator's tensors. ``windows.py`` finds where windows along rows or columns begin; ``views.py``
and ``digits.py`` know where the elements of a tensor lie and which repeat. ``library/`` holds the built-in
networks. Nothing here knows hardware; all other folders may import it.
"""
