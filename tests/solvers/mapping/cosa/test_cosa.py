"""CoSA from problem to outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import Layer, Role, Tensor, batched_matmul, convolution, distinct_layers, gemm
from solvers.budget import Budget
from solvers.mapping.cosa import Params, solve
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of, violations
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

CONVOLUTION = convolution("conv", K=64, C=32, P=14, Q=14, R=3, S=3, stride=(2, 2))
NETWORKS = ("cosa_resnet50", "cosa_resnext50", "deepbench", "cosa_alexnet")
UNPOLISHED = Params(polish=False)


def problem_on(name: str, layer: Layer = CONVOLUTION, objective: Any = "edp") -> MappingProblem:
    return MappingProblem(load_architecture(name), layer, objective)


@pytest.mark.slow
def test_every_unique_layer_of_the_paper_is_proven_on_simba() -> None:
    lists = [distinct_layers(load_network(name).layers) for name in NETWORKS]
    layers = [layer for found in lists for layer, _ in found]
    assert len(layers) == 66
    for layer in layers:
        problem = problem_on("simba", layer)
        outcome = solve(problem, Budget())
        assert outcome.program_proven
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
        assert outcome.bound is not None
        assert outcome.objective is not None
        assert outcome.bound <= outcome.objective < 5 * outcome.bound


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["A_eyeriss_like", "B_simba_like", "C_two_level", "D_tpu_like", "E_four_level"]
)
@pytest.mark.parametrize(
    "layer",
    [
        convolution("first", K=64, C=3, P=28, Q=28, R=7, S=7, stride=(2, 2)),
        convolution("depthwise", K=96, C=96, P=14, Q=14, R=3, S=3, stride=(2, 2), groups=96),
        convolution("grouped", K=64, C=64, P=7, Q=7, R=3, S=3, groups=8),
        gemm("prime", M=197, N=96, K=64),
        batched_matmul("heads", B=12, M=197, N=197, K=64),
        gemm("point", M=1, N=1, K=1),
    ],
    ids=lambda layer: layer.name,
)
def test_any_layer_on_any_architecture(name: str, layer: Layer) -> None:
    problem = problem_on(name, layer)
    plain = solve(problem, Budget(), UNPOLISHED)
    polished = solve(problem, Budget())
    for outcome in (plain, polished):
        assert outcome.program_proven
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
        evaluation = evaluate(problem.architecture, layer, outcome.solution)
        assert outcome.objective == objective_of(evaluation, "edp")
    assert polished.objective is not None
    assert plain.objective is not None
    assert polished.objective <= plain.objective


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_seeds_give_equal_answers(objective: Any) -> None:
    problem = problem_on("simba", objective=objective)
    first, second = (solve(problem, Budget(seed=7)) for _ in range(2))
    assert first.solution == second.solution
    assert first.evaluations == second.evaluations


def test_each_objective_is_the_one_pursued() -> None:
    found = {objective: solve(problem_on("simba", objective=objective), Budget()) for objective in OBJECTIVES}
    for objective, outcome in found.items():
        assert outcome.objective is not None
        for other in found.values():
            assert other.solution is not None
            evaluation = evaluate(load_architecture("simba"), CONVOLUTION, other.solution)
            assert outcome.objective <= objective_of(evaluation, objective) * 1.05


def test_optimal_means_at_the_bound() -> None:
    outcome = solve(problem_on("simba", gemm("square", M=64, N=64, K=64), "cycles"), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == outcome.bound


def test_both_engines_lead_to_valid_answers() -> None:
    answers = [solve(problem_on("simba"), Budget(), Params(engine=engine)) for engine in ("cp-sat", "highs")]
    assert all(answer.program_proven for answer in answers)


def test_the_budget_bounds_the_programs() -> None:
    problem = problem_on("simba")
    three, two = (
        solve(problem, Budget(iterations=3), UNPOLISHED),
        solve(problem, Budget(iterations=2), UNPOLISHED),
    )
    assert three.program_proven
    assert not two.program_proven
    assert two.solution is not None
    assert two.evaluations <= 2


def test_no_time_at_all_still_gives_a_mapping() -> None:
    problem = problem_on("simba")
    outcome = solve(problem, Budget(wall_seconds=1e-9))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert not outcome.program_proven


def test_shares_bound_the_tiles_of_the_programs() -> None:
    capacity_fractions: dict[str, dict[Role, float]] = {"GlobalBuffer": {"inputs": 0.25, "outputs": 0.01}}
    outcome = solve(
        problem_on("simba"), Budget(), Params(polish=False, capacity_fractions=capacity_fractions)
    )
    assert outcome.solution is not None
    level = evaluate(load_architecture("simba"), CONVOLUTION, outcome.solution).levels[4]
    assert level.tensors["Inputs"].tile_words <= 16384
    assert level.tensors["Outputs"].tile_words <= 655


@pytest.mark.parametrize("capacity_split", ["free", "even"])
def test_how_capacity_is_split(capacity_split: Any) -> None:
    problem = problem_on("D_tpu_like")
    outcome = solve(problem, Budget(), Params(polish=False, capacity_split=capacity_split))
    assert outcome.program_proven
    assert outcome.solution is not None
    tiles = evaluate(problem.architecture, CONVOLUTION, outcome.solution).levels[1].tensors.values()
    assert sum(tensor.tile_words for tensor in tiles) <= 262144
    if capacity_split == "even":
        assert max(tensor.tile_words for tensor in tiles) <= 262144 // 3


def one_word(usable: int) -> Architecture:
    """B_simba_like's registers hold any one tensor; with double buffers none."""
    architecture = load_architecture("B_simba_like")
    registers = replace(architecture.levels[0], multiple_buffering=1.0 if usable else 2.0)
    return replace(architecture, levels=(registers, *architecture.levels[1:]))


