"""``archsweep compare``: studies that differ in one thing each, whose differences have that cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.formats.architectures import FOLDER, load_architecture
from costmodel.formats.json.fused_layers_json import group_to_json
from costmodel.formats.networks import load_network
from costmodel.mapping.fused.layers.links import group_of
from results.explain.causes import SAME_QUESTION, causes_of
from results.explain.runs import RunComparison, compared, union_front
from results.front.pareto import hypervolume
from results.report.data import RunData
from solvers.mapping import random_search
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.results.report.browser import Page, browser, open_page  # noqa: F401 - fixtures
from tests.sweep.ended import Command

HERE = RuntimeChoice(in_process=True)
STUDY = """
name: base
networks: [cosa_alexnet]
architecture: mine.yaml
axes:
  SRAM.size: {choices: [8 KiB, 64 KiB]}
  SRAM.fanout: {choices: [[4, 4], [14, 12]]}
objectives: [energy_pj, cycles]
search: {method: grid}
mapping: {solver: random_search, objective: edp, iterations: 200, wall_seconds: 60}
"""
EYERISS = (FOLDER / "eyeriss.yaml").read_text(encoding="utf-8")
TECHNOLOGY = (FOLDER.parent / "technologies" / "thistle-45nm.yaml").read_text(encoding="utf-8")
CHANGES = {
    "solver": ("solver: random_search", "solver: cosa"),
    "budget": ("iterations: 200", "iterations: 40"),
    "seed": ("iterations: 200", "iterations: 200, seed: 5"),
    "objective": ("objective: edp", "objective: energy"),
    "rule": ("iterations: 200", "iterations: 200, padding: 0.15"),
    "axis": ("objectives:", "  DRAM.read_bandwidth: {choices: [1 words/cycle, 2 words/cycle]}\nobjectives:"),
}


def write(folder: Path, name: str, text: str = STUDY, architecture: str = EYERISS) -> Path:
    """The run of a study called ``name``, alone in its folder, so that it finds no stored answers."""
    place = folder / name
    place.mkdir()
    (place / "mine.yaml").write_text(architecture)
    (place / "study.yaml").write_text(text.replace("name: base", f"name: {name}"))
    return run_study(load_study(str(place / "study.yaml")), place / "runs" / name, HERE).path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("compare"), "base")


def comparison(*folders: Path) -> RunComparison:
    return compared({folder.name: RunData.read(folder) for folder in folders})


@pytest.mark.slow
def test_a_run_and_itself_differ_in_nothing(base: Path, tmp_path: Path) -> None:
    again = comparison(base, write(tmp_path, "again"))
    assert again.differences == ()
    assert again.changed == ()
    assert again.compared == {"base, again": 4}
    assert again.runs[0].hypervolume == again.runs[1].hypervolume
    assert [run.of_best for run in again.runs] == [1.0, 1.0]


CAUSES = {
    "solver": "solver random_search → cosa",
    "budget": "budget iterations 200 → 40",
    "seed": "budget seed 0 → 5",
    "objective": "objective edp → energy",
    "rule": "space",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CAUSES)
def test_a_difference_has_the_cause_that_was_made(change: str, base: Path, tmp_path: Path) -> None:
    old, new = CHANGES[change]
    assert old in STUDY
    found = comparison(base, write(tmp_path, "other", STUDY.replace(old, new)))
    assert found.differences
    assert all(CAUSES[change] in one.causes for one in found.differences), found.by_cause
    if change != "solver":
        assert {one.causes for one in found.differences} == {(CAUSES[change],)}


@pytest.mark.slow
def test_an_axis_that_one_run_has_more(base: Path, tmp_path: Path) -> None:
    """Each design of the one run stands beside all those of the other that have its axes' values."""
    old, new = CHANGES["axis"]
    found = comparison(base, write(tmp_path, "wider", STUDY.replace(old, new)))
    assert found.compared == {"base, wider": 8}
    assert found.differences
    for one in found.differences:
        assert one.causes == ("axis DRAM.read_bandwidth", "architecture: DRAM.read_bandwidth")


