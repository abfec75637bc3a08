"""The library against its sources, and loading by name, file and reference form."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import FOLDER, architecture_names, load_architecture
from costmodel.formats.technologies import load_technology
from costmodel.hardware.architecture import ALL_ROLES, Architecture
from costmodel.hardware.technology import energy_inversions

DATA = Path(__file__).parents[2] / "data" / "architectures"
REFERENCE: dict[str, Any] = json.loads((DATA / "archs.json").read_text())
SIMBA: dict[str, Any] = json.loads((DATA / "cosa_simba.json").read_text())
KAPLA = [f"kapla-{device}-{costs}" for device in ("16x16", "edge") for costs in ("paper", "released")]
"""Compared with their sources in ``published/nn_dataflow/test_multi_node.py``."""


def test_names() -> None:
    assert architecture_names() == [
        *sorted(REFERENCE),
        "eyeriss",
        "eyeriss-v1",
        "gemmini",
        "gpu-a100",
        "gpu-k80",
        *KAPLA,
        "nvdla-full",
        "simba",
        "simba-8x8",
        "simba-large-buffers",
        "tpu-like",
    ]


@pytest.mark.parametrize("name", architecture_names())
def test_every_library_file_loads_and_survives_json(name: str) -> None:
    chip = load_architecture(name)
    assert chip.name == name
    assert Architecture.from_json(json.loads(json.dumps(chip.to_json()))) == chip


@pytest.mark.parametrize(("name", "cores", "tera"), [("gpu-k80", 2496, 4.37), ("gpu-a100", 6912, 19.5)])
def test_gpus_have_the_operations_a_second_that_their_maker_states(
    name: str, cores: int, tera: float
) -> None:
    """8.74 TFLOPS of single precision for both GPUs of a K80; a multiply-accumulate is two."""
    gpu = load_architecture(name)
    assert gpu.mac_units == cores
    assert 2 * cores * gpu.frequency_hz / 1e12 == pytest.approx(tera, rel=2e-3)


# --- the reference's five: compared number by number here, without the code that reads the reference form


@pytest.mark.parametrize("name", REFERENCE)
def test_the_five_equal_the_reference(name: str) -> None:
    chip, reference = load_architecture(name), REFERENCE[name]
    assert [level.name for level in chip.levels] == [entry["name"] for entry in reference["storage"]]
    for level, entry in zip(chip.levels, reference["storage"], strict=True):
        energy = entry["energy_per_access_pJ"]
        assert level.size_words == entry["size_words"]
        assert level.word_bits == entry["word_bits"]
        assert level.block_size == entry["block_size"]
        assert level.read_energy_pj == energy["read"]
        assert level.write_energy_pj == energy["fill_write"]
        assert level.update_energy_pj == energy["update"]
        assert level.leakage_pj_per_cycle == energy["leak_per_cycle_instance"]
        assert level.read_bandwidth == entry["read_bandwidth"]
        assert level.write_bandwidth == entry["write_bandwidth"]
        assert level.shared_bandwidth == entry["shared_bandwidth"]
        assert level.multiple_buffering == entry["multiple_buffering"]
        assert [level.fanout_x, level.fanout_y] == entry["fanout_below_XY"]
        assert level.keeps == ALL_ROLES
        assert level.area_um2 == 0
        if entry["effective_size_words"] is not None:
            assert level.usable_words == entry["effective_size_words"]


@pytest.mark.parametrize("name", REFERENCE)
def test_the_fives_instances_and_macs_equal_the_reference(name: str) -> None:
    chip, reference = load_architecture(name), REFERENCE[name]
    arithmetic = reference["arithmetic"]
    assert list(chip.instances) == [entry["instances"] for entry in reference["storage"]]
    assert chip.mac_units == arithmetic["instances"]
    assert chip.compute.name == arithmetic["name"]
    assert chip.compute.word_bits == arithmetic["word_bits"]
    assert chip.compute.energy_pj == arithmetic["energy_per_op_pJ"]


# --- the families


def test_eyeriss_is_thistles_baseline() -> None:
    chip = load_architecture("eyeriss")
    registers, sram, dram = chip.levels
    assert chip.mac_units == 168
    assert (registers.size_words, sram.size_words, sram.word_bits) == (512, 128 * 1024 // 2, 16)
    assert registers.read_energy_pj == pytest.approx(9.06719e-3 * 512, rel=1e-12)
    assert sram.read_energy_pj == pytest.approx(17.88e-3 * 256, rel=1e-12)
    assert (dram.read_energy_pj, chip.compute.energy_pj) == (128, 2.2)
    assert chip.area_um2 == pytest.approx((19.874 * 512 + 1239.5) * 168 + 6.806 * 65536)
    cases = load_architecture("A_eyeriss_like")
    for ours, theirs in zip(chip.levels, cases.levels, strict=True):
        assert (ours.read_bandwidth, ours.write_bandwidth) == (theirs.read_bandwidth, theirs.write_bandwidth)
        assert (ours.fanout_x, ours.fanout_y) == (theirs.fanout_x, theirs.fanout_y)
        assert ours.read_energy_pj == pytest.approx(theirs.read_energy_pj, abs=0.005)


def test_eyeriss_as_thistles_co_design_varies_it() -> None:
    """About 19 registers, 1,000 PEs and 64 Kwords stay within Eyeriss's area (Thistle, Fig 5)."""
    small = load_architecture(
        "eyeriss", {"RegFile.size": 19, "SRAM.fanout": [32, 32], "SRAM.size": "128 KiB"}
    )
    assert small.area_um2 < load_architecture("eyeriss").area_um2
    assert small.levels[0].read_energy_pj == pytest.approx(0.17228, abs=1e-5)


