"""The laws against the papers' numbers and against each other, and the warning about degenerate tables."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.technologies import FOLDER, load_technology, technology_names
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.formats.yaml.technology import technology_from_document
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.technology import (
    ACCESSES,
    KINDS,
    Kind,
    Sourced,
    Technology,
    area_ratio,
    energy_inversions,
    energy_ratio,
)

WORDS = st.integers(1, 2**24)
BITS = st.sampled_from([4, 8, 16, 24, 32])
THISTLE_45NM, SIMBA_LIKE_8BIT = load_technology("thistle-45nm"), load_technology("simba-like-8bit")
SET_12NM, TPUV4I_7NM = load_technology("set-12nm"), load_technology("tpuv4i-7nm")
TABLES = st.sampled_from([THISTLE_45NM, SIMBA_LIKE_8BIT])
"""The technologies whose SRAM follows Thistle's law, a square root for all accesses."""


def test_thistle_laws_give_the_numbers_that_the_eyeriss_models_state() -> None:
    """Timeloop's Eyeriss-like cases round them to 4.64, 4.58, 128 and 2.2 pJ."""
    assert THISTLE_45NM.access_energy_pj("register", 512, 16) == pytest.approx(4.64, abs=0.005)
    assert THISTLE_45NM.access_energy_pj("sram", 65536, 16) == pytest.approx(4.58, abs=0.005)
    assert THISTLE_45NM.access_energy_pj("dram", 0, 16) == 128
    assert THISTLE_45NM.multiply_energy_pj(16) == 2.2


def test_thistle_area_of_the_eyeriss_chip_by_hand() -> None:
    """Eq 5: (19.874 * 512 + 1239.5) * 168 + 6.806 * 65536."""
    register = THISTLE_45NM.storage_area_um2("register", 512, 16)
    sram = THISTLE_45NM.storage_area_um2("sram", 65536, 16)
    total = (register + THISTLE_45NM.multiply_area_um2(16)) * 168 + sram
    assert total == pytest.approx(2_363_756.0, abs=0.1)


def test_simba_like_laws_give_the_models_blocks() -> None:
    assert 8 * SIMBA_LIKE_8BIT.access_energy_pj("sram", 65536, 8) == 24
    assert 8 * SIMBA_LIKE_8BIT.access_energy_pj("sram", 16384, 8) == 12
    assert 64 * SIMBA_LIKE_8BIT.access_energy_pj("dram", 0, 8) == 4096
    assert SIMBA_LIKE_8BIT.access_energy_pj("register", 1, 8) == 0.03


def test_both_tables_agree_where_their_sources_overlap() -> None:
    """8 pJ a bit of DRAM in both; the quadratic MAC law meets Simba's 0.56 pJ within 2 %."""
    assert THISTLE_45NM.access_energy_pj("dram", 0, 8) == SIMBA_LIKE_8BIT.access_energy_pj("dram", 0, 8)
    assert THISTLE_45NM.multiply_energy_pj(8) == pytest.approx(
        SIMBA_LIKE_8BIT.multiply_energy_pj(8), rel=0.02
    )
    for kind in KINDS:
        ours = SIMBA_LIKE_8BIT.storage_area_um2(kind, 1000, 8)
        assert ours == pytest.approx(THISTLE_45NM.storage_area_um2(kind, 1000, 8))
    assert SIMBA_LIKE_8BIT.multiply_area_um2(8) == THISTLE_45NM.multiply_area_um2(8)


@given(TABLES, WORDS, BITS)
def test_laws_scale_as_they_say(table: Technology, words: int, bits: int) -> None:
    """Four times the words: 4 x a register, 2 x an SRAM, the same DRAM; area 4 x; a bit costs the same in
    words twice as wide when the capacity in bits is the same."""
    energy, area = table.access_energy_pj, table.storage_area_um2

    assert energy("register", 4 * words, bits) == pytest.approx(4 * energy("register", words, bits))
    assert energy("sram", 4 * words, bits) == pytest.approx(2 * energy("sram", words, bits))
    assert energy("dram", 4 * words, bits) == energy("dram", words, bits)
    assert energy("sram", words, 2 * bits) == pytest.approx(2 * energy("sram", 2 * words, bits))
    assert energy("dram", words, 2 * bits) == pytest.approx(2 * energy("dram", 2 * words, bits))
    assert area("register", 4 * words, bits) == pytest.approx(4 * area("register", words, bits))
    assert area("sram", 4 * words, bits) == pytest.approx(4 * area("sram", words, bits))
    assert area("dram", words, bits) == 0


