"""What a plan counts and predicts, against counting by hand and the bounds of any schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.plan import PILOT_SOLVES, plan, predict
from sweep.search import designs
from sweep.session import Place, run_study
from sweep.study import AxisChoices, Study

HERE = Place(in_process=True)


def test_plan_counts_and_predicts(tiny: Study, tmp_path: Path) -> None:
    planned = plan(tiny, tmp_path)
    assert (len(planned.designs), planned.requested, planned.distinct, planned.open) == (4, 4, 4, 4)
    prediction = predict(tiny, planned, tmp_path)
    assert "pilot" in prediction.source
    assert prediction.core_hours * 3600 == pytest.approx(4 * prediction.seconds_per_solve)
    for workers in (1, 2, 1000):
        wall = prediction.wall_seconds(workers)
        assert wall >= 4 * min(prediction.seconds) / min(workers, 4)
        run = prediction.on(workers)
        assert run is not None
        assert run.efficiency + sum(run.lost.values()) == pytest.approx(1)


def test_nothing_open_takes_no_time(tiny: Study, tmp_path: Path) -> None:
    run_study(tiny, tmp_path / "runs" / "tiny", HERE)
    planned = plan(tiny, tmp_path / "runs")
    assert planned.open == 0
    assert predict(tiny, planned, tmp_path / "runs").wall_seconds(4) == 0


def test_the_store_is_preferred_to_pilots(tiny: Study, tmp_path: Path) -> None:
    axes = dict(tiny.axes) | {"SRAM.size": AxisChoices(choices=("2 KiB", "3 KiB", "4 KiB"))}
    wide = tiny.model_copy(update={"axes": axes})
    folder = run_study(wide, tmp_path / "runs" / "tiny", HERE)
    prediction = predict(wide, plan(wide, folder.path.parent), folder.path.parent)
    measured = [row["wall_seconds"] for row in folder.read_rows("layers")]
    assert len(measured) == 6 > PILOT_SOLVES
    assert sorted(prediction.seconds) == sorted(measured)
    assert "6 solves in" in prediction.source


def test_designs_are_made_anew_and_equal(tiny: Study) -> None:
    planned = plan(tiny)
    assert list(planned.designs) == list(planned.designs) == list(designs(tiny))


def test_infeasible_designs_are_counted_and_cost_nothing(tiny: Study) -> None:
    planned = plan(tiny.model_copy(update={"constraints": ("mac_units <= 4",)}))
    assert (len(planned.designs), planned.infeasible, planned.requested, planned.distinct) == (4, 2, 2, 2)
