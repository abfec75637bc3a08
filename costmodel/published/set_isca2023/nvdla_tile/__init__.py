"""An NVDLA-style tile as SET has it (sections 4.2.2 and 5.1): its parts, and the mapper of its loop nests.

Its counts are those of the released SET program, to compare with; the tile solver ``nvdla`` maps the same
dataflow on levels that ``evaluate`` counts. Start with ``mapper.py``: ``hardware.py`` has the tile's parts,
and ``mapper_kernel.py`` tries every loop nest.
"""