@given(TABLES, st.sampled_from(KINDS), WORDS, WORDS, BITS)
def test_ratios_are_the_laws_divided_by_themselves(
    table: Technology, kind: Kind, size: int, at_size: int, bits: int
) -> None:
    law = table.access_energy_pj(kind, size, bits) / table.access_energy_pj(kind, at_size, bits)
    assert energy_ratio(kind, size, at_size) == pytest.approx(law)
    areas = [table.storage_area_um2(kind, words, bits) for words in (size, at_size)]
    assert area_ratio(kind, size, at_size) * areas[1] == pytest.approx(areas[0])
    assert energy_ratio(kind, size, size) == 1.0


@pytest.mark.parametrize("name", technology_names())
def test_every_number_has_a_source(name: str) -> None:
    table = load_technology(name)
    assert table.name == name
    numbers = [getattr(table, field.name) for field in fields(table)]
    sourced = [number for number in numbers if isinstance(number, Sourced)]
    assert len(sourced) >= 7
    assert all(number.value > 0 and len(number.source) > 20 for number in sourced)


def test_sets_technology_gives_the_energies_of_the_released_program() -> None:
    """The buffer of 1 MiB and the weight buffer of 4 KiB are on the law; those between lie above it."""
    law = SET_12NM.access_energy_pj
    for size, read, write in ((1 << 20, 1.0537, 1.8722), (4096, 0.3053, 0.2471)):
        assert law("sram", size, 8) == pytest.approx(read, rel=1e-4)
        assert law("sram", size, 8, "write") == pytest.approx(write, rel=1e-4)
    for size, read, write in ((8192, 0.3885, 0.3293), (28 * 1024, 0.61185, 0.7919)):
        assert 0.7 * read < law("sram", size, 8) < read
        assert 0.6 * write < law("sram", size, 8, "update") < write
    for access in ACCESSES:
        ratio = law("sram", 4096, 8, access) / law("sram", 1 << 20, 8, access)
        assert SET_12NM.energy_ratio("sram", 4096, 1 << 20, access) == pytest.approx(ratio)
    assert (SET_12NM.hop_pj_per_byte(), law("dram", 0, 8)) == (8 * 0.7, 8 * 7.5)


def test_seven_nanometres_give_the_energies_of_the_papers_table() -> None:
    """7.5 pJ for 64 bits of 8 KB and 14 pJ of 1 MB."""
    for size, energy in ((8192, 7.5), (1 << 20, 14.0)):
        assert 8 * TPUV4I_7NM.access_energy_pj("sram", size, 8) == pytest.approx(energy, rel=1e-3)


def test_areas_of_a_tile_are_those_of_geminis_program() -> None:
    """By hand, at 12 nm: 1 MiB, 1024 MACs, 64 vector units and links of 24 GB/s; 56 GB/s of GDDR6X."""
    scale = 2.2 * 1.05 * 1.05
    assert SET_12NM.storage_area_um2("sram", 1 << 20, 8) == pytest.approx(2**20 * 8 * 0.0964 * scale)
    assert SET_12NM.multiply_area_um2(8) == pytest.approx(57.9 * scale)
    assert SET_12NM.vector_unit_um2() == pytest.approx(8 * 57.9 * scale)
    assert SET_12NM.tile_router_um2(24) == pytest.approx(24 * 16781.312 * scale)
    assert SET_12NM.interface_um2(56) == pytest.approx(5940 * 1100 * 1.05 * 1.05)
    assert SET_12NM.tile_leakage_mw(1024, 8, 64, 24) == SET_12NM.interface_idle_mw(16) == 0


def test_leakage_follows_from_words_units_and_bandwidth() -> None:
    given = {
        "sram_leakage": "2 nW",
        "register_leakage": "4 nW",
        "mac_leakage": "1 uW",
        "vector_leakage": "3 uW",
        "router_leakage": "10 uW",
        "dram_idle": 5,
    }
    document = load_yaml(FOLDER / "set-12nm.yaml")
    document |= {key: {"value": value, "source": "this test"} for key, value in given.items()}
    table = technology_from_document(document, "file")
    assert table.storage_leakage_mw("sram", 1000, 16) == pytest.approx(2 * 1000 * 2e-6)
    assert table.storage_leakage_mw("register", 10, 8) == pytest.approx(10 * 4e-6)
    assert table.tile_leakage_mw(100, 8, 10, 24) == pytest.approx(0.1 + 0.03 + 0.24)
    assert table.interface_idle_mw(16) == pytest.approx(80)


