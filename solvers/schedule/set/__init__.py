"""SET (ISCA 2023): resource-allocation trees by simulated annealing, the space of trees and its size.

Start with ``solver.py``. It anneals one space of trees or several (``search.py``), each with the six
operators of section 4.2.1 (``annealing.py``, ``operators.py``, ``editing.py``), and with bands of rows where
those are asked for (``row_bands.py``). ``space.py`` says which trees
belong to a space, and ``size.py`` how many there are. ``canonical.py`` builds the trees of older patterns (LS
and LP, section 3.4). ``epochs.py`` and ``exchange.py`` let several seeds exchange their best trees.
"""
