"""One layer on one architecture: the mapping, and what it costs.

A :class:`~costmodel.mapping.mapping.Mapping` says for every level of an architecture how loops are tiled,
ordered and spread over its instances, and which tensors the level keeps. ``uneven.py`` lets each tensor end
its tile at a loop of its own, and ``nest_text.py`` writes a mapping as a line. ``evaluate.py`` is the door:
it says what one mapping costs, by words, energy and cycles as ``counts/`` defines them, with cycles by
``timing/`` where the machine's timing is known. ``batch/`` counts many mappings at once, ``bounds/`` says
what no mapping can cost less than, and ``binding.py`` what a mapping's cycles are due to.
Start with ``mapping.py``, then ``counts/traffic.py``.
"""
