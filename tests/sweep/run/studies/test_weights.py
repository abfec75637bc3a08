"""Weights of networks and repetitions of layers: what is shown of a design's parts adds up to the design.

Random studies of random chains of convolutions, solved, and their reports read back from the page: from the
data that its charts draw and from the text of its tables, whose numbers have four digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from io import StringIO
from itertools import pairwise
from math import fsum
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest
import yaml

from results.front.pareto import front_table
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder
from sweep.design.design_row import complete
from sweep.forecast.plan import plan
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import designs
from sweep.study.study import load_study
from sweep.tasks.energy_cycles import EnergyCycles

pytestmark = pytest.mark.slow

HERE = RuntimeChoice(in_process=True)
Row = dict[str, Any]
CHANNELS = (8, 16)
WEIGHTS = (0.25, 0.5, 1, 3, 50)
OBJECTIVES = ("energy_pj", "cycles", "area_um2", "off_chip_bytes")
UNITS = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "p": 1e-12,
    "n": 1e-9,
    "µ": 1e-6,
    "m": 1e-3,
}
BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def unit_size(unit: str) -> float:
    """How many pJ, cycles or bytes one ``unit`` is."""
    if unit in BYTES:
        return BYTES[unit]
    if unit.endswith("cycles"):
        return UNITS[unit.removesuffix("cycles")]
    assert unit.endswith("J")
    return UNITS[unit.removesuffix("J")] / 1e-12


def value(text: str) -> float:
    """``17.40 mJ`` in pJ, ``1.500 KiB`` in bytes."""
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) * unit_size(unit)


def title_size(title: str) -> float:
    """The unit of an axis that is titled ``Energy (mJ)``."""
    return unit_size(title.partition("(")[2].removesuffix(")"))


def embedded(page: str, key: str) -> Any:
    """The data that the page's script reads under this id."""
    found = re.search(f'<script type="application/json" id="{key}">(.*?)</script>', page, re.DOTALL)
    assert found, key
    return json.loads(found[1])


def table(page: str, caption: str) -> list[dict[str, str]]:
    """The rows of a table as text, by its headers."""
    found = re.search(f"<table[^>]*>\\s*<caption>{caption}</caption>(.*?)</table>", page, re.DOTALL)
    assert found, caption
    headers = [_text(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", found[1], re.DOTALL)]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", found[1].partition("<tbody")[2], re.DOTALL)
    cells = [[_text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)] for row in rows]
    return [dict(zip(headers, row, strict=True)) for row in cells]


def _text(cell: str) -> str:
    return unescape(re.sub("<[^>]*>", "", cell)).strip()


def chain(random: Random, name: str) -> Row:
    """Convolutions of 1 x 1 over 64 pixels, one after the other; of few shapes, so that some repeat."""
    channels = [random.choice(CHANNELS) for _ in range(random.randint(3, 6))]
    ops: list[Row] = []
    tensors: list[Row] = [{"name": "t0", "shape": [1, channels[0], 8, 8], "kind": "input"}]
    for place, (c, k) in enumerate(pairwise(channels)):
        last = place == len(channels) - 2
        attributes = {"stride": [1, 1], "padding": [0, 0], "weight_shape": [k, c, 1, 1]}
        read = [f"t{place}", f"w{place}"]
        ops.append({"name": f"conv{place}", "type": "conv2d", "inputs": read, "outputs": [f"t{place + 1}"]})
        ops[-1]["attrs"] = attributes
        tensors.append({"name": f"w{place}", "shape": [k, c, 1, 1], "kind": "parameter"})
        kind = "output" if last else "activation"
        tensors.append({"name": f"t{place + 1}", "shape": [1, k, 8, 8], "kind": kind})
    return {"name": name, "source": "test", "granularity": "raw", "ops": ops, "tensors": tensors}


