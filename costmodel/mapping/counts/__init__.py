"""The definition of every count of a mapping, written to be read: words, then their energy and their cycles.

``traffic.py`` counts words as Timeloop does. ``energy.py`` and ``latency.py`` say what these words cost a
level. All other counters of the house are held equal to these modules by tests.
"""
