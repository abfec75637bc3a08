"""What nn-dataflow 2.1 counts for a layer's scheme: the tool behind KAPLA's and TANGRAM's numbers.

The tool (stanford-mast/nn_dataflow at commit 198a527) maps a layer row-stationary onto a node's PE array, and
blocks the loops around it at the node's buffer and registers; ``docs/kapla.md`` has the rules. Start with
``blocking.py``, which counts energy and time. ``directive_cost.py`` prices KAPLA's directives on
the devices of its evaluation (``costmodel/hardware/multi_node/``).
"""
