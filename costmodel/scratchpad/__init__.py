"""A network in one software-managed buffer (COSMA): what it asks of the buffer, and plans for it.

``graph.py`` has tensors and operators with their bytes; its ``operator_graph`` makes them from any network.
``divisions.py`` reads off a network which operators can be computed band by band, ``cut.py`` cuts a graph
into such bands, and ``cut_check.py`` says whether a cut graph computes what the whole one does. ``plan.py``
replays a plan step by step, says whether it is valid, and counts the bytes that it moves off the chip.
Solvers and studies import this package; it imports ``workload`` only.
"""
