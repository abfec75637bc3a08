"""The laws against the papers' numbers and against each other, and the warning about degenerate tables."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.technologies import FOLDER, load_technology, technology_names
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.formats.yaml.technology import technology_from_document
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.technology import (
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
TABLES = st.sampled_from([load_technology(name) for name in technology_names()])


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
    assert len(sourced) == 7
    assert all(number.value > 0 and len(number.source) > 20 for number in sourced)


def test_unknown_table_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"simba-like-8bit, thistle-45nm.*Did you mean thistle-45nm\?"):
        load_technology("Thistle_45nm")


@pytest.mark.parametrize(
    ("key", "wrong", "expected"),
    [
        ("sram_energy", None, r"sram_energy: expected a value, found nothing"),
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
