"""Energy and cycles within tiles, by the same count of mappings as
:func:`costmodel.mapping.evaluate.evaluate`.

``tile_count.py`` counts one mapping, ``batch.py`` many at once (through ``count_kernel.py``, compiled). Whole
layers on the chip and the mapping solvers of tiles ask here. Start with ``tile_count.py``.
"""