def test_what_a_technology_lacks_is_said() -> None:
    with pytest.raises(InputError, match=r"register_energy.*state it in the file that names set-12nm"):
        SET_12NM.access_energy_pj("register", 16, 8)
    for energy in (THISTLE_45NM.hop_pj_per_byte, THISTLE_45NM.vector_operation_pj):
        with pytest.raises(InputError, match="technology thistle-45nm"):
            energy()
    assert THISTLE_45NM.tile_router_um2(24) == THISTLE_45NM.interface_um2(16) == 0


def test_a_technology_is_read_from_a_file_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (FOLDER / "set-12nm.yaml").read_text()
    path.write_text(text)
    assert load_technology(path) == SET_12NM
    path.write_text(text.replace("0.018 pJ", "0.036 pJ"))
    os.utime(path, ns=(1, 1))
    assert load_technology(path).multiply_energy_pj(8) == 0.036
    with pytest.raises(InputError, match=r"other\.yaml"):
        load_technology(tmp_path / "other.yaml")


def test_unknown_table_names_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"simba-like-8bit, thistle-45nm, tpuv4i-7nm.*Did you mean thistle-45nm\?"
    ):
        load_technology("Thistle_45nm")


@pytest.mark.parametrize(
    ("key", "wrong", "expected"),
    [
        ("word_bits", None, r"word_bits: expected a value, found nothing"),
        ("sram_exponent", {"value": 1.5, "source": "s"}, r"sram_exponent\.value: expected at most 1"),
        ("sram_enrgy", {"value": 1, "source": "s"}, r"Did you mean sram_energy\?"),
        ("dram_energy", {"value": "128 um2", "source": "s"}, r"dram_energy\.value: expected a number"),
        (
            "dram_energy",
            {"value": 0, "source": "s"},
            r"dram_energy\.value: expected a number above 0",
        ),
        ("mac_area", {"value": "3 mm2"}, r"mac_area\.source: expected a value, found nothing"),
        ("word_bits", 0, r"word_bits: expected at least 1"),
    ],
)
def test_a_wrong_table_is_refused_by_its_key(key: str, wrong: object, expected: str) -> None:
    document = load_yaml(FOLDER / "thistle-45nm.yaml")
    document[key] = wrong
    if wrong is None:
        del document[key]
    with pytest.raises(InputError, match=expected):
        technology_from_document(document, "file")


def test_units_of_a_table_are_read() -> None:
    document = load_yaml(FOLDER / "thistle-45nm.yaml")
    document["dram_energy"]["value"] = "0.128 nJ"
    document["mac_area"]["value"] = 1239.5
    assert technology_from_document(document, "file") == THISTLE_45NM


def _level(name: str, energy: float, **others: object) -> StorageLevel:
    return StorageLevel(name, 64, 16, energy, energy, energy, **others)  # type: ignore[arg-type]


def _stack(*levels: StorageLevel) -> Architecture:
    dram = replace(_level("DRAM", 128.0), size_words=None)
    return Architecture("stack", (*levels, dram), Compute("MAC", 16, 1.0))


def test_a_dearer_inner_level_is_warned_about() -> None:
    (warning,) = energy_inversions(_stack(_level("RF", 4.64), _level("SRAM", 4.58)))
    assert "RF costs 4.64 pJ a word, more than SRAM outside it (4.58 pJ)" in warning


def test_equal_cheaper_disjoint_and_blocked_levels_are_not() -> None:
    assert energy_inversions(_stack(_level("RF", 4.58), _level("SRAM", 4.58))) == []
    inputs, weights = _level("I", 1.0, keeps=("inputs",)), _level("W", 1.5, keeps=("weights",))
    assert energy_inversions(_stack(weights, inputs)) == []
    assert energy_inversions(_stack(_level("RF", 8.0, block_size=8), _level("SRAM", 2.0))) == []


def test_levels_need_not_be_neighbours_to_be_compared() -> None:
    middle = _level("I", 1.0, keeps=("inputs",))
    (warning,) = energy_inversions(_stack(_level("W", 9.0, keeps=("weights",)), middle, _level("GB", 3.0)))
    assert warning.startswith("W costs 9 pJ")