def write_study(folder: Path, seed: int, study: Row) -> Path:
    """A study of one to three random networks with random weights, at least one of which is not 1."""
    random = Random(seed)
    names = [f"net{place}.json" for place in range(random.randint(1, 3))]
    weights = [random.choice(WEIGHTS) for _ in names[1:]] + [random.choice((0.5, 3, 50))]
    for name in names:
        (folder / name).write_text(json.dumps(chain(random, name)))
    networks = [{"network": name, "weight": w} for name, w in zip(names, weights, strict=True)]
    path = folder / "weighted.yaml"
    path.write_text(yaml.safe_dump({"name": "weighted", "networks": networks} | study))
    return path


LAYERS = {
    "architecture": "eyeriss",
    "axes": {"SRAM.size": {"choices": ["2 KiB", "4 KiB"]}, "SRAM.fanout": {"choices": [[2, 2], [4, 2]]}},
    "baseline": {"SRAM.size": "4 KiB", "SRAM.fanout": [4, 2]},
    "objectives": list(OBJECTIVES),
    "mapping": {"solver": "random_search", "iterations": 100, "wall_seconds": 20},
    "scratchpad": {"level": "SRAM"},
}
CHIPS = {
    "chip": "set-edge",
    "axes": {"mesh": {"choices": [[2, 1], [2, 2]]}},
    "objectives": ["energy_pj", "cycles", "area_um2"],
    "mapping": {"solver": "nvdla"},
    "schedule": {
        "solver": "set",
        "batch": 2,
        "seeds": 2,
        "most_partitions": 1,
        "params": {"beta": 2},
        "rivals": [{"solver": "layer_sequential"}],
    },
}


@pytest.fixture(scope="module", params=range(5))
def of_layers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weighted")
    study = load_study(str(write_study(folder, request.param, LAYERS)))
    return run_study(study, folder / "runs" / "weighted", HERE).path


