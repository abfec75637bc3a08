"""Pareto pruning: among the schemes of the same layers, keeps those that no other dominates."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.estimates.estimate import SegmentEstimates
from solvers.schedule.kapla.segments import Segment

Estimated = tuple[Segment, SegmentEstimates]


def undominated(
    segments: Iterable[Estimated], margin: float, in_time: InTime = always_in_time
) -> list[Estimated]:
    """The schemes that no other scheme of the same layers dominates (section IV-B's second pass of pruning).

    One scheme dominates another if it has no more accesses of any kind and takes at most ``margin`` times the
    other's cycles. The kinds of accesses are those of :class:`.estimates.estimate.SegmentAccesses`. The paper
    compares accesses only; with cycles as well, a faster scheme with more accesses stays. A ``margin`` below
    1 asks for clearly fewer cycles, because all these numbers are estimates. With 1, equal cycles do, and of
    equal schemes the first stays. When the time is up, all schemes not compared by then stay.
    """
    kept: list[Estimated] = []
    # Alike segments have the very same estimates, so the same of their schemes stay.
    known: dict[tuple[int, ...], list[SegmentEstimates]] = {}
    for _, group in groupby(sorted(segments, key=_layers), key=_layers):
        some = list(group)
        estimates = [one for _, one in some]
        if in_time():
            same = tuple(map(id, estimates))
            if same not in known:
                known[same] = _undominated(estimates, margin)
            estimates = known[same]
        kept += zip((segment for segment, _ in some), estimates, strict=True)
    return kept


def _layers(one: Estimated) -> tuple[int, int]:
    """The layers of a segment, as what schemes are grouped by."""
    return one[0].end, one[0].first


def _undominated(estimates: list[SegmentEstimates], margin: float) -> list[SegmentEstimates]:
    """The estimates of each segment that none of any of them, which are of the same layers, dominates."""
    accesses = np.concatenate([one.accesses for one in estimates])
    cycles = np.concatenate([one.cycles for one in estimates])
    stay = ~_dominated(accesses, cycles, margin)
    ends = accumulate(map(len, estimates), initial=0)
    return [
        one.kept(np.flatnonzero(stay[begin:end]).tolist())
        for one, (begin, end) in zip(estimates, pairwise(ends), strict=True)
    ]


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
