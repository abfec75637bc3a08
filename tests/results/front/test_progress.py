"""Progress against the hypervolume of every prefix."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from results.front.pareto import design_frame, hypervolume, objective_points
from results.front.progress import finishing_order, progress
from results.store.folder import RunFolder, RunWriter

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
OBJECTIVES = ("energy_pj", "cycles", "area_um2")


def test_progress_equals_the_hypervolume_of_every_prefix(
    make_search: Callable[..., Path], run_path: Path
) -> None:
    frame = design_frame(RunFolder(make_search(run_path)))
    points = objective_points(frame, OBJECTIVES)
    going = progress(frame, points)
    assert frame["trial"].iloc[going.order].tolist() == list(range(36))
    assert (points[np.isfinite(points).all(axis=1)] < going.reference).all()
    box = float(np.prod(going.reference - np.nanmin(points, axis=0)))
    for count in range(1, 37):
        expected = hypervolume(points[going.order[:count]], going.reference) / box
        assert going.fractions[count - 1] == pytest.approx(expected)
    spent = frame["cpu_seconds"].astype("float64").fillna(0)
    assert going.cpu_seconds[-1] == pytest.approx(spent.sum())
    assert (np.diff(going.cpu_seconds) >= 0).all()


def test_designs_of_one_moment_go_by_trial_and_open_ones_do_not_count(
    run_path: Path, make_design: Callable[..., dict[str, Any]]
) -> None:
    later = NOON + timedelta(hours=1)
    with RunWriter(run_path) as run:
        for number, trial in enumerate((2, 0, 1)):
            run.append("designs", make_design(number, trial=trial, finished_at=later))
        run.append("designs", make_design(3, status="partial", trial=3))
        run.append("designs", make_design(4, trial=4, finished_at=NOON))
    frame = design_frame(RunFolder(run_path))
    assert frame["trial"].iloc[finishing_order(frame)].tolist() == [4, 0, 1, 2]
