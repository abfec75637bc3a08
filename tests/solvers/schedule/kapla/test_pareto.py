"""Pareto pruning against its definition, pair by pair."""

from __future__ import annotations

from random import Random

import pytest

from solvers.schedule.kapla.estimate import BatchCost, SchemeEstimate, SegmentAccesses
from solvers.schedule.kapla.pareto import undominated
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment


def dominates(one: SchemeEstimate, other: SchemeEstimate, margin: float, earlier: bool) -> bool:
    mine, theirs = one.accesses.counts, other.accesses.counts
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
        found = undominated(schemes, margin)
        assert found == {scheme: schemes[scheme] for scheme in expected}
        left, every = left + len(found), every + len(schemes)
    assert every / 5 < left < every
