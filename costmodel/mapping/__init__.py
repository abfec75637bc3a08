"""One layer on one architecture: the mapping, and what it costs.

A :class:`~costmodel.mapping.mapping.Mapping` says for every level of an architecture how loops are tiled,
ordered and spread over its instances, and which tensors the level keeps.
:func:`costmodel.mapping.evaluate.evaluate` counts accesses, energy, cycles and utilisation of one mapping;
``batch.py`` counts many at once, and ``bounds.py`` bounds all of them.
Start with ``mapping.py``, then ``traffic.py``, which counts words as Timeloop does and defines every count.
``counting_kernel.py`` has the same counts compiled, for ``batch.py`` and for the kernels of the exact mapper.
"""
