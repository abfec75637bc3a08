"""Finds the best chain of segments: runs of neighbouring layers, one after the other, joined where that pays.

Start with ``solver.py``, which says what chains are and how the search goes. ``forms.py`` has the forms that
a segment may take, and ``blocks.py`` one of these forms. ``counted_segments.py`` counts all segments with the
chip model, and ``chains.py`` finds the best chain of them exactly. ``joining.py``, ``rearranging.py`` and
``channel_cuts.py`` improve that chain step by step.
"""

from solvers.schedule.segment_chain.params import Params
from solvers.schedule.segment_chain.solver import NOT_ALL, VERSION, solve

__all__ = ["NOT_ALL", "VERSION", "Params", "solve"]
