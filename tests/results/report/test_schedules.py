"""The S-T chart and the comparison of seeds against the rows that they draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.report import schedule_chart
from results.report.data import RunData
from results.report.page import build_page
from results.report.schedule_chart import acceptance, chart_content, rectangles, trajectory_content
from results.report.schedule_text import text_chart
from results.report.sections.what_next.failures import failures_section
from results.report.sections.what_next.run import headline
from results.report.sections.why_this_one.schedules import schedules_section
from results.store.folder import RunWriter
from results.store.schema.rows import ChartLeaf
from results.units import TIMES

Row = dict[str, Any]
Make = Callable[..., Row]
END: ChartLeaf = {"layer": "end", "samples": 4, "tiles": [0, 1], "cycles": 50, "starts": [1750]}
"""The first tile's last columns, up to cycle 1,800."""


def write(path: Path, designs: list[Row], schedules: list[Row]) -> RunData:
    with RunWriter(path) as run:
        run.write_lock_file({"study": {"name": "s", "objectives": ["energy_pj", "cycles", "dram_bytes"]}})
        for row in schedules:
            run.append("schedules", row)
        for row in designs:
            run.append("designs", row)
    return RunData.read(path)


def test_rectangles_compute_every_sample_of_every_layer_once(make_schedule: Make) -> None:
    found = list(rectangles(make_schedule()["spatial_temporal"]))
    for layer in ("a", "b", "<c>"):
        samples = [s for r in found if r.layer == layer for s in range(*r.samples)]
        assert samples == [0, 1, 2, 3]
    assert max(r.cycles[1] for r in found) == 1750
    # no tile computes two things at once
    busy = [(tile, r.cycles) for r in found for tile in range(*r.tiles)]
    for tile, (start, end) in busy:
        overlaps = [c for other, c in busy if other == tile and c[0] < end and start < c[1]]
        assert len(overlaps) == 1


def test_layers_that_had_the_chip_to_themselves_are_told_apart() -> None:
    leaf: ChartLeaf = {"layer": "fc", "samples": 4, "tiles": [0, 4], "cycles": 50, "starts": [0]}
    assert [r.layer for r in rectangles([leaf, leaf | {"whole_chip": True}])] == [
        "fc",
        "fc (whole chip, from DRAM)",
    ]


def test_the_chart_has_the_rectangles_in_columns(make_schedule: Make) -> None:
    content = chart_content(make_schedule()["spatial_temporal"])
    assert (content["tiles"], content["hidden"], len(content["layer_of"])) == (4, 0, 10)
    assert content["layers"] == ["a", "b", "&lt;c&gt;"]
    assert content["until"] == 1.75
    ends = [round(s + w, 6) for s, w in zip(content["start"], content["long"], strict=True)]
    assert max(ends) == 1.75
    assert chart_content(None)["layer_of"] == []


def test_of_too_many_rectangles_the_longest_are_drawn(
    make_schedule: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_chart, "MOST_RECTANGLES", 2)
    content = chart_content(make_schedule()["spatial_temporal"])
    assert (content["layer_of"], content["hidden"]) == ([0, 0], 8)
    assert content["until"] == 1.75


def test_trajectories_follow_one_another_and_keep_their_ends(make_schedule: Make) -> None:
    search = make_schedule()["search"]
    content = trajectory_content(search, 1.8e9)
    assert content["rounds"] == [0, 25, 50, 50, 75, 100]
    assert content["ratios"][0] == 2.0
    assert content["ratios"][-1] == 1.0
    long = [search[0] | {"rounds": 5000, "trajectory": [[at, 5e9 - at] for at in range(5000)]}]
    thinned = trajectory_content(long, 1.0)
    assert len(thinned["rounds"]) <= schedule_chart.MOST_POINTS + 1
    assert (thinned["rounds"][0], thinned["rounds"][-1]) == (0, 4999)


def test_acceptance_is_summed_over_seeds_by_phase(make_schedule: Make) -> None:
    searches = [make_schedule(seed)["search"] for seed in range(3)] + [None]
    assert acceptance(searches) == [
        ("layer_sequential", "swap", 90, 6, 30, 12),
        ("paper", "swap", 90, 6, 30, 12),
    ]


