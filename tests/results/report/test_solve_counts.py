"""What is counted of solves against the same counts of whole rows, and the memory that a report takes."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.report import data as report_data
from results.report import solve_counts
from results.report.data import RunData
from results.report.page import build_page
from results.report.solve_counts import MedianAndMost, Pair, SolveCounts, SolveHistogram, SolvesAlike
from results.store.folder import Buffering, RunFolder, RunWriter

Row = dict[str, Any]
Make = Callable[..., Row]

LAYERS_A_DESIGN = 20
MOST_BYTES_A_DESIGN = 1800
"""What the memory for a report may grow by with a design of LAYERS_A_DESIGN solves.

It is 1,050 bytes, and was 3,200 while columns of all solves were kept.
"""


@pytest.fixture
def solves(run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Solves of all kinds in many parts, some written twice; what is to be counted of them."""
    monkeypatch.setattr(solve_counts, "ROWS_AT_A_TIME", 50)
    draw = random.Random(5)
    gaps = (0.0, None, inf, -1e-12, 0.25)
    rows = [
        make_layer(
            number,
            solver=draw.choice(("auto", "exact")),
            solved_by=draw.choice((None, "", "cosa", "exact")),
            objective_name=draw.choice(("edp", "energy")),
            status=draw.choice(("optimal", "feasible", "failed", "infeasible")),
            cached=draw.choice((True, False)),
            program_proven=draw.choice((True, False, None)),
            gap=draw.choice((*gaps, draw.random())),
            cpu_seconds=draw.choice((0.0, draw.expovariate(3.0), draw.expovariate(3.0))),
            space={"name": draw.choice(("perfect", "padded"))},
        )
        for number in range(400)
    ]
    with RunWriter(run_path, Buffering(rows=30)) as run:
        for row in (*rows[:40], *rows):
            run.append("layers", row | {"note": f"limit of 7 {row['solver']}s reached: less proven"})
    return rows


def test_counts_are_those_of_whole_rows(run_path: Path, solves: list[Row]) -> None:
    found = SolveCounts.read(RunFolder(run_path), None)
    assert found.ended.statuses == Counter(row["status"] for row in solves)
    assert found.ended.cached == sum(row["cached"] for row in solves)
    spent = sum(row["cpu_seconds"] for row in solves if not row["cached"])
    assert found.ended.spent_seconds == pytest.approx(spent)
    assert found.limits == Counter(f"limit of 7 {row['solver']}s reached: less proven" for row in solves)
    assert sorted(found.spaces.values()) == sorted(Counter(row["space"]["name"] for row in solves).values())
    of_kind: tuple[tuple[Mapping[Pair, SolvesAlike], Callable[[Row], Pair]], ...] = (
        (found.by_objective, lambda row: (row["solver"], row["objective_name"])),
        (found.by_member, member_of),
    )
    for kinds, named in of_kind:
        assert set(kinds) == {named(row) for row in solves}
        for pair, alike in kinds.items():
            rows = [row for row in solves if named(row) == pair]
            assert alike.ended.statuses == Counter(row["status"] for row in rows)
            assert alike.ended.cached == sum(row["cached"] for row in rows)
            said = [row["program_proven"] for row in rows if row["program_proven"] is not None]
            assert (alike.said, alike.proven) == (len(said), sum(said))
            gaps = [row["gap"] for row in rows if row["gap"] is not None]
            assert alike.gaps == MedianAndMost(median(gaps), max(gaps))
            times = [row["cpu_seconds"] for row in rows]
            assert alike.seconds == MedianAndMost(median(times), max(times))


def test_bars_have_every_solve_once(run_path: Path, solves: list[Row]) -> None:
    found = SolveCounts.read(RunFolder(run_path), None)
    assert found.gaps is not None
    assert found.seconds is not None
    for pair in {member_of(row) for row in solves}:
        rows = [row for row in solves if member_of(row) == pair]
        gaps = [100 * row["gap"] for row in rows if row["gap"] is not None and isfinite(row["gap"])]
        assert_counted(found.gaps, pair, gaps)
        assert_counted(found.seconds, pair, [row["cpu_seconds"] for row in rows if row["cpu_seconds"]])


def assert_counted(bars: SolveHistogram, pair: Pair, values: list[float]) -> None:
    counts, last = bars.counts[pair], len(bars.edges) - 2
    assert sum(counts) == len(values)
    for index, (least, beyond) in enumerate(pairwise(bars.edges)):
        # what is below 0 by rounding is in the first bar, the largest in the last one
        inside = sum((index == 0 or value >= least) and value < beyond for value in values)
        assert counts[index] == inside + (values.count(beyond) if index == last else 0)


def member_of(row: Row) -> Pair:
    return row["solver"], row["solved_by"] or ""


def test_of_many_unsolved_the_first_are_kept(run_path: Path, make_layer: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr(solve_counts, "MOST_UNSOLVED", 3)
    monkeypatch.setattr(solve_counts, "ROWS_AT_A_TIME", 1)
    rows = [make_layer(n, status="failed" if n % 2 else "infeasible") for n in range(20)]
    with RunWriter(run_path, Buffering(rows=2)) as run:
        for row in rows:
            run.append("layers", row)
    found = SolveCounts.read(RunFolder(run_path), None)
    assert found.ended.statuses == {"failed": 10, "infeasible": 10}
    for status in ("failed", "infeasible"):
        first = sorted(row["task_id"] for row in rows if row["status"] == status)[:3]
        assert [row["task_id"] for row in found.unsolved if row["status"] == status] == first


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=60), st.integers(1, 7))
def test_the_median_needs_no_numbers_kept(numbers: list[float], pieces: int) -> None:
    counted = solve_counts._Median()
    parts = np.array_split(np.array(numbers), pieces)
    for part in parts:
        counted.count(part)
    counted.look()
    for part in parts:
        counted.keep(part)
    ordered = sorted(numbers)
    low, high = ordered[(len(numbers) - 1) // 2], ordered[len(numbers) // 2]
    found = counted.spread()
    assert found.median == pytest.approx((low + high) / 2, rel=0, abs=0, nan_ok=True)
    assert found.most == ordered[-1]


def test_memory_grows_little_with_designs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not grow with a run, such as the designs that are drawn, is kept small."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    import large_runs

    monkeypatch.setattr(large_runs, "ROWS_A_PART", 200)
    monkeypatch.setattr(report_data, "MOST_POINTS", 100)
    monkeypatch.setattr(solve_counts, "ROWS_AT_A_TIME", 2000)
    peaks = {}
    for designs in (200, 1000, 4000):  # the first, because what is imported or made once is not counted
        run_path = tmp_path / str(designs)
        large_runs.write_run(run_path, designs, LAYERS_A_DESIGN)
        peaks[designs] = peak_bytes(run_path)
    assert (peaks[4000] - peaks[1000]) / 3000 < MOST_BYTES_A_DESIGN


def peak_bytes(run_path: Path) -> int:
    """The most that Python and numpy had at once while a report was made, and the most that Arrow had."""
    usual = pyarrow.default_memory_pool()
    counting = pyarrow.proxy_memory_pool(usual)
    pyarrow.set_memory_pool(counting)
    tracemalloc.start()
    try:
        build_page(RunData.read(run_path))
        print(tracemalloc.get_traced_memory()[1], counting.max_memory())
        return tracemalloc.get_traced_memory()[1] + (counting.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(usual)
