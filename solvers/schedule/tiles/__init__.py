"""What parts of layers cost on the tiles of a chip, before a scheduler asks.

``tile_shares.py`` lists the parts, ``tile_mapper.py`` maps one on a tile by any mapping solver,
``tile_costs.py`` is the table of what is known, and ``nvdla_tile.py`` is the mapper of SET's released
program.
"""