def test_the_section_compares_the_seeds_of_each_design(
    run_path: Path, make_schedule: Make, make_chip_design: Make
) -> None:
    mine = tuple(make_schedule(seed) for seed in range(3))
    failed = make_schedule(3, status="failed", objective=None, energy_pj=None, search=None, error="no time")
    left_over = make_schedule(9, network="left over")
    design = make_chip_design(0, (*mine, failed))
    run = write(run_path, [design], [*mine, failed, left_over])
    assert len(run.schedules) == 4
    section = schedules_section(run)
    assert section is not None
    page = build_page(run)
    # objectives 1, 2, 3 times the best: the median is twice, the worst three times it
    for text in ("net x4", f"{TIMES}2.000", f"{TIMES}3.000", "85.0 %", "40.0 %", "4.000 KiB"):
        assert text in str(section.content)
    assert "left over" not in page
    assert "no time" in page
    assert "noc: hop pj per byte" in page
    assert "do not itemise" not in page
    assert "No solve has finished" not in page
    assert "part of the chip" in page


@pytest.fixture
def exchanged(run_path: Path, make_schedule: Make, make_chip_design: Make) -> RunData:
    """Two designs: the first, of seeds 0 and 1, found the tree of the second, whose seeds are 2 and 3.

    On the second chip the tree takes 0.5 uJ and 700 cycles, less than either of its own seeds.
    """
    mine, theirs = [make_schedule(0), make_schedule(1)], [make_schedule(2), make_schedule(3, cycles=2000)]
    found = {"solver": "known_trees", "seed": None, "search": [], "tree_from": mine[0]["task_id"]}
    costs = {"energy_pj": 0.5e6, "cycles": 700, "objective": 0.35e9, "edp_pj_cycles": 0.35e9}
    costing = make_schedule(9, **found, **costs, tree=mine[0]["tree"])
    first, second = make_chip_design(0, tuple(mine)), make_chip_design(1, (costing,))
    first |= {"cycles": 1800}
    second["networks"]["net x4"] |= {
        "weight": 2.0,
        "seeds": [row["task_id"] for row in theirs],
        "costings": [costing["task_id"]],
        "tree_from": mine[0]["task_id"],
    }
    second |= {"energy_pj": 1e6, "cycles": 1400, "dram_bytes": 1 << 20}
    return write(run_path, [first, second], [*mine, *theirs, costing])


def designs_by_columns(run: RunData) -> dict[str, int]:
    """The designs' positions by the value of their axis."""
    return {run.axis_text(design, "columns"): design for design in run.judged}


def test_the_spread_over_seeds_is_that_of_a_designs_own_searches(exchanged: RunData) -> None:
    at = designs_by_columns(exchanged)
    assert exchanged.over_seeds(at["2"], "energy_pj") == (1e6, 2e6)
    # both runs of the network that its weight asks for
    assert exchanged.over_seeds(at["3"], "energy_pj") == (6e6, 8e6)
    assert exchanged.over_seeds(at["3"], "cycles") == (3600, 4000)
    latency = exchanged.value(at["3"], "latency_seconds")
    assert latency is not None
    assert exchanged.over_seeds(at["3"], "latency_seconds") == pytest.approx(
        (latency * 3600 / 1400, latency * 4000 / 1400)
    )
    assert exchanged.over_seeds(at["3"], "dram_bytes") is None
    lines = exchanged.hover(at["3"]).split("<br>")
    assert "Energy over its seeds: 6.000 µJ to 8.000 µJ" in lines
    assert f"Tree of net x4 found on: {exchanged.tag(at['2'])}" in lines
    assert "found on" not in exchanged.hover(at["2"])


def test_the_report_says_which_trees_came_from_another_design(exchanged: RunData) -> None:
    at = designs_by_columns(exchanged)
    section = schedules_section(exchanged)
    assert section is not None
    content = str(section.content)
    rows = [row for row in content.split("<tr>") if "net x4" in row and "</td>" in row]
    (own,) = [row for row in rows if "its own search" in row]
    (moved,) = [row for row in rows if row is not own]
    # the solver is the one that searched
    assert f"<td>{exchanged.tag(at['2'])}</td>" in moved
    assert "<td>set</td>" in moved
    assert "known_trees" not in moved
    assert "trees of other designs" in content
    page = build_page(exchanged)
    assert "tree was found on another design: 1 (on" in page
    assert "least to most of the seeds" in page


