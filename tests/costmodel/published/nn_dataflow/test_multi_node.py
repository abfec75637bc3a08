"""KAPLA's devices against the released files and the paper's Fig 4, and what is derived from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from costmodel.formats.multi_nodes import load_multi_node, multi_node_names
from costmodel.hardware.multi_node.derived import (
    architecture,
    array_constraints,
    chip_of_nodes,
    node,
)
from costmodel.hardware.widths import Widths
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.published.nn_dataflow.cases import read_schemes
from costmodel.published.nn_dataflow.hardware import NnDataflowHardware
from costmodel.workload.network import convolution, gemm

DATA = Path(__file__).parents[3] / "data/kapla"
RELEASED: dict[str, Any] = json.loads((DATA / "hardware.json").read_text())
DEVICES = {"kapla-16x16": "multi_node", "kapla-4x4": "multi_node_4x4", "kapla-edge": "single_node"}


@pytest.mark.parametrize(("name", "file"), DEVICES.items())
def test_released_costs_are_the_released_files(name: str, file: str) -> None:
    chip, told = load_multi_node(name, "released"), RELEASED[file]
    assert [chip.columns, chip.rows, chip.pe_columns, chip.pe_rows] == told["nodes"] + told["pe_array"]
    assert (chip.buffer_words * 2, chip.register_words * 2) == (told["gbuf_bytes"], told["regf_bytes"])
    assert chip.bus_words_per_cycle == told["array_bus_words_cycle"]
    assert chip.costs.dram_words_per_cycle == told["dram_bandwidth_words_cycle_code"]
    costs = chip.costs
    found = (costs.mac_pj, costs.dram_pj, costs.buffer_pj, costs.bus_pj, costs.register_pj, costs.hop_pj)
    keys = ("mac_J", "DRAM_J_word", "GBUF_J_word", "ITCN_J_word", "REGF_J_word", "noc_hop_J_word")
    assert found == pytest.approx([told[key] * 1e12 for key in keys], rel=1e-12)
    assert costs.idle_pj_per_cycle == pytest.approx(told["idle_J_cycle"] * 1e12)


def test_paper_costs_are_those_of_fig_4() -> None:
    costs, told = load_multi_node("kapla-16x16", "paper").costs, RELEASED["paper_fig4"]
    for pj, key in ((costs.buffer_pj, "GBUF"), (costs.register_pj, "REGF"), (costs.dram_pj, "DRAM")):
        assert pj == pytest.approx(told[f"{key}_pJ_bit"] * 16)
    assert (costs.hop_pj, costs.idle_pj_per_cycle) == (told["hop_pJ"], told["idle_pJ_cycle"])
    assert costs.dram_words_per_cycle == pytest.approx(25.6)


def test_the_edge_device_scales_the_papers_costs_as_the_released_files_do() -> None:
    costs = {
        (name, of): load_multi_node(name, of).costs
        for name in ("kapla-16x16", "kapla-edge")
        for of in ("paper", "released")
    }
    for part in ("buffer_pj", "register_pj"):
        paper, released = (
            getattr(costs["kapla-edge", of], part) / getattr(costs["kapla-16x16", of], part)
            for of in ("paper", "released")
        )
        assert paper == pytest.approx(released, rel=1e-4)


def test_the_convention_sees_the_hardware_of_its_rows() -> None:
    rows = {case.record["hw"]["name"]: case for case in read_schemes(DATA / "layer_schemes.jsonl.gz")}
    told, found = rows["edge"].hardware, NnDataflowHardware.of(load_multi_node("kapla-edge", "released"))
    assert found.costs.levels == pytest.approx(told.costs.levels, rel=1e-12)
    same = ("nodes", "array", "register_words", "buffer_words", "dram_words_per_cycle", "bus_words_per_cycle")
    assert [getattr(found, key) for key in same] == [getattr(told, key) for key in same]


# --- what is derived


@pytest.mark.parametrize("name", ["kapla-16x16", "kapla-edge"])
@pytest.mark.parametrize("costs", ["paper", "released"])
def test_the_librarys_architectures_are_the_derived_ones(name: str, costs: str) -> None:
    derived, library = architecture(load_multi_node(name, costs)), load_architecture(f"{name}-{costs}")
    assert library.name == derived.name
    for ours, theirs in zip(derived.to_json()["levels"], library.to_json()["levels"], strict=True):
        numbers = {key for key, value in ours.items() if isinstance(value, float)}
        assert {k: v for k, v in ours.items() if k not in numbers} == {
            k: v for k, v in theirs.items() if k not in numbers
        }
        for key in numbers:
            assert ours[key] == pytest.approx(theirs[key], rel=1e-9), key
    assert (library.compute.energy_pj, library.frequency_hz) == (derived.compute.energy_pj, 500e6)


def test_words_pay_the_bus_where_they_move() -> None:
    """One weight to one PE and one output back, priced by hand."""
    from costmodel.mapping.evaluate import evaluate

    chip = load_multi_node("kapla-edge", "released")
    layer = gemm("one", M=1, N=1, K=1)
    every = frozenset({"A", "B", "Z"})
    mapping = Mapping((LevelMapping((), (), (), every),) * 3)
    costs = chip.costs
    inputs = 2 * (costs.dram_pj + 2 * costs.buffer_pj + costs.bus_pj + 2 * costs.register_pj)
    outputs = costs.register_pj + costs.buffer_pj + costs.bus_pj + costs.dram_pj
    found = evaluate(architecture(chip), layer, mapping)
    idle = costs.idle_pj_per_cycle * found.cycles
    assert found.energy_pj == pytest.approx(inputs + outputs + costs.mac_pj + idle)


def test_a_node_and_the_chip_of_nodes() -> None:
    device = load_multi_node("kapla-16x16", "released")
    alone, chip = node(device), chip_of_nodes(device)
    assert (alone.mac_units, architecture(device).mac_units) == (64, 16384)
    assert 256 * alone.levels[-1].leakage_pj_per_cycle == pytest.approx(device.costs.idle_pj_per_cycle)
    assert (chip.tiles, chip.tile.macs, chip.tile.buffer.size_bytes) == (256, 64, 2 * 16384)
    tile = chip.tile.architecture
    assert tile is not None
    assert [level.name for level in tile.levels] == ["REGF", "GBUF"]
    assert chip.tile.widths == Widths(16, 16, 16)
    assert 2 * chip.noc.hop_pj_per_byte == device.costs.hop_pj


@pytest.mark.parametrize("costs", ["paper", "released"])
def test_the_librarys_chips_are_the_derived_ones(costs: str) -> None:
    derived, library = chip_of_nodes(load_multi_node("kapla-16x16", costs)), load_chip(f"kapla-16x16-{costs}")
    ours, theirs = derived.tile, library.tile
    assert (library.name, library.columns, library.rows) == (derived.name, derived.columns, derived.rows)
    assert (library.noc, library.stripe) == (derived.noc, derived.stripe)
    assert library.frequency_ghz == derived.frequency_ghz == 0.5
    assert library.dram.bytes_per_cycle == derived.dram.bytes_per_cycle
    assert library.dram.read_pj_per_byte == pytest.approx(derived.dram.read_pj_per_byte, rel=1e-9)
    assert (theirs.macs, theirs.vector_units) == (ours.macs, ours.vector_units)
    assert theirs.buffer.size_bytes == ours.buffer.size_bytes
    assert theirs.buffer.read_pj_per_byte == pytest.approx(ours.buffer.read_pj_per_byte)
    assert ours.architecture is not None
    assert theirs.architecture is not None
    for one, other in zip(ours.architecture.levels, theirs.architecture.levels, strict=True):
        same = ("name", "size_words", "fanout", "shared_bandwidth")
        assert [getattr(one, key) for key in same] == [getattr(other, key) for key in same]
        for key in ("read_energy_pj", "write_energy_pj", "update_energy_pj"):
            assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-9)


def test_what_the_array_allows() -> None:
    rows, systolic = (load_multi_node(name, "paper") for name in ("kapla-16x16", "kapla-edge"))
    layer = convolution("c", K=4, C=4, P=4, Q=4, R=3, S=3)
    assert array_constraints(rows, layer) == [
        {"level": "GBUF", "spatial_x": ["P", "K"], "spatial_y": ["R", "P", "C", "K"]}
    ]
    assert array_constraints(systolic, layer)[0]["spatial_y"] == ["P", "Q"]
    assert array_constraints(systolic, gemm("g", M=1, N=2, K=3))[0] == {
        "level": "GBUF",
        "spatial_x": ["N"],
        "spatial_y": ["M"],
    }


# --- files


def test_costs_must_be_chosen() -> None:
    for name in multi_node_names():
        with pytest.raises(InputError, match=r"one of paper, released, found papers\. Did you mean paper\?"):
            load_multi_node(name, "papers")
    with pytest.raises(InputError, match="Did you mean kapla-edge"):
        load_multi_node("kapla-egde", "paper")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bus: 256 bits/cycle", "bus: 12 bits/cycle", "bus: expected whole words of 16 bits"),
        ("array_mapping: systolic", "array_mapping: weights", "array_mapping: expected"),
        ("nodes: [1, 1]", "nodes: [1]", "nodes: expected at least 2"),
        ("    hop: 9.76 pJ\n", "", "hop"),
        ("buffer: 256 KiB", "bufer: 256 KiB", "Did you mean buffer"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    import costmodel.formats.multi_nodes as library

    text = (library.FOLDER / "kapla-edge.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        load_multi_node(path, "paper")
    assert error.value.where == str(path)
