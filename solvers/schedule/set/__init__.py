"""SET (ISCA 2023): resource-allocation trees by simulated annealing, the space of trees and its size.

Start with ``solver.py``. ``solving.py`` answers within a budget; ``search.py`` is the search of one seed,
which is one annealing after the other, and ``annealing.py`` is one annealing. ``operators/`` has the
operators of section 4.2.1, which change trees. ``first_tree.py`` and ``canonical.py`` make the trees from
which annealings start; the latter has the patterns before SET (LS and LP, section 3.4). ``space.py`` says
which trees belong to a space, and ``size.py`` counts them.

Two uses of the search go beyond one solve. With ``epochs.py`` and ``exchange.py`` several seeds exchange
their best trees. ``refinement.py`` improves a tree that was found for another chip.
"""
