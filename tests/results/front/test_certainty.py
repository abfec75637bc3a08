"""Certain and possible members of a front against every corner of the boxes from bounds to found values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.front.certainty import certain_members, objective_bounds, possible_members
from results.front.pareto import design_frame, front_mask
from results.store.folder import RunFolder, RunWriter

Row = dict[str, Any]
Make = Callable[..., Row]
BOXES = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=2), min_size=1, max_size=5
)


@given(BOXES)
def test_members_equal_what_every_corner_says(boxes: list[list[tuple[int, int]]]) -> None:
    bounds = np.array([[low for low, _ in box] for box in boxes], dtype=float)
    points = bounds + np.array([[width for _, width in box] for box in boxes])
    # each design ends anywhere between its bounds and its found values; the corners are the extremes
    fronts = np.array(
        [
            front_mask(np.where(np.array(corner)[:, None], bounds, points))
            for corner in product([False, True], repeat=len(boxes))
        ]
    )
    certain, possible = certain_members(points, bounds), possible_members(points, bounds)
    # a design's own improvement cannot take it off the front, so its worst case is its found value
    assert certain.tolist() == fronts.all(axis=0).tolist()
    assert possible.tolist() == fronts.any(axis=0).tolist()
    assert not (certain & ~front_mask(points)).any()
    assert not (front_mask(points) & ~possible).any()


def test_designs_without_objectives_are_neither_and_spoil_nothing() -> None:
    points = np.array([[1.0, 2.0], [np.nan, np.nan], [2.0, 1.0]])
    bounds = np.array([[1.0, 2.0], [-inf, -inf], [1.5, 1.0]])
    assert certain_members(points, bounds).tolist() == [True, False, True]
    assert possible_members(points, bounds).tolist() == [True, False, True]


def test_an_absent_bound_makes_its_rivals_uncertain() -> None:
    points = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert certain_members(points, np.array([[1.0, 2.0], [-inf, -inf]])).tolist() == [False, True]


def test_bounds_of_derived_objectives(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        off_chip = {"off_chip_bytes": 100, "off_chip_bytes_bound": 90.0}
        off_chip |= {"off_chip_energy_pj": 800.0, "off_chip_energy_bound_pj": 720.0}
        run.append("designs", make_design(0, **off_chip))
        run.append("designs", make_design(1, energy_bound_pj=None, cycles_bound=1e9))
    frame = design_frame(RunFolder(run_path)).set_index("design_id", drop=False)
    frame = frame.loc[[make_design(0)["design_id"], make_design(1)["design_id"]]]
    names = ("area_um2", "energy_pj", "cycles", "edp_pj_cycles", "latency_seconds", "off_chip_bytes")
    whole, poor = objective_bounds(frame, (*names, "off_chip_energy_pj"))
    found = {name: float(frame[name].iloc[0]) for name in names}
    assert whole[:3] == pytest.approx([found["area_um2"], 0.8 * found["energy_pj"], 0.9 * found["cycles"]])
    assert whole[3:5] == pytest.approx([0.72 * found["edp_pj_cycles"], 0.9 * found["latency_seconds"]])
    assert whole[5:].tolist() == [90.0, 720.0]
    assert poor[1] == poor[3] == poor[5] == poor[6] == -inf
    assert poor[2] == float(frame["cycles"].iloc[1])  # a bound above the found value is cut to it
