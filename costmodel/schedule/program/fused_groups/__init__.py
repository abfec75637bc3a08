"""The program of a group of layers that tiles run by one fused mapping each.

``turn_order.py`` says in which order the turns of the layers come and which points each computes,
``grouped_layers.py`` writes what tiles load, compute, keep and store. Start with ``turn_order.py``.
"""
