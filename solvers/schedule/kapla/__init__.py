"""KAPLA's inter-layer scheduling (Li and Gao, 2023, section IV-B): chains of segments, pruned and ranked.

A segment is a run of consecutive layers that has the whole chip while it runs, a scheme is a segment with a
number of sub-batches, and a chain of schemes covers all layers. ``solver.py`` is the whole search. Its steps:

- ``segments.py`` slices the network, and ``regions.py`` gives the layers of a segment their tiles;
- ``estimates/`` bounds from below what a scheme holds and costs;
- ``candidates.py`` and ``pareto.py`` prune by these, and ``ranking.py`` ranks what is left;
- ``costing.py`` has the chip model count the schemes of the best chains;
- ``chains.py`` finds the best chain of all that were counted.
"""

from solvers.schedule.kapla.params import Params
from solvers.schedule.kapla.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
