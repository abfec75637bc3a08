"""Many mappings of one layer counted at once, by compiled code over arrays.

Start with ``batch.py``: solvers call its ``BatchEvaluator``. ``batch_tables.py`` lays out a layer, an
architecture and the mappings as arrays; ``batch_kernel.py`` goes through them row by row.
``counting_kernel.py`` and ``multicast_kernel.py`` have the counts themselves; the exact mapper's kernels call
those of the former, too.
"""
