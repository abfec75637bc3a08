"""Pareto pruning: of the ways to run the same layers those that no other beats in access counts and time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.estimate import SchemeEstimate
from solvers.schedule.kapla.segments import Scheme


def undominated(
    estimates: Mapping[Scheme, SchemeEstimate], margin: float, in_time: InTime = always_in_time
) -> dict[Scheme, SchemeEstimate]:
    """The schemes that no other of the same layers equals in accesses of all tensors in clearly less time.

    Section IV-B's second pass of pruning. Counts are of each layer's reads and writes of DRAM and of what its
    tiles take into their buffers, and of NoC traffic. Clearly less time is ``margin`` of the other's, for
    all numbers are optimistic; with 1 equal time does for fewer accesses, and of equals the first stays.
    Schemes that were not compared when the time is up all stay.
    """
    by_layers = sorted(estimates, key=_layers)
    kept: dict[Scheme, SchemeEstimate] = {}
    for _, group in groupby(by_layers, key=_layers):
        schemes = list(group)
        if not in_time():
            kept |= {scheme: estimates[scheme] for scheme in schemes}
            continue
        accesses = np.array([estimates[scheme].accesses.counts for scheme in schemes])
        cycles = np.array([estimates[scheme].cost.cycles for scheme in schemes])
        left = [place for place in range(len(schemes)) if not _dominated(place, accesses, cycles, margin)]
        kept |= {schemes[place]: estimates[schemes[place]] for place in left}
    return kept


def _layers(scheme: Scheme) -> tuple[int, int]:
    return scheme.segment.end, scheme.segment.first


def _dominated(place: int, accesses: NDArray[Any], cycles: NDArray[Any], margin: float) -> bool:
    """Whether another row of ``accesses`` [n, m] and ``cycles`` [n] is no worse than this one, and better."""
    none_more = (accesses <= accesses[place]).all(axis=1) & (cycles <= margin * cycles[place])
    better = (accesses < accesses[place]).any(axis=1) | (cycles < cycles[place])
    return bool((none_more & (better | (np.arange(len(cycles)) < place))).any())
