"""What `exact` proves on KAPLA's devices is the least of their whole space, counted out one by one."""

from __future__ import annotations

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.multi_nodes import load_multi_node
from costmodel.hardware.multi_node.derived import array_constraints
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exact, exhaustive, kapla
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.outcome import Status

LAYERS = (
    convolution("odd", N=1, C=3, K=2, P=5, Q=2, R=3, S=3, stride=(2, 1)),
    gemm("product", M=4, N=6, K=8),
)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("device", ["kapla-16x16", "kapla-edge"])
def test_the_proven_optimum_is_the_least_of_all_mappings(device: str, layer: Layer) -> None:
    rules = tuple(LevelRules(**one) for one in array_constraints(load_multi_node(device, "released"), layer))
    architecture = load_architecture(f"{device}-released")
    problem = MappingProblem(architecture, layer, "energy", SpaceRules(levels=rules))
    every, proven = exhaustive.solve(problem, Budget()), exact.solve(problem, Budget())
    assert every.status is proven.status is Status.OPTIMAL, (every.note, proven.note)
    assert proven.objective == pytest.approx(every.objective, rel=1e-12)
    assert proven.bound == proven.objective
    found = kapla.solve(problem, Budget())
    assert found.solution is not None
    assert not violations(problem, found.solution)
    assert found.objective is not None
    assert every.objective is not None
    assert every.objective * (1 - 1e-12) <= found.objective <= every.objective * 1.5
