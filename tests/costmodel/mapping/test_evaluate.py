"""evaluate: sums, bandwidth, leakage and blocks by hand; what it refuses."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import read_cases
from costmodel.formats.cases.problem import shape_of_layer
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.precision import Precision, Width
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.counts.energy import access_energy_pj
from costmodel.mapping.counts.latency import level_cycles
from costmodel.mapping.counts.traffic import Counts, refuse_begun
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import gemm

ALL = frozenset({"A", "B", "Z"})
BUFFER = StorageLevel("Buffer", 64, 16, 1.0, 2.0, 4.0, fanout_x=4)
DRAM = StorageLevel("DRAM", None, 16, 100.0, 200.0, 300.0, block_size=8)
CHIP = Architecture("chip", (BUFFER, DRAM), Compute("MAC", 16, 0.5))
LAYER = gemm("g", M=4, N=4, K=3)
MAPPING = Mapping((LevelMapping((("K", 3),), (("M", 4),), (), ALL), LevelMapping((("N", 4),), (), (), ALL)))


def chip(inner: StorageLevel = BUFFER, outer: StorageLevel = DRAM) -> Architecture:
    return replace(CHIP, levels=(inner, outer))


def test_counts_and_energy_by_hand() -> None:
    """M4 across, K3 in the buffer, N4 outside: A stays, B and Z stream."""
    found = evaluate(CHIP, LAYER, MAPPING)
    buffer, dram = found.levels
    traffic = {name: (t.reads, t.fills, t.updates) for name, t in buffer.tensors.items()}
    assert traffic == {"A": (48, 12, 0), "B": (12, 12, 0), "Z": (32, 0, 48)}
    assert {name: (t.reads, t.fills, t.updates) for name, t in dram.tensors.items()} == {
        "A": (12, 0, 0),
        "B": (12, 0, 0),
        "Z": (0, 0, 16),
    }
    assert buffer.energy_pj == 48 + 12 + 32 + 2 * (12 + 12) + 4 * 48
    assert dram.energy_pj == (2 + 2) * 100 + 2 * 300  # blocks of 8: ceil(12 / 8), ceil(16 / 8)
    assert found.mac_energy_pj == 48 * 0.5
    assert found.energy_pj == buffer.energy_pj + dram.energy_pj + found.mac_energy_pj
    assert (found.cycles, found.compute_cycles, found.macs, found.utilization) == (12, 12, 48, 1.0)
    assert found.edp_pj_cycles == found.energy_pj * 12


def test_bandwidth_stretches_the_slowest_level_only() -> None:
    found = evaluate(chip(outer=replace(DRAM, read_bandwidth=0.5)), LAYER, MAPPING)
    assert [level.cycles for level in found.levels] == [12, 24 / 0.5]
    assert (found.cycles, found.compute_cycles, found.utilization) == (48, 12, 0.25)


@pytest.mark.parametrize(
    ("bandwidths", "cycles"),
    [
        ({"read_bandwidth": 2}, 92 // 2),
        ({"write_bandwidth": 3}, 72 // 3),
        ({"shared_bandwidth": 4}, (92 + 72) // 4),
        ({"read_bandwidth": 2, "shared_bandwidth": 4}, 46),
        ({"read_bandwidth": 1000}, 12),
        ({}, 12),
    ],
)
def test_read_write_and_shared_bandwidth(bandwidths: dict[str, Any], cycles: int) -> None:
    """The buffer reads 48 + 12 + 32 words and takes in 12 + 12 + 48."""
    assert evaluate(chip(replace(BUFFER, **bandwidths)), LAYER, MAPPING).levels[0].cycles == cycles


@given(
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_cycles_are_words_over_bandwidth(
    compute: int, reads: int, fills: int, read: int, shared: int
) -> None:
    level = replace(BUFFER, read_bandwidth=read, shared_bandwidth=shared)
    exact = max(compute, ceil(reads / read), ceil((reads + fills) / shared))
    assert exact <= level_cycles(level, compute, [Counts(reads, fills, 0, 1, 1)]) <= exact + 1


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 64))
def test_each_kind_of_access_is_rounded_up_to_blocks(
    reads: int, fills: int, updates: int, block: int
) -> None:
    level = replace(BUFFER, block_size=block)
    exact = ceil(reads / block) + 2 * ceil(fills / block) + 4 * ceil(updates / block)
    assert access_energy_pj(level, Counts(reads, fills, updates, 1, 1), 3) == 3 * exact


def test_leakage_of_used_instances_even_where_nothing_is_kept() -> None:
    register = StorageLevel("Register", 2, 16, 0.0, 0.0, 0.0, leakage_pj_per_cycle=0.25)
    stack = replace(CHIP, levels=(register, BUFFER, DRAM))
    empty = LevelMapping((), (), (), frozenset())
    found = evaluate(stack, LAYER, Mapping((empty, *MAPPING.levels)))
    assert found.levels[0].tensors == {}
    assert found.levels[0].leakage_pj == found.levels[0].energy_pj == 0.25 * 12 * 4
    assert found.levels[1].tensors == evaluate(CHIP, LAYER, MAPPING).levels[0].tensors


def test_an_invalid_mapping_is_refused_with_every_reason() -> None:
    too_wide = LevelMapping((("K", 3),), (("M", 8),), (), ALL)
    with pytest.raises(InputError) as caught:
        evaluate(CHIP, LAYER, Mapping((too_wide, MAPPING.levels[1])))
    assert "M multiply to 8" in str(caught.value)
    assert "fan-out is 4" in str(caught.value)


def test_sums_that_are_there_before_are_read_and_filled() -> None:
    """M4 across, K3 in the buffer, N4 outside: each of the 16 sums comes in once, and is read once more."""
    fresh, begun = evaluate(CHIP, LAYER, MAPPING), evaluate(CHIP, LAYER.continued, MAPPING)
    for level, filled in ((0, 16), (1, 0)):
        first, later = (one.levels[level].tensors["Z"] for one in (fresh, begun))
        assert later.reads == first.reads + 16
        assert later.fills == first.fills + filled
        assert later.updates == first.updates
    # two blocks of DRAM are read, and 16 words read and filled in the buffer
    assert begun.energy_pj == fresh.energy_pj + 2 * 100.0 + 16 * (1.0 + 2.0)


def test_sums_that_are_there_before_are_refused_where_nobody_counts_them() -> None:
    byte = Width(8)
    narrow = replace(CHIP, precision=Precision(byte, byte, byte, byte))
    begun = MappingBatch.of([MAPPING], CHIP, LAYER)
    with pytest.raises(InputError, match="an architecture without precision"):
        evaluate(narrow, LAYER.continued, MAPPING)
    with pytest.raises(InputError, match="an architecture without precision"):
        BatchEvaluator(narrow, LAYER.continued).evaluate(begun)
    timed = load_architecture("gemmini")
    with pytest.raises(InputError, match="an architecture without timing"):
        refuse_begun(timed, LAYER.continued)
    with pytest.raises(InputError, match="outputs that begin at zero"):
        shape_of_layer(LAYER.continued)


def test_the_order_of_dims_and_the_name_of_the_layer_do_not_matter(cases_folder: Path) -> None:
    for case in list(read_cases(cases_folder / "E_four_level.jsonl.gz"))[:10]:
        other = replace(case.layer, name="other", dims=case.layer.dims[::-1])
        assert evaluate(case.architecture, other, case.mapping) == evaluate(
            case.architecture, case.layer, case.mapping
        )


def test_to_json_is_plain_data() -> None:
    found = evaluate(CHIP, LAYER, MAPPING)
    data = json.loads(json.dumps(found.to_json()))
    assert data["edp_pj_cycles"] == found.edp_pj_cycles
    assert [level["name"] for level in data["levels"]] == ["Buffer", "DRAM"]
    assert data["levels"][0]["tensors"]["A"]["reads"] == 48
    assert pickle.loads(pickle.dumps(found)) == found
