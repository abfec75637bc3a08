"""What parts of layers cost on the tiles of a chip, which every scheduler asks.

A tile part is what one tile computes of a layer that is cut among tiles. ``layer_parts.py`` lists the parts
that schedules may need, ``partition_ranking.py`` says which partitions look best, ``mapper.py`` maps a part
on a tile by any mapping solver, ``cost_table.py`` is the table of what is known, and ``nvdla.py`` is the
mapper of SET's released program. Start with ``layer_parts.py``.
"""
