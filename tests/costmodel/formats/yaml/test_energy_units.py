"""Energies of an access, a word, a bit, a byte: the same energy in other words is the same number."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from sweep.study.designs.axis import Axis, meaning


@pytest.mark.parametrize(
    ("energy", "pj"),
    [
        ("3 pJ", 3.0),
        (3, 3.0),
        ("3 pJ/word", 3.0 * 4),
        ("3 pJ/bit", 3.0 * 4 * 16),
        ("3000 fJ/bit", 3.0 * 4 * 16),
        ("24 pJ/B", 3.0 * 4 * 16),
        ("0.003 nJ/bit", 3.0 * 4 * 16),
    ],
)
def test_an_access_moves_a_block_of_words_of_bits(energy: object, pj: float) -> None:
    """Blocks of 4 words of 16 bits."""
    level = load_architecture("eyeriss", {"SRAM.energy": energy, "SRAM.block_size": 4}).levels[1]
    assert level.read_energy_pj == pytest.approx(pj)
    assert level.write_energy_pj == level.update_energy_pj == level.read_energy_pj


def test_reads_and_writes_may_be_told_in_different_units() -> None:
    energy = {"read": "1 pJ/bit", "write": "10 pJ/word", "update": "11 pJ"}
    level = load_architecture("eyeriss", {"SRAM.energy": energy}).levels[1]
    assert (level.read_energy_pj, level.write_energy_pj, level.update_energy_pj) == (16, 10, 11)


def test_wider_words_cost_more_by_the_bit_and_the_same_by_the_access() -> None:
    def read(energy: str, word_bits: int) -> float:
        changes = {"SRAM.energy": energy, "SRAM.word_bits": word_bits}
        return load_architecture("eyeriss", changes).levels[1].read_energy_pj

    assert read("3 pJ/bit", 32) == 2 * read("3 pJ/bit", 16)
    assert read("3 pJ", 32) == read("3 pJ", 16)


@pytest.mark.parametrize(
    ("key", "energy", "pj"),
    [
        ("noc.hop_energy", "0.7 pJ/bit", 5.6),
        ("noc.hop_energy", "5.6 pJ/B", 5.6),
        ("noc.hop_energy", "5.6 pJ", 5.6),
        ("dram.read_energy", "7.5 pJ/bit", 60),
    ],
)
def test_what_moves_bytes_takes_bits_and_bytes(key: str, energy: str, pj: float) -> None:
    chip = load_chip("set-edge", {key: energy})
    found = chip.noc.hop_pj_per_byte if key.startswith("noc") else chip.dram.read_pj_per_byte
    assert found == pytest.approx(pj)


@pytest.mark.parametrize(
    ("load", "name", "key", "energy", "fragments"),
    [
        (load_architecture, "eyeriss", "compute.energy", "3 pJ/bit", ["whatever the width"]),
        (
            load_architecture,
            "eyeriss",
            "SRAM.energy",
            "3 pJ/bt",
            ["one access", "block_size words", "pJ/bit?"],
        ),
        (load_chip, "set-edge", "noc.hop_energy", "3 pJ/word", ["for one byte", "pJ/bit"]),
        (load_chip, "set-edge", "tile.vector_energy", "3 pJ/bit", ["whatever the width"]),
        (load_architecture, "eyeriss", "SRAM.leakage", "3 pJ/bit", ["pJ/cycle"]),
    ],
)
def test_a_suggestion_never_changes_what_an_energy_is_of(
    load: Any, name: str, key: str, energy: str, fragments: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        load(name, {key: energy})
    message = str(caught.value)
    assert "Did you mean pJ?" not in message
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("energy", ["3 pJ/byte", "3 pJ/bytes", "3 pJ/b", "3 pJ/bits", "3 nJ/Byte"])
@pytest.mark.parametrize(
    ("load", "name", "key"),
    [(load_architecture, "eyeriss", "SRAM.energy"), (load_chip, "set-edge", "dram.read_energy")],
)
def test_a_suggestion_keeps_bits_and_bytes_apart(load: Any, name: str, key: str, energy: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, {key: energy})
    right = "/B?" if "yte" in energy else "/bit?"
    assert str(caught.value).endswith(right)


def test_energies_of_an_axis_are_in_order_and_compared_by_what_they_mean() -> None:
    assert Axis("SRAM.energy", ("1 pJ/bit", "2 pJ/bit", "4 pJ/bit")).ordered
    assert meaning("8 pJ/B") == meaning("1 pJ/bit") != meaning("1 pJ")
