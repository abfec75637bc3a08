"""An NVDLA-style tile as SET has it (sections 4.2.2 and 5.1): its parts, and the mapper of its loop nests.

PEs of this tile pass weights or inputs on to their neighbours over a bus. An Architecture cannot express
that, so this tile has counts of its own, those of the released SET program. Among solvers, only the tile
solver ``nvdla`` uses it. Start with ``mapper.py``: ``hardware.py`` has the tile's parts, and
``mapper_kernel.py`` tries every loop nest.
"""