def test_simba_is_cosas() -> None:
    chip = load_architecture("simba")
    for level, entry in zip(chip.levels, SIMBA["levels"], strict=True):
        assert level.name == entry["name"]
        assert level.size_words == entry["entries"]
        assert level.word_bits == entry["word_bits"]
        assert level.block_size == entry.get("block_size", 1)
        assert level.fanout == entry["spatial_fanout"]
        assert sorted(level.keeps) == sorted(tensor.lower() for tensor in entry["keeps"])
    assert list(chip.instances) == [entry["instances"] for entry in SIMBA["levels"]]
    assert chip.mac_units == SIMBA["arithmetic"]["instances"]
    assert chip.compute.word_bits == SIMBA["arithmetic"]["word_bits"]
    dram = chip.levels[-1]
    assert (dram.read_bandwidth or 0) + (dram.write_bandwidth or 0) == SIMBA["levels"][-1]["bandwidth"]


def test_simba_has_the_energies_and_fanouts_of_the_simba_like_cases() -> None:
    chip, cases = load_architecture("simba"), load_architecture("B_simba_like")
    for ours, theirs in zip(chip.levels, cases.levels, strict=True):
        assert ours.read_energy_pj == ours.write_energy_pj == ours.update_energy_pj
        assert ours.read_energy_pj == theirs.read_energy_pj
        assert (ours.fanout_x, ours.fanout_y) == (theirs.fanout_x, theirs.fanout_y)
    assert chip.compute.energy_pj == cases.compute.energy_pj


def test_simbas_areas_are_thistles_per_bit() -> None:
    chip = load_architecture("simba")
    sram_bits = sum(
        n * (level.size_words or 0) * level.word_bits
        for n, level in zip(chip.instances[1:], chip.levels[1:], strict=True)
    )
    registers = 1024 * 8 / 16 * 19.874
    assert chip.area_um2 == pytest.approx(sram_bits / 16 * 6.806 + registers + 1024 * 1239.5 / 4)


def test_tpu_like_follows_the_8_bit_laws() -> None:
    chip = load_architecture("tpu-like")
    weights, sums, buffer, dram = chip.levels
    assert (chip.mac_units, chip.frequency_hz) == (256, 7e8)
    assert (weights.keeps, sums.keeps) == (("weights",), ("outputs",))
    assert weights.usable_words == 1
    assert buffer.read_energy_pj == pytest.approx(16 * 17.88e-3 * (262144 / 2) ** 0.5 / 2)
    assert sums.read_energy_pj == pytest.approx(17.88e-3 * (1024 * 2) ** 0.5 * 2)
    assert dram.read_energy_pj == 8 * 64
    assert chip.compute.area_um2 == load_technology("thistle-45nm").multiply_area_um2(8)


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-like"])
def test_every_size_of_a_family_moves_its_energy_and_area(name: str) -> None:
    chip = load_architecture(name)
    for index, level in enumerate(chip.levels[:-1]):
        larger = load_architecture(name, {f"{level.name}.size": 4 * (level.size_words or 1)})
        growth = larger.levels[index].read_energy_pj / level.read_energy_pj
        assert growth == pytest.approx(2) or growth == pytest.approx(4)
        assert larger.levels[index].area_um2 == pytest.approx(4 * level.area_um2)
        assert larger.area_um2 > chip.area_um2


