"""A network on a chip of tiles: a schedule, and what it costs.

A :class:`~costmodel.schedule.schedule.Schedule` is a resource-allocation tree (``tree/``). A segment
(``segment.py``) is what has the whole chip to itself for a while; ``leaf/`` finds how each of its layers is
cut among tiles, ``mesh/`` counts the transfers, and ``evaluate.py`` adds up segments. ``bounds.py`` bounds
all schedules of a network.
``layer_graph/`` has the network as schedulers see it. Start with ``schedule.py``, then ``evaluate.py``. Only
``formats`` and ``published`` may import this room.
"""
