"""SET's evaluation: medians and means by hand, the parts of quick effort, and the command on one network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep.cli.main import app
from sweep.papers import set_schedules
from sweep.papers.set_schedules import (
    LP,
    LS,
    SET,
    TANGRAM,
    StudyPart,
    document,
    drawn,
    over_tangram,
    patterns,
    spreads,
)
from sweep.study.study import load_study, study_of


def row(energy_pj: float, cycles: int) -> dict[str, Any]:
    return {"energy_pj": energy_pj, "cycles": cycles, "objective": energy_pj * cycles, "gap": 0.5}


def test_gains_are_of_medians_and_their_means_stand_beside_the_papers() -> None:
    """Edge: LP 4 times as slow at twice the energy, LS equal; cloud: LP equal, LS twice as slow."""
    edge = {("net x8", solver, seed): row(1e9, 1000) for solver in (LP, LS, SET) for seed in (1, 2, 3)}
    for seed, cycles in ((1, 1), (2, 4000), (3, 10**9)):
        edge["net x8", LP, seed] = row(2e9, cycles)
    cloud = {("net x8", solver, 1): row(1e9, 2000 if solver == LS else 1000) for solver in (LP, LS, SET)}
    # a case without an answer of every solver is left out
    cloud["other x8", SET, 1] = row(1.0, 1)
    table = patterns({"set-fig8-edge": edge, "set-fig8-cloud": cloud}, "quick")
    by_case = {line[0]: dict(zip(table.headers, line, strict=True)) for line in table.rows}
    assert list(by_case) == [
        "edge net x8",
        "cloud net x8",
        "edge, mean of 1",
        "cloud, mean of 1",
        "all, mean of 2",
        "the paper, mean of 70",
    ]
    assert by_case["edge net x8"]["times as fast as LP"] == 4
    assert by_case["edge net x8"]["energy saved of LP"] == 0.5
    every = by_case["all, mean of 2"]
    assert (every["times as fast as LP"], every["as LS"], every["energy saved of LP"]) == (2.5, 1.5, 0.25)
    paper = by_case["the paper, mean of 70"]
    assert list(paper.values())[7:11] == [1.90, 1.68, 0.217, 0.215]
    assert table.bars is not None
    assert table.bars.series == {"LP": (4.0, 1.0), "LS": (1.0, 2.0)}


def test_the_spread_of_seeds_is_over_tangram_over_the_better_pattern_and_over_their_mean() -> None:
    rows = {("net x8", SET, seed): row(1.0, cycles) for seed, cycles in ((1, 100), (2, 200), (3, 300))}
    rows |= {("net x8", LP, 1): row(1.0, 1000), ("net x8", LS, 1): row(1.0, 400)}
    rows |= {("net x8", TANGRAM, 0): row(1.0, 800)}
    # without Tangram's answer the case says nothing
    rows |= {("other x8", one, 1): row(1.0, 1) for one in (SET, LP, LS)}
    table = spreads({"set-fig10-edge": rows, "set-fig10-cloud": {}}, "quick")
    assert table.rows[0] == ("edge net x8", 3.0, 0.125, 0.25, 0.375, 0.25, 0.5, 0.75, 0.5, 1.5)
    assert table.rows[1][2:] == table.rows[0][2:]
    assert table.rows[2][:5] == ("the paper, mean of 10", 10.0, *map(pytest.approx, (0.461, 0.546, 0.648)))


def test_tangram_is_set_against_the_medians_of_the_others() -> None:
    """SET twice as fast at half the energy, LP four times as slow, LS equal to Tangram."""
    edge = {("net x8", SET, seed): row(1.0, cycles) for seed, cycles in ((1, 1), (2, 100), (3, 900))}
    edge |= {("net x8", LP, 1): row(2.0, 800), ("net x8", LS, 1): row(2.0, 200)}
    edge |= {("net x8", TANGRAM, 0): row(2.0, 200)}
    table = over_tangram({"set-fig10-edge": edge, "set-fig10-cloud": {}}, "quick")
    assert [line[0] for line in table.rows] == [
        "edge net x8",
        "edge, mean of 1",
        "all, mean of 1",
        "the paper, mean",
    ]
    assert table.rows[0][3:] == (2.0, 0.5, 0.25, 0.25, 0.0, 4.0, 1.0, 0.0, 1.0)
    assert table.rows[2][3:] == table.rows[0][3:]
    assert list(table.rows[3][3:6]) == pytest.approx([1.78, 0.132, 0.488])
    assert table.bars is not None
    assert table.bars.series == {"SET": (0.25,), "LP": (4.0,), "LS": (1.0,)}


@pytest.mark.parametrize("name", [*set_schedules.PATTERNS, *set_schedules.SPREADS])
def test_full_effort_is_the_library_study_with_the_papers_settings(name: str) -> None:
    """Section 5.1: T0 of 0.07, alpha of 8 and 100 rounds a layer; E^2 D on edge, E D^2 on cloud."""
    study = study_of(document(name, "full"))
    assert study.model_dump() == load_study(name).model_dump()
    assert study.schedule is not None
    for scheduler in study.schedule.schedulers:
        assert scheduler.solver == TANGRAM or scheduler.params["beta"] == 100
    assert study.schedule.params["initial_temperature"] == 0.07
    if "fig8" in name:
        assert study.schedule.objective == ("e2d" if name.endswith("edge") else "ed2")
        assert len(study.networks) == 35
    else:
        assert (study.schedule.objective, study.schedule.seeds) == ("edp", 10)
        assert study.schedule.schedulers[-1].solver == TANGRAM


def test_quick_effort_is_a_part_of_the_study() -> None:
    for name, part in set_schedules.QUICK.items():
        quick, full = study_of(document(name, "quick")), load_study(name)
        assert {one.shown for one in quick.networks} <= {one.shown for one in full.networks}
        assert quick.schedule is not None
        drawing = [one for one in quick.schedule.schedulers if one.solver != TANGRAM]
        assert {one.seeds for one in drawing} == {part.seeds}
        assert {one.params["beta"] for one in drawing} == {part.beta}
        assert quick.name != full.name


@pytest.mark.slow
def test_hardly_any_tree_that_is_drawn_can_run() -> None:
    name, *numbers = drawn("set-alexnet", 5)
    layers, digits, count, able = map(float, numbers)
    assert (name, count) == ("set-alexnet", 5.0)
    assert 0 <= able <= 5
    # there are about 9.899^n trees of n layers with one sample, more with eight
    assert digits > 0.9 * layers - 2


@pytest.mark.slow
def test_the_command_schedules_replays_and_takes_it_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        set_schedules, "QUICK", {"set-fig8-edge": StudyPart(("set-transformer-cell",), (1,), 0.5, 2)}
    )
    asked = ["paper", "set", "--figure", "8", "--figure", "5", "--in-process", "--json"]
    asked += ["-o", str(tmp_path / "out")]
    first = CliRunner().invoke(app, asked)
    assert first.exit_code == 0, first.output
    gains, replays = json.loads(first.stdout)["figures"]
    own = dict(zip(gains["headers"], gains["rows"][0], strict=True))
    # SET begins with the better of an annealed LP and an annealed LS tree
    assert own["SET mJ"] ** 2 * own["SET Mcycles"] <= own["LS mJ"] ** 2 * own["LS Mcycles"] * 1.001
    assert 0 <= own["best seed's gap"] < 1
    replayed = dict(zip(replays["headers"], replays["rows"][0], strict=True))
    assert " = " not in replayed["DRAM MB, model and replay"]
    assert 0.5 < replayed["model over replay"] < 1.5
    again = CliRunner().invoke(app, asked)
    assert again.stdout == first.stdout
