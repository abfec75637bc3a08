"""What a plan counts and predicts, against counting by hand and the bounds of any schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from sweep.forecast.pilot import PILOT_SOLVES
from sweep.forecast.plan import plan
from sweep.forecast.prediction import predict
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import designs
from sweep.study.study import AxisChoices, Study, load_study

HERE = RuntimeChoice(in_process=True)


def test_plan_counts_and_predicts(tiny: Study, tmp_path: Path) -> None:
    planned = plan(tiny, tmp_path)
    assert (len(planned.designs), planned.asked, planned.distinct, planned.open) == (4, {"layers": 4}, 4, 4)
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
    assert (len(planned.designs), planned.infeasible, planned.asked, planned.distinct) == (
        4,
        2,
        {"layers": 2},
        2,
    )


RARE = """
name: rare
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.fanout.x: {from: 1, to: 20, step: 1}
  SRAM.fanout.y: {from: 1, to: 20, step: 1}
constraints: [mac_units <= 3]
search: {method: optuna, trials: 2}
mapping: {solver: random_search, objective: edp, iterations: 400, wall_seconds: 20}
"""


@pytest.mark.parametrize("seed", range(4))
def test_an_optuna_study_may_have_few_designs_that_meet_the_constraints(
    write_study: Callable[..., Path], seed: int
) -> None:
    """Of 400 designs 5 do: two random ones hardly ever."""
    study = load_study(str(write_study(RARE)))
    study = study.model_copy(update={"search": study.search.model_copy(update={"seed": seed})})
    planned = plan(study)
    assert (planned.at_most, len(planned.designs), planned.infeasible, planned.open) == (True, 2, 0, 2)
    assert all(design.feasible for design in planned.designs)
    assert predict(study, planned).seconds


@pytest.mark.slow
def test_constraints_that_no_design_of_an_optuna_study_meets_are_refused(
    write_study: Callable[..., Path],
) -> None:
    study = load_study(str(write_study(RARE.replace("<= 3", "< 1"))))
    with pytest.raises(InputError, match="mac_units < 1, found mac_units from 1 to 400"):
        plan(study)


TILES = """
name: tiles
networks: [bottleneck.json]
chip: set-edge-eyeriss
axes:
  tile.buffer.size: {choices: [32 KiB, 48 KiB]}
objectives: [energy_pj, cycles]
mapping: {solver: cosa, wall_seconds: 2}
schedule: {solver: segment_chain, objective: energy, most_partitions: 2, wall_seconds: 5}
"""


@pytest.mark.slow
def test_a_pilot_before_any_tile_cost_is_not_below_the_bounds(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    """Layers fit no tile, so that all are mapped on the whole chip: links count there, and operands."""
    (tmp_path / "bottleneck.json").write_text(json.dumps(bottleneck()), encoding="utf-8")
    study = load_study(str(write_study(TILES)))
    assert predict(study, plan(study)).seconds


def bottleneck() -> dict[str, Any]:
    """An inverted bottleneck as a graph of SET's program: 16 channels, 96 inside, 24 behind it."""
    square = {"sH": 1, "sW": 1, "pad_h": 0, "pad_w": 0, "N": 1, "wgt_prevs": []}
    one = square | {"type": "conv", "R": 1, "S": 1, "G": 1}
    depthwise = square | {
        "type": "groupconv",
        "R": 3,
        "S": 3,
        "sH": 2,
        "sW": 2,
        "pad_h": 1,
        "pad_w": 1,
        "G": 96,
    }
    return {
        "name": "bottleneck",
        "layers": [
            {"name": "expand", "K": 96, "H": 112, "W": 112, "C": 16, "external_C": 16, "ifm_prevs": []}
            | one
            | {"ifmap_real": [16, 112, 112]},
            {"name": "depthwise", "K": 96, "H": 56, "W": 56, "C": 96, "external_C": 0, "ifm_prevs": [0]}
            | depthwise
            | {"ifmap_real": [96, 112, 112]},
            {"name": "project", "K": 24, "H": 56, "W": 56, "C": 96, "external_C": 0, "ifm_prevs": [1]}
            | one
            | {"ifmap_real": [96, 56, 56]},
        ],
    }
