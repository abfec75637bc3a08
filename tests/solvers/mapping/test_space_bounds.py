"""The bounds of a space against random mappings of it, and against those of every padded size."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.workload.network import Layer, convolution, gemm
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.padded_sizes import at_sizes
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import innermost_levels, space_bounds

LAYERS = [
    gemm("g", M=17, N=24, K=18),
    convolution("c", K=8, C=6, P=7, Q=5, R=3, S=2, stride=(2, 1)),
    convolution("d", K=12, C=12, P=9, Q=7, R=3, S=3, groups=12),
]
NAMES = ["eyeriss", "simba", "B_simba_like", "C_two_level", "D_tpu_like", "E_four_level"]


def lowest(problem: MappingProblem, seed: int) -> tuple[float, float, float]:
    """The least energy, cycles and product among random mappings."""
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    batch = space.sample(range(20), seed, rows_per_block=128)
    evaluation = BatchEvaluator(problem.architecture, problem.layer).evaluate(batch)
    if not evaluation.valid.any():
        return np.inf, np.inf, np.inf
    return (
        evaluation.energy_pj.min(),
        evaluation.cycles[evaluation.valid].min(),
        evaluation.edp_pj_cycles[evaluation.valid].min(),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_no_mapping_of_the_space_is_below(name: str, layer: Layer) -> None:
    architecture = load_architecture(name)
    everything = lower_bounds(architecture, layer)
    for rules in (SpaceRules(), SpaceRules("free")):
        problem = MappingProblem(architecture, layer, rules=rules)
        bounds = space_bounds(problem)
        energy, cycles, edp = lowest(problem, seed=3)
        assert everything.energy_pj <= bounds.energy_pj <= energy
        assert everything.cycles <= bounds.cycles <= cycles
        assert everything.edp_pj_cycles <= bounds.edp_pj_cycles <= edp
        if rules.keep == "free":
            assert bounds == everything


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_no_padded_mapping_is_below_the_padded_bound(name: str, layer: Layer) -> None:
    problem = MappingProblem(load_architecture(name), layer, rules=SpaceRules(padding=0.15))
    bounds = space_bounds(problem)
    sizes = [*product(*(range(size, problem.largest_size(dim) + 1) for dim, size in layer.dims))]
    for number, chosen in enumerate(sizes[:: max(1, len(sizes) // 12)]):
        one = at_sizes(problem, chosen)
        its = space_bounds(one)
        assert bounds.energy_pj <= its.energy_pj
        assert bounds.cycles <= its.cycles
        assert bounds.edp_pj_cycles <= its.edp_pj_cycles
        energy, cycles, edp = lowest(one, seed=number)
        assert bounds.energy_pj <= energy
        assert bounds.cycles <= cycles
        assert bounds.edp_pj_cycles <= edp


@pytest.mark.parametrize(
    ("name", "rules", "expected"),
    [
        ("eyeriss", SpaceRules(), [{0}, {0}, {0}]),
        ("eyeriss", SpaceRules("free"), [{0, 1, 2}] * 3),
        ("eyeriss", SpaceRules(levels=(LevelRules("RegFile", bypass=("A",)),)), [{1}, {0}, {0}]),
        ("eyeriss", SpaceRules("free", (LevelRules("SRAM", keep=("A",)),)), [{0, 1}, {0, 1, 2}, {0, 1, 2}]),
    ],
)
def test_where_tensors_can_be_innermost(name: str, rules: SpaceRules, expected: list[Any]) -> None:
    problem = MappingProblem(load_architecture(name), LAYERS[0], rules=rules)
    assert [set(levels) for levels in innermost_levels(problem)] == expected
