"""The report in a real browser: what is drawn, hovers and is loaded, and names that try to break out."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations, count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from results.front.pareto import front_table
from results.report.page import write_report
from results.report.sections.which_design.front import INTERVALS
from results.store.folder import RunFolder, RunWriter
from results.units import TIMES
from tests.results.report.browser import Page
from tests.thorough import also

pytestmark = pytest.mark.slow

Row = dict[str, Any]
ONLY = {"residency": [{"start": 0, "end": 1, "address": 0}]}
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "<b>bold</b> %{x} $title &lt; \u2028 é",
)


def test_the_example_is_drawn_hovered_chosen_from_and_darkened(
    open_page: Callable[[Path], Page], make_example: Callable[..., Path], run_path: Path
) -> None:
    """One page for all four, because drawing it is most of the work."""
    page = open_page(write_report(make_example(run_path)))
    _every_design_is_drawn(page, run_path)
    _hovering_shows_axes_and_metrics(page)
    _choosing_a_design_redraws_its_layers(page)
    _charts_follow_the_reader_s_light_or_dark_scheme(page)
    page.check_quiet()


def _every_design_is_drawn(page: Page, run_path: Path) -> None:
    objectives = ("energy_pj", "cycles", "area_um2")
    on_front = len(front_table(RunFolder(run_path), objectives))
    judged = sum(row["status"] == "complete" for row in RunFolder(run_path).read_rows("designs"))
    assert 2 < on_front < judged < 36
    for x, y in combinations(objectives, 2):
        chart = f"#front-{x}-{y}"
        counts = page.run(
            f"Object.fromEntries([...document.querySelectorAll('{chart} .scatterlayer .trace')]"
            ".map((trace, i) => ["
            f"document.querySelector('{chart}')._fullData[i].name, trace.querySelectorAll('.point').length]))"
        )
        # the staircase and the intervals are lines without markers
        assert counts.pop("front of these two") == counts.pop(INTERVALS) == 0
        assert counts.pop("dominated") == judged - on_front
        assert set(counts) == {"front", "front, certain"}
        assert sum(counts.values()) == on_front
        colors = page.run(
            f"Object.fromEntries(document.querySelector('{chart}')._fullData"
            ".map(trace => [trace.name, trace.marker?.color]))"
        )
        assert colors["front"] == colors["front, certain"] != colors["dominated"]
    page.until("document.querySelectorAll('#front-space canvas').length > 0")
    assert "WebGL is not" not in page.run("document.getElementById('front').textContent")
    cards = page.run("[...document.querySelectorAll('.cards dd:not(.remark)')].map(e => e.textContent)")
    solves = len(RunFolder(run_path).read("layers"))
    assert cards[:5] == ["36", str(on_front), str(solves), "48", "2"]
    assert page.run("document.querySelectorAll('#designs tbody tr').length") == on_front


def _hovering_shows_axes_and_metrics(page: Page) -> None:
    lines = " ".join(page.hover("#front-energy_pj-cycles .scatterlayer .trace:last-child .point"))
    for words in ("Design #", "SRAM.fanout: ", "RegFile.size: ", "SRAM.size: ", "Energy: ", " mJ", "mm²"):
        assert words in lines
    bar = " ".join(page.hover("#levels .barlayer .trace .point path"))
    assert "RegFile: " in bar
    assert "Of all solves" not in page.run("document.querySelector('.modebar').innerHTML")


def _choosing_a_design_redraws_its_layers(page: Page) -> None:
    energies = "JSON.stringify(document.getElementById('layers').data.map(t => t.x))"
    before = page.run(energies)
    assert page.run("document.getElementById('layers').layout.yaxis.ticktext.length") == 12
    choose = "const s = document.getElementById('chosen-design'); s.value = s.value === '0' ? '1' : '0';"
    page.run(f"(() => {{ {choose} s.dispatchEvent(new Event('change')); }})()")
    assert page.run(energies) != before
    order = "[...document.querySelectorAll('#designs tbody tr')].map(r => Number(r.cells[5].dataset.sort))"
    page.run("document.querySelectorAll('#designs th button')[5].click()")
    ascending = page.run(order)
    assert ascending == sorted(ascending)
    page.run("document.querySelectorAll('#designs th button')[5].click()")
    assert page.run(order) == ascending[::-1]


def test_a_click_picks_a_design_and_compares_it_with_the_baseline(
    open_page: Callable[[Path], Page], make_search: Callable[..., Path], run_path: Path
) -> None:
    page = open_page(write_report(make_search(run_path)))
    ratios = "[...document.querySelectorAll('#chosen-metrics tr')].map(row => row.cells[3].textContent)"
    chosen = "document.getElementById('chosen-design').selectedOptions[0].dataset.tag"
    assert page.run(chosen) == "#3"
    before = page.run(ratios)
    assert before[0].endswith("less)")

    def click(tag: str) -> None:
        event = f"{{points: [{{customdata: {json.dumps(tag)}}}]}}"
        page.run(f"document.getElementById('front-energy_pj-cycles').emit('plotly_click', {event})")

    click("#1")
    assert page.run(chosen) == "#1"
    assert page.run(ratios) != before
    assert page.run("document.querySelectorAll('#chosen-certificates tr').length") == 12
    assert page.run("document.querySelectorAll('#chosen-hardware b').length") > 0
    click("baseline")
    assert set(page.run(ratios)) == {f"{TIMES}1.000 (equal)"}
    assert page.run("document.getElementById('ratios').offsetParent") is None
    click("")
    assert page.run(chosen) == "baseline"
    page.check_quiet()


def test_progress_importance_and_parallel_coordinates_are_drawn(
    open_page: Callable[[Path], Page], make_search: Callable[..., Path], run_path: Path
) -> None:
    page = open_page(write_report(make_search(run_path)))
    heights = page.run("document.getElementById('progress-designs').data[0].y")
    assert heights == sorted(heights)
    assert page.run("document.getElementById('progress-seconds').data[0].x")[-1] > 0
    assert page.run("document.querySelectorAll('#importance-fractions .barlayer .point').length") == 3 * 4
    page.until("document.querySelectorAll('#parallel-lines .axis-title').length === 6")
    judged = sum(row["status"] == "complete" for row in RunFolder(run_path).read_rows("designs"))
    assert page.run("document.getElementById('parallel-lines').data[0].line.color.length") == judged
    label = "document.querySelector('#parallel-lines .axis-title').style.fill"
    light = page.run(label)
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.browser.call("Emulation.setEmulatedMedia", page.session, features=scheme)
    page.until(f"{label} !== {json.dumps(light)}")
    page.check_quiet()


def test_the_memory_map_shows_each_block_of_the_chosen_plan(
    open_page: Callable[[Path], Page], make_scratchpad: Callable[..., Row], run_path: Path
) -> None:
    plan = {"order": ["a"], "tensors": {"only": {**ONLY, "spilled_at": None, "retrieved_at": []}}}
    with RunWriter(run_path) as run:
        run.append("scratchpads", make_scratchpad(0))
        run.append("scratchpads", make_scratchpad(1, plan=plan, block_bytes={"only": 100}))
    page = open_page(write_report(run_path))
    blocks = "document.querySelectorAll('#memory-map .barlayer .point').length"
    assert page.run(blocks) == 6
    names = page.run("document.getElementById('memory-map').data.map(trace => trace.name)")
    assert names[1:] == ["spill", "retrieval"]
    lines = " ".join(page.hover("#memory-map .barlayer .point path"))
    for words in ("x", "1,024 bytes at 0", "from step 0 (a)", "until step 2 (c)"):
        assert words in lines
    page.run(
        "(() => { const s = document.getElementById('memory-plan'); s.value = '1';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert page.run(blocks) == 1
    page.check_quiet()


def _charts_follow_the_reader_s_light_or_dark_scheme(page: Page) -> None:
    color = "document.getElementById('levels').layout.font.color"
    light = page.run(color)
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.browser.call("Emulation.setEmulatedMedia", page.session, features=scheme)
    page.until(f"{color} !== {json.dumps(light)}")
    page.browser.call("Emulation.setEmulatedMedia", page.session, media="print", features=scheme)
    page.until(f"{color} === {json.dumps(light)}")


UNITS = {"pJ": 1.0, "nJ": 1e3, "µJ": 1e6, "mJ": 1e9, "J": 1e12, "cycles": 1.0, "kcycles": 1e3, "Mcycles": 1e6}


def _weighted_run(
    path: Path, seed: int, make_layer: Callable[..., Row], make_design: Callable[..., Row]
) -> Row:
    """Writes a run of one design: random layers of two networks, of which decode has a weight; the design."""
    random, numbers, networks = Random(seed), count(), {}
    levels = {"SRAM": 0.0, "MAC": 0.0}
    with RunWriter(path) as run:
        run.write_lock_file({"study": {"name": "weights", "objectives": ["energy_pj", "cycles"]}})
        for name, weight in (("prefill", 1), ("decode", random.choice((0.5, 50, 1000)))):
            layers = []
            for number in islice(numbers, random.randint(1, 4)):
                parts = {level: random.uniform(1e5, 1e6) for level in levels}
                cost = {"energy_pj": sum(parts.values()), "cycles": random.randint(1000, 9000)}
                row = make_layer(number, energy_by_level_pj=parts, **cost)
                run.append("layers", row)
                layer = {"name": f"l{number}", "task_id": row["task_id"], "count": random.randint(1, 30)}
                layers.append(layer | cost)
                levels = {key: pj + weight * layer["count"] * parts[key] for key, pj in levels.items()}
            one_run = {
                column: sum(x["count"] * x[column] for x in layers) for column in ("energy_pj", "cycles")
            }
            networks[name] = {"weight": weight, "layers": layers} | one_run
        energy, cycles = (sum(n["weight"] * n[c] for n in networks.values()) for c in ("energy_pj", "cycles"))
        total = {"energy_pj": energy, "cycles": round(cycles), "energy_by_level_pj": levels}
        design = make_design(0, networks=networks, **total)
        run.append("designs", design)
    return design


@pytest.mark.parametrize("seed", [0, *also(1, 2)])
def test_what_is_drawn_of_networks_with_weights_adds_up_to_the_design(
    open_page: Callable[[Path], Page],
    make_layer: Callable[..., Row],
    make_design: Callable[..., Row],
    run_path: Path,
    seed: int,
) -> None:
    design = _weighted_run(run_path, seed, make_layer, make_design)
    page = open_page(write_report(run_path))

    def axis(name: str) -> float:
        """The size of the unit in an axis' title, ``Energy (mJ)``."""
        title = page.run(f"document.getElementById('layers').layout.{name}.title.text")
        return UNITS[title.partition("(")[2].removesuffix(")")]

    sums = dict(
        page.run(
            "document.getElementById('layers').data"
            ".map(t => [t.name, t.x.reduce((sum, x) => sum + (x || 0), 0)])"
        )
    )
    assert sums.pop("latency") * axis("xaxis2") == pytest.approx(design["cycles"], rel=1e-4)
    assert sum(sums.values()) * axis("xaxis") == pytest.approx(design["energy_pj"], rel=1e-4)
    metrics = dict(
        page.run(
            "[...document.querySelectorAll('#chosen-metrics tr')]"
            ".map(r => [r.cells[0].textContent, r.cells[1].textContent])"
        )
    )
    label = f"decode {TIMES}{design['networks']['decode']['weight']:,g}"
    shown = [metrics[name].split() for name in ("Energy", "prefill: energy", f"{label}: energy")]
    total, *parts = (float(number.replace(",", "")) * UNITS[unit] for number, unit in shown)
    assert sum(parts) == pytest.approx(total, rel=1e-3) == pytest.approx(design["energy_pj"], rel=1e-3)
    ticks = page.run("document.getElementById('layers').layout.yaxis.ticktext")
    assert any(tick.startswith(f"{label}/") for tick in ticks)
    page.check_quiet()


