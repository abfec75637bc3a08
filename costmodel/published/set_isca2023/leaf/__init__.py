"""One layer on some tiles, as the released SET program counts and searches it.

A leaf is cut into parts (``partitions.py`` lists the ways), and the parts are laid on the tiles in some
order. Start with ``search.py``, which looks for the best of both; ``search_kernel.py`` is its compiled half,
with the bounds of ``partition_kernel.py`` and the hops of ``hops_kernel.py``. ``memory.py`` finds leaves
again that were searched before.
"""