def test_only_degenerate_tables_are_warned_about() -> None:
    warned = {name for name in architecture_names() if energy_inversions(load_architecture(name))}
    assert warned == {"eyeriss", "A_eyeriss_like", "B_simba_like"}


# --- loading


def test_a_file_of_our_own(tmp_path: Path) -> None:
    copy = tmp_path / "mine.yaml"
    shutil.copy(FOLDER / "eyeriss.yaml", copy)
    assert load_architecture(copy) == load_architecture("eyeriss")
    assert load_architecture(str(copy), {"SRAM.size": 4}).levels[1].size_words == 4
    copy.write_text(copy.read_text().replace("128 KiB", "256 KiB (two banks)"))
    with pytest.raises(InputError, match=r"mine.yaml: levels.SRAM.size: .*found 256 KiB \(two banks\)"):
        load_architecture(copy)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    dram = "{name: DRAM, kind: dram, fanout: [2, 1]}"
    text = f"{{name: n, technology: thistle-45nm, word_bits: 16, levels: [{dram}]}}"
    path.write_text(text)
    assert load_architecture(path).mac_units == 2
    path.write_text(text.replace("[2, 1]", "[20, 1]"))
    assert load_architecture(path).mac_units == 20


def test_our_form_as_json(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    level = {"name": "DRAM", "kind": "dram", "fanout": [4, 4]}
    path.write_text(
        json.dumps({"name": "j", "technology": "thistle-45nm", "word_bits": 16, "levels": [level]})
    )
    assert load_architecture(path, {"DRAM.fanout.x": 2}).mac_units == 8


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_form_with_a_member(name: str) -> None:
    assert load_architecture(f"{DATA / 'archs.json'}#{name}") == load_architecture(name)


def test_the_reference_form_of_one_architecture(tmp_path: Path) -> None:
    path = tmp_path / "C_two_level.json"
    path.write_text(json.dumps(REFERENCE["C_two_level"]))
    assert load_architecture(path) == load_architecture("C_two_level")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eyeris", r"architecture: expected a file, or one of A_eyeriss_like, .*Did you mean eyeriss\?"),
        ("zzz", "found zzz. A file's name ends in .yaml, .yml or .json"),
        ("", "architecture: expected a file"),
        ("nowhere/chip.yaml", "nowhere/chip.yaml: expected a file that can be read, found no such file"),
        ("nowhere/chip.json", "nowhere/chip.json: expected a file that can be read, found no such file"),
        (f"{DATA}/archs.json", "expected #NAME after the file, one of A_eyeriss_like, .*found no name"),
        (f"{DATA}/archs.json#F", "expected #NAME after the file, one of A_eyeriss_like, .*found #F"),
        ("a\0b.yaml", "expected a file that can be read"),
    ],
)
def test_what_cannot_be_found(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_architecture(name)


def test_the_reference_form_takes_no_overrides() -> None:
    with pytest.raises(InputError, match=r"no overrides.*found SRAM.size. Write the architecture as YAML"):
        load_architecture(f"{DATA / 'archs.json'}#A_eyeriss_like", {"SRAM.size": 4})


@pytest.mark.parametrize("text", ["[1, 2]", "5", '{"a": 1}', "{}"])
def test_json_that_holds_no_architecture(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match="expected architectures by name"):
        load_architecture(path)


def test_importing_the_library_is_cheap() -> None:
    """The command line imports it for its help, so pydantic and yaml must wait for the first load."""
    code = "import sys, costmodel.formats.architectures; print(*{'pydantic', 'yaml'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("name", architecture_names())
def test_plain_data_are_all_fields_in_their_order(name: str) -> None:
    """Ids of tasks are hashes of these data: a field that went missing would make two architectures one."""
    architecture = load_architecture(name)
    data = architecture.to_json()
    fields = asdict(architecture)
    assert fields.pop("precision") is None
    if architecture.timing is None:  # left out, so that ids from before there was timing stay
        del fields["timing"]
    else:  # what files do not say, or did not say before, is left out as well
        assert fields["timing"].pop("level") is None
        assert fields["timing"].pop("permitted_layouts") == ()
    assert json.dumps(data) == json.dumps(fields)
    assert Architecture.from_json(json.loads(json.dumps(data))) == architecture
    data["levels"][0]["keeps"].clear()
    data["compute"].clear()
    assert architecture == load_architecture(name)
