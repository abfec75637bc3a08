"""The chip library against the released program's numbers, and what overrides and mistakes in files do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import FOLDER, chip_names, load_chip
from costmodel.formats.technologies import FOLDER as TECHNOLOGIES
from costmodel.formats.tiles import TILES, load_tile, tile_names
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.hardware.widths import Widths
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
        # a quarter of the size, by the exponents of set-12nm
        assert tile.buffer.read_pj_per_byte == pytest.approx(1.0537 / 4**0.2234)
        assert tile.buffer.write_pj_per_byte == pytest.approx(1.8722 / 4**0.3652)
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
    assert load_chip("set-edge", {"mesh.rows": 3, "mesh": "6x5"}).rows == 3


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"mesh": "4"}, "mesh: expected columns and rows"),
        ({"mesh": [0, 4]}, "mesh"),
        ({"mesh": "4", "mesh.rows": 3}, "override of chip set-edge: mesh: expected columns and rows"),
        ({"dram.bandwidth": "1.5 B/cycle"}, "dram.bandwidth: expected whole bytes"),
        ({"tile.buffer.sise": "1 MiB"}, "Did you mean tile.buffer.size?"),
        ({"tile.architecture": "nvdl"}, "Did you mean nvdla?"),
        ({"word_bits": 16}, "word_bits: expected words of at least 16 bits in Buffer, which keeps weights"),
        ({"partial_sum_bits": 32}, "words of at least 32 bits in Buffer, which keeps partial sums"),
        ({"weight_bits": 12}, "words of at least 12 bits in Buffer, which keeps weights"),
        ({"partial_sum_bits": 4}, "partial_sum_bits: expected at least the 8 bits of activations"),
        ({"weight_bits": 0}, "weight_bits"),
        ({"word_bits": 4000}, "word_bits: expected a whole number of bits from 1 to 1,024"),
        ({"word_bits": "8 bits"}, "word_bits"),
        ({"tile.architecture.Foo.size": 3}, "expected a level"),
        ({"tile.vector_units": "many"}, "tile.vector_units"),
        ({"name": ""}, "name"),
    ],
)
def test_mistakes_are_named(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="set-edge") as error:
        load_chip("set-edge", overrides)
    assert said in str(error.value)


def test_a_chips_area_has_tiles_routers_and_interfaces() -> None:
    """set-edge by hand: 16 tiles with their levels, 1 MiB, 64 vector units, a router; 16 GB/s of DRAM."""
    chip = load_chip("set-edge")
    inside = load_tile("nvdla").area_um2
    tile = inside + 2**20 * 1.8705456 + 64 * 1123.4916 + 24 * 40703.072256
    assert inside > 1024 * 140.43645
    assert chip.area_um2 == pytest.approx(16 * tile + 16 * 128638.125)
    wider = {"noc.link_bandwidth": "240 B/cycle", "dram.bandwidth": "160 B/cycle"}
    more = load_chip("set-edge", wider).area_um2 - chip.area_um2
    assert more == pytest.approx(16 * 216 * 40703.072256 + 144 * 128638.125)
    for key, value in (("tile.buffer.size", "2 MiB"), ("tile.vector_units", 128), ("mesh", "4x5")):
        assert load_chip("set-edge", {key: value}).area_um2 > chip.area_um2


def chip_file(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_what_a_file_leaves_out_follows_from_its_technology(tmp_path: Path) -> None:
    """The library's set-edge without its energies is the same chip, but for the rounding of two constants."""
    kept = [
        line
        for line in (FOLDER / "set-edge.yaml").read_text().splitlines()
        if not any(f"{key}:" in line for key in ("hop_energy", "read_energy", "write_energy", "at_size"))
        and "vector_energy:" not in line
    ]
    found, stated = load_chip(chip_file(tmp_path, "\n".join(kept))), load_chip("set-edge")
    buffer = found.tile.buffer
    assert buffer.read_pj_per_byte == pytest.approx(stated.tile.buffer.read_pj_per_byte, rel=1e-5)
    assert buffer.write_pj_per_byte == pytest.approx(stated.tile.buffer.write_pj_per_byte, rel=1e-5)
    assert (found.noc, found.dram) == (stated.noc, stated.dram)
    assert found.tile.vector_operation_pj == stated.tile.vector_operation_pj
    assert found.area_um2 == stated.area_um2


