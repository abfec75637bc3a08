"""What nn-dataflow 2.1 counts for a layer's scheme: the tool behind KAPLA's and TANGRAM's numbers.

A row-stationary mapping on one node's PE array, blocked loops at its buffer and registers, energy and time
(stanford-mast/nn_dataflow at commit 198a527); ``docs/kapla.md`` has the rules. ``directives/`` has KAPLA's
notation for dataflows, ``multi_node/`` the devices of its evaluation. Start with ``blocking.py``.
"""
