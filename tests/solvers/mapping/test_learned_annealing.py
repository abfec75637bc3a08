"""Learned annealing against plain Python and scikit-learn's own answers; walks that stay in the space."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from math import log2
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Tensor, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exhaustive, random_search
from solvers.mapping.learned_annealing import Params, solve
from solvers.mapping.learned_annealing.annealing import AnnealingChains
from solvers.mapping.learned_annealing.measurements import Measurements
from solvers.mapping.learned_annealing.regressor import chosen_rows, fit, no_trees, targets, trees_of
from solvers.mapping.learned_annealing.walk_kernel import Trees
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Status

LIGHT = Params(batches=4, trees=8)


def parts(
    problem: MappingProblem, params: Params = LIGHT, seed: int = 0
) -> tuple[AnnealingChains, Measurements]:
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    measured = Measurements(problem, space, params)
    return AnnealingChains(space, measured.walk_space, params, seed), measured


def rounds(mapping: Mapping, level: int, tensor: Tensor) -> int:
    """Loops at ``level`` and outside, innermost first, from the first one on that moves the tensor."""
    loops = [loop for one in mapping.levels[level:] for loop in one.temporal]
    while loops and loops[0][0] not in tensor.dims:
        loops.pop(0)
    return int(np.prod([bound for _, bound in loops], dtype=np.int64))


def literal_features(problem: MappingProblem, mapping: Mapping) -> Iterator[float]:
    """Factors of slots; words and deliveries of tensors and levels; parallelism: logarithms of all."""
    spread = 1
    for slot in MappingSpace(problem.architecture, problem.layer).slots:
        loops = mapping.levels[slot.level].spatial if slot.spatial else mapping.levels[slot.level].temporal
        for dim, _ in problem.layer.dims:
            factor = dict(loops).get(dim, 1)
            spread *= factor if slot.spatial else 1
            yield log2(factor)
    for tensor in problem.layer.tensors:
        for number, level in enumerate(mapping.levels):
            yield log2(tensor.words(mapping.tiles[number])) if tensor.name in level.keep else -1
            if number and tensor.name not in mapping.levels[number - 1].keep:
                yield -1
            else:
                inner = tensor.words(mapping.tiles[number - 1]) if number else 1
                yield log2(inner * rounds(mapping, number, tensor))
    yield log2(spread)


def test_features_are_logarithms_of_sizes_words_and_deliveries(medium_problem: MappingProblem) -> None:
    _, measured = parts(medium_problem)
    space = MappingSpace(medium_problem.architecture, medium_problem.layer)
    batch = space.sample(range(20), 3, 2)
    measured.measure(batch)
    for row in range(len(batch)):
        mapping = batch.mapping(row, medium_problem.layer)
        assert measured.features[row] == pytest.approx(list(literal_features(medium_problem, mapping)))


def predicted(trees: Trees, features: NDArray[np.float32]) -> list[float]:
    """Down every tree, row by row."""
    sums = []
    for row in features:
        leaves = []
        for tree in range(len(trees.left)):
            node = 0
            while trees.left[tree, node] >= 0:
                below = row[trees.feature[tree, node]] <= trees.threshold[tree, node]
                node = (trees.left if below else trees.right)[tree, node]
            leaves.append(trees.value[tree, node])
        sums.append(sum(leaves))
    return sums


@pytest.fixture(scope="module")
def learned(medium_problem: MappingProblem) -> tuple[AnnealingChains, Measurements, Any]:
    """Some hundred valid mappings measured, and a model of them."""
    chains, measured = parts(medium_problem)
    for _ in range(4):
        measured.measure(chains.proposals(no_trees(), 100)[1])
    return chains, measured, fit(measured.features, measured.costs, LIGHT, seed=1)


def test_trees_predict_what_the_library_predicts(learned: tuple[AnnealingChains, Measurements, Any]) -> None:
    _, measured, model = learned
    expected = model.predict(measured.features)
    assert len(set(expected)) > 20
    assert predicted(trees_of(model), measured.features) == pytest.approx(expected)
    assert predicted(no_trees(), measured.features[:2]) == [0, 0]


def test_the_model_orders_mappings_that_it_has_not_seen(
    learned: tuple[AnnealingChains, Measurements, Any],
) -> None:
    chains, measured, model = learned
    before = measured.count
    costs = measured.measure(chains.proposals(no_trees(), 100)[1])
    guess = model.predict(measured.features[before:])
    guessed, true = (np.argsort(np.argsort(values)) for values in (guess, costs))
    assert len(costs) > 60
    assert np.corrcoef(guessed, true)[0, 1] > 0.6


def test_proposals_come_in_the_order_of_the_library_s_predictions(
    learned: tuple[AnnealingChains, Measurements, Any],
) -> None:
    """So compiled code predicts what scikit-learn does, for features that it computes step by step."""
    chains, measured, model = learned
    _, rows = chains.proposals(trees_of(model), 100)
    before = measured.count
    measured.measure(rows)
    values = model.predict(measured.features[before:])
    assert len(rows) > 60
    assert values == pytest.approx(np.sort(values))


RULES = [
    SpaceRules(),
    SpaceRules("free"),
    SpaceRules(levels=(LevelRules("Buffer", (FactorRule("P", 2),), innermost=("K", "C"), spatial_y=("K",)),)),
    SpaceRules(
        levels=(
            LevelRules("DRAM", (FactorRule("K", most=2),), outermost=("Q",)),
            LevelRules("Register", bypass=("weights",)),
        )
    ),
]


def test_walks_stay_in_the_space(medium_problem: MappingProblem) -> None:
    """All that is proposed fits and obeys the rules, and no two are the same mapping."""
    for rules in RULES:
        problem = replace(medium_problem, rules=rules)
        chains, _ = parts(problem)
        space = MappingSpace(problem.architecture, problem.layer, rules)
        found = [chains.proposals(no_trees(), 100)[1] for _ in range(3)]
        seen = set()
        for batch in found:
            assert len(batch) > 40
            assert BatchEvaluator(problem.architecture, problem.layer).evaluate(batch).valid.all()
            assert space.allowed(batch).all()
            seen |= {batch.mapping(row, problem.layer) for row in range(len(batch))}
        assert len(seen) == sum(map(len, found))


def test_without_avoidance_what_does_not_fit_is_measured(medium_problem: MappingProblem) -> None:
    params = replace(LIGHT, avoid_invalid=False)
    chains, measured = parts(medium_problem, params)
    measured.measure(chains.proposals(no_trees(), 30)[1])
    assert 0 < np.isinf(measured.costs).sum() < measured.count
    outcome = solve(medium_problem, Budget(), params)
    assert outcome.status is Status.FEASIBLE


def test_a_small_space_is_seen_whole(two_levels: Architecture) -> None:
    """The search ends by itself, with the best mapping; it has measured no mapping twice."""
    problem = MappingProblem(two_levels, gemm("tiny", M=2, N=3, K=1))
    for learn in (True, False):
        outcome = solve(problem, Budget(), replace(LIGHT, batches=50, learn=learn))
        best = exhaustive.solve(problem, Budget())
        assert outcome.objective == best.objective
        assert outcome.evaluations < 50 * 128


@pytest.mark.parametrize("learn", [True, False])
def test_iterations_are_mappings_measured(medium_problem: MappingProblem, learn: bool) -> None:
    for iterations in (1, 200):
        outcome = solve(medium_problem, Budget(iterations=iterations), replace(LIGHT, learn=learn))
        assert outcome.evaluations == iterations


def test_patience_ends_the_search(medium_problem: MappingProblem) -> None:
    params = replace(LIGHT, batches=20, learn=False)
    patient = solve(medium_problem, Budget(), params)
    impatient = solve(medium_problem, Budget(), replace(params, patience=2))
    assert impatient.evaluations < patient.evaluations


@pytest.mark.slow
def test_the_model_is_worth_its_evaluations() -> None:
    """On six levels it finds better mappings than as many random draws, and than annealing without it."""
    layer = convolution("layer", K=64, C=64, P=28, Q=28, R=3, S=3)
    problem = MappingProblem(load_architecture("simba"), layer, "energy")
    budget = Budget(iterations=1500, seed=2)
    guided = solve(problem, budget).objective
    plain = solve(problem, budget, Params(learn=False)).objective
    drawn = random_search.solve(problem, budget).objective
    assert guided is not None
    assert plain is not None
    assert drawn is not None
    assert guided < 0.9 * plain
    assert guided < 0.9 * drawn


def test_no_mapping_that_fits(three_levels: Architecture) -> None:
    """Overfull chains propose nothing; with rules that nothing meets jointly the answer is unknown."""
    rules = SpaceRules(
        "all", levels=(LevelRules("Register", (FactorRule("M", 2, 2), FactorRule("N", 2, 2))),)
    )
    problem = MappingProblem(three_levels, gemm("g", M=4, N=4, K=4), rules=rules)
    outcome = solve(problem, Budget(), LIGHT)
    assert outcome.solution is None
    assert outcome.status in (Status.UNKNOWN, Status.INFEASIBLE)
    assert outcome.note


def test_targets_put_invalid_mappings_above_all_others() -> None:
    found = targets(np.array([np.e, np.inf, np.e**3, np.inf]))
    assert found == pytest.approx([1, 4, 3, 4])
    assert targets(np.array([np.inf, np.inf])).tolist() == [0, 0]
    assert np.isfinite(targets(np.array([0.0, 1.0]))).all()


def test_of_many_measurements_the_best_and_some_others_are_learned_from() -> None:
    costs = np.random.default_rng(0).permutation(1000).astype(float)
    chosen = chosen_rows(costs, 100, np.random.default_rng(1))
    assert len(set(chosen.tolist())) == 100
    assert set(range(50)) <= set(costs[chosen].astype(int).tolist())
    assert costs[chosen].max() > 500
    assert chosen_rows(costs, 1000, np.random.default_rng(1)).tolist() == list(range(1000))


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch, small_problem: MappingProblem) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(InputError, match=r"not installed.*pip install 'archsweep\[learned\]'"):
        solve(small_problem, Budget())
    assert solve(small_problem, Budget(), replace(LIGHT, learn=False)).solution is not None


def test_the_paper_s_setting() -> None:
    paper = Params.paper()
    assert (paper.batches, paper.batch, paper.patience) == (1024, 128, None)


@pytest.mark.parametrize(
    "given", [{"learn": 1}, {"steps": 0}, {"random_fraction": 1.5}, {"temperature": float("inf")}]
)
def test_wrong_parameters(given: dict[str, Any]) -> None:
    (key,) = given
    with pytest.raises(InputError, match=f"learned_annealing: {key}: expected"):
        Params(**given)


def test_chains_start_at_the_best(medium_problem: MappingProblem) -> None:
    chains, measured = parts(medium_problem)
    measured.measure(chains.drawn(2000))
    before = chains.at
    chains.restart(measured.best)
    count = len(chains) // 2
    assert (chains.at.temporal[:count] == measured.best.temporal[:count]).all()
    assert (chains.at.temporal[count:] == before.temporal[count:]).all()
    assert measured.objective == measured.costs.min()


def test_a_single_level() -> None:
    """Nothing but the order of loops is left to choose, and that costs nothing at the innermost level."""
    dram = StorageLevel("DRAM", None, 16, 90.0, 80.0, 100.0, fanout_x=4)
    architecture = Architecture("one level", (dram,), Compute("MAC", 16, 0.5))
    problem = MappingProblem(architecture, gemm("g", M=4, N=6, K=4), "cycles")
    best = exhaustive.solve(problem, Budget())
    for learn in (True, False):
        assert solve(problem, Budget(), replace(LIGHT, learn=learn)).objective == best.objective
