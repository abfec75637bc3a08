"""Thistle's evaluation: columns and means by hand, the dominant layer's chip, the command on two layers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep.cli.main import app
from sweep.papers import thistle
from sweep.papers.thistle import HYBRID, LIBRARY, OURS, PRINTED, PaperMapper, architecture_of, key, layers
from sweep.tasks.mapping import MappingTask

FIRST, SECOND = layers("quick")[:2]


def chip(registers: int, energy_pj: float) -> dict[str, Any]:
    overrides = {"RegFile.size": f"{registers} words", "SRAM.size": "64 words", "SRAM.fanout": [8, 1]}
    return {"overrides": overrides, "energy_pj": energy_pj, "cycles": 10, "mac_units": 8, "area_um2": 1e4}


def test_the_dominant_layer_is_that_whose_runs_take_most_and_all_are_mapped_on_its_chip() -> None:
    rows = {(*one.label, preset): chip(4, 1.0) for one in layers("quick") for preset in (PRINTED, OURS)}
    rows[*SECOND.label, PRINTED] = chip(16, 1e9)
    assert thistle.dominant_of(rows, "quick", "energy", PRINTED) == SECOND
    tasks = thistle.dominant_tasks("quick", "energy", rows)
    assert set(tasks) == set(rows)
    for label, task in tasks.items():
        assert isinstance(label, tuple)
        preset = label[-1]
        assert isinstance(task, MappingTask)
        assert task.architecture.levels[0].size_words == (16 if preset == PRINTED else 4)
        assert task.settings.solver == ("thistle" if preset == PRINTED else "auto")
    assert architecture_of(rows[*SECOND.label, PRINTED]).mac_units == 8


def test_a_mean_over_all_runs_is_a_ratio_of_sums() -> None:
    """Energy: pJ over MACs; throughput: MACs over cycles, so that slow layers count by their time."""
    values = {FIRST.label: 10.0, SECOND.label: 40.0}
    macs = [one.occurrences * one.layer.macs for one in (FIRST, SECOND)]
    some = [FIRST, SECOND]
    assert thistle.over_all(values, some, "energy") == pytest.approx(
        (10 * macs[0] + 40 * macs[1]) / sum(macs)
    )
    assert thistle.over_all(values, some, "cycles") == pytest.approx(
        sum(macs) / (macs[0] / 10 + macs[1] / 40)
    )


def test_a_layer_without_an_answer_is_said_and_left_out_of_the_mean() -> None:
    rows = {
        (*one.label, name): {"energy_pj": 20.0 * one.layer.macs, "cycles": 1}
        for one in layers("quick")
        for name in thistle.MAPPERS
    }
    del rows[*FIRST.label, HYBRID]
    rows[*SECOND.label, HYBRID]["energy_pj"] *= 2
    table = thistle.figure_4({key("eyeriss", "energy"): rows}, "quick")
    by_layer = {line[0]: dict(zip(table.headers, line, strict=True)) for line in table.rows}
    assert by_layer[f"{FIRST.network}/{FIRST.layer.name}"][HYBRID] == "no answer"
    assert by_layer[f"{SECOND.network}/{SECOND.layer.name}"][f"{HYBRID} / {OURS}"] == pytest.approx(2.0)
    assert by_layer["yolo9000, all runs"][HYBRID] == pytest.approx(20.0)


def test_no_architecture_in_eyerisss_area_has_more_macs_than_is_said() -> None:
    """Table III: 1239.5 um2 a MAC, 19.874 a register; 168 PEs of 512 registers, 65,536 words of SRAM."""
    area = 168 * (1239.5 + 512 * 19.874) + 65536 * 6.806
    assert thistle.most_units(LIBRARY) == pytest.approx(area / (1239.5 + 19.874))


@pytest.mark.slow
def test_the_command_maps_and_designs_and_takes_it_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(thistle.EVERY, "quick", 12)
    printed: dict[str, Any] = {"preset": "paper"}
    monkeypatch.setattr(thistle, "PRESETS", {PRINTED: printed, OURS: printed | {"judged": 2}})
    mappers = dict.fromkeys((PRINTED, OURS), PaperMapper("thistle", printed))
    monkeypatch.setattr(thistle, "MAPPERS", mappers)
    thistle.layers.cache_clear()
    try:
        asked = ["paper", "thistle", "--figure", "5", "--in-process", "--json", "-o", str(tmp_path / "out")]
        first = CliRunner().invoke(app, asked)
        assert first.exit_code == 0, first.output
        (figure,) = json.loads(first.stdout)["figures"]
        rows = {line[0]: dict(zip(figure["headers"], line, strict=True)) for line in figure["rows"]}
        only = rows["thistle_resnet18/layer1"]
        assert only[f"own chip, {PRINTED}"] < only[f"Eyeriss, {PRINTED}"] < 40
        with (tmp_path / "out" / "figure-5.csv").open() as file:
            assert next(csv.reader(file))[0] == "layer, pJ/MAC"
        again = CliRunner().invoke(app, asked)
        assert again.stdout == first.stdout
    finally:
        thistle.layers.cache_clear()