@pytest.fixture(scope="module", params=range(5, 8))
def of_chips(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weighted")
    study = load_study(str(write_study(folder, request.param, CHIPS)))
    return run_study(study, folder / "runs" / "weighted", HERE).path


def test_layers_add_up_to_their_design_in_the_charts(of_layers: Path) -> None:
    run = RunData.read(of_layers)
    page = build_page(run)
    content, shown = embedded(page, "chosen-data"), run.front
    energy, cycles = map(title_size, content["titles"])
    assert len(content["designs"]) >= len(shown) > 0
    for place, design in enumerate(shown):
        drawn = content["designs"][place]
        levels = fsum(part or 0 for level in drawn["energies"] for part in level) * energy
        assert levels == pytest.approx(run.value(design, "energy_pj"), rel=1e-4)
        # the column of cycles is whole, a network that runs half a time has half a cycle
        assert fsum(drawn["cycles"]) * cycles == pytest.approx(run.value(design, "cycles"), rel=1e-4, abs=1)
    levels_figure = embedded(page, "levels-data")
    size = title_size(levels_figure["layout"]["yaxis"]["title"]["text"])
    for place, design in enumerate(shown):
        total = fsum(trace["y"][place] or 0 for trace in levels_figure["data"])
        assert total * size == pytest.approx(run.value(design, "energy_pj"), rel=1e-4)


def test_networks_add_up_to_their_design_beside_the_baseline(of_layers: Path) -> None:
    run = RunData.read(of_layers)
    content = embedded(build_page(run), "chosen-data")
    for place, design in enumerate(run.front):
        rows = {row[0]: row for row in content["designs"][place]["metrics"]}
        for name, label in (("energy_pj", "energy"), ("cycles", "latency")):
            parts = [row for title, row in rows.items() if title.endswith(f": {label}")]
            assert len(parts) == (len(run.networks(design)) if len(run.networks(design)) > 1 else 0)
            total = run.value(design, name)
            assert value(rows[label.capitalize()][1][0]) == pytest.approx(total, rel=1e-3)
            if parts:
                assert fsum(value(row[1][0]) for row in parts) == pytest.approx(total, rel=1e-3, abs=1)


def test_scratchpad_plans_add_up_to_the_off_chip_traffic(of_layers: Path) -> None:
    run = RunData.read(of_layers)
    rows = table(build_page(run), "Scratchpad plans")
    for design in run.judged:
        labels = {network.label for network in run.networks(design).values()}
        size = run.axis_text(design, "SRAM.size").replace("2 ", "2.000 ").replace("4 ", "4.000 ")
        mine = [row for row in rows if row["Graph"] in labels and row["Scratchpad"] == size]
        assert len(mine) == len(labels)
        total = fsum(value(row["Off-chip traffic"]) for row in mine)
        assert total == pytest.approx(run.value(design, "off_chip_bytes"), rel=1e-3, abs=1)


def test_the_exported_front_has_networks_that_add_up(of_layers: Path) -> None:
    front = front_table(RunFolder(of_layers), OBJECTIVES)
    read = pandas.read_csv(StringIO(front.to_csv(index=False)))
    for column in ("energy_pj", "cycles"):
        parts = [name for name in read.columns if re.fullmatch(rf"network\..*\.{column}", name)]
        assert read[parts].sum(axis=1).to_list() == pytest.approx(read[column].to_list(), abs=1, rel=1e-9)
    weights = [name for name in read.columns if name.endswith(".weight")]
    study = json.loads(json.dumps(RunFolder(of_layers).read_lock_file()["study"]))
    assert [read[name][0] for name in weights] == [network["weight"] for network in study["networks"]]


@pytest.mark.parametrize("cycles", range(1, 40, 2))
def test_half_a_cycle_does_not_lift_a_bound_above_what_was_found(tmp_path: Path, cycles: int) -> None:
    """Layers proven optimal whose cycles, at a weight of 0.5, the column rounds down every other time."""
    design = next(iter(designs(load_study(str(write_study(tmp_path, 0, LAYERS))))))
    row: Any = complete(design, EnergyCycles(1.0, 0.5 * cycles), EnergyCycles(1.0, 0.5 * cycles))
    assert row["cycles_bound"] <= row["cycles"]
    assert row["cycles_gap"] >= 0


@pytest.mark.slow
def test_schedules_add_up_to_their_chip(of_chips: Path) -> None:
    run = RunData.read(of_chips)
    rows = table(build_page(run), "Best schedules")
    headers = {"Energy": "energy_pj", "Latency": "cycles", "DRAM traffic": "dram_bytes"}
    for design in run.front:
        mine = [row for row in rows if row["Design"] == run.tag(design)]
        assert [row["Network"] for row in mine] == [n.label for n in run.networks(design).values()]
        for header, column in headers.items():
            total = fsum(value(row[header]) for row in mine)
            assert total == pytest.approx(run.value(design, column), rel=1e-3, abs=1)


def test_parts_of_a_chip_and_its_networks_add_up(of_chips: Path) -> None:
    run = RunData.read(of_chips)
    content, figure = (embedded(build_page(run), key) for key in ("chosen-data", "levels-data"))
    size = title_size(figure["layout"]["yaxis"]["title"]["text"])
    for place, design in enumerate(run.front):
        total = run.value(design, "energy_pj")
        assert fsum(t["y"][place] or 0 for t in figure["data"]) * size == pytest.approx(total, rel=1e-4)
        rows = content["designs"][place]["metrics"]
        parts = [value(row[1][0]) for row in rows if row[0].endswith(": energy")]
        if parts:
            assert fsum(parts) == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("study", [LAYERS, CHIPS], ids=["layers", "chips"])
def test_a_weight_asks_for_no_more_solves(tmp_path: Path, study: Row) -> None:
    planned = []
    for weight in (1, 50):
        path = write_study(tmp_path, 1, study)
        content = yaml.safe_load(path.read_text())
        content["networks"] = [network | {"weight": weight} for network in content["networks"]]
        path.write_text(yaml.safe_dump(content))
        found = plan(load_study(str(path)), tmp_path / "none")
        planned.append((found.asked, found.distinct, found.open))
    assert planned[0] == planned[1]


def test_the_command_line_says_which_runs_it_adds_up(
    of_layers: Path, command_line: Callable[..., Any]
) -> None:
    said = command_line("pareto", str(of_layers), "--x", "energy_pj", "--y", "cycles")
    assert said.status == 0
    networks = RunData.read(of_layers).weighted
    assert networks
    assert all(network.label in " ".join(said.out.split()) for network in networks)