def _hostile_run(
    path: Path,
    make_layer: Callable[..., Row],
    make_design: Callable[..., Row],
    make_scratchpad: Callable[..., Row],
) -> Path:
    with RunWriter(path) as run:
        text = " ".join(HOSTILE)
        run.write_lock_file({"study": {"name": text, "description": text, text: [text]}, text: {text: text}})
        for number in range(6):
            bad = HOSTILE[number % len(HOSTILE)]
            row = make_layer(number, layer_name=bad, solver=bad, error=bad, note=bad, worker=bad)
            row["energy_by_level_pj"] = {bad: 1e6, "MAC": 5e5}
            row |= {"solved_by": bad, "space": {"name": bad}, "objective_name": bad}
            run.append("layers", row | ({"status": "failed"} if number == 5 else {}))
            design = make_design(number, axes={bad: bad, "list": [bad]}, architecture_name=bad, error=bad)
            (network,) = design["networks"].values()
            network["layers"][0]["name"] = bad
            design["networks"] = {bad: network, f"{bad} 2": network}
            design["energy_by_level_pj"] = {bad: 1e6, "MAC": 5e5}
            design["architecture"] = {"levels": [{"name": bad, "size_words": 9}]}
            design |= {"baseline": number == 0, "note": bad}
            design |= {"status": "dominated"} if number == 4 else {}
            run.append("designs", design | ({"status": "failed", "feasible": False} if number == 5 else {}))
        tensor = {**ONLY, "spilled_at": 1, "retrieved_at": [0]}
        plan = {"order": [bad], "tensors": {bad: tensor}, "parameters": {bad: 2048}}
        named = {"graph": bad, "setting": {bad: bad}, "solver": bad, "plan": plan}
        sizes = {"block_bytes": {bad: 2000}, "parameter_bytes": {bad: 2000}}
        run.append("scratchpads", make_scratchpad(**named, **sizes))
    return path


