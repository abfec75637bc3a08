"""Pareto pruning: of the ways to run the same layers those that no other beats in all access counts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import numpy as np

from solvers.schedule.kapla.estimate import Estimate
from solvers.schedule.kapla.segments import Scheme


def undominated(estimates: Mapping[Scheme, Estimate]) -> dict[Scheme, Estimate]:
    """The schemes that no other of the same layers equals in all accesses and time, and beats in one.

    Section IV-B's second pass of pruning. Counts are of each layer's reads and writes of DRAM and of what
    its tiles take into their buffers, of NoC traffic, and of cycles, all as estimated. Of equals the first
    stays. Counts are optimistic, so that a scheme may be lost that is the best in full.
    """
    by_layers = sorted(estimates, key=lambda scheme: (scheme.segment.end, scheme.segment.first))
    kept: dict[Scheme, Estimate] = {}
    for _, group in groupby(by_layers, key=lambda scheme: (scheme.segment.end, scheme.segment.first)):
        schemes = list(group)
        counts = np.array([estimates[scheme].counts for scheme in schemes])
        kept |= {schemes[place]: estimates[schemes[place]] for place in _front(counts)}
    return kept


def _front(counts: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[int]:
    """Rows of ``counts`` [n, m] that are not at least those of another row; of equal rows the first."""
    front: list[int] = []
    for place, row in enumerate(counts):
        no_more = (counts <= row).all(axis=1)
        less = no_more & (counts < row).any(axis=1)
        equal_before = (counts[:place] == row).all(axis=1)
        if not less.any() and not equal_before.any():
            front.append(place)
    return front
