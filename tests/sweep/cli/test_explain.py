"""``archsweep explain``: what it says against the cost model's own evaluation of the stored mappings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import mapping_from_json
from costmodel.formats.networks import load_network
from costmodel.mapping.binding import MAC_UNITS
from costmodel.mapping.evaluate import evaluate
from results.explain.design import (
    MOVING,
    NOT_STORED,
    ON_TILES,
    explained,
    layer_changes,
    nest_lines,
)
from results.explain.neighbour import DOMINATES, better_designs
from results.front.pareto import design_frame
from results.report.data import RunData
from results.store.folder import RunFolder
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.results.report.browser import Page, browser, open_page  # noqa: F401 - fixtures
from tests.sweep.ended import Command

HERE = RuntimeChoice(in_process=True)
STUDY = """
name: explained
networks: [cosa_alexnet]
architecture: eyeriss
axes:
  SRAM.size: {choices: [8 KiB, 64 KiB]}
  SRAM.fanout: {choices: [[4, 4], [14, 12]]}
  DRAM.read_bandwidth: {choices: [1 words/cycle, 16 words/cycle]}
baseline: {SRAM.size: 8 KiB, SRAM.fanout: [4, 4], DRAM.read_bandwidth: 1 words/cycle}
objectives: [energy_pj, cycles, area_um2]
search: {method: grid}
mapping: {solver: random_search, objective: edp, iterations: 300, wall_seconds: 60}
"""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    (folder / "study.yaml").write_text(STUDY)
    return run_study(load_study(str(folder / "study.yaml")), folder / "runs" / "explained", HERE).path


@pytest.fixture(scope="module")
def run(run_folder: Path) -> RunData:
    return RunData.read(run_folder)


@pytest.mark.slow
def test_a_design_s_parts_add_up_to_it(run: RunData) -> None:
    for design in run.judged:
        found = explained(run, design)
        assert found.lacking == 0
        assert sum(found.bound_by.values()) == pytest.approx(run.value(design, "cycles"))
        energy = sum(layer.runs * layer.energy_pj for layer in found.layers)
        assert energy == pytest.approx(run.value(design, "energy_pj"))
        assert sum(found.energy_by_level_pj.values()) == pytest.approx(energy)


@pytest.mark.slow
def test_layers_are_what_the_cost_model_says_of_their_mappings(run: RunData) -> None:
    """Cycles, accesses, and that what binds is what is changed by taking it away, each counted anew."""
    layers = {layer.name: layer for layer in load_network("cosa_alexnet").layers}
    binders, frame = set(), design_frame(RunFolder(run.path))
    for design in run.judged:
        architecture = load_architecture("eyeriss", frame["axes"].iloc[design])
        for layer in explained(run, design).layers:
            mapping = mapping_from_json(architecture, layers[layer.name], layer.mapping)
            evaluation = evaluate(architecture, layers[layer.name], mapping)
            assert layer.levels is not None
            binders.add(layer.bound_by)
            assert layer.cycles == evaluation.cycles
            for stored, level in zip(layer.levels, evaluation.levels, strict=True):
                assert stored["cycles"] == level.cycles
                for name, traffic in level.tensors.items():
                    words = stored["tensors"][name]
                    assert (words["reads"], words["fills"], words["updates"]) == (
                        traffic.reads,
                        traffic.fills,
                        traffic.updates,
                    )
            # an architecture without any bandwidth limit takes the MAC units' cycles
            assert (layer.bound_by == MAC_UNITS) == (layer.cycles == evaluation.compute_cycles)
            assert all(left <= layer.cycles for left in layer.cycles_without.values())
            if layer.bound_by != MAC_UNITS:
                name, _, _ = layer.bound_by.partition(" ")
                assert {x.name: x.cycles for x in evaluation.levels}[name] == layer.cycles
    assert MAC_UNITS in binders
    assert any(binder.startswith("DRAM ") for binder in binders)


def test_the_loop_nest_has_every_loop_of_the_mapping(run: RunData) -> None:
    layers = {layer.name: layer for layer in load_network("cosa_alexnet").layers}
    for layer in explained(run, run.judged[0]).layers:
        bounds: dict[str, int] = dict.fromkeys(layers[layer.name].sizes, 1)
        depth = -1
        for line in layer.nest:
            indent = (len(line) - len(line.lstrip())) // 2
            assert indent >= depth - 1 or depth < 0
            depth = indent
            words = line.split()
            if words[0] in ("for", "parallel"):
                bounds[words[1]] *= int(words[-1])
        assert bounds == layers[layer.name].sizes
        assert depth == sum(line.split()[0] in ("for", "parallel") for line in layer.nest)


def test_nest_lines_say_where_loops_run() -> None:
    mapping = {
        "levels": [
            {"target": "DRAM", "type": "temporal", "factors": {"M": 2, "N": 3}, "permutation": ["M", "N"]},
            {"target": "Buffer", "type": "temporal", "factors": {"M": 1, "N": 1}, "permutation": ["M", "N"]},
            {
                "target": "Buffer",
                "type": "spatial",
                "factors": {"M": 4, "N": 5},
                "permutation": ["N", "M"],
                "split": 1,
            },
        ],
        "bypass": [
            {"target": "DRAM", "keep": ["A", "B"], "bypass": []},
            {"target": "Buffer", "keep": [], "bypass": ["A", "B"]},
        ],
    }
    assert nest_lines(mapping) == (
        "DRAM: A, B",
        "for N in 3",
        "  for M in 2",
        "    Buffer: keeps nothing",
        "    parallel M on y in 4",
        "      parallel N on x in 5",
        "        multiply and accumulate",
    )


def test_the_better_design_is_the_nearest(run: RunData) -> None:
    """By enumeration over all designs: none that is better differs in fewer axes."""
    for design in run.judged:
        here = run.points[design]
        found = better_designs(run, design)
        dominating = [i for i in run.judged if (run.points[i] <= here).all() and (run.points[i] < here).any()]
        assert (design in run.on_front) == (not dominating)
        if dominating:
            assert [one.better_in for one in found] == [DOMINATES]
            candidates = {DOMINATES: dominating}
        else:
            columns = dict(enumerate(run.objectives))
            candidates = {
                name: [i for i in run.judged if run.points[i, column] < here[column]]
                for column, name in columns.items()
            }
            assert [one.better_in for one in found] == [name for name in columns.values() if candidates[name]]
        for one in found:
            assert one.design in candidates[one.better_in]
            changed = candidates[one.better_in]
            fewest = min(
                sum(a != b for a, b in zip(axes(run, i), axes(run, design), strict=True)) for i in changed
            )
            assert len(one.axes) == fewest
            ratios = np.array([one.ratios[name] for name in run.objectives], dtype=float)
            assert np.allclose(ratios, run.points[one.design] / here)


def axes(run: RunData, design: int) -> list[str]:
    return [run.axis_text(design, axis) for axis in run.axes]


def test_changes_are_the_largest_first_and_complete(run: RunData) -> None:
    first, second = (explained(run, design).layers for design in run.judged[:2])
    changes = layer_changes(first, second)
    differ = {
        a.name
        for a, b in zip(first, second, strict=True)
        if (a.energy_pj, a.cycles) != (b.energy_pj, b.cycles)
    }
    assert {change.name for change in changes} == differ
    assert layer_changes(first, second, 1) == changes[:1]
    assert layer_changes(first, first) == ()


@pytest.fixture
def older(run_folder: Path, tmp_path: Path) -> Path:
    """The run as it would be stored by a version whose rows have no levels."""
    folder = tmp_path / "older"
    shutil.copytree(run_folder, folder)
    for part in (folder / "layers").glob("*.parquet"):
        table = pyarrow.parquet.read_table(part).drop_columns(
            ["levels", "compute_cycles", "bound_by", "cycles_without"]
        )
        version = pyarrow.array([1] * len(table), pyarrow.int64())
        place = table.schema.get_field_index("schema_version")
        pyarrow.parquet.write_table(table.set_column(place, "schema_version", version), part)
    return folder


def test_rows_of_older_runs_say_what_they_lack(older: Path, command_line: Command) -> None:
    run = RunData.read(older)
    found = explained(run, run.judged[0])
    assert found.lacking == len(found.layers) > 0
    assert {layer.bound_by for layer in found.layers} == {NOT_STORED}
    ended = command_line("explain", str(older), "#1")
    assert ended.status == 0
    assert "solved before rows held accesses and cycles by level" in ended.err
    assert "for K in" in ended.out


@pytest.mark.slow
def test_the_command_prints_tables_json_and_a_page(
    run_folder: Path, command_line: Command, tmp_path: Path
) -> None:
    text = command_line("explain", str(run_folder), "#1")
    assert text.status == 0, text.err
    for words in ("bound by", "where energy goes", "multiply and accumulate", "nearest better in"):
        assert words in text.out
    uri = f"file://{run_folder}"
    page = tmp_path / "page.html"
    both = command_line("explain", uri, "baseline", "knee", "--json", "--page", str(page))
    assert both.status == 0, both.err
    content: dict[str, Any] = json.loads(both.out)
    assert len(content["designs"]) == 2
    assert content["changes"][0]["energy_ratio"] > 0
    assert content["designs"][0]["axes"]["SRAM.size"] == "8 KiB"
    level = content["designs"][0]["layers"][0]["levels"][0]
    assert set(level["tensors"]) <= {"Weights", "Inputs", "Outputs"}
    assert page.stat().st_size > 100_000


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["#99"], 2, "a design's id or its beginning"),
        (["zzz"], 2, "found zzz"),
        (["#1", "#2", "#3"], 2, "one design, or two"),
        ([""], 2, "expected a text"),
        ([], 2, "DESIGN"),
    ],
)
def test_wrong_input(
    words: list[str], status: int, said: str, run_folder: Path, command_line: Command
) -> None:
    ended = command_line("explain", str(run_folder), *words)
    assert ended.status == status
    assert said in ended.err
    assert ended.out == ""


def test_no_run_and_a_design_without_answers(tmp_path: Path, command_line: Command) -> None:
    assert command_line("explain", "nowhere", "#1").status == 2
    infeasible = STUDY.replace("name: explained", "name: infeasible").replace("8 KiB, 64 KiB", "2 B")
    infeasible = infeasible.replace("objective: edp,", "objective: edp, keep: all,")
    path = tmp_path / "infeasible.yaml"
    path.write_text("\n".join(line for line in infeasible.splitlines() if not line.startswith("baseline")))
    folder = run_study(load_study(str(path)), tmp_path / "runs" / "infeasible", HERE).path
    design = RunData.read(folder).design_id(0)
    ended = command_line("explain", str(folder), design)
    assert ended.status == 1, ended
    assert "nothing to explain" in ended.err


CHIPS = """
name: chips
networks: [alexnet]
chip: set-edge
axes:
  mesh: {choices: [2x2]}
