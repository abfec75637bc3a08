"""Solvers and studies before an architecture with a precision: they count bits, or say that they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from pydantic import ValidationError

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.element_bits import mac_pj
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.catalogue import solver, solver_names
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem
from solvers.mapping.problem import COUNT_BITS, MappingProblem
from solvers.mapping.space.rules import SpaceRules
from sweep.design.mapping_workload import MappingWorkload, layer_demands
from sweep.search.search import design_space
from sweep.solve.mapping import MappingRequest
from sweep.study.study import Study
from sweep.tasks.mapping import MappingTask
from tests.costmodel.formats.onnx.graphs import model, node, tensor, written

PRECISION = {"precision": {"weights": "int4", "activations": "int8", "partial_sums": "int32"}}


def problem(**rules: Any) -> MappingProblem:
    layer = gemm("g", M=4, N=4, K=4)
    return MappingProblem(load_architecture("simba", PRECISION), layer, "energy", SpaceRules(**rules))


@pytest.mark.parametrize("name", sorted(set(solver_names("mapping")) - set(COUNT_BITS)))
def test_solvers_whose_formulas_are_of_words_refuse(name: str) -> None:
    module = solver(name).load()
    with pytest.raises(InputError, match=r"no precision: .* counts words"):
        module.solve(problem(), Budget(1), module.Params())


def test_uneven_mappings_are_refused() -> None:
    with pytest.raises(InputError, match="even levels"):
        problem(uneven=True)


def test_codesign_is_refused() -> None:
    family = ArchitectureFamily("eyeriss", (("precision.partial_sums", 32),))
    with pytest.raises(InputError, match="without a precision"):
        CodesignProblem.of(family, [gemm("g", M=4, N=4, K=4)])


def study(**more: Any) -> Study:
    keys: dict[str, Any] = {
        "name": "bits",
        "networks": ["alexnet"],
        "architecture": "simba",
        "mapping": {"solver": "exact", "wall_seconds": 5.0},
        "objectives": ["energy_pj", "cycles"],
    }
    return Study.model_validate(keys | more)


def test_a_study_chooses_a_precision_and_varies_a_width() -> None:
    axes = {"precision.weights": {"choices": ["int4", 8, {"bits": 4, "scale_bits": 16, "group": 128}]}}
    asked = study(precision={"activations": "int8", "partial_sums": 32}, axes=axes)
    space = design_space(asked)
    space.check_values()
    weights = [design.architecture.precision.weights.per_element for design in space.grid()]  # type: ignore[union-attr]
    assert [float(bits) for bits in weights] == [4, 8, 4.125]
    workload = MappingWorkload(asked, layer_demands(asked))
    ids = {task.id for design in space.grid() for task in workload.tasks(design)}
    assert len(ids) == 3 * len(layer_demands(asked)), "every width is another question"


def test_without_a_precision_ids_are_as_ever_and_nothing_is_asked_of_layers() -> None:
    asked = study()
    workload = MappingWorkload(asked, layer_demands(asked))
    first = workload.tasks(next(iter(design_space(asked).grid())))[0]
    assert isinstance(first, MappingTask)
    assert "precision" not in str(first.content)
    assert "precision" not in asked.identity
    assert not any(demand.layer.bits or demand.layer.caches for demand in workload.demands)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mapping": {"solver": "cosa"}}, "a solver that counts bits"),
        ({"scratchpad": {"level": "GlobalBuffer"}}, "no precision beside a scratchpad"),
    ],
)
def test_studies_that_cannot_count_bits_are_refused(more: dict[str, Any], said: str) -> None:
    asked = study(precision={"weights": "int4"}, **more)
    with pytest.raises(InputError, match=said):
        MappingWorkload(asked, layer_demands(asked))


def test_a_chip_says_its_own_widths() -> None:
    with pytest.raises(ValidationError, match="no 'precision' in a study of chips"):
        Study.model_validate(
            {
                "name": "bits",
                "networks": ["alexnet"],
                "chip": "set-edge",
                "schedule": {},
                "precision": {"weights": 4},
            }
        )


def test_a_layer_that_is_asked_for_by_name_says_what_is_a_cache(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "p"), node("MatMul", "x p", "y")]
    parameters = [numpy_helper.from_array(np.ones((4, 4), np.float32), "w")]
    path = written(tmp_path, model(nodes, [tensor("x", 4, 4)], parameters))
    names = [layer.name for layer in load_network(str(path)).layers]
    overrides = {"precision": {"weights": 4, "caches": 8}}
    problems = [
        MappingRequest("simba", f"{path}/{name}", "exact", overrides=overrides).problem for name in names
    ]
    macs = [mac_pj(one.architecture, one.layer) for one in problems]
    assert macs[1] == 2 * macs[0], "the weights are of 4 bits, the second product's operand is of 8"
    plain = MappingRequest("simba", f"{path}/{names[1]}", "exact").problem.layer
    assert not plain.caches
    assert not plain.bits
