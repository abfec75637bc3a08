"""Row-stationary mappings of the Eyeriss papers against a count of their processing passes, and the papers'
tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.machines.row_stationary import RowStationary, strips
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import Layer, convolution
from sweep.silicon.eyeriss_rows import EyerissRow, eyeriss_rows

ROWS = eyeriss_rows(Path(__file__).parents[3] / "data" / "silicon" / "eyeriss.jsonl")


@pytest.fixture(scope="module")
def eyeriss() -> Architecture:
    return load_architecture("eyeriss-v1")


def counted_in_passes(row: EyerissRow, stride: int) -> dict[str, int]:
    """The same words, counted pass by pass as the chip makes them, without a nest."""
    size, m = row.layer.sizes, row.mapping
    f = m.f or size["Q"]
    words = dict.fromkeys(("filters", "inputs", "outputs", "macs", "pass_inputs", "sums", "cycles"), 0)
    for _ in range(size["K"] // m.m * (size["N"] // m.n) * (size["Q"] // f)):
        for first in range(0, size["P"], m.e):
            rows = min(m.e, size["P"] - first)
            tile = m.n * ((rows - 1) * stride + size["R"]) * ((f - 1) * stride + size["S"]) * m.q * m.r
            for _ in range(size["C"] // (m.q * m.r)):
                words["inputs"] += tile
                for _ in range(m.m // (m.p * m.t)):
                    words["pass_inputs"] += tile
                    words["filters"] += m.p * m.t * m.q * m.r * size["R"] * size["S"]
                    words["sums"] += m.n * m.p * m.t * rows * f
                    words["cycles"] += m.n * f * m.q * size["S"] * m.p
                    words["macs"] += m.n * m.p * m.t * rows * f * m.q * m.r * size["R"] * size["S"]
            words["outputs"] += m.n * m.m * rows * f
    return words


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_nest_moves_the_words_of_the_passes(row: EyerissRow, eyeriss: Architecture) -> None:
    stride = 4 if row.id.endswith("/CONV1") else 1
    expected = counted_in_passes(row, stride)
    found = dict.fromkeys(expected, 0)
    for part in strips(row.layer, row.mapping, eyeriss):
        evaluation = evaluate(eyeriss, part.layer, part.mapping)
        buffer, dram = (
            next(level.tensors for level in evaluation.levels if level.name == name)
            for name in ("GlobalBuffer", "DRAM")
        )
        found["filters"] += dram["Weights"].reads
        found["inputs"] += dram["Inputs"].reads
        found["outputs"] += dram["Outputs"].updates
        found["pass_inputs"] += buffer["Inputs"].reads
        found["sums"] += buffer["Outputs"].updates
        found["cycles"] += evaluation.compute_cycles
        found["macs"] += evaluation.macs
        assert dram["Outputs"].reads == 0
    assert found == expected
    assert found["macs"] == row.layer.macs


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_active_pes_are_those_of_the_paper(row: EyerissRow, eyeriss: Architecture) -> None:
    assert (
        max(part.active_pes for part in strips(row.layer, row.mapping, eyeriss)) == row.measured["active_pes"]
    )


def small() -> Layer:
    return convolution("small", N=2, K=8, C=4, P=7, Q=5, R=3, S=3)


def mapping() -> RowStationary:
    return RowStationary(m=8, n=1, e=3, p=2, q=2, r=2, t=2)


def test_rows_that_are_left_are_a_strip_of_their_own(eyeriss: Architecture) -> None:
    parts = strips(small(), mapping(), eyeriss)
    assert [part.layer.sizes["P"] for part in parts] == [6, 1]
    assert [part.active_pes for part in parts] == [3 * 3 * 2 * 2, 1 * 3 * 2 * 2]
    assert [part.layer.sizes["P"] for part in strips(small(), replace(mapping(), e=7), eyeriss)] == [7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 3}, "n: expected a divisor of N = 2, found 3"),
        ({"q": 3}, r"q \* r: expected a divisor of C = 4, found 6"),
        ({"m": 12}, "m: expected a divisor of K = 8, found 12"),
        ({"f": 2}, "f: expected a divisor of Q = 5, found 2"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(
    change: dict[str, int], message: str, eyeriss: Architecture
) -> None:
    with pytest.raises(InputError, match=message):
        strips(small(), replace(mapping(), **change), eyeriss)


def test_other_architectures_and_layers_are_refused(eyeriss: Architecture) -> None:
    with pytest.raises(InputError, match="Take eyeriss-v1"):
        strips(small(), mapping(), load_architecture("simba"))
    grouped = convolution("grouped", K=8, C=4, P=7, Q=5, R=3, S=3, groups=2)
    with pytest.raises(InputError, match="dims among"):
        strips(grouped, mapping(), eyeriss)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"m": 8}, "an object with m n e p q r t"),
        ({"m": 8, "n": 1, "e": 3, "p": 2, "q": 2, "r": 2, "t": 2, "z": 1}, "an object with m n e p q r t"),
        ({"m": 8, "n": 1, "e": 3, "p": 0, "q": 2, "r": 2, "t": 2}, "rows: p: expected a whole number"),
        (
            {"m": 8, "n": 1, "e": 3, "p": 3, "q": 2, "r": 2, "t": 2},
            r"rows: m: expected a multiple of p \* t = 6",
        ),
    ],
)
def test_wrong_numbers_are_refused(data: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RowStationary.from_json(data, "rows")