mapping: {solver: nvdla}
schedule: {solver: layer_sequential, seeds: 1, iterations: 50, objective: edp}
"""


@pytest.mark.slow
def test_a_design_of_chips(tmp_path: Path, command_line: Command) -> None:
    """Its schedule: leaves whose cycles are their slowest tile's, or those of data; energies by part."""
    path = tmp_path / "chips.yaml"
    path.write_text(CHIPS)
    folder = run_study(load_study(str(path)), tmp_path / "runs" / "chips", HERE).path
    run = RunData.read(folder)
    found = explained(run, run.judged[0])
    assert found.layers == ()
    (schedule,) = found.schedules
    assert sum(schedule.energy_by_part_pj.values()) == pytest.approx(run.value(run.judged[0], "energy_pj"))
    assert set(found.bound_by) <= {ON_TILES, MOVING}
    for leaf in schedule.leaves:
        assert leaf["tile_cycles"] <= leaf["cycles"]
    page = tmp_path / "chips.html"
    ended = command_line("explain", str(folder), "#1", "--page", str(page))
    assert ended.status == 0, ended.err
    assert "schedule of alexnet, by layer_sequential" in ended.out
    assert page.is_file()


@pytest.mark.slow
def test_the_page_in_a_browser(
    run_folder: Path,
    tmp_path: Path,
    command_line: Command,
    open_page: Callable[[Path], Page],  # noqa: F811 - the fixture that is imported above
) -> None:
    path = tmp_path / "page.html"
    assert command_line("explain", str(run_folder), "#1", "#2", "--page", str(path)).status == 0
    page = open_page(path)
    assert page.run("document.querySelectorAll('.figure').length") > 4
    blocks = page.run("document.querySelectorAll('#design0-nest0 .bars .point').length")
    run = RunData.read(run_folder)
    nests = [layer.nest for layer in explained(run, run.front[0]).layers]
    assert blocks in {sum(line.split()[0] in ("for", "parallel") for line in nest) for nest in nests}
    assert page.run("document.querySelectorAll('#between tbody tr').length") > 0
    page.check_quiet()
