"""Weights by micro-benchmarks: the best of the candidates, counted again, and the same whoever asks."""

from __future__ import annotations

from math import log

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import cosa
from solvers.mapping.cosa import calibration
from solvers.mapping.cosa.calibration import (
    CONVOLUTIONS,
    PRODUCTS,
    ObjectiveWeights,
    candidates,
    micro_benchmarks,
)
from solvers.mapping.problem import MappingProblem, Objective
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome

LAYER = gemm("held out", M=60, N=36, K=28)


def calibrated(architecture: str, layer: Layer, objective: Objective, seed: int = 0) -> Outcome[Mapping]:
    problem = MappingProblem(load_architecture(architecture), layer, objective)
    return cosa.solve(problem, Budget(seed=seed), cosa.Params(preset="paper", weights="calibrated"))


def weights_in(note: str) -> str:
    assert "weights by micro-benchmarks: " in note
    return note.split("weights by micro-benchmarks: ")[1].split(";")[0]


def test_candidates_are_multiples_and_begin_with_what_is_stated() -> None:
    found = candidates(ObjectiveWeights(0.1, 10.0, 1.0))
    assert found[0] == ObjectiveWeights(0.1, 10.0, 1.0)
    assert len(found) == len(set(found)) == 10
    assert {one.compute for one in found} == {10.0}
    assert ObjectiveWeights(0.0, 10.0, 3.0) in found
    # Util keeps its weight beside that of Traf
    assert ObjectiveWeights(0.3, 10.0, 3.0) in found
    # what is stated as 0 stays 0
    assert len(candidates(ObjectiveWeights(0.0, 10.0, 1.0))) == 5


@pytest.mark.parametrize("errors", [0.0, 2.0])
def test_the_weights_are_the_best_candidate_on_the_micro_benchmarks(
    errors: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every candidate once more, each as stated weights: of those whose logarithms of costs are below the
    stated ones' by so many standard errors, the least mean."""
    monkeypatch.setattr(calibration, "STANDARD_ERRORS", errors)
    calibration._best.cache_clear()
    architecture = load_architecture("eyeriss")

    def logs(weights: ObjectiveWeights) -> list[float]:
        params = cosa.Params(
            preset="paper",
            utilisation_weight=weights.utilisation,
            compute_weight=weights.compute,
            traffic_weight=weights.traffic,
        )
        found = []
        for layer in PRODUCTS:
            mapping = cosa.solve(MappingProblem(architecture, layer, "edp"), Budget(), params).solution
            assert mapping is not None
            found.append(log(evaluate(architecture, layer, mapping).edp_pj_cycles))
        return found

    stated, *others = candidates(ObjectiveWeights(0.1, 10.0, 1.0))
    base, best = logs(stated), {str(stated): 0.0}
    for weights in others:
        over = [own - one for own, one in zip(logs(weights), base, strict=True)]
        mean = sum(over) / len(over)
        squares = sum((one - mean) ** 2 for one in over)
        if mean < -errors * (squares / (len(over) - 1) / len(over)) ** 0.5:
            best[str(weights)] = mean
    chosen = weights_in(calibrated("eyeriss", LAYER, "edp").note)
    calibration._best.cache_clear()
    assert chosen == min(best, key=lambda weights: best[weights])
    assert errors or len(best) > 1, "no candidate is better: nothing was chosen"


def test_a_small_difference_is_none() -> None:
    """A mean of -0.1 whose numbers differ by little, and one whose numbers differ by more than it says."""
    assert calibration._clearly_below_zero([-0.1, -0.12, -0.08, -0.1])
    assert not calibration._clearly_below_zero([-0.5, 0.3, -0.4, 0.2])
    assert calibration._clearly_below_zero([-0.01])
    assert not calibration._clearly_below_zero([0.0])


def test_weights_depend_neither_on_the_layer_nor_on_the_seed() -> None:
    first = calibrated("C_two_level", LAYER, "energy").note
    calibration._best.cache_clear()
    other = gemm("other", M=8, N=100, K=9)
    assert weights_in(calibrated("C_two_level", other, "energy", seed=7).note) == weights_in(first)


def test_the_answer_is_that_of_the_weights_in_its_note() -> None:
    problem = MappingProblem(load_architecture("eyeriss"), LAYER, "edp")
    outcome = cosa.solve(problem, Budget(), cosa.Params(polish=False, weights="calibrated"))
    words = weights_in(outcome.note).replace(",", "").split()
    named = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    stated = cosa.Params(
        polish=False,
        utilisation_weight=named["utilisation"],
        compute_weight=named["compute"],
        traffic_weight=named["traffic"],
    )
    assert cosa.solve(problem, Budget(), stated).objective == outcome.objective


def test_micro_benchmarks_are_of_the_layers_kind() -> None:
    assert micro_benchmarks(LAYER) == PRODUCTS
    assert micro_benchmarks(convolution("c", K=2, C=2, P=2, Q=2, R=1, S=1)) == CONVOLUTIONS
    depthwise = convolution("d", K=4, C=4, P=6, Q=4, R=1, S=1, groups=4)
    assert micro_benchmarks(depthwise) == (*CONVOLUTIONS, *PRODUCTS)


@pytest.mark.parametrize(
    "network",
    ["cosa_alexnet", "cosa_resnet50", "cosa_resnext50", "deepbench", "thistle_resnet18", "yolo9000"],
)
def test_no_micro_benchmark_is_a_layer_of_a_papers_network(network: str) -> None:
    assert not {one.dims for one in load_network(network).layers} & {one.dims for one in CONVOLUTIONS}


def test_micro_benchmarks_that_rules_forbid_are_left_out() -> None:
    """1536 is the only size that a factor of at least 1,000 along N fits, so one micro-benchmark is left."""
    rules = SpaceRules(levels=(LevelRules("DRAM", temporal=(FactorRule("N", least=1000),)),))
    layer = gemm("long", M=2, N=2000, K=4)
    problem = MappingProblem(load_architecture("C_two_level"), layer, "energy", rules)
    one = cosa.solve(problem, Budget(), cosa.Params(weights="calibrated"))
    assert "weights by micro-benchmarks" in one.note
    none = SpaceRules(levels=(LevelRules("DRAM", temporal=(FactorRule("N", least=2000),)),))
    problem = MappingProblem(load_architecture("C_two_level"), layer, "energy", none)
    outcome = cosa.solve(problem, Budget(), cosa.Params(weights="calibrated"))
    assert "no micro-benchmark has a proven program: weights as stated" in outcome.note


def test_a_surrogate_without_weights_is_not_calibrated() -> None:
    with pytest.raises(InputError, match="no weights to calibrate"):
        cosa.Params(surrogate="cost", weights="calibrated")
    with pytest.raises(InputError, match="one of stated, calibrated"):
        cosa.Params(weights="calibrate")  # type: ignore[arg-type]
