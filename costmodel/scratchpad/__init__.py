"""A network in one software-managed buffer (COSMA): what it asks of the buffer, and plans for it.

``graph.py`` has tensors and operators with their bytes; its ``operator_graph`` makes them from any network.
``bands.py`` cuts a network's tensors into bands of rows, where a buffer holds no whole one. ``plan.py``
replays a plan step by step, says whether it is valid, and counts the bytes that it moves off the chip.
Solvers and studies import this package; it imports ``workload`` only.
"""
