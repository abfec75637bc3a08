"""Solvers for an operator graph in one scratchpad: order, addresses and off-chip transfers of its tensors.

``problem.py`` has the problem. ``cosma/`` decides all three together, ``divide.py`` cuts large graphs,
``fixed_schedule.py`` and ``comparison.py`` take the order as it is, and ``packing/`` gives addresses. Start
with ``problem.py``.
"""
