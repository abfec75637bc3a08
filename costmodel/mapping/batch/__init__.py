"""Many mappings of one layer counted at once, by compiled code over arrays.

Start with ``batch.py``, which is what others use. ``batch_tables.py`` lays out a layer, an architecture and
the mappings as arrays; ``batch_kernel.py`` goes through them row by row. ``counting_kernel.py`` and
``multicast_kernel.py`` have the counts themselves, which the kernels of the exact mapper share.
"""
