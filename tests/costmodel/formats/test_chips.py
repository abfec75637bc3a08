"""The chip library against the released program's numbers, and what overrides and mistakes in files do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import FOLDER, chip_names, load_chip
from costmodel.formats.tiles import TILES, load_tile, tile_names
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.published.set_isca2023.hardware import PLATFORMS


def test_names() -> None:
    kapla = ["kapla-16x16-paper", "kapla-16x16-released"]
    assert chip_names() == [*kapla, "set-cloud", "set-cloud-eyeriss", "set-edge", "set-edge-eyeriss"]
    assert tile_names() == [
        "eyeriss",
        "kapla-16x16-node-paper",
        "kapla-16x16-node-released",
        "nvdla",
    ]  # KAPLA's are tested in test_multi_node.py


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_papers_platforms_are_those_of_the_released_program(platform: str) -> None:
    chip, released = load_chip(f"set-{platform}"), PLATFORMS[platform]
    assert (chip.columns, chip.rows, chip.stripe) == (released.columns, released.rows, released.stripe)
    assert chip.dram.bytes_per_cycle == released.dram_bytes_per_cycle == chip.tiles
    assert chip.dram.read_pj_per_byte == chip.dram.write_pj_per_byte == released.dram_pj_per_byte
    assert chip.noc.link_bytes_per_cycle == released.link_bytes_per_cycle
    assert chip.noc.hop_pj_per_byte == released.hop_pj_per_byte
    tile, theirs = chip.tile, released.tile
    assert (tile.buffer.size_bytes, tile.output_stream_bytes) == (1 << 20, theirs.output_stream_bytes)
    assert tile.buffer.read_pj_per_byte == theirs.shared.read_pj_per_byte
    assert tile.buffer.write_pj_per_byte == theirs.shared.write_pj_per_byte
    assert (tile.macs, tile.mac_pj) == (theirs.macs, theirs.mac_pj)
    assert tile.vector_units == theirs.vector_units
    assert tile.vector_operation_pj == theirs.vector_operation_pj


def test_the_nvdla_tile_has_the_released_programs_buffers() -> None:
    theirs = PLATFORMS["edge"].tile
    levels = {level.name: level for level in load_tile("nvdla").levels}
    for name, buffer, instances in (
        ("OutputBuffer", theirs.output_shared, 1),
        ("ActivationBuffer", theirs.activation, 1),
        ("WeightBuffer", theirs.weight, 1),
        ("Accumulators", theirs.output, theirs.lanes),
    ):
        assert levels[name].size_words == buffer.size_bytes // instances
        assert levels[name].read_energy_pj == buffer.read_pj_per_byte
        assert levels[name].write_energy_pj == buffer.write_pj_per_byte
    assert load_tile("nvdla").mac_units == load_tile("eyeriss").mac_units == 1024


def test_the_tiles_architecture_has_the_chips_buffer_outermost() -> None:
    for name in (name for name in chip_names() if name.startswith("set-")):
        tile = load_chip(name, {"tile.buffer.size": "256 KiB"}).tile
        assert tile.buffer.size_bytes == 256 * 1024
        # a quarter of the size, half of the energy
        assert tile.buffer.read_pj_per_byte == pytest.approx(1.0537 / 2)
        assert tile.architecture is not None
        assert tile.architecture.levels[-1].read_energy_pj == tile.buffer.read_pj_per_byte
        assert tile.architecture.levels[-1].write_energy_pj == tile.buffer.write_pj_per_byte
        assert tile.architecture.area_um2 > tile.architecture.levels[-1].area_um2 > 0


def test_overrides() -> None:
    changes = {"mesh": "6x5", "mesh.rows": 3, "noc.link_bandwidth": "32 B/cycle", "dram.bandwidth": "48 GB/s"}
    chip = load_chip("set-edge", {**changes, "tile.architecture.OutputBuffer.size": "14 KiB"})
    assert (chip.columns, chip.rows) == (6, 3)
    assert (chip.noc.link_bytes_per_cycle, chip.dram.bytes_per_cycle) == (32, 48)
    assert chip.tile.architecture is not None
    sizes = {level.name: level.size_words for level in chip.tile.architecture.levels}
    assert sizes["OutputBuffer"] == 14 * 1024
    assert load_chip("set-edge", {"tile.architecture": "eyeriss"}).tile == load_chip("set-edge-eyeriss").tile


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"mesh": "4"}, "mesh: expected columns and rows"),
        ({"mesh": [0, 4]}, "mesh"),
        ({"dram.bandwidth": "1.5 B/cycle"}, "dram.bandwidth: expected whole bytes"),
        ({"tile.buffer.sise": "1 MiB"}, "Did you mean tile.buffer.size?"),
        ({"tile.architecture": "nvdl"}, "Did you mean nvdla?"),
        ({"tile.architecture": "tpu-like"}, "8-bit words"),
        ({"tile.architecture.Foo.size": 3}, "expected a level"),
        ({"tile.vector_units": "many"}, "tile.vector_units"),
        ({"name": ""}, "name"),
    ],
)
def test_mistakes_are_named(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="set-edge") as error:
        load_chip("set-edge", overrides)
    assert said in str(error.value)


def test_files(tmp_path: Path) -> None:
    text = (FOLDER / "set-edge.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert load_chip(path) == load_chip("set-edge")
    path.write_text(text.replace("hop_energy", "hop_enrgy"))
    with pytest.raises(InputError, match="hop_enrgy"):
        load_chip(path)
    path.write_text("[]")
    with pytest.raises(InputError, match=r"mine.yaml"):
        load_chip(path)
    with pytest.raises(InputError, match="set-edge"):
        load_chip("set-egde")


@pytest.mark.parametrize("absolute", [False, True])
def test_a_chips_tile_file_stands_beside_the_chips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absolute: bool
) -> None:
    (tmp_path / "chips").mkdir()
    tile, chip = tmp_path / "chips" / "tile.yaml", tmp_path / "chips" / "mine.yaml"
    tile.write_text((TILES / "nvdla.yaml").read_text().replace("name: nvdla", "name: mine", 1))
    text = (FOLDER / "set-edge.yaml").read_text()
    named = str(tile) if absolute else "tile.yaml"
    chip.write_text(text.replace("architecture: nvdla", f"architecture: {named}"))
    monkeypatch.chdir(tmp_path)
    for path in (chip, "chips/mine.yaml"):
        found = load_chip(path).tile.architecture
        assert found is not None
        assert found.name == "mine"
    chip.write_text(text.replace("architecture: nvdla", "architecture: missing.yaml"))
    with pytest.raises(InputError, match=r"chips/missing\.yaml"):
        load_chip("chips/mine.yaml")


def test_every_file_says_where_its_numbers_are_from() -> None:
    for path in (*FOLDER.glob("*.yaml"), *FOLDER.glob("tiles/*.yaml")):
        assert load_yaml(path)["source"]
