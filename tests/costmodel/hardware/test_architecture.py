"""Architectures: derived sizes, and values that are refused when built."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.workload.network import gemm

RF = StorageLevel("RF", 16, 8, 1.0, 1.0, 1.0, fanout_x=2, area_um2=10.0)
SRAM = StorageLevel(
    "SRAM", 1000, 8, 2.0, 2.0, 2.0, fanout_x=4, fanout_y=3, multiple_buffering=1.5, area_um2=70.0
)
DRAM = StorageLevel("DRAM", None, 8, 9.0, 9.0, 9.0)
CHIP = Architecture("chip", (RF, SRAM, DRAM), Compute("MAC", 8, 0.5, 3.0))


def test_derived_sizes() -> None:
    assert CHIP.instances == (12, 1, 1)
    assert CHIP.mac_units == 24
    assert CHIP.area_um2 == 12 * 10 + 70 + 24 * 3
    assert [level.usable_words for level in CHIP.levels] == [16, 666, inf]
    assert SRAM.fanout == 12
    assert CHIP.index("SRAM") == 1


def test_levels_hold_roles() -> None:
    layer = gemm("g", M=1, N=1, K=1)
    weights_only = replace(SRAM, keeps=("weights",))
    assert [weights_only.can_keep(tensor) for tensor in layer.tensors] == [False, True, False]


def test_json_keeps_everything() -> None:
    narrow = replace(CHIP, levels=(replace(RF, keeps=("outputs",), read_bandwidth=2.5), SRAM, DRAM))
    assert Architecture.from_json(json.loads(json.dumps(narrow.to_json()))) == narrow


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size_words", 0),
        ("size_words", -1),
        ("size_words", 2.5),
        ("size_words", True),
        ("word_bits", 0),
        ("block_size", 0),
        ("fanout_x", 0),
        ("fanout_y", 1.0),
        ("read_energy_pj", -0.1),
        ("write_energy_pj", nan),
        ("update_energy_pj", inf),
        ("leakage_pj_per_cycle", "1"),
        ("read_bandwidth", 0),
        ("write_bandwidth", -2),
        ("shared_bandwidth", nan),
        ("multiple_buffering", 0.5),
        ("keeps", ()),
        ("keeps", ("weights", "weights")),
        ("keeps", ("bias",)),
        ("area_um2", -1),
        ("size_words", 10**400),
        ("read_energy_pj", 1e300),
        ("read_bandwidth", 1e-300),
    ],
)
def test_bad_level_values_name_level_and_key(key: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        replace(SRAM, **{key: value})
    assert caught.value.key == key
    assert "SRAM" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("levels", {"levels": ()}),
        ("levels", {"levels": (RF, SRAM)}),
        ("levels", {"levels": (RF, RF, DRAM)}),
        ("levels", {"levels": (RF, replace(DRAM, keeps=("weights",)))}),
        ("frequency_hz", {"frequency_hz": 0}),
    ],
)
def test_bad_stacks(key: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        replace(CHIP, **changes)
    assert caught.value.key == key


@pytest.mark.parametrize("changes", [{"energy_pj": -1}, {"word_bits": 0}, {"area_um2": nan}])
def test_bad_compute(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(CHIP.compute, **changes)


def test_an_unknown_level_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"RF.*SRAM.*DRAM.*L2"):
        CHIP.index("L2")