def test_small_registers_keep_what_fits() -> None:
    for usable in (1, 0):
        outcome = solve(MappingProblem(one_word(usable), CONVOLUTION), Budget(), UNPOLISHED)
        assert outcome.solution is not None
        assert len(outcome.solution.levels[0].keep) == usable
        assert all(len(level.keep) == 3 for level in outcome.solution.levels[1:])


def test_infeasible_says_which_buffer_and_numbers() -> None:
    outcome = solve(replace(problem_on("B_simba_like"), rules=SpaceRules("all")), Budget())
    assert outcome.status is Status.INFEASIBLE
    assert outcome.solution is None
    for part in ("Registers", "Weights, Inputs, Outputs need 3 words", "1 are usable"):
        assert part in outcome.note


def test_a_setting_that_leaves_a_tensor_no_word_proves_nothing() -> None:
    problem = problem_on("B_simba_like", convolution("conv", K=4, C=4, P=4, Q=4, R=1, S=1))
    params = Params(capacity_fractions={"AccumulationBuffer": {"outputs": 0.01}})
    outcome = solve(problem, Budget(), params)
    assert outcome.status is Status.UNKNOWN
    assert outcome.solution is None
    for part in ("AccumulationBuffer", "0.01 of 64", "Outputs"):
        assert part in outcome.note
    # without the setting there is a mapping, which the bound is not above
    found = solve(problem, Budget(), UNPOLISHED)
    assert found.objective is not None
    assert outcome.bound is not None
    assert 0 < outcome.bound <= found.objective


def test_an_axis_beyond_convolutions_goes_unpolished() -> None:
    """Three dims on one axis: arrays cannot evaluate it, the programs and ``evaluate`` can."""
    sliding = ((("P", 1), ("R", 1), ("S", 2)),)
    layer = Layer(
        "odd",
        (("P", 8), ("R", 3), ("S", 2), ("K", 4)),
        (
            Tensor.of_terms("Weights", ((("R", 1),), (("S", 1),), (("K", 1),)), "weights"),
            Tensor.of_terms("Inputs", sliding, "inputs"),
            Tensor.of_terms("Outputs", ((("P", 1),), (("K", 1),)), "outputs"),
        ),
    )
    problem = problem_on("C_two_level", layer)
    outcome = solve(problem, Budget())
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert outcome.program_proven


@pytest.mark.slow
def test_a_kick_never_hurts() -> None:
    layer = batched_matmul("heads", B=12, M=197, N=197, K=64)
    none, some = (solve(problem_on("B_simba_like", layer), Budget(), Params(kicks=n)) for n in (0, 30))
    assert none.objective is not None
    assert some.objective is not None
    assert some.objective <= none.objective
    assert some.evaluations > none.evaluations


def test_an_architecture_without_fanout() -> None:
    levels = (StorageLevel("Buffer", 64, 8, 1.0, 1.0, 1.0), StorageLevel("DRAM", None, 8, 9.0, 9.0, 9.0))
    problem = MappingProblem(replace(load_architecture("simba"), levels=levels), gemm("gemm", M=8, N=9, K=10))
    outcome = solve(problem, Budget())
    assert outcome.program_proven
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"engine": "gurobi"}, "engine"),
        ({"surrogate": "balanced"}, "surrogate"),
        ({"preset": "published"}, "preset"),
        ({"permutation": "ranks"}, "permutation"),
        ({"capacity_split": "fair"}, "capacity_split"),
        ({"boundaries": "some"}, "boundaries"),
        ({"compute_weight": -1}, "compute_weight"),
        ({"traffic_weight": float("nan")}, "traffic_weight"),
        ({"utilisation_weight": True}, "utilisation_weight"),
        ({"keep_choices": 0}, "keep_choices"),
        ({"kicks": 1.5}, "kicks"),
        ({"polish": 1}, "polish"),
        ({"capacity_fractions": {"GlobalBuffer": 0.5}}, "capacity_fractions.GlobalBuffer"),
        ({"capacity_fractions": {"GlobalBuffer": {"inputs": 1.5}}}, "capacity_fractions.GlobalBuffer.inputs"),
        ({"capacity_fractions": {"GlobalBuffer": {"cache": 0.5}}}, "capacity_fractions.GlobalBuffer"),
    ],
)
def test_wrong_params(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        Params(**wrong)
    assert caught.value.key == key


def test_shares_of_an_unknown_level() -> None:
    with pytest.raises(InputError, match="GlobalBuffer"):
        solve(
            problem_on("C_two_level"), Budget(), Params(capacity_fractions={"GlobalBuffer": {"inputs": 0.5}})
        )
