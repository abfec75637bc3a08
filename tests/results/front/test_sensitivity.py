"""Fronts at other energies, held against a front that is worked out design by design."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from results.front.sensitivity import price_changes

OBJECTIVES = ("cycles", "energy_pj")
numbers = st.integers(1, 12)


def on_front(costs: dict[int, tuple[float, ...]]) -> tuple[int, ...]:
    """The designs whose costs no other one dominates, by comparing every pair."""

    def beaten(mine: tuple[float, ...]) -> bool:
        return any(
            all(theirs <= own for theirs, own in zip(other, mine, strict=True)) and other != mine
            for other in costs.values()
        )

    return tuple(sorted(design for design, cost in costs.items() if not beaten(cost)))


@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=12), st.sampled_from([0.5, 2.0, 3.0])
)
def test_fronts_equal_those_of_every_pair_compared(
    designs: list[tuple[int, int, int]], factor: float
) -> None:
    cycles, dram, mac = (np.array(column, dtype=float) for column in zip(*designs, strict=True))
    points = np.stack([cycles, dram + mac], axis=1)
    spent = {"DRAM": dram, "MAC": mac}
    before = on_front({i: tuple(row) for i, row in enumerate(points.tolist())})
    changes = list(price_changes(points, OBJECTIVES, spent, dram + mac, [factor]))
    assert [change.part for change in changes] == ["DRAM", "MAC"]
    for change, (scaled, other) in zip(changes, ((dram, mac), (mac, dram)), strict=True):
        energy = factor * scaled + other
        after = on_front(dict(enumerate(zip(cycles.tolist(), energy.tolist(), strict=True))))
        assert change.front == after
        assert set(change.left) == set(before) - set(after)
        assert set(change.joined) == set(after) - set(before)
        assert np.isclose(energy[change.least], energy.min())


def test_a_dearer_part_takes_a_design_off_the_front() -> None:
    """Design 0 lives on DRAM, design 1 on its array: at equal cycles the price of DRAM decides."""
    points = np.array([[10.0, 100.0], [10.0, 110.0], [np.nan, np.nan]])
    spent = {"DRAM": np.array([80.0, 20.0, np.nan])}
    energy = np.array([100.0, 110.0, np.nan])
    half, twice = price_changes(points, OBJECTIVES, spent, energy)
    assert (half.front, half.left, half.joined, half.least) == ((0,), (), (), 0)
    assert (twice.front, twice.left, twice.joined, twice.least) == ((1,), (0,), (1,), 1)


def test_objectives_without_energy_do_not_change() -> None:
    points = np.array([[10.0, 3.0]])
    assert not list(price_changes(points, ("cycles", "area_um2"), {"DRAM": points[0, :1]}, points[0, :1]))