@pytest.mark.slow
def test_a_technology_and_an_architecture(base: Path, tmp_path: Path) -> None:
    """Energies differ with the technology; sizes and bandwidths with the architecture."""
    place = tmp_path / "technology"
    place.mkdir()
    assert "technology: thistle-45nm" in EYERISS
    dear = EYERISS.replace("technology: thistle-45nm", f"technology: {place}/dear.yaml")
    assert "value: 128.0 pJ" in TECHNOLOGY
    (place / "dear.yaml").write_text(TECHNOLOGY.replace("value: 128.0 pJ", "value: 256.0 pJ"))
    found = comparison(base, write(tmp_path, "dear", architecture=dear))
    assert found.differences
    for one in found.differences:
        assert any(cause.startswith("technology: ") for cause in one.causes), one
        assert not any(cause.startswith("architecture: ") for cause in one.causes), one
    slow = EYERISS.replace("read_bandwidth: 4 words/cycle", "read_bandwidth: 1 words/cycle", 1)
    assert slow != EYERISS
    found = comparison(base, write(tmp_path, "slow", architecture=slow))
    assert found.differences
    for one in found.differences:
        assert [cause.split(":")[0] for cause in one.causes] == ["architecture"]
        assert "read_bandwidth" in one.causes[0]


@pytest.mark.slow
def test_a_solver_s_version(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version whose answers are others, as a smaller budget makes them here."""
    monkeypatch.setattr(random_search, "VERSION", "99-test")
    found = comparison(base, write(tmp_path, "newer", STUDY.replace("iterations: 200", "iterations: 30")))
    assert found.differences
    assert all(any("→ 99-test" in cause for cause in one.causes) for one in found.differences)


def test_what_rows_alone_cannot_tell() -> None:
    row = {"task_id": "a", "solver": "s", "solver_version": "1", "params": {}, "objective_name": "edp"}
    assert causes_of(row, row, [], ("5", "5")) == (SAME_QUESTION,)
    other = {**row, "task_id": "b"}
    assert causes_of(row, other, [], ("4", "5")) == ("cost model 4 → 5",)
    assert causes_of(row, other, [], ("5", "5")) == ("something that rows do not hold",)


def test_other_windows_of_the_same_layers_are_no_other_network() -> None:
    network = load_network("mobilenet_v2")
    names = ("block3.1.expand", "block3.1.depthwise")

    def row(task: str, names: tuple[str, ...] = names, **allowed: bool) -> dict[str, Any]:
        group = group_of(load_architecture("simba"), network, names, **allowed)
        return {
            "task_id": task,
            "solver": "s",
            "solver_version": "1",
            "layer_group": group_to_json(group),
            "pipelined": task == "c",
        }

    loops = "which loops layers may share: windows, columns or cut_rows"
    of_rows, of_none = row("a"), row("b", windows=False)
    of_both = row("c", columns=True)
    assert causes_of(of_rows, of_none, [], ("5", "5")) == (loops,)
    assert causes_of(of_rows, of_both, [], ("5", "5")) == (loops, "whether layers may run at the same time")
    longer = row("d", (*names, "block3.1.project"))
    assert causes_of(of_rows, longer, [], ("5", "5")) == ("network: another shape",)


@pytest.mark.slow
def test_fronts_and_sides_by_enumeration(base: Path, tmp_path: Path) -> None:
    """Hypervolumes of two objectives are sums of rectangles; who changed sides follows from dominance."""
    other = write(tmp_path, "other", STUDY.replace("iterations: 200", "iterations: 80"))
    runs = {folder.name: RunData.read(folder) for folder in (base, other)}
    found = compared(runs)
    for shown, run in zip(found.runs, runs.values(), strict=True):
        assert shown.hypervolume == pytest.approx(rectangles(run.points, found.reference))
        assert shown.front == len(run.front)
    assert max(run.of_best for run in found.runs) <= 1.0 + 1e-12
    everything = np.concatenate([run.points for run in runs.values()])
    for name, designs in union_front(runs).items():
        for design, point in enumerate(runs[name].points):
            dominated = ((everything <= point).all(axis=1) & (everything < point).any(axis=1)).any()
            assert (design in designs) == (not dominated)
    sides = 0
    for design in runs["base"].judged:
        axes = runs["base"].axis_line(design)
        beside = next(i for i in runs["other"].judged if runs["other"].axis_line(i) == axes)
        sides += (design in runs["base"].front) != (beside in runs["other"].front)
    assert len(found.changed) == sides


def rectangles(points: Any, reference: tuple[float, ...]) -> float:
    """The hypervolume of two objectives: under the staircase, from left to right."""
    total, top = 0.0, reference[1]
    for x, y in sorted(map(tuple, points[np.isfinite(points).all(axis=1)])):
        if x < reference[0] and y < top:
            total += (reference[0] - x) * (top - y)
            top = y
    assert total == pytest.approx(hypervolume(points, reference))
    return total


@pytest.fixture(scope="module")
def other(base: Path) -> Path:
    return write(base.parents[2], "small-budget", STUDY.replace("iterations: 200", "iterations: 80"))


@pytest.mark.slow
def test_the_command_prints_tables_json_and_a_page(
    base: Path, other: Path, command_line: Command, tmp_path: Path
) -> None:
    text = command_line("compare", str(base), str(other))
    assert text.status == 0, text.err
    for words in ("fronts over energy_pj, cycles", "4 designs in common", "why layers cost something else"):
        assert words in text.out
    page = tmp_path / "page.html"
    data = command_line("compare", f"file://{base}", str(other), "--json", "--page", str(page))
    assert data.status == 0, data.err
    content = json.loads(data.out)
    assert [run["name"] for run in content["runs"]] == ["base", "small-budget"]
    assert sum(run["on_front_of_all"] for run in content["runs"]) >= 1
    assert content["differences"][0]["causes"] == ["budget iterations 200 → 80"]
    assert page.stat().st_size > 100_000
    area = command_line("compare", str(base), str(other), "--objective", "area_um2", "--objective", "cycles")
    assert "fronts over area_um2, cycles" in area.out


@pytest.mark.slow
def test_wrong_input(base: Path, other: Path, command_line: Command, tmp_path: Path) -> None:
    for words, said in (
        ([str(base)], "two runs or more"),
        ([str(base), str(base)], "different runs"),
        ([str(base), "nowhere"], "a run folder"),
        ([str(base), str(other), "--objective", "weight"], "--objective"),
        ([], "RUN"),
    ):
        ended = command_line("compare", *words)
        assert ended.status == 2, (words, ended)
        assert said in ended.err
        assert ended.out == ""
    for name in ("one", "two"):
        shutil.copytree(base, tmp_path / name)
        shutil.rmtree(tmp_path / name / "designs")
    none = command_line("compare", str(tmp_path / "one"), str(tmp_path / "two"))
    assert none.status == 1, none
    assert "no run has a design" in none.err


@pytest.mark.slow
def test_the_page_in_a_browser(
    base: Path,
    other: Path,
    tmp_path: Path,
    command_line: Command,
    open_page: Callable[[Path], Page],  # noqa: F811 - the fixture that is imported above
) -> None:
    path = tmp_path / "page.html"
    assert command_line("compare", str(base), str(other), "--page", str(path)).status == 0
    page = open_page(path)
    points = page.run("document.querySelectorAll('#fronts-figure .scatterlayer .point').length")
    assert points == 8
    assert page.run("document.querySelectorAll('#causes tbody tr').length") == 1
    assert page.run("document.querySelectorAll('#layers tbody tr').length") > 1
    page.check_quiet()
