"""Timing of an array of PEs: its cycles by hand, its file keys, and what refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.processing_timing import ProcessingTiming, TensorLink
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import gemm
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import SpaceRules

FILE = """
name: small
word_bits: 16
levels:
  - {name: DRAM, kind: dram, energy: 1}
  - {name: Buffer, kind: sram, energy: 1, keeps: [inputs, outputs], fanout: [2, 3]}
  - {name: Weights, kind: register, energy: 1, keeps: [weights]}
  - {name: Sums, kind: register, energy: 1, keeps: [outputs]}
compute: {energy: 1}
timing:
  processing:
    links:
      - {level: Buffer, tensor: inputs, read: 8}
      - {level: Buffer, tensor: outputs, read: 4, write: 1.5}
    exposed_fills: {weights: 8}
    accumulate: {value: 0.5, source: a guess of the test, fitted: true}
"""
EVERYTHING = frozenset("ABZ")


@pytest.fixture
def small(tmp_path: Path) -> Architecture:
    path = tmp_path / "small.yaml"
    path.write_text(FILE)
    return load_architecture(path)


def test_cycles_by_hand(small: Architecture) -> None:
    """Z[M, N] = A[M, K] B[N, K]: 3 parts of the sum and 2 rows side by side, 5 x 7 steps, 4 filters a PE."""
    layer = gemm("product", M=10, N=4, K=21)
    mapping = Mapping(
        (
            LevelMapping((("N", 4),), (), (), frozenset("Z")),
            LevelMapping((("M", 5),), (), (), frozenset("B")),
            LevelMapping((), (("M", 2),), (("K", 3),), frozenset("AZ")),
            LevelMapping((("K", 7),), (), (), EVERYTHING),
        )
    )
    timed = evaluate(small, layer, mapping).timed
    assert timed is not None
    found = timed.processing
    assert found is not None
    assert found.macs == 4 * 5 * 7
    # a PE hands on each of its 4 sums for each of its 5 rows, in each of the 7 parts of the sum
    assert found.accumulation == 0.5 * 4 * 5 * 7
    # 10 x 4 sums leave in each of 7 parts, added up over three PEs on the way
    assert found.link == 10 * 4 * 7 / 1.5
    assert found.exposed_fills == 4 * 21 / 8
    assert found.cycles == found.macs + found.accumulation + found.exposed_fills
    assert timed.cycles == -(-found.cycles // 1)


def test_it_survives_json(small: Architecture) -> None:
    assert Architecture.from_json(small.to_json()) == small
    assert small.timing is not None
    assert small.timing.processing == ProcessingTiming(
        (TensorLink("Buffer", "inputs", 8.0), TensorLink("Buffer", "outputs", 4.0, 1.5)),
        0.5,
        (("weights", 8.0),),
    )


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("level: Buffer, tensor: inputs", "level: Bufer, tensor: inputs", "expected a level: "),
        ("read: 8", "read: 0", "read_bandwidth: expected a number above 0"),
        ("{weights: 8}", "{outputs: 8}", "exposed_fills: expected weights or inputs"),
        ("tensor: outputs", "tensor: inputs", "a link for each level and tensor, once"),
        ("value: 0.5", "value: -1", "accumulate"),
    ],
)
def test_wrong_files_are_refused(written: str, instead: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    assert written in FILE
    path.write_text(FILE.replace(written, instead))
    with pytest.raises(InputError, match=rf"small.yaml.*{message}"):
        load_architecture(path)


def test_uneven_levels_are_refused_which_no_solver_counts(small: Architecture) -> None:
    layer = gemm("product", M=2, N=2, K=2)
    with pytest.raises(InputError, match="Solve without uneven levels"):
        MappingProblem(small, layer, rules=SpaceRules(uneven=True))


def test_numbers_that_no_machine_has() -> None:
    wrong: Any = "much"
    with pytest.raises(InputError, match="accumulate_cycles: expected a number of at least 0"):
        ProcessingTiming(accumulate_cycles=wrong)