def test_what_a_file_states_wins(tmp_path: Path) -> None:
    text = (FOLDER / "set-edge.yaml").read_text()
    text = text.replace(
        "  hop_energy:", "  router_area: {value: 1 mm2, at_bandwidth: 12 B/cycle}\n  hop_energy:"
    )
    text = text.replace("  bandwidth: 16", "  interface_area: 3 mm2\n  idle: 32 mW\n  bandwidth: 16")
    text = text.replace("    size: 1 MiB", "    area: {value: 1 mm2, at_size: 512 KiB}\n    size: 1 MiB")
    chip = load_chip(chip_file(tmp_path, text + "  vector_area: 500 um2\n  leakage: 2 pJ/cycle\n"))
    assert (chip.noc.router_area_um2, chip.dram.interface_area_um2) == (2e6, 3e6)
    assert (chip.tile.vector_area_um2, chip.tile.leakage_pj_per_cycle) == (500, 2)
    assert chip.tile.architecture is not None
    assert chip.tile.architecture.levels[-1].area_um2 == 2e6
    assert chip.dram.idle_pj_per_cycle == pytest.approx(32)
    assert chip.idle_pj_per_cycle == pytest.approx(16 * 2 + 32)
    assert Chip.from_json(chip.to_json()) == chip


def test_leakage_of_a_technology_reaches_tiles_levels_and_dram(tmp_path: Path) -> None:
    leaking = "{key}: {{value: {value}, source: this test}}\n"
    technology = (TECHNOLOGIES / "set-12nm.yaml").read_text()
    for key, value in (("sram_leakage", "1 nW"), ("mac_leakage", "2 uW"), ("dram_idle", "3 mW")):
        technology += leaking.format(key=key, value=value)
    (tmp_path / "leaky.yaml").write_text(technology)
    tile = (TILES / "nvdla.yaml").read_text().replace("technology: set-12nm", "technology: leaky.yaml")
    (tmp_path / "tile.yaml").write_text(tile)
    text = (FOLDER / "set-edge.yaml").read_text().replace("technology: set-12nm", "technology: leaky.yaml")
    chip = load_chip(chip_file(tmp_path, text.replace("architecture: nvdla", "architecture: tile.yaml")))
    # at 1 GHz a uW is 0.001 pJ a cycle
    assert chip.tile.leakage_pj_per_cycle == pytest.approx(1024 * 0.002)
    assert chip.dram.idle_pj_per_cycle == pytest.approx(16 * 3)
    assert chip.tile.architecture is not None
    levels = {level.name: level.leakage_pj_per_cycle for level in chip.tile.architecture.levels}
    assert levels["Buffer"] == pytest.approx(2**20 * 1e-6)
    assert levels["OutputBuffer"] == pytest.approx(28 * 1024 * 1e-6)
    assert levels["WeightRegisters"] == 0


def test_a_chip_has_one_technology(tmp_path: Path) -> None:
    text = (FOLDER / "set-edge.yaml").read_text()
    two = chip_file(tmp_path, text.replace("technology: set-12nm", "technology: tpuv4i-7nm"))
    with pytest.raises(
        InputError, match=r"technology: expected one technology, found tpuv4i-7nm, and set-12nm"
    ):
        load_chip(two)
    # a tile that names none has the chip's
    tile = (TILES / "nvdla.yaml").read_text().replace("technology: set-12nm\n", "")
    (tmp_path / "tile.yaml").write_text(tile)
    own = text.replace("technology: set-12nm", "technology: tpuv4i-7nm")
    chip = load_chip(chip_file(tmp_path, own.replace("architecture: nvdla", "architecture: tile.yaml")))
    assert chip.tile.architecture is not None
    assert chip.tile.architecture.compute.area_um2 == pytest.approx(98.305515)
    # and a chip that names none has its tile's
    bare = chip_file(tmp_path, text.replace("technology: set-12nm", "#"))
    assert load_chip(bare) == load_chip("set-edge")


def test_an_energy_that_nobody_has_is_refused(tmp_path: Path) -> None:
    text = (FOLDER / "set-edge.yaml").read_text().replace("technology: set-12nm", "technology: thistle-45nm")
    text = "\n".join(line for line in text.splitlines() if "hop_energy" not in line)
    tile = (TILES / "nvdla.yaml").read_text().replace("technology: set-12nm\n", "")
    (tmp_path / "tile.yaml").write_text(tile)
    text = text.replace("architecture: nvdla", "architecture: tile.yaml")
    with pytest.raises(InputError, match=r"mine.yaml: noc.hop_energy: .*thistle-45nm"):
        load_chip(chip_file(tmp_path, text))
    kapla = (
        (FOLDER / "kapla-16x16-paper.yaml")
        .read_text()
        .replace("  hop_energy: 4.88 pJ            # 9.76 of a word\n", "")
    )
    with pytest.raises(InputError, match=r"noc.hop_energy: expected an energy"):
        load_chip(chip_file(tmp_path, kapla))


