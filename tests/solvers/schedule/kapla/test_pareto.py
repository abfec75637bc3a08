"""Pareto pruning against its definition, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest

from solvers.schedule.kapla.estimates.estimate import (
    BatchCost,
    SchemeEstimate,
    SegmentAccesses,
    SegmentEstimates,
)
from solvers.schedule.kapla.pareto import undominated
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment


def segments_of(schemes: Mapping[Scheme, SchemeEstimate]) -> list[tuple[Segment, SegmentEstimates]]:
    """The schemes by their segments; those with the very same estimates share them."""
    by_segment: dict[Segment, dict[BatchDivision, SchemeEstimate]] = {}
    for scheme, estimate in schemes.items():
        by_segment.setdefault(scheme.segment, {})[scheme.division] = estimate
    known: dict[tuple[tuple[BatchDivision, int], ...], SegmentEstimates] = {}
    return [
        (segment, known.setdefault(tuple((one, id(each)) for one, each in some.items()), arrays_of(some)))
        for segment, some in by_segment.items()
    ]


def arrays_of(some: Mapping[BatchDivision, SchemeEstimate]) -> SegmentEstimates:
    every = some.values()
    energy, cycles = np.array([(one.cost.energy_pj, one.cost.cycles) for one in every]).T
    return SegmentEstimates(tuple(some), energy, cycles, np.array([counts(one) for one in every], float))


def counts(one: SchemeEstimate) -> tuple[float, ...]:
    """All accesses in one row."""
    return (*one.accesses.read, *one.accesses.written, *one.accesses.filled, one.accesses.sent)


def dominates(one: SchemeEstimate, other: SchemeEstimate, margin: float, earlier: bool) -> bool:
    mine, theirs = counts(one), counts(other)
    if any(a > b for a, b in zip(mine, theirs, strict=True)):
        return False
    if one.cost.cycles > margin * other.cost.cycles:
        return False
    return mine != theirs or one.cost.cycles < other.cost.cycles or earlier


@pytest.mark.parametrize("margin", [0.9, 1.0])
def test_schemes_stay_that_no_other_of_their_layers_dominates(margin: float) -> None:
    """Two ranges have the very same estimates, as alike ones do, and a third one some of them."""
    random, left, every = Random(margin), 0, 0
    for _ in range(60):
        estimates = [
            SchemeEstimate(
                BatchCost(1.0, float(random.randint(8, 12))),
                SegmentAccesses(
                    (random.randint(1, 3),) * 2, (random.randint(1, 2),) * 2, (1.0, 1.0), random.randint(1, 2)
                ),
            )
            for _ in range(8)
        ]
        schemes: dict[Scheme, SchemeEstimate] = {}
        for first, count in ((0, 8), (2, 8), (4, 5)):
            for number, estimate in enumerate(estimates[:count]):
                kind = random.choice(("turns", "pipeline")) if first == 4 else "turns"
                scheme = Scheme(Segment(first, first + 2, kind), BatchDivision(1 + number))  # type: ignore[arg-type]
                schemes[scheme] = estimate
        expected = set()
        for scheme, estimate in schemes.items():
            others = [one for one in schemes if one.segment.first == scheme.segment.first]
            at = others.index(scheme)
            if not any(
                dominates(schemes[other], estimate, margin, number < at)
                for number, other in enumerate(others)
                if other != scheme
            ):
                expected.add(scheme)
        found = {
            Scheme(segment, division): estimate
            for segment, some in undominated(segments_of(schemes), margin)
            for division, estimate in some
        }
        assert found == {scheme: schemes[scheme] for scheme in expected}
        left, every = left + len(found), every + len(schemes)
    assert every / 5 < left < every
