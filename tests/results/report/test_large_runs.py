"""The report of a run of very many designs, which draws some of them and counts the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.report import data as report_data
from results.report.data import RunData
from results.report.page import build_page, write_report
from results.report.sections.which_design import front as front_charts
from results.report.sections.which_design.front import COUNTED, pair_figure, single_figure, space_figure
from results.report.solve_counts import SolveCounts
from results.store.folder import RunFolder, RunWriter
from tests.results.report.browser import Page

Row = dict[str, Any]
Make = Callable[..., Row]


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "MOST_POINTS", 12)


@pytest.mark.usefixtures("few_drawn")
def test_every_design_is_drawn_or_counted(make_example: Callable[..., Path], run_path: Path) -> None:
    run = RunData.read(make_example(run_path))
    assert set(run.front) < set(run.drawn)
    assert len(run.drawn) == 12
    assert sorted([*run.drawn, *run.counted.tolist()]) == list(run.judged)
    for x, y in ((0, 1), (0, 2), (1, 2)):
        traces = {trace["name"]: trace for trace in pair_figure(run, x, y).traces}
        shown = [
            i
            for name in ("dominated", "front", "front, certain")
            if name in traces
            for i in traces[name]["meta"]["hovers"]
        ]
        assert sorted(shown) == run.drawn
        cells = traces[COUNTED]
        counts = [10**n for row in cells["z"] for n in row if n is not None]
        assert sum(counts) == pytest.approx(len(run.counted), rel=1e-2)
        said = [int(text.split()[0]) for row in cells["hovertext"] for text in row if text]
        assert sum(said) == len(run.counted)
    space = next(trace for trace in space_figure(run).traces if trace["name"] == COUNTED)
    assert sum(int(text.split()[0]) for text in space["hovertext"]) == len(run.counted)
    page = build_page(run)
    assert "12 designs are drawn one by one: all on the front" in page
    assert f"Of the other {len(run.counted)} the charts show" in page


@pytest.mark.usefixtures("few_drawn")
def test_of_one_objective_the_best_are_drawn(make_example: Callable[..., Path], run_path: Path) -> None:
    run = RunData.read(make_example(run_path), ("energy_pj",))
    (trace,) = single_figure(run).traces
    best = sorted(run.points[run.judged, 0])[:12]
    assert trace["y"] == [run.scale("energy_pj").number(value) for value in best]


def test_a_front_of_too_many_is_thinned_and_said_so(
    run_path: Path, make_design: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_data, "MOST_POINTS", 60)
    with RunWriter(run_path) as writer:
        for number in range(150):
            writer.append("designs", make_design(number))
    run = RunData.read(run_path)
    assert len(run.front) == 150
    assert set(run.shown) <= set(run.drawn)
    assert len(run.drawn) < 120
    assert f"{len(run.drawn)} designs are drawn one by one: {len(run.drawn)} on the front" in build_page(run)


def test_of_many_discarded_designs_some_are_drawn(
    make_search: Callable[..., Path], run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_charts, "MOST_DISCARDED", 2)
    figure = pair_figure(RunData.read(make_search(run_path)), 0, 1)
    (trace,) = (trace for trace in figure.traces if trace["name"].startswith(front_charts.DISCARDED))
    assert trace["name"].endswith(" (2 of 3)")
    assert len(trace["x"]) == 2


def test_solves_that_no_design_names_are_not_counted(
    run_path: Path, make_layer: Make, make_design: Make
) -> None:
    """Whatever a network is called: ids are found in the stored text."""
    tasks = [make_layer(number)["task_id"] for number in range(3)]
    layers = [
        {"name": 'x","task_id":"' + tasks[1], "task_id": tasks[0], "count": 1, "energy_pj": 1.0, "cycles": 1}
    ]
    with RunWriter(run_path) as writer:
        for number in range(3):
            writer.append("layers", make_layer(number, note=f"limit of {number} steps reached: fewer; more"))
        writer.flush()
        assert SolveCounts.read(RunFolder(run_path), None).ended.solves == 3
        networks = {'"task_id":"' + tasks[2]: {"weight": 1.0, "layers": layers}}
        writer.append("designs", make_design(0, networks=networks, study_id="now"))
        writer.append("designs", make_design(1, study_id="before"))
    counts = SolveCounts.read(RunFolder(run_path), "now")
    assert counts.ended.solves == 1
    assert dict(counts.limits) == {"limit of 0 steps reached: fewer": 1}


@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn")
def test_counted_designs_are_drawn_in_the_browser(
    open_page: Callable[[Path], Page], make_example: Callable[..., Path], run_path: Path
) -> None:
    page = open_page(write_report(make_example(run_path)))
    names = page.run("document.querySelector('#front-energy_pj-area_um2')._fullData.map(t => t.name)")
    assert names[0] == COUNTED
    assert page.run("document.querySelectorAll('#front-energy_pj-area_um2 .heatmaplayer image').length") == 1
    page.until("document.querySelectorAll('#front-space canvas').length > 0")
    page.check_quiet()


@pytest.mark.slow
def test_a_solver_without_a_member_is_named_once(run_path: Path, make_layer: Make) -> None:
    with RunWriter(run_path) as writer:
        for number, member in enumerate((None, "", "exact")):
            writer.append("layers", make_layer(number, solved_by=member))
    assert "cosa: exact" in build_page(RunData.read(run_path))
