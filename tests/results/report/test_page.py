"""The report without a browser: numbers, escaping, sections, and that equal runs make equal pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from math import inf, nan
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import DamagedFileError, NotARunError, WrongRowError
from results.report.data import MOST_SHOWN, RunData, study_objectives
from results.report.design_layers import CERTIFICATE_HEADERS, design_layers
from results.report.html import Markup, chart_text, element, script_json, table
from results.report.labels import label_positions
from results.report.page import build_page, write_report
from results.report.sections.which_design.front import DISCARDED, INTERVALS, MANY_POINTS, pair_figure
from results.report.sections.why_this_one.compare import hardware_rows
from results.report.sections.why_this_one.spending import levels_figure
from results.store.folder import RunFolder, RunWriter
from results.store.parts import list_parts
from results.units import NOTHING, TIMES, byte_text, digits, percent, scale_for, seconds, value_order

Row = dict[str, Any]
Make = Callable[..., Row]


class Reader(HTMLParser):
    """Collects the elements of a page, checks that they nest, and keeps scripts of JSON by id."""

    VOID = ("meta", "link", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.data: dict[str, Any] = {}
        self._key: str | None = None
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self._key = dict(attrs).get("id") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._key:
            self.data[self._key] = json.loads(data)
        elif self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def _page(path: Path) -> Reader:
    return Reader(write_report(path).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_figure_is_one_that_plotly_accepts(make_example: Callable[..., Path], run_path: Path) -> None:
    page = _page(make_example(run_path))
    figures = {key: content for key, content in page.data.items() if "layout" in content}
    assert len(figures) == 11
    for content in figures.values():
        go.Figure(content)


@pytest.mark.slow
def test_the_page_tells_what_the_rows_say(make_example: Callable[..., Path], run_path: Path) -> None:
    text = " ".join(_page(make_example(run_path)).text)
    for words in (
        "ResNet-18 on a family around Eyeriss",
        "22 complete, 2 failed, 12 infeasible",
        "the worker process died 3 times (signal 9)",
        "area_um2 <= 7e+06",
        "0123456789abcdef",
        "best energy",
        "knee",
        "3.11.2",
    ):
        assert words in text


def test_the_page_holds_plotly_once_and_names_no_other_file(
    make_example: Callable[..., Path], run_path: Path
) -> None:
    content = write_report(make_example(run_path)).read_text(encoding="utf-8")
    assert content.count("plotly.js v") == 1
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]* (?:src|href)=\"(?!data:)", content)
    assert len(content) < 6_000_000


@pytest.mark.slow
def test_equal_runs_make_equal_pages(
    make_example: Callable[..., Path], run_path: Path, tmp_path: Path
) -> None:
    first = write_report(make_example(run_path)).read_bytes()
    copytree(run_path, tmp_path / "elsewhere" / "example")
    assert write_report(tmp_path / "elsewhere" / "example").read_bytes() == first


@pytest.mark.slow
def test_another_pair_of_objectives_may_be_asked_for(
    make_example: Callable[..., Path], run_path: Path
) -> None:
    make_example(run_path, objectives=("edp_pj_cycles",))
    assert "front-edp_pj_cycles-data" in _page(run_path).data
    page = Reader(build_page(RunData.read(run_path, ("latency_seconds", "area_um2"))))
    assert "front-latency_seconds-area_um2-data" in page.data
    with pytest.raises(WrongRowError, match="'speed' is no objective"):
        write_report(run_path, ("speed",))


@pytest.mark.slow
def test_the_layers_of_a_design_add_up_to_it(make_example: Callable[..., Path], run_path: Path) -> None:
    run = RunData.read(make_example(run_path))
    for design in run.front:
        layers = design_layers(run, design)
        energy = sum(sum(layer.levels.values()) for layer in layers)
        assert energy == pytest.approx(run.value(design, "energy_pj"))
        assert sum(layer.cycles for layer in layers) == run.value(design, "cycles")
    bars = levels_figure(run, run.front, ["RegFile", "SRAM", "DRAM", "MAC"]).traces
    totals = [sum(column) for column in zip(*(bar["y"] for bar in bars), strict=True)]
    scale = run.scale("energy_pj")
    assert totals == pytest.approx([scale.number(run.value(d, "energy_pj")) for d in run.front], rel=1e-5)


def test_designs_without_details_are_shown_in_one_piece(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("designs", make_design(0, energy_by_level_pj=None))
        run.append("designs", make_design(1, networks=None))
    data = _page(run_path).data["chosen-data"]
    assert set(data["names"]) == {"RegFile", "DRAM", "MAC", "not itemised"}
    assert sorted(len(design["layers"]) for design in data["designs"]) == [0, 1]


@pytest.mark.slow
def test_long_fronts_are_thinned_and_said_so(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        for number in range(150):
            run.append("designs", make_design(number))
    data = RunData.read(run_path)
    assert len(data.front) == 150
    shown = data.shown
    assert len(shown) <= MOST_SHOWN
    assert {data.front[0], data.front[-1], data.knee} <= set(shown)
    text = " ".join(_page(run_path).text)
    assert "The first 100 of 150 are shown" in text
    assert f"{len(shown)} of the 150 designs are shown" in text


def test_names_of_points_do_not_hide_each_other() -> None:
    judged = np.array([[0, 0], [1, 1]])
    apart = np.array([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]])
    assert label_positions(judged, apart) == ["top center"] * 3
    close = np.array([[0.50, 0.50], [0.52, 0.50], [0.54, 0.50], [0.56, 0.5]])
    places = label_positions(judged, close)
    assert places[:2] == ["top center", "bottom center"]
    assert len(set(places)) >= 3
    assert label_positions(judged, np.zeros((100, 2))) == [""] * 100
    assert label_positions(np.ones((1, 3)), np.ones((1, 3))) == ["top center"]


@pytest.mark.slow
def test_large_runs_are_drawn_by_webgl(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        for number in range(MANY_POINTS + 1):
            run.append("designs", make_design(number % 7, design_id=str(number), architecture=None))
    kinds = {trace["type"] for trace in pair_figure(RunData.read(run_path), 0, 1).traces}
    assert "scattergl" in kinds


def test_certain_designs_are_told_from_the_others(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("designs", make_design(0, energy_bound_pj=1e9, cycles_bound=1e6))
        run.append("designs", make_design(1, area_um2=1e6))  # at its bounds it dominates the other
        run.append("designs", make_design(2, status="dominated", energy_pj=None, cycles=None))
    data = RunData.read(run_path)
    traces = {trace["name"]: trace for trace in pair_figure(data, 0, 1).traces}
    assert list(traces) == ["front of these two", INTERVALS, DISCARDED, "front", "front, certain"]
    assert traces["front"]["marker"]["symbol"] != traces["front, certain"]["marker"]["symbol"]
    energy, cycles = data.scale("energy_pj"), data.scale("cycles")
    (uncertain,) = set(data.front) - data.certain
    assert traces["front"]["x"] == [energy.number(data.value(uncertain, "energy_pj"))]
    x, y = traces[INTERVALS]["x"], traces[INTERVALS]["y"]
    lines = {(a, b) for a, b in zip(zip(x, y, strict=True), zip(x[1:], y[1:], strict=True), strict=False)}
    found = (energy.number(5e8), cycles.number(1_050_000))
    assert (found, (energy.number(4e8), found[1])) in lines
    assert (found, (found[0], cycles.number(945_000))) in lines
    assert traces[DISCARDED]["x"] == [energy.number(0.8e9 / 3)]
    text = " ".join(_page(run_path).text)
    assert "1 of the 2 are certain" in text
    assert "Designs discarded before any solve: 1;" in text


def test_a_search_is_told_in_full(make_search: Callable[..., Path], run_path: Path) -> None:
    page = _page(make_search(run_path))
    run = RunData.read(run_path)
    text = " ".join(page.text)
    for words in (
        f"{len(run.certain)} of the {len(run.front)} are certain",
        f"could still join it if mapped better: {len(run.candidates)}.",
        "Designs discarded before any solve: 3;",
        "Discarded before any solve, by their bounds: 3",
        "dominated by design a",
        f"Baseline: SRAM.fanout 14{TIMES}12, RegFile.size 256, SRAM.size 64 KiB.",
        "Space of mappings searched (1): all mappings of perfect factors.",
    ):
        assert words in text, words
    found_by = Counter(RunFolder(run_path).read("layers", ["solved_by"])["solved_by"].to_pylist())
    for member in ("cosa", "exact"):
        assert f"auto {member} {found_by[member]} " in text


def test_each_certificate_names_its_space(run_path: Path, make_layer: Make, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        for number, name in enumerate(("perfect", "padded", "padded")):
            run.append("layers", make_layer(number, space={"name": name}))
            run.append("designs", make_design(number))
        run.append("layers", make_layer(3))
        run.append("designs", make_design(3, area_um2=1.0))
    page = _page(run_path)
    assert "Spaces of mappings searched: (1) padded; (2) perfect." in " ".join(page.text)
    column = CERTIFICATE_HEADERS.index("Space")
    numbers = {
        row[column] for design in page.data["chosen-data"]["designs"] for row in design["certificates"]
    }
    assert numbers == {"1", "2", "\u2013"}


def test_layers_say_what_binds_them(run_path: Path, make_layer: Make, make_design: Make) -> None:
    """And what it is worth; rows of a version that did not say so show nothing."""
    with RunWriter(run_path) as run:
        told = {
            "bound_by": "DRAM read bandwidth",
            "cycles_without": {"MAC units": 1000, "DRAM read bandwidth": 750},
        }
        run.append("layers", make_layer(0, **told))
        run.append("designs", make_design(0))
        run.append("layers", make_layer(1))
        run.append("designs", make_design(1, area_um2=1.0))
    column = CERTIFICATE_HEADERS.index("Bound by")
    shown = {
        row[column]
        for design in _page(run_path).data["chosen-data"]["designs"]
        for row in design["certificates"]
    }
    assert shown == {"DRAM read bandwidth (25.0 % fewer cycles without)", "\u2013"}


def test_the_comparison_is_with_the_baseline_s_rows(make_search: Callable[..., Path], run_path: Path) -> None:
    content = _page(make_search(run_path)).data["chosen-data"]
    run = RunData.read(run_path)
    designs = run.shown
    assert run.baseline is not None
    assert run.baseline not in run.on_front
    assert designs[content["baseline"]] == run.baseline
    base = {layer.name: layer for layer in design_layers(run, run.baseline)}
    for design, shown in zip(designs, content["designs"], strict=True):
        layers = design_layers(run, design)
        ratios = [layer.cycles / base[layer.name].cycles for layer in layers]
        assert shown["ratios"]["cycles"] == pytest.approx(ratios, rel=1e-4)
        metrics = {row[0]: row[3][1] for row in shown["metrics"]}
        mine, theirs = (run.value(one, "energy_pj") for one in (design, run.baseline))
        assert mine is not None
        assert theirs is not None
        assert metrics["Energy"] == mine / theirs
        gaps = [row[CERTIFICATE_HEADERS.index("Gap")][1] for row in shown["certificates"]]
        assert gaps == [layer.solve["gap"] for layer in layers]
    own = content["designs"][content["baseline"]]
    assert {row[3][0] for row in own["metrics"]} == {f"{TIMES}1.000 (equal)"}
    assert not [row for row in own["hardware"] if not isinstance(row[0], str)]


def test_differing_hardware_is_marked(run_path: Path, make_example: Callable[..., Path]) -> None:
    run = RunData.read(make_example(run_path))
    run.designs["baseline"] = [i == run.front[0] for i in range(len(run.designs))]
    sram = {"name": "SRAM", "size_words": 65536, "word_bits": 16, "fanout_x": 14, "fanout_y": 12}
    architectures = [{"levels": [sram | {"size_words": 32768 << (i % 2)}]} for i in range(len(run.designs))]
    for design, architecture in enumerate(architectures):
        run.detail(design)["architecture"] = architecture
    for design in run.front:
        rows = {str(row[0]): (row[1][0], row[2][0]) for row in hardware_rows(run, design)}
        assert rows["SRAM: fan-out"] == (f"14{TIMES}12", f"14{TIMES}12")
        assert rows["MAC units"] == ("168", "168")
        size = "128.0 KiB" if design % 2 else "64.00 KiB"
        differs = design % 2 != run.front[0] % 2
        assert rows["{'strong': 'SRAM: size'}" if differs else "SRAM: size"][0] == size


def test_a_baseline_without_objectives_is_said(run_path: Path, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("designs", make_design(0))
        run.append("designs", make_design(1, status="infeasible", feasible=False, baseline=True))
    assert "is infeasible: nothing to compare" in " ".join(_page(run_path).text)


def test_limits_that_searches_reached_are_counted(
    run_path: Path, make_layer: Make, make_design: Make
) -> None:
    one, two = "limit of 64 choices reached: it is lower", "limit of 1,000 words reached: fewer are seen"
    notes = [f"exact: {one}; {two}; {two}", f"5 of 9 padded sizes solved; {two}", "not proven in time", None]
    with RunWriter(run_path) as run:
        for number, note in enumerate(notes):
            run.append("layers", make_layer(number, note=note))
            run.append("designs", make_design(number))
    text = " ".join(" ".join(_page(run_path).text).split())
    assert "Limits that searches reached" in text
    assert text.index(f"2 {two}") < text.index(f"1 {one}")
    assert text.count("limit of") == 2


def test_sections_without_data_are_absent_or_say_why(
    run_path: Path, make_layer: Make, make_design: Make
) -> None:
    with RunWriter(run_path) as run:
        run.append("layers", make_layer(0))
        run.append("designs", make_design(0))
    page = _page(run_path)
    text = " ".join(page.text)
    assert "The study names no baseline" in text
    assert "Baseline" not in text, "nor a column of it"
    assert "The importance of the axes cannot be told: no axis takes two values" in text
    assert not {key for key in page.data if key.startswith(("progress", "memory"))}
    assert [trace["name"] for trace in page.data["gaps-data"]["data"]] == ["cosa"]


def test_prices_that_move_the_front_are_told(run_path: Path, make_design: Make) -> None:
    """Design 0 spends all but a tenth of its energy in DRAM, design 1 in its MAC units."""
    with RunWriter(run_path) as run:
        for number, dram in ((0, 0.9), (1, 0.1)):
            levels = {"DRAM": 1e9 * dram * (1 + number / 10), "MAC": 1e9 * (1 - dram) * (1 + number / 10)}
            changes = {"energy_pj": sum(levels.values()), "cycles": 1000, "area_um2": 2e6}
            run.append("designs", make_design(number, energy_by_level_pj=levels, **changes))
    page = write_report(run_path).read_text(encoding="utf-8")
    section = page[page.index('<section id="sensitivity"') :]
    body = section[section.index("<tbody>") : section.index("</tbody>")]
    rows = [re.findall("<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>") if row]
    assert [row[:5] for row in rows] == [
        ["DRAM", "90.0 %", "half", "1", NOTHING],
        ["DRAM", "90.0 %", "twice", "1", "#1"],
        ["MAC", "10.0 %", "half", "1", "#1"],
        ["MAC", "10.0 %", "twice", "1", NOTHING],
    ]
    assert rows[1][5:] == ["SRAM.size 1 KiB", "SRAM.size 1 KiB"]
    assert "on the front that are not certain: 1; off it that could still join: 1." in page


def test_the_page_says_what_to_try_next(run_path: Path, make_layer: Make, make_design: Make) -> None:
    """Of three sizes the largest has the least energy; its only layer waits for DRAM half of its time."""
    waits = {"bound_by": "DRAM read bandwidth", "cycles_without": {"DRAM read bandwidth": 501}}
    with RunWriter(run_path) as run:
        for number in range(3):
            run.append("layers", make_layer(number, cycles=1002, **waits))
            run.append("designs", make_design(number))
    text = " ".join(" ".join(_page(run_path).text).split())
    assert "The least energy (#1) comes with the largest SRAM.size that was tried, 2 KiB" in text
    assert "Without waiting for DRAM read bandwidth, the knee (#2) would take 50.0 % fewer cycles" in text
    assert "not certain" not in text
    assert "combinations" not in text


def test_values_of_an_axis_stand_in_their_order() -> None:
    sizes = ["1 MiB", "64 KiB", "512 B", "100 KB"]
    assert sorted(sizes, key=value_order) == ["512 B", "64 KiB", "100 KB", "1 MiB"]
    fanouts = [f"{x}{TIMES}{y}" for x, y in ((16, 16), (8, 8), (14, 12))]
    assert sorted(fanouts, key=value_order) == [fanouts[1], fanouts[2], fanouts[0]]
    assert sorted(["off", "12", "on", "3"], key=value_order) == ["3", "12", "off", "on"]


def test_interrupted_and_damaged_runs_say_so(run_path: Path, make_layer: Make, make_design: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("layers", make_layer())
        run.append("designs", make_design(0, status="partial", feasible=None, energy_pj=None))
    part = list_parts(run_path / "layers")[0]
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(DamagedFileError, match="00000001"):
        write_report(run_path)
    with pytest.warns(UserWarning, match="set aside"):
        RunWriter(run_path).close()
    text = " ".join(_page(run_path).text)
    assert "1 designs are unfinished" in text
    assert "00000001.parquet.damaged" in text


def test_a_folder_without_a_run_makes_no_report(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_objectives_come_from_the_lock_file() -> None:
    assert study_objectives({"study": {"objectives": ["cycles"]}}) == ("cycles",)
    lock: Row
    for lock in ({}, {"study": None}, {"study": {"objectives": []}}):
        assert len(study_objectives(lock)) == 3


@pytest.mark.slow
@given(st.text())
def test_no_text_leaves_its_element(text: str) -> None:
    reader = Reader(element("p", text, title=text))
    assert reader.seen == ["p"]
    assert "<" not in script_json({"x": text})
    assert json.loads(script_json({text: [text]})) == {text: [text]}
    assert script_json(text).isascii()
    assert not re.search(r"[<>]", chart_text(text))


def test_markup_is_kept_and_long_text_is_cut() -> None:
    assert element("p", Markup("<b>x</b>"), "<i>", class_="a", data_x=1, id=None) == (
        '<p class="a" data-x="1"><b>x</b>&lt;i&gt;</p>'
    )
    assert "3000 characters more" in element("p", "x" * 5000)
    assert Reader(table(["a", "b"], [["1", "<2>"]], "c")).text == ["c", "a", "b", "1", "<2>"]


@pytest.mark.parametrize(
    ("column", "values", "title", "shown"),
    [
        ("energy_pj", [3e9, 1e9], "Energy (mJ)", "1.000 mJ"),
        ("energy_pj", [12.5, 1.0], "Energy (pJ)", "1.000 pJ"),
        ("energy_pj", [2e12, 5e11], "Energy (J)", "0.500 J"),
        ("edp_pj_cycles", [4e15, 1e15], "Energy-delay product (kJ·cycles)", "1.000 kJ·cycles"),
        ("cycles", [999, 12], "Latency (cycles)", "12.00 cycles"),
        ("cycles", [1.5e6, 1e4], "Latency (Mcycles)", "0.010 Mcycles"),
        ("latency_seconds", [0.002, 0.001], "Latency (ms)", "1.000 ms"),
        ("area_um2", [4e6, 1e6], "Area (mm²)", "1.000 mm²"),
        ("area_um2", [400, 100], "Area (µm²)", "100.0 µm²"),
        ("utilization", [0.5, 0.25], "utilization", "0.250"),
        ("cycles", [], "Latency (cycles)", "–"),  # noqa: RUF001
        ("cycles", [0, 0], "Latency (cycles)", "0 cycles"),
    ],
)
def test_numbers_get_one_prefix_per_column(column: str, values: list[float], title: str, shown: str) -> None:
    scale = scale_for(column, values)
    assert scale.title == title
    assert scale.text(min(values) if values else None) == shown


def test_numbers_are_short() -> None:
    assert [digits(x) for x in (0, 0.5, 12.345, 123456.0, 1e16, -3.14159)] == [
        "0",
        "0.500",
        "12.35",
        "123,456",
        "1e+16",
        "-3.142",
    ]
    assert [byte_text(x) for x in (None, 0, 512, 1536, 3 << 20)] == [
        "\u2013",
        "0 B",
        "512 B",
        "1.500 KiB",
        "3.000 MiB",
    ]
    fractions = (0.1234, 1.0, 12.0, 0.0, 1e-6, -0.02)
    assert [percent(x) for x in fractions] == ["12.3 %", "100.0 %", "1,200.0 %", "0.0 %", "<0.1 %", "-2.0 %"]
    assert percent(nan) == percent(None) == percent(inf)
    assert [seconds(x) for x in (0.0123, 59, 90, 7200, 3600 * 5000)] == [
        "12.3 ms",
        "59 s",
        "1.5 min",
        "2 h",
        "5,000 h",
    ]
