"""Pareto pruning: among the schemes of the same layers, keeps those that no other dominates."""

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
    """The schemes that no other scheme of the same layers dominates (section IV-B's second pass of pruning).

    One scheme dominates another if it has no more accesses of any kind and takes at most ``margin`` times the
    other's cycles. The kinds of accesses are those of :class:`.estimate.SegmentAccesses`. The paper compares
    accesses only; with cycles as well, a faster scheme with more accesses stays. A ``margin`` below 1 asks
    for clearly fewer cycles, because all these numbers are estimates. With 1, equal cycles do, and of equal
    schemes the first stays. When the time is up, all schemes not compared by then stay.
    """
    by_layers = sorted(estimates, key=_layers)
    kept: dict[Scheme, SchemeEstimate] = {}
    # Alike segments have the very same estimates, so the same of their schemes stay.
    known: dict[tuple[int, ...], list[int]] = {}
    for _, group in groupby(by_layers, key=_layers):
        schemes = list(group)
        if not in_time():
            kept |= {scheme: estimates[scheme] for scheme in schemes}
            continue
        same = tuple(id(estimates[scheme]) for scheme in schemes)
        if same not in known:
            accesses = np.array([estimates[scheme].accesses.counts for scheme in schemes])
            cycles = np.array([estimates[scheme].cost.cycles for scheme in schemes])
            known[same] = np.flatnonzero(~_dominated(accesses, cycles, margin)).tolist()
        kept |= {schemes[index]: estimates[schemes[index]] for index in known[same]}
    return kept


def _layers(scheme: Scheme) -> tuple[int, int]:
    """The layers of a scheme, as what schemes are grouped by."""
    return scheme.segment.end, scheme.segment.first


def _dominated(accesses: NDArray[Any], cycles: NDArray[Any], margin: float) -> NDArray[np.bool_]:
    """Whether another scheme dominates each of n, bool [n]: ``accesses`` [n, m] and ``cycles`` [n]."""
    # [one, other]; with a margin of 1 a scheme itself and its equals have none more than it
    none_more = (accesses <= accesses[:, None]).all(axis=2) & (cycles <= margin * cycles[:, None])
    better = (accesses < accesses[:, None]).any(axis=2) | (cycles < cycles[:, None])
    # of equal rows, only an earlier one dominates: so exactly the first of them stays
    numbers = np.arange(len(cycles))
    dominating = none_more & (better | (numbers < numbers[:, None]))
    found: NDArray[np.bool_] = np.any(dominating, axis=1)
    return found
