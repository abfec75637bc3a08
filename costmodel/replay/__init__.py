"""An event-driven simulator of programs: what a chip does, moment by moment, when its tiles follow a program.

It stands beside the chip model of ``schedule`` to check it, so it shares no counting code with it: it imports
the values of a program, the chip and the errors, and nothing else of ours. Start with ``replay.py``, which
says what is simulated; ``event_kernel.py`` is the event loop, ``routes_kernel.py`` finds the links of a
message, ``tables.py`` turns a program into arrays, ``trace.py`` writes what happened for a trace viewer.
"""
