"""An NVDLA-style tile as SET has it (sections 4.2.2 and 5.1): its parts, and the mapper of its loop nests.

PEs pass weights or inputs on to their neighbours over a bus, which an Architecture cannot say; so this tile
has counts of its own, those of the released SET program. The tile solver ``nvdla`` is its one user among
solvers.
``hardware.py`` has the parts, ``mapper.py`` is the door, and ``mapper_kernel.py`` tries every nest.
"""