def test_names_from_files_stay_text(
    open_page: Callable[[Path], Page],
    make_layer: Callable[..., Row],
    make_design: Callable[..., Row],
    make_scratchpad: Callable[..., Row],
    run_path: Path,
) -> None:
    page = open_page(write_report(_hostile_run(run_path, make_layer, make_design, make_scratchpad)))
    assert page.run("document.title").startswith(HOSTILE[0])
    assert page.run("document.querySelectorAll('main script:not([type=\"application/json\"])').length") == 0
    assert page.run("document.querySelectorAll('main img, main b:not(td b), svg b').length") == 0
    for selector in (
        "#front-energy_pj-cycles .scatterlayer .trace:last-child .point",
        "#levels .barlayer .trace .point path",
        "#layers .barlayer .trace:last-child .point path",
        "#memory-map .barlayer .point path",
    ):
        shown = " ".join(page.hover(selector))
        assert any(word in shown for word in ("<script>", "<img", "<b>bold</b> %{x} $")), (selector, shown)
    select = "const s = document.getElementById('chosen-design')"
    page.run(f"(() => {{ {select}; s.value = '1'; s.dispatchEvent(new Event('change')); }})()")
    page.check_quiet()


@pytest.mark.parametrize("case", ["nothing judged", "all failed", "one design", *also("no lock file")])
def test_a_run_with_little_in_it_still_makes_a_page(
    open_page: Callable[[Path], Page],
    make_layer: Callable[..., Row],
    make_design: Callable[..., Row],
    run_path: Path,
    case: str,
) -> None:
    bad = {"status": "failed", "feasible": False, "energy_pj": None, "networks": None, "error": "no memory"}
    with RunWriter(run_path) as run:
        if case != "no lock file":
            run.write_lock_file({"study": {"name": case}})
        if case == "all failed":
            run.append(
                "layers", make_layer(0, status="failed", gap=None, cpu_seconds=None, error="no memory")
            )
            run.append("designs", make_design(0, **bad))
        if case in ("one design", "no lock file"):
            run.append("layers", make_layer(0))
            run.append("designs", make_design(0))
    page = open_page(write_report(run_path))
    judged = case in ("one design", "no lock file")
    assert page.run("document.querySelectorAll('#designs tbody tr').length") == judged
    assert page.run("document.querySelectorAll('#front .js-plotly-plot').length") == (4 if judged else 0)
    assert ("no memory" in page.run("document.getElementById('failures').textContent")) == (
        case == "all failed"
    )
    page.check_quiet()


