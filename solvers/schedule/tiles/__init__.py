"""The costs of parts of layers on the tiles of a chip; every scheduler asks for these costs.

A *tile part* is the part of a layer that one tile computes when the layer is cut among tiles. Start with
``layer_parts.py``, which lists the parts that schedules may need. ``partition_ranking.py`` estimates which
partitions are best, ``mapper.py`` maps a part on a tile by any mapping solver, ``cost_table.py`` is the table
of known costs, and ``nvdla.py`` is the mapper of SET's released program.
"""
