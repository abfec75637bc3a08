"""SET (ISCA 2023): resource-allocation trees by simulated annealing, the space of trees and its size.

``solver.py`` is the door, ``annealing.py`` the search, ``operators.py`` the six moves (section 4.2),
``space.py`` the trees that may be reached, ``size.py`` how many there are, and ``canonical.py`` the patterns
that came before (LS and LP, section 3.4).
"""