def test_a_chosen_design_shows_its_schedule_and_its_seeds(
    open_page: Callable[[Path], Page],
    make_schedule: Callable[..., Row],
    make_chip_design: Callable[..., Row],
    run_path: Path,
) -> None:
    bad = HOSTILE[3]
    leaf = {"layer": bad, "samples": 4, "tiles": [0, 2], "cycles": 10, "starts": [0]}
    better = {"cycles": 900, "network": bad, "tree": bad, "spatial_temporal": [leaf]}
    slow = tuple(make_schedule(seed) for seed in range(3))
    fast = (make_schedule(3, energy_pj=9e6, **better), make_schedule(4, **better))
    with RunWriter(run_path) as run:
        run.write_lock_file({"study": {"name": "chips", "objectives": ["energy_pj", "cycles"]}})
        for row in (*slow, *fast):
            run.append("schedules", row)
        run.append("designs", make_chip_design(0, slow))
        run.append("designs", make_chip_design(1, fast))
    page = open_page(write_report(run_path))
    rectangles = "document.querySelectorAll('#schedule-chart .barlayer .point').length"
    tree = "document.getElementById('schedule-tree').textContent"
    rows = "[...document.querySelectorAll('#schedule-seeds tr')].map(row => row.cells[2].textContent)"
    shown = {}
    for value in ("0", "1"):
        select = f"const s = document.getElementById('chosen-design'); s.value = '{value}'"
        page.run(f"(() => {{ {select}; s.dispatchEvent(new Event('change')); }})()")
        shown[page.run(rectangles)] = (page.run(tree), page.run(rows))
    assert shown[10] == (slow[0]["tree"], [f"{TIMES}{n}.000" for n in (1, 2, 3)])
    assert shown[1][0] == bad
    assert len(page.run("document.getElementById('schedule-trajectories').data")) == 2
    assert page.run("document.querySelectorAll('#schedule-operators tr').length") == 2
    assert page.run("document.getElementById('schedule-chart').layout.yaxis.range") == [0, 2]
    lines = " ".join(page.hover("#schedule-chart .barlayer .point path"))
    for words in ("<b>bold</b> %{x} $", "samples 0 to 3", "tiles 0 to 1", "from 0 to 10"):
        assert words in lines
    page.check_quiet()