def test_searches_that_went_on_from_another_designs_tree_are_told_apart(
    run_path: Path, make_schedule: Make, make_chip_design: Make
) -> None:
    mine, theirs = [make_schedule(0), make_schedule(1)], [make_schedule(2), make_schedule(3)]
    costs = {"energy_pj": 0.4e6, "cycles": 600, "objective": 0.24e9, "edp_pj_cycles": 0.24e9}
    refined = make_schedule(9, **costs, refined_from=mine[0]["task_id"])
    first, second = make_chip_design(0, tuple(mine)), make_chip_design(1, (refined,))
    first |= {"cycles": 1800}
    second["networks"]["net x4"] |= {
        "seeds": [row["task_id"] for row in theirs],
        "refinements": [refined["task_id"]],
    }
    run = write(run_path, [first, second], [*mine, *theirs, refined])
    assert refined["task_id"] in run.schedules
    at = designs_by_columns(run)
    # the spread is that of the seeds before they were shown the other design's tree
    assert run.over_seeds(at["3"], "energy_pj") == (3e6, 4e6)
    section = schedules_section(run)
    assert section is not None
    content = str(section.content)
    assert f"its own search, from the tree of {run.tag(at['2'])}" in content
    assert "seed 9, from a known tree" in content


def test_a_design_none_of_whose_seeds_found_a_schedule_has_no_spread(
    run_path: Path, make_schedule: Make, make_chip_design: Make
) -> None:
    nothing = {"objective": None, "energy_pj": None, "cycles": None, "search": None}
    failed = make_schedule(0, status="failed", error="no time", **nothing)
    costing = make_schedule(9, solver="known_trees", seed=None, search=[], tree_from="f" * 32)
    design = make_chip_design(0, (costing,))
    design["networks"]["net x4"] |= {"seeds": [failed["task_id"]], "costings": [costing["task_id"]]}
    run = write(run_path, [design], [failed, costing])
    assert run.over_seeds(0, "energy_pj") is None
    assert "trees of other designs" in build_page(run)


def test_schedules_and_tile_costs_are_among_the_solves(
    run_path: Path, make_schedule: Make, make_tile_lot: Make
) -> None:
    with RunWriter(run_path) as run:
        run.append("tile_costs", make_tile_lot(0))
        run.append("tile_costs", make_tile_lot(1, status="failed", error="no tiles today", costs=None))
    rows = [make_schedule(0), make_schedule(1, cached=True), make_schedule(2, status="failed")]
    data = write(run_path, [], rows)
    assert "no tiles today" in failures_section(data).content
    text = str(headline(data)).replace(' class="bad"', "")
    cards = {"Solves": "5", "From the store": "1", "Failed solves": "2", "CPU time": "3 s"}
    for name, value in cards.items():
        assert f"<dt>{name}</dt><dd>{value}" in text


def test_a_run_without_schedules_has_no_section(run_path: Path, make_design: Make) -> None:
    assert schedules_section(write(run_path, [make_design(0)], [])) is None


def test_schedules_without_a_complete_design_are_said_to_have_none(
    run_path: Path, make_schedule: Make
) -> None:
    section = schedules_section(write(run_path, [], [make_schedule(0)]))
    assert section is not None
    assert "No design is complete" in section.content


def test_the_text_chart_shows_who_computes_where_and_when(make_schedule: Make) -> None:
    # 1800 cycles in 36 columns of 50: `a` has all tiles for 6 of them, then b three tiles and c the fourth
    lines = text_chart([*make_schedule()["spatial_temporal"], END], columns=36).splitlines()
    half = "aaaaaa" + "bbbb" + "bbbb" + "...."
    assert lines[:3] == [f"{tile:>9} |{half}{half[:-1]}{'d' if tile == 0 else '.'}" for tile in range(3)]
    assert lines[3] == f"{3:>9} |" + ("aaaaaa....ccc.ccc.") * 2
    assert lines[4].endswith("0 to 1,800 cycles; . idle")
    assert lines[5] == "a a   b b   c <c>   d end"


def test_tiles_share_lines_where_there_are_many(make_schedule: Make) -> None:
    lines = text_chart([*make_schedule()["spatial_temporal"], END], columns=36, lines=2).splitlines()
    assert [line.split("|")[0].strip() for line in lines[:2]] == ["0-1", "2-3"]
    # of tiles 2 and 3, b and c have one each: the first wins, and c shows once b is done
    assert lines[1].split("|")[1] == "aaaaaabbbbbbbbccc." * 2
