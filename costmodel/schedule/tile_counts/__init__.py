"""What happens within tiles, counted for mappings as :func:`costmodel.mapping.evaluate.evaluate` counts it.

``tile_count.py`` counts one mapping, ``batch.py`` many at once (through ``count_kernel.py``, compiled). Whole
layers on the chip and the mapping solvers of tiles ask here. Start with ``tile_count.py``.
"""
