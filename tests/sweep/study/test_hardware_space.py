"""Constraints that an architecture file states hold for every solve on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.machines.gemmini import tiled_call
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping.space.rules import SpaceRules
from sweep.solve.mapping import MappingRequest, SpaceOptions
from sweep.study.hardware_space import layer_kind, with_hardware_constraints

MACHINE = """
name: small-systolic
word_bits: 8
levels:
  - {name: DRAM, kind: dram, energy: 100 pJ, shared_bandwidth: 8 words/cycle}
  - {name: Scratchpad, kind: sram, size: 8 KiB, energy: 6 pJ, fanout: [4, 1], keeps: [weights, inputs]}
  - {name: Accumulator, kind: sram, size: 1 Kiwords, energy: 3 pJ, fanout: [1, 4], keeps: [outputs]}
  - {name: Registers, kind: register, size: 1 words, energy: 1 pJ, keeps: [weights]}
compute: {energy: 1 pJ}
constraints:
  convolution:
    - {level: DRAM, outermost: [N, Q, P, K, S, R, C]}
    - {level: Scratchpad, spatial_x: [K]}
    - {level: Accumulator, spatial_y: [C]}
  product:
    - {level: DRAM, outermost: [M, N, K]}
    - {level: Scratchpad, spatial_x: [N]}
    - {level: Accumulator, spatial_y: [K]}
"""
CONV = convolution("c", K=8, C=8, P=6, Q=6, R=3, S=3)
PRODUCT = gemm("g", M=16, N=8, K=8)
CALL_ORDER = {"M": 0, "N": 1, "K": 2}


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE)
    return str(path)


def test_rules_by_kind_of_layer(machine: str) -> None:
    conv = with_hardware_constraints(SpaceRules(), machine, CONV)
    product = with_hardware_constraints(SpaceRules(), machine, PRODUCT)
    assert conv.at("Scratchpad").spatial_x == ("K",)
    assert product.at("Scratchpad").spatial_x == ("N",)
    assert conv.at("DRAM").outermost == ("N", "Q", "P", "K", "S", "R", "C")
    assert (layer_kind(CONV), layer_kind(PRODUCT)) == ("convolution", "product")


def test_an_architecture_without_constraints_changes_nothing() -> None:
    rules = SpaceRules("free", padding=0.1)
    assert with_hardware_constraints(rules, "eyeriss", CONV) is rules


@pytest.mark.parametrize("solver", ["exact", "cosa", "random_search"])
def test_solvers_keep_to_them(machine: str, solver: str) -> None:
    request = MappingRequest(machine, PRODUCT, solver, "edp", Budget(20.0, 2000, 0))
    found = request.solved().mapping
    assert found is not None
    walk = [dim for dim, _ in reversed(found.levels[-1].temporal)]  # type: ignore[union-attr]
    assert sorted(walk, key=CALL_ORDER.__getitem__) == walk
    assert {dim for dim, _ in found.levels[2].spatial} <= {"N"}  # type: ignore[union-attr]
    assert {dim for dim, _ in found.levels[1].spatial} <= {"K"}  # type: ignore[union-attr]


def test_a_level_is_not_constrained_twice(machine: str, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("constraints: [{level: Scratchpad, spatial_x: [C]}]")
    with pytest.raises(InputError, match="others for Scratchpad"):
        _ = MappingRequest(machine, CONV, space=SpaceOptions(constraints=own)).problem


def test_wrong_constraints_name_the_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE.replace("spatial_x: [K]", "spatial_z: [K]"))
    with pytest.raises(InputError, match=r"machine\.yaml.*constraints"):
        _ = MappingRequest(str(path), CONV).problem


def test_the_call_of_gemminis_library_is_written(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweep.cli.solve.mapping import GemminiFile, MappingFiles, solve_one

    path = tmp_path / "call.json"
    request = MappingRequest(machine, CONV, "exact", "edp", Budget(20.0, None, 0))
    solve_one(request, MappingFiles(gemmini=GemminiFile(path)), as_json=True)
    answer, call = json.loads(capsys.readouterr().out), json.loads(path.read_text())
    assert call["call"] == "tiled_conv"
    assert call["DIM"] == 4
    outer = next(block for block in answer["mapping"]["levels"] if block["target"] == "DRAM")
    made = {"pochs": "K", "kchs": "C", "porows": "Q", "pocols": "P", "krows": "S", "kcols": "R"}
    for name, dim in made.items():
        assert call["arguments"][name] * outer["factors"][dim] == CONV.sizes[dim]


def test_other_machines_have_no_such_call(tmp_path: Path) -> None:
    from sweep.cli.solve.mapping import GemminiFile

    with pytest.raises(InputError, match="two fan-outs of the same size"):
        GemminiFile(tmp_path / "call.json").check(
            MappingRequest("tpu-like", CONV, space=SpaceOptions("free"))
        )
    assert not (tmp_path / "call.json").exists()


@pytest.mark.parametrize("layer", [CONV, gemm("g", M=24, N=32, K=48)])
def test_the_best_mapping_of_the_librarys_gemmini_has_a_call(layer: Layer) -> None:
    answer = MappingRequest("gemmini", layer, "exact", "cycles", Budget(20.0, None, 0)).solved()
    assert answer.status == "optimal"
    assert answer.mapping is not None
    call = tiled_call(answer.problem.architecture, layer, answer.mapping)
    assert call.dim == 16