def test_kaplas_nodes_take_the_papers_idle_cost() -> None:
    """1272 pJ a cycle for 256 nodes; half as many nodes take half of it."""
    assert load_chip("kapla-16x16-paper").idle_pj_per_cycle == 1272
    assert load_chip("kapla-16x16-released").idle_pj_per_cycle == 1272.8688055044508
    assert load_chip("kapla-16x16-paper", {"mesh": "8x16"}).idle_pj_per_cycle == 636
    assert load_chip("set-edge").idle_pj_per_cycle == 0


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
    path.write_text("name: mine")
    with pytest.raises(InputError, match=r"mine.yaml: mesh: expected columns and rows"):
        load_chip(path, {"mesh.rows": 3})
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


SIXTEEN = """
name: sixteen
word_bits: 16
levels:
  - {name: Buffer, kind: sram, energy: 1 pJ, read_bandwidth: 64 B/cycle, block_size: 4, fanout: [4, 4]}
  - {name: Sums, kind: sram, size: 16 words, word_bits: 32, energy: 1 pJ, keeps: [outputs]}
  - {name: Weights, kind: register, size: 8 B, word_bits: 4, energy: 1 pJ, keeps: [weights]}
compute: {energy: 1 pJ}
"""


def sixteen(folder: Path, **widths: int) -> Path:
    """SET's edge platform with a tile of 16-bit words, 32-bit sums and 4-bit weights in PEs."""
    (folder / "tile.yaml").write_text(SIXTEEN)
    text = (FOLDER / "set-edge.yaml").read_text().replace("architecture: nvdla", "architecture: tile.yaml")
    text = text.replace("technology: set-12nm", "").replace("vector_units: 64", "vector_units: 64\n")
    stated = "".join(f"{key}: {bits}\n" for key, bits in widths.items())
    return chip_file(folder, stated + text)


def test_elements_have_the_words_of_the_buffer_or_the_files_bits(tmp_path: Path) -> None:
    tile = load_chip(sixteen(tmp_path, weight_bits=4)).tile
    assert tile.widths == Widths(weights=4, activations=16, partial_sums=16)
    assert load_chip(sixteen(tmp_path, weight_bits=2, word_bits=12)).tile.widths == Widths(2, 12, 12)
    assert load_chip("set-edge").tile.widths == Widths(8, 8, 8)
    with pytest.raises(InputError, match=r"mine.yaml: tile.architecture: .*at least 16 bits in Weights"):
        load_chip(sixteen(tmp_path))
    # the buffer's energies are of a byte: an access of the tile's PEs moves four words of 16 bits
    assert tile.architecture is not None
    assert tile.architecture.levels[-1].read_energy_pj == 8 * tile.buffer.read_pj_per_byte
    assert tile.architecture.levels[-1].read_bandwidth == 32


def test_sizes_and_rates_in_words_are_those_of_elements(tmp_path: Path) -> None:
    changes = {
        "tile.buffer.size": "100 words",
        "noc.link_bandwidth": "3 words/cycle",
        "tile.output_stream": 8,
    }
    chip = load_chip(sixteen(tmp_path, weight_bits=4), {**changes, "dram.bandwidth": "32 bits/cycle"})
    assert (chip.tile.buffer.size_bytes, chip.tile.output_stream_bytes) == (200, 16)
    assert (chip.noc.link_bytes_per_cycle, chip.dram.bytes_per_cycle) == (6, 4)
    whole = counted_architecture(chip)
    assert whole is not None
    assert (whole.levels[-2].size_words, whole.levels[-1].shared_bandwidth) == (100, 2)


def test_chips_of_bytes_are_written_as_before_and_others_with_their_widths(tmp_path: Path) -> None:
    assert "widths" not in load_chip("set-edge").to_json()["tile"]
    chip = load_chip(sixteen(tmp_path, weight_bits=4))
    assert chip.to_json()["tile"]["widths"] == {"weights": 4, "activations": 16, "partial_sums": 16}
    assert Chip.from_json(chip.to_json()) == chip
