"""Fronts against pairwise comparison, hypervolume against closed forms and inclusion-exclusion."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from itertools import combinations
from math import inf, nan, prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import NotARunError, WrongRowError
from results.front.pareto import (
    check_objectives,
    design_frame,
    front_mask,
    front_table,
    hypervolume,
    knee,
    near_front,
    objective_columns,
    reference_point,
)
from results.store.folder import RunFolder, RunWriter

Point = tuple[float, ...]
# few distinct values, so that equal points and equal coordinates are common
VALUES = st.one_of(st.integers(0, 6).map(float), st.sampled_from([nan, inf]))


def points(values: st.SearchStrategy[float], sizes: tuple[int, int]) -> st.SearchStrategy[list[Point]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.tuples(*[values] * width), min_size=sizes[0], max_size=sizes[1])
    )


def dominates(a: Point, b: Point) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


def finite(point: Point) -> bool:
    return all(abs(x) < inf for x in point)


@given(points(VALUES, (1, 25)))
def test_a_front_equals_pairwise_comparison(rows: list[Point]) -> None:
    expected = [finite(row) and not any(dominates(other, row) for other in rows) for row in rows]
    assert front_mask(rows).tolist() == expected


@given(points(VALUES, (1, 25)), st.integers(0, 12))
def test_near_the_front_are_the_next_ranks(rows: list[Point], most: int) -> None:
    left = {i for i, row in enumerate(rows) if finite(row)}
    ranks: list[set[int]] = []
    while left:
        ranks.append({i for i in left if not any(dominates(rows[j], rows[i]) for j in left)})
        left -= ranks[-1]
    found = near_front(rows, most).tolist()
    assert found == sorted(set(found))
    assert len(found) == min(most, sum(map(len, ranks[1:])))
    for rank in ranks[1:]:
        taken = rank & set(found)
        # the next rank begins once this one is whole
        assert taken == rank or set(found) <= set().union(*ranks[1 : ranks.index(rank) + 1])


@given(points(st.floats(0, 10), (1, 7)))
def test_hypervolume_equals_inclusion_and_exclusion(rows: list[Point]) -> None:
    reference = [9.0] * len(rows[0])
    boxes = [row for row in rows if max(row) < 9]
    volume = 0.0
    for size in range(1, len(boxes) + 1):
        for chosen in combinations(boxes, size):
            volume -= (-1) ** size * prod(9 - max(axis) for axis in zip(*chosen, strict=True))
    assert hypervolume(rows, reference) == pytest.approx(volume, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_hypervolume_in_two_dimensions_is_the_area_of_a_staircase(rows: list[Point]) -> None:
    stairs = sorted({row for row, kept in zip(rows, front_mask(rows), strict=True) if kept})
    rights = [x for x, _ in stairs[1:]] + [2.0]
    area = sum((right - x) * (2.0 - y) for (x, y), right in zip(stairs, rights, strict=True))
    assert hypervolume(rows, (2.0, 2.0)) == pytest.approx(area)


def test_points_that_do_not_beat_the_reference_add_nothing() -> None:
    assert hypervolume([[1.0, 1.0], [nan, 0.0], [0.0, 3.0], [3.0, 0.0]], (2, 2)) == 1
    assert hypervolume([[3, 3]], (2, 2)) == 0
    with pytest.raises(ValueError, match="2 values"):
        hypervolume([[1, 1]], (2,))
    with pytest.raises(ValueError, match="one row per point"):
        front_mask([1.0, 2.0])


def test_the_reference_point_lies_beyond_every_finite_point() -> None:
    assert reference_point([[0.0, 5.0], [10.0, 5.0], [nan, 99.0]]).tolist() == pytest.approx([11, 5.5])
    assert reference_point([[0, -2]]).tolist() == pytest.approx([0.1, -1.8])
    with pytest.raises(ValueError, match="no point"):
        reference_point([[nan, 1]])


def test_the_knee_is_the_point_nearest_to_the_ideal() -> None:
    assert knee([[0, 100], [2, 30], [10, 0]]) == 1
    assert knee([[5, 5]]) == 0


def test_empty_sets_have_empty_fronts() -> None:
    assert front_mask(np.empty((0, 3))).tolist() == []
    assert front_mask([[nan, 1.0]]).tolist() == [False]


def _write(path: Path, rows: list[dict[str, Any]]) -> RunFolder:
    with RunWriter(path) as run:
        for row in rows:
            run.append("designs", row)
    return RunFolder(path)


def test_the_front_of_a_run(run_path: Path, make_design: Callable[..., dict[str, Any]]) -> None:
    costs = [(3, 1), (1, 3), (2, 2), (3, 3), (0, 0), (0, 1), (0, 2), (2, 2), (0, 3)]
    rows = [make_design(n, energy_pj=float(e), cycles=c) for n, (e, c) in enumerate(costs)]
    rows[4] |= {"feasible": False, "status": "infeasible"}
    rows[5] |= {"status": "failed", "energy_pj": None}
    rows[6] |= {"status": "partial", "feasible": None}
    rows[8] |= {"status": "dominated", "feasible": None, "energy_pj": None, "cycles": None}
    rows[0]["axes"] = {"SRAM.fanout": [8, 4], "RegFile.size": 64}
    front = front_table(_write(run_path, rows), ["energy_pj", "cycles"])
    assert list(zip(front["energy_pj"], front["cycles"], strict=True)) == [(1, 3), (2, 2), (2, 2), (3, 1)]
    last = front.iloc[-1]
    assert (last["axis.SRAM.fanout"], last["axis.RegFile.size"]) == ("[8, 4]", 64)
    read = pandas.read_csv(StringIO(front.to_csv(index=False)))
    assert list(read["cycles"]) == [3, 2, 2, 1]
    assert str(read["cycles"].dtype) == "int64"
    assert list(front.columns[:1]) == ["design_id"]
    assert len(design_frame(RunFolder(run_path))) == len(costs)


def test_a_run_without_a_good_design_has_an_empty_front(
    run_path: Path, make_design: Callable[..., dict[str, Any]]
) -> None:
    run = _write(run_path, [make_design(1, status="failed", feasible=False, energy_pj=None)])
    assert len(front_table(run, ["energy_pj", "area_um2"])) == 0
    with pytest.raises(NotARunError):
        front_table(RunFolder(run_path / "nothing"), ["energy_pj"])


def test_objectives_are_checked() -> None:
    check_objectives([column.name for column in objective_columns()])
    with pytest.raises(WrongRowError, match=r"'speed' is no objective.*energy_pj"):
        check_objectives(["energy_pj", "speed"])
    with pytest.raises(WrongRowError, match="none given"):
        check_objectives([])


def test_networks_have_columns_for_all_their_runs_and_need_a_weight(
    run_path: Path, make_design: Callable[..., dict[str, Any]]
) -> None:
    row = make_design(0)
    (network,) = row["networks"].values()
    row["networks"] = {"prefill": network | {"weight": 1.0}, "decode": network | {"weight": 50.0}}
    said = front_table(_write(run_path / "new", [row]), ["energy_pj", "cycles"])
    assert said["network.decode.energy_pj"][0] == 50 * said["network.prefill.energy_pj"][0]
    del row["networks"]["decode"]["weight"]
    with pytest.raises(WrongRowError, match="network 'decode' states no weight"):
        front_table(_write(run_path / "unsaid", [row]), ["energy_pj", "cycles"])
