"""Architecture files: what each key means, the laws under overrides, and a message for every mistake."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.technologies import load_technology
from costmodel.formats.yaml import architecture as architecture_yaml
from costmodel.formats.yaml.architecture import architecture_from_document
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel

FAMILY = """
name: family
technology: thistle-45nm
word_bits: 16
levels:
  - {name: DRAM, kind: dram}
  - {name: SRAM, kind: sram, size: 128 KiB, fanout: [14, 12]}
  - {name: RegFile, kind: register, size: 512}
"""
STATED = """
name: stated
frequency: 500 MHz
levels:
  - name: DRAM
    kind: dram
    word_bits: 8
    block_size: 64
    energy: 4.096 nJ
    shared_bandwidth: 16 GB/s
  - name: Buffer
    kind: sram
    size: 3 KiB
    word_bits: 24
    energy: {read: 1 pJ, write: 2, update: 3 pJ}
    read_bandwidth: 12 B/cycle
    write_bandwidth: 2
    leakage: 1 mW
    area: 0.5 mm2
    fanout: [4, 1]
    keeps: [inputs, outputs]
    multiple_buffering: 2
compute: {name: PE, word_bits: 8, energy: 500 fJ, area: 310}
"""


def document(text: str = FAMILY) -> dict[str, Any]:
    return dict(yaml.safe_load(text))


def built(data: Any, **overrides: Any) -> Architecture:
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return architecture_from_document(data, "chip.yaml", changes)


def test_every_key_by_hand() -> None:
    dram = StorageLevel("DRAM", None, 8, 4096.0, 4096.0, 4096.0, block_size=64, shared_bandwidth=32.0)
    buffer = StorageLevel(
        name="Buffer",
        size_words=1024,
        word_bits=24,
        read_energy_pj=1.0,
        write_energy_pj=2.0,
        update_energy_pj=3.0,
        leakage_pj_per_cycle=2.0,
        read_bandwidth=4.0,
        write_bandwidth=2.0,
        multiple_buffering=2.0,
        fanout_x=4,
        keeps=("inputs", "outputs"),
        area_um2=500_000.0,
    )
    expected = Architecture("stated", (buffer, dram), Compute("PE", 8, 0.5, 310.0), 500e6)
    assert built(document(STATED)) == expected


def test_absent_numbers_come_from_the_technology() -> None:
    chip = built(document())
    registers, sram, dram = chip.levels
    assert sram.size_words == 65536
    assert sram.read_energy_pj == sram.write_energy_pj == sram.update_energy_pj
    assert sram.read_energy_pj == load_technology("thistle-45nm").access_energy_pj("sram", 65536, 16)
    assert registers.area_um2 == load_technology("thistle-45nm").storage_area_um2("register", 512, 16)
    assert (dram.read_energy_pj, dram.area_um2) == (128.0, 0.0)
    assert chip.compute == Compute("MAC", 16, 2.2, 1239.5)
    assert chip.frequency_hz == 1e9


def test_a_block_costs_its_words() -> None:
    one, eight = built(document()), built(document(), SRAM__block_size=8)
    assert eight.levels[1].read_energy_pj == pytest.approx(8 * one.levels[1].read_energy_pj)


def test_without_a_technology_absent_areas_are_zero() -> None:
    data = document(STATED)
    del data["levels"][1]["area"], data["compute"]["area"]
    assert built(data).area_um2 == 0


def test_the_example_of_the_documentation_is_a_file() -> None:
    text, precision = (part.split("```")[0] for part in str(architecture_yaml.__doc__).split("```yaml")[1:])
    chip = built(document(text))
    assert [level.name for level in chip.levels] == ["RegFile", "Buffer", "DRAM"]
    assert chip.mac_units == 14 * 12
    assert chip.levels[2].shared_bandwidth == 25.6e9 / 2 / 200e6
    assert chip.levels[1].area_um2 > 0
    narrow = built({key: value for key, value in document(text + precision).items() if key != "timing"})
    assert narrow.precision is not None
    assert narrow.precision.weights.per_element == 4 + Fraction(16, 128)


# --- overrides


@given(st.integers(1, 2**22), st.integers(1, 2**22))
def test_a_varied_size_moves_energy_and_area_by_the_law(sram: int, registers: int) -> None:
    before, after = built(document()), built(document(), SRAM__size=sram, RegFile__size=registers)
    for level, law in ((1, 0.5), (0, 1.0)):
        old, new = before.levels[level], after.levels[level]
        grown = (new.size_words or 0) / (old.size_words or 1)
        assert new.read_energy_pj == pytest.approx(old.read_energy_pj * grown**law)
        assert new.area_um2 == pytest.approx(old.area_um2 * grown)
    assert after.levels[2] == before.levels[2]
    assert after.area_um2 == pytest.approx(
        6.806 * sram + 168 * (19.874 * registers + 1239.5), rel=1e-12
    )  # Thistle's Eq 5


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from([8, 16, 32]))
def test_array_and_width_move_area_by_the_law(x: int, y: int, bits: int) -> None:
    sizes = {"SRAM.fanout": [x, y], "word_bits": bits, "SRAM.size": "64 Kiwords"}
    chip = architecture_from_document(document(), "chip.yaml", sizes)
    width = bits / 16
    pe = 19.874 * 512 * width + 1239.5 * width**2
    assert chip.mac_units == x * y
    assert chip.area_um2 == pytest.approx(6.806 * 65536 * width + x * y * pe)
    assert chip.compute.energy_pj == pytest.approx(2.2 * width**2)


def test_overrides_reach_every_kind_of_key() -> None:
    changes = {"SRAM.fanout.x": 3, "frequency": "2 GHz", "compute.energy": "1 pJ", "DRAM.read_bandwidth": 7}
    chip = architecture_from_document(document(), "chip.yaml", changes)
    assert (chip.levels[1].fanout_x, chip.levels[1].fanout_y) == (3, 12)
    assert (chip.frequency_hz, chip.compute.energy_pj, chip.levels[2].read_bandwidth) == (2e9, 1.0, 7.0)
    assert built(document(), RegFile__fanout__y=2).levels[0].fanout_y == 2
    assert built(document(STATED), Buffer__energy__read=9).levels[0].read_energy_pj == 9
    part_first = built(document(), RegFile__fanout__y=2, RegFile__fanout=[3, 5]).levels[0]
    assert (part_first.fanout_x, part_first.fanout_y) == (3, 2)


def test_overrides_leave_the_document_alone() -> None:
    data = document()
    data["compute"] = None
    before = deepcopy(data)
    built(data, SRAM__fanout__x=3, SRAM__size=7, compute__energy=1)
    assert data == before


def test_a_stated_energy_stays_and_an_anchored_one_follows_the_law() -> None:
    data = document()
    data["levels"][1]["energy"] = 5
    assert built(data, SRAM__size=1024).levels[1].read_energy_pj == 5
    data["levels"][1]["energy"] = {"read": 5, "write": 6, "update": 7, "at_size": "128 KiB"}
    assert built(data).levels[1].update_energy_pj == 7
    quarter = built(data, SRAM__size="32 KiB").levels[1]
    assert (quarter.read_energy_pj, quarter.write_energy_pj) == (2.5, 3.0)


def test_a_stated_area_stays_and_an_anchored_one_follows_the_law() -> None:
    data = document()
    data["levels"][1]["area"] = 9000
    assert built(data, SRAM__size="32 KiB").levels[1].area_um2 == 9000
    data["levels"][1]["area"] = {"value": "0.012 mm2", "at_size": "128 KiB"}
    assert built(data).levels[1].area_um2 == 12_000
    assert built(data, SRAM__size="32 KiB").levels[1].area_um2 == 3_000


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("SRAM.sise", 3, "override of chip.yaml: SRAM.sise: expected a key of level SRAM: name, kind, size"),
        ("sram.size", 3, r"sram.size: expected a level: DRAM, SRAM, RegFile, compute.*Did you mean SRAM\?"),
        ("SRAM.size", "3 KiX", r"override of chip.yaml: SRAM.size: .*found 3 KiX. Did you mean KiB\?"),
        ("SRAM.size", 0, "SRAM.size: expected a number above 0"),
        ("SRAM.fanout", [0, 3], "override of chip.yaml: SRAM.fanout: expected at least 1, found 0"),
        ("SRAM.fanout.x", 0, "override of chip.yaml: SRAM.fanout.x: expected at least 1, found 0"),
        ("SRAM.fanout.z", 1, "a part of fanout: x, y"),
        ("SRAM.fanout.x.y", 1, "fanout has no parts here"),
        ("SRAM.size.x", 1, "size has no parts here: override it whole"),
        ("SRAM.energy.read", 1, "energy has no parts here"),
        ("compute.foo", 1, "a key of compute: name, word_bits, energy, area"),
        ("compute.energy", -1, "override of chip.yaml: compute.energy: expected a number of at least 0"),
        ("levels", [], r"a key of the file \(or LEVEL.KEY\): name, .*word_bits, precision, found levels"),
        ("SRAM", 1, "or LEVEL.KEY"),
        ("technology", "cmos", "override of chip.yaml: technology: expected a file, or one of set-12nm"),
        ("SRAM.meshX", 4, "found meshX. Here instances are the fanout of the level above"),
        ("SRAM.depth", 4, "found depth. Here the words of a memory are its size"),
        ("SRAM.keeps", ["weights", "weights"], "override of chip.yaml: SRAM.keeps: .*each once"),
    ],
)
def test_wrong_overrides(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        architecture_from_document(document(), "chip.yaml", {key: value})


@pytest.mark.parametrize(
    "changes",
    [{"SRAM.fanout.y": 2, "SRAM.fanout.x": 0}, {"SRAM.fanout": [2, 2], "SRAM.fanout.x": 0}],
)
def test_the_part_that_is_wrong_is_blamed(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"override of chip\.yaml: SRAM\.fanout\.x: expected at least 1"):
        architecture_from_document(document(), "chip.yaml", changes)


def test_a_mistake_of_the_file_is_not_blamed_on_an_override() -> None:
    data = document()
    data["levels"][1]["size"] = 0
    with pytest.raises(InputError, match=r"^chip.yaml: levels.SRAM.size"):
        built(data, RegFile__size=5)


# --- mistakes: where in the document, what is written there (ABSENT removes it), the message

ABSENT = object()
MISTAKES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("levels", 1, "size"), 0, "levels.SRAM.size: expected a number above 0, .* found 0"),
    (("levels", 1, "size"), "-4 KiB", "levels.SRAM.size: .*found -4 KiB"),
    (
        ("levels", 1, "size"),
        "3 B",
        "levels.SRAM.size: expected a whole number of words.*1.5 words of 16 bits",
    ),
    (
        ("levels", 1, "size"),
        ABSENT,
        "levels.SRAM.size: expected a size, found nothing. The laws of sram need it",
    ),
    (("levels", 1, "sise"), 5, r"levels.SRAM.sise: expected one of the keys name, .*Did you mean size\?"),
    (
        ("levels", 1, "kind"),
        "flash",
        "levels.SRAM.kind: expected 'dram', 'sram' or 'register', found 'flash'",
    ),
    (("levels", 1, "kind"), ABSENT, "levels.SRAM.kind: expected a value, found nothing. Add the key kind"),
    (("levels", 1, "name"), "L 1", r"levels\[1\].name: expected a name of letters.*found 'L 1'"),
    (("levels", 1, "name"), "DRAM", "levels: expected level names that are all different"),
    (("levels", 1, "word_bits"), "16", "levels.SRAM.word_bits: expected a whole number, found '16'"),
    (("levels", 1, "word_bits"), 0, "levels.SRAM.word_bits: expected at least 1, found 0"),
    (("levels", 1, "block_size"), 1.5, "levels.SRAM.block_size: expected a whole number, found 1.5"),
    (("levels", 1, "block_size"), True, "levels.SRAM.block_size: expected a whole number, found True"),
    (("levels", 1, "fanout"), [14], r"levels.SRAM.fanout: expected two whole numbers \[x, y\], found \[14\]"),
    (("levels", 1, "fanout"), 14, r"levels.SRAM.fanout: expected two whole numbers \[x, y\], found 14"),
    (("levels", 1, "fanout"), [4, -1], r"levels.SRAM.fanout\[1\]: expected at least 1, found -1"),
    (("levels", 1, "keeps"), [], "levels.SRAM.keeps: expected at least 1 entries"),
    (
        ("levels", 1, "keeps"),
        ["weight"],
        r"levels.SRAM.keeps\[0\]: expected 'weights', 'inputs' or 'outputs'",
    ),
    (("levels", 1, "keeps"), ["inputs", "inputs"], "levels.SRAM.keeps: .*each once"),
    (("levels", 1, "energy"), "-1 pJ", "levels.SRAM.energy: expected a number of at least 0"),
    (("levels", 1, "energy"), {"read": 1, "rite": 2}, r"levels.SRAM.energy.rite: .*Did you mean write\?"),
    (("levels", 1, "energy"), {"read": 1, "write": 2}, "levels.SRAM.energy.update: expected a value"),
    (
        ("levels", 1, "energy"),
        {"read": [], "write": 2, "update": 2},
        "levels.SRAM.energy.read: .*found \\[\\]",
    ),
    (("levels", 1, "leakage"), "2 mA", r"levels.SRAM.leakage: .*found 2 mA. Did you mean mW\?"),
    (("levels", 1, "area"), "big", "levels.SRAM.area: expected a number of at least 0, .*found big"),
    (("levels", 1, "read_bandwidth"), 0, "levels.SRAM.read_bandwidth: expected a number above 0"),
    (("levels", 1, "read_bandwidth"), "5 GBps", r"levels.SRAM.read_bandwidth: .*Did you mean GB/s\?"),
    (
        ("levels", 1, "multiple_buffering"),
        0.5,
        "levels.SRAM.multiple_buffering: expected at least 1.0, found 0.5",
    ),
    (("levels", 1, "multiple_buffering"), float("inf"), "levels.SRAM.multiple_buffering: expected a finite"),
    (("levels", 0, "size"), 5, "levels: expected an outermost level that is unlimited"),
    (
        ("levels", 0, "keeps"),
        ["inputs"],
        "levels: expected an outermost level that is unlimited and keeps every",
    ),
    (("levels", 0), "DRAM", r"levels\[0\]: expected the keys name, kind, size, .*found 'DRAM'"),
    (("levels",), [], "levels: expected at least 1 entries, found "),
    (("levels",), {"SRAM": 5}, "levels: expected a list"),
    (("levels",), ABSENT, "levels: expected a value, found nothing. Add the key levels"),
    (("leves",), [], r"leves: expected one of the keys name, .*Did you mean levels\?"),
    (("compute",), 5, "compute: expected the keys name, word_bits, energy, area, found 5"),
    (("compute",), {"energie": 5}, r"compute.energie: .*Did you mean energy\?"),
    (
        ("technology",),
        "thistle",
        "technology: expected a file, or one of .*, found thistle",
    ),
    (("technology",), ABSENT, "levels.RegFile.energy: expected an energy, found nothing.*or a technology"),
    (("word_bits",), ABSENT, "levels.RegFile.word_bits: expected the bits of a word, found nothing"),
    (("frequency",), "0 Hz", "frequency: expected a number above 0, such as '1 GHz'"),
    (("name",), 5, "name: expected a text, found 5"),
    (("name",), "", "name: expected a text that is not empty, found ''"),
    (("source",), {"a": 1}, "source: expected a list"),
    ((7,), 1, r"\[7\]: expected keys that are text, found 7"),
]


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_mistakes_name_the_key(path: tuple[Any, ...], value: Any, message: str) -> None:
    data = document()
    owner: Any = data
    for part in path[:-1]:
        owner = owner[part]
    if value is ABSENT:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    with pytest.raises(InputError, match=f"^chip.yaml: {message}"):
        built(data)


JUNK = [
    *(
        None,
        True,
        0,
        -1,
        1,
        3.5,
        float("nan"),
        float("inf"),
        10**400,
        "",
        "x",
        "1 KiB",
        "9" * 400,
        b"x",
        1e-300,
    ),
    *([], {}, [1, 2], {"a": 1}, {1: 2}, [[1]], {"read": 1, "write": 1, "update": 1, "at_size": 1}),
]
PLACES = [path for path, *_ in MISTAKES]
OVERRIDDEN = ["SRAM.size", "compute.energy", "DRAM.fanout.x", "SRAM.energy.read", "frequency", "", "a.b.c", 1]


@given(
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(JUNK)), max_size=3),
    st.dictionaries(st.sampled_from(OVERRIDDEN), st.sampled_from(JUNK), max_size=2),
)
def test_junk_makes_an_architecture_or_an_input_error(
    changes: list[tuple[tuple[Any, ...], Any]], overrides: Any
) -> None:
    data: Any = document()
    for path, junk in changes:
        with suppress(KeyError, IndexError, TypeError):  # an earlier change took the place away
            owner = data
            for part in path[:-1]:
                owner = owner[part]
            owner[path[-1]] = deepcopy(junk)
    assert refused_at(data, overrides) in ("", "chip.yaml", "override of chip.yaml")


def refused_at(data: Any, overrides: Any) -> str:
    try:
        architecture_from_document(data, "chip.yaml", overrides)
    except InputError as error:
        return error.where
    return ""


@pytest.mark.parametrize("data", [None, [], "text", 5])
def test_a_file_that_is_no_mapping(data: Any) -> None:
    with pytest.raises(InputError, match=r"^chip.yaml: expected the keys name, .*levels"):
        built(data)
    with pytest.raises(InputError, match=r"^chip.yaml: expected the keys name, .*levels"):
        built(data, SRAM__size=5)


def test_missing_energy_of_the_macs() -> None:
    data = document(STATED)
    del data["compute"]["energy"]
    with pytest.raises(InputError, match=r"^chip.yaml: compute.energy: expected an energy, found nothing"):
        built(data)


def test_round_trip_through_json() -> None:
    chip = replace(built(document(STATED)), name="again")
    assert Architecture.from_json(chip.to_json()) == chip
