"""What schemes hold and cost at least, before any of their layers is mapped.

``floors.py`` has the least of a sample of a layer, ``leaf_floors.py`` that of a layer on some tiles, and
``leaf_tables.py`` tables of these. ``estimate.py`` puts them together for all divisions of a segment's batch,
in compiled code (``estimate_kernel.py``). ``footprints.py`` knows which schemes the buffers hold in none of
the partitions that are offered (``footprint_kernel.py``).
"""
