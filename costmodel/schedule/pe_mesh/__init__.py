"""One layer's mapping as a program on a mesh of PEs with a global buffer and DRAM (CoSA's second platform).

A *step* is one iteration of the temporal loops of the global buffer and of DRAM. ``moves.py`` says how many
words of each tensor every step moves, and these are the words that the cost model counts. ``odometer.py``
writes what a unit does in each step as nested repetitions. ``writer.py`` puts the program together, which
``costmodel/replay`` runs. Start with ``writer.py``.
"""
