"""Networks that repeat a block: the block is scheduled once, and its schedule runs for every copy.

Start with ``solver.py``. ``blocks.py`` finds the repeated block in a graph of layers, and ``trees.py`` puts
the schedules of the parts together.
"""
