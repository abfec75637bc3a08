"""Architecture families: laws as the technology states them, members as the loader builds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.technologies import load_technology
from solvers.codesign.family import ArchitectureFamily

THISTLE_45NM = load_technology("thistle-45nm")

FIXED = """
name: mixed
technology: thistle-45nm
word_bits: 16
levels:
  - {name: DRAM, kind: dram}
  - {name: Stated, kind: sram, size: 1024 words, energy: 3 pJ, area: 500 um2, fanout: [2, 3]}
  - {name: Scaled, kind: sram, size: 256 words, energy: {read: 1, write: 2, update: 0, at_size: 64 words}}
"""


def test_laws_are_the_technologys(eyeriss: ArchitectureFamily) -> None:
    registers, sram = eyeriss.law("RegFile"), eyeriss.law("SRAM")
    assert (registers.energy_exponent, sram.energy_exponent) == (1.0, 0.5)  # Eq 4
    assert registers.um2_per_word == pytest.approx(
        THISTLE_45NM.storage_area_um2("register", 1, 16), rel=1e-12
    )
    assert sram.um2_per_word == pytest.approx(THISTLE_45NM.storage_area_um2("sram", 1, 16), rel=1e-12)
    assert registers.fixed_um2 == sram.fixed_um2 == 0


def test_laws_of_stated_and_scaled_levels(tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").write_text(FIXED)
    family = ArchitectureFamily(str(tmp_path / "mixed.yaml"))
    stated, scaled = family.law("Stated"), family.law("Scaled")
    assert (stated.energy_exponent, stated.fixed_um2, stated.um2_per_word) == (0.0, 500.0, 0.0)
    assert scaled.energy_exponent == 0.5
    assert family.member({"Scaled": 1024}, {}).levels[0].write_energy_pj == pytest.approx(2 * 4.0)


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-like"])
def test_laws_predict_members(name: str) -> None:
    """Energy and area of a member from the base's numbers and the law alone."""
    family = ArchitectureFamily(name)
    for level in family.base.levels:
        if level.size_words is None:
            continue
        law, size = family.law(level.name), 3 * level.size_words
        member = family.member({level.name: size}, {})
        grown = member.levels[member.index(level.name)]
        assert grown.read_energy_pj == pytest.approx(level.read_energy_pj * 3**law.energy_exponent)
        assert grown.area_um2 == pytest.approx(law.fixed_um2 + law.um2_per_word * size)


def test_members_by_name_and_in_line(eyeriss: ArchitectureFamily) -> None:
    member = eyeriss.member({"RegFile": 32}, {"SRAM": eyeriss.in_line("SRAM", 500)})
    assert member == load_architecture("eyeriss", {"RegFile.size": 32, "SRAM.fanout": [500, 1]})
    assert ArchitectureFamily("simba").in_line("AccumulationBuffer", 5) == (1, 5)


def test_overrides_are_the_familys(eyeriss: ArchitectureFamily) -> None:
    wide = ArchitectureFamily("eyeriss", (("DRAM.read_bandwidth", "8 words/cycle"),))
    assert wide.base.levels[-1].read_bandwidth == 8
    assert wide.member({"SRAM": 64}, {}).levels[-1].read_bandwidth == 8


def test_levels_without_a_size_have_no_law(eyeriss: ArchitectureFamily) -> None:
    with pytest.raises(InputError, match="unlimited"):
        eyeriss.law("DRAM")
    with pytest.raises(InputError, match="found Cache"):
        eyeriss.law("Cache")
