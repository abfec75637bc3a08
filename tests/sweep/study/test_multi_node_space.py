"""The PE arrays of KAPLA's devices as constraints of a study or of ``solve mapping``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from costmodel.formats.multi_nodes import load_multi_node
from costmodel.hardware.multi_node.derived import architecture, array_constraints
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, violations
from sweep.study.mapping_space import load_rules

CONVOLUTION = convolution("c", K=8, C=8, P=8, Q=8, R=3, S=3)
PRODUCT = gemm("g", M=8, N=16, K=16)


@pytest.mark.parametrize("layer", [CONVOLUTION, PRODUCT], ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["kapla-4x4", "kapla-edge"])
def test_solvers_keep_to_the_array(name: str, layer: Layer, tmp_path: Path) -> None:
    device = load_multi_node(name, "released")
    allowed = array_constraints(device, layer)
    path = tmp_path / "array.yaml"
    path.write_text(yaml.safe_dump({"constraints": allowed}))
    problem = MappingProblem(architecture(device), layer, "energy", load_rules(path))
    outcome = solver("cosa").load().solve(problem, Budget(20.0, seed=0))
    assert isinstance(outcome.solution, Mapping)
    assert violations(problem, outcome.solution) == []
    array = outcome.solution.levels[1]
    assert {dim for dim, _ in array.spatial_x} <= set(allowed[0]["spatial_x"])
    assert {dim for dim, _ in array.spatial_y} <= set(allowed[0]["spatial_y"])
    assert array.spatial
