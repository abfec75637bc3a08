"""A schedule written as a program: what every tile loads, computes, sends, stores and frees, in order.

``program.py`` has the values and says what they mean. ``costmodel/replay`` runs programs; it may import these
values and nothing else of ``schedule``. ``writer.py`` writes the program of an evaluated schedule, with
``whole_chip/`` for its layers on the whole chip and ``fused_groups/`` for those that are mapped together;
``checker.py`` with ``checks/`` says whether a program can
run. Start with ``program.py``.
"""
