"""The exact mapper against enumeration, published optima, limits and rules."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Tensor, batched_matmul, convolution, gemm
from solvers.budget import Budget, InTime
from solvers.mapping import exhaustive
from solvers.mapping.exact import Params, Solving, solve
from solvers.mapping.exact import solver as exact_solver
from solvers.mapping.exact.assignments import Assignments
from solvers.mapping.exact.prices import AssignmentKey, Prices
from solvers.mapping.exact.tables import LEAVES
from solvers.mapping.problem import OBJECTIVES, MappingProblem, Objective, objective_of, violations
from solvers.mapping.random_search import solve as search_randomly
from solvers.mapping.space.rules import FactorRule, KeepRule, LevelRules, SpaceRules
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status

LAYERS = (
    convolution("sliding", K=2, C=1, P=4, Q=2, R=3, S=2),
    convolution("strided", K=2, C=2, P=3, Q=1, R=2, S=1, stride=(2, 1)),
    convolution("dilated", K=1, C=2, P=4, Q=1, R=3, S=1, dilation=(2, 1)),
    convolution("depthwise", K=4, C=4, P=3, Q=2, R=2, S=1, groups=4),
    convolution("grouped", K=4, C=4, P=2, Q=1, R=2, S=1, groups=2),
    gemm("product", M=4, N=6, K=5),
    batched_matmul("batched", B=2, M=2, N=3, K=4),
)


def small(architecture: Architecture, words: tuple[int, ...]) -> Architecture:
    """The last levels of an architecture with so many words, so that capacity counts."""
    levels = architecture.levels[-len(words) - 1 :]
    sized = (replace(level, size_words=size) for level, size in zip(levels, words, strict=False))
    return replace(architecture, levels=(*sized, levels[-1]))


ARCHITECTURES = {
    "A_eyeriss_like": small(load_architecture("A_eyeriss_like"), (4, 20)),
    "B_simba_like": small(load_architecture("B_simba_like"), (6, 24)),
    "C_two_level": small(load_architecture("C_two_level"), (14,)),
    "D_tpu_like": small(load_architecture("D_tpu_like"), (3, 16)),
    "E_four_level": small(load_architecture("E_four_level"), (8, 30)),
    "eyeriss": small(load_architecture("eyeriss"), (5, 24)),
}


def all_mappings(problem: MappingProblem) -> Outcome[Mapping]:
    return exhaustive.solve(problem, Budget(), exhaustive.Params(limit=20_000))


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize(
    ("name", "keep"),
    [*((name, "fitting") for name in ARCHITECTURES), ("C_two_level", "free"), ("A_eyeriss_like", "all")],
)
def test_as_good_as_every_mapping(name: str, layer: Layer, keep: KeepRule) -> None:
    """To the last digit, but for the order in which floating-point numbers are added."""
    for objective in OBJECTIVES:
        problem = MappingProblem(ARCHITECTURES[name], layer, objective, SpaceRules(keep))
        every = all_mappings(problem)
        if every.status is not Status.OPTIMAL:
            pytest.skip(f"too many mappings to enumerate: {every.note}")
        outcome = solve(problem, Budget())
        assert outcome.status is Status.OPTIMAL
        assert outcome.bound == outcome.objective == pytest.approx(every.objective, rel=1e-12)
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []


@pytest.mark.parametrize(
    ("layer", "pj_per_mac"),
    [(gemm("cube", M=512, N=512, K=512), 23.277), (gemm("vit", M=197, N=768, K=3072), 22.849)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_optima_found_by_another_program(layer: Layer, pj_per_mac: float) -> None:
    """The energies that an independent search over tiles found for these products."""
    outcome = solve(MappingProblem(load_architecture("A_eyeriss_like"), layer, "energy"), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective is not None
    assert round(outcome.objective / layer.macs, 3) == pj_per_mac


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-like", "E_four_level"])
def test_real_layers_are_proven_and_not_beaten(name: str, objective: str) -> None:
    for layer in (
        convolution("conv", K=64, C=32, P=28, Q=28, R=3, S=3),
        convolution("strided", K=32, C=16, P=14, Q=14, R=3, S=3, stride=(2, 2)),
        gemm("primes", M=197, N=17, K=269),
    ):
        problem = MappingProblem(load_architecture(name), layer, objective)  # type: ignore[arg-type]
        outcome = solve(problem, Budget(wall_seconds=120))
        assert outcome.status is Status.OPTIMAL
        random = search_randomly(problem, Budget(wall_seconds=120, iterations=50_000))
        assert outcome.objective is not None
        assert random.objective is not None
        assert outcome.objective <= random.objective * (1 + 1e-12)


def test_irrelevant_loops_inside_a_slide_of_the_output() -> None:
    """Partial sums whose window slides on after a loop that leaves them in place: once missed."""
    rows = Tensor.of_terms("O", ((("P", 1), ("R", 1)),), "outputs")
    weights = Tensor.of_terms("W", ((("C", 1),), (("R", 1),)), "weights")
    inputs = Tensor.of_terms("I", ((("C", 1),), (("P", 1),)), "inputs")
    transposed = Layer("transposed", (("C", 2), ("P", 5), ("R", 11)), (weights, inputs, rows))
    for words in ((1, 7), (3, 12), (4, 24)):
        architecture = small(load_architecture("A_eyeriss_like"), words)
        problem = MappingProblem(architecture, transposed, "energy")
        outcome, every = solve(problem, Budget()), all_mappings(problem)
        assert outcome.status is every.status is Status.OPTIMAL
        assert outcome.objective == outcome.bound == pytest.approx(every.objective, rel=1e-12)


def test_few_mappings_are_evaluated() -> None:
    """Bounds of whole mappings are their costs, halos spread over fan-outs and rounded cycles included: only
    improvements are evaluated."""
    depthwise = convolution("d", K=8, C=8, P=14, Q=14, R=3, S=3, groups=8)
    pointwise = convolution("p", K=16, C=16, P=28, Q=28, R=1, S=1)
    for layer, objective in ((depthwise, "energy"), (depthwise, "edp"), (pointwise, "cycles")):
        problem = MappingProblem(load_architecture("simba"), layer, objective)  # type: ignore[arg-type]
        outcome = solve(problem, Budget(wall_seconds=120))
        assert outcome.status is Status.OPTIMAL
        assert outcome.evaluations <= 40 * LEAVES


def test_many_choices_of_kept_tensors() -> None:
    """Five levels that keep any of three tensors: 32,768 choices, of which few are looked at."""
    architecture = load_architecture("B_simba_like")
    problem = MappingProblem(architecture, gemm("g", M=1, N=3, K=4), "energy", SpaceRules("free"))
    outcome = solve(problem, Budget(wall_seconds=120))
    assert (outcome.status, outcome.bound) == (Status.OPTIMAL, outcome.objective)
    sampled = search_randomly(problem, Budget(wall_seconds=120, iterations=100_000))
    assert outcome.objective is not None
    assert sampled.objective is not None
    assert outcome.objective <= sampled.objective * (1 + 1e-12)


RULES = {
    "factors": LevelRules("SRAM", temporal=(FactorRule("C", 2), FactorRule("P", 1, 2))),
    "fixed": LevelRules("SRAM", temporal=(FactorRule("P", 2, 2),), spatial=(FactorRule("K", 2, 2),)),
    "order": LevelRules("DRAM", innermost=("K", "R"), outermost=("P",)),
    "spatial": LevelRules("SRAM", spatial_x=("C",), spatial_y=("P",)),
    "bypass": LevelRules("SRAM", keep=("Weights",), bypass=("Inputs",)),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "rules",
    # enumerating what levels may keep takes seconds
    [pytest.param(one, marks=[pytest.mark.slow] if one.keep else [], id=name) for name, one in RULES.items()],
)
def test_the_best_that_the_rules_allow(rules: LevelRules, objective: str) -> None:
    layer = convolution("c", K=2, C=2, P=4, Q=1, R=3, S=1)
    asked = SpaceRules("free" if rules.keep else "fitting", (rules,))
    problem = MappingProblem(ARCHITECTURES["A_eyeriss_like"], layer, objective, asked)  # type: ignore[arg-type]
    outcome, every = solve(problem, Budget()), all_mappings(problem)
    assert (every.status, outcome.status) == (Status.OPTIMAL, Status.OPTIMAL)
    assert outcome.objective == pytest.approx(every.objective, rel=1e-12)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []


def test_rules_that_nothing_obeys_are_told(three_levels: Architecture) -> None:
    fixed = LevelRules("Register", temporal=(FactorRule("M", 8, 8), FactorRule("N", 8, 8)))
    problem = MappingProblem(three_levels, gemm("g", M=8, N=8, K=2), rules=SpaceRules(levels=(fixed,)))
    outcome = solve(problem, Budget())
    assert outcome.status is Status.INFEASIBLE
    assert "Register" in outcome.note
    assert "3 are usable" in outcome.note


def hard_problem() -> MappingProblem:
    """One whose proof takes more than one assignment of spatial factors."""
    return MappingProblem(
        load_architecture("eyeriss"),
        convolution("c", K=256, C=128, P=14, Q=14, R=1, S=1, stride=(2, 2)),
        "edp",
    )


def test_a_limit_leaves_a_bound_that_holds() -> None:
    problem = hard_problem()
    best = solve(problem, Budget()).objective
    assert best is not None
    for budget in (Budget(iterations=1), Budget(wall_seconds=1e-6)):
        outcome = solve(problem, budget)
        assert outcome.status is Status.FEASIBLE
        assert outcome.note.startswith("not proven")
        assert outcome.objective is not None
        assert outcome.bound is not None
        assert 0 < outcome.bound < best <= outcome.objective


def test_a_tolerance_ends_the_search_early() -> None:
    problem = hard_problem()
    best = solve(problem, Budget()).objective
    near = solve(problem, Budget(), Params(tolerance=0.2))
    assert best is not None
    assert near.objective is not None
    assert near.bound is not None
    assert near.gap is not None
    assert near.bound <= best <= near.objective
    assert near.gap <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.2])
def test_an_answer_within_the_tolerance_holds_against_the_optimum(
    objective: Objective, tolerance: float
) -> None:
    for layer in LAYERS:
        problem = MappingProblem(ARCHITECTURES["B_simba_like"], layer, objective)
        best = all_mappings(problem).objective
        near = solve(problem, Budget(), Params(tolerance=tolerance))
        assert best is not None
        assert near.objective is not None
        assert near.bound is not None
        assert near.bound <= best * (1 + 1e-12)
        assert best * (1 - 1e-12) <= near.objective <= best / (1 - tolerance) * (1 + 1e-12)


@pytest.mark.slow
def test_with_a_tolerance_few_close_bounds_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of this optimum needs dozens of them; a mapping that is good enough, and the bound that
    shows it, are met at the first few."""
    asked: list[AssignmentKey] = []
    bound = Prices.bound

    def counted(prices: Prices, limit: float, which: AssignmentKey, in_time: InTime) -> float:
        asked.append(which)
        return bound(prices, limit, which, in_time)

    monkeypatch.setattr(Prices, "bound", counted)
    layer = load_layer("cosa_resnet50/layer3.0.conv2")
    problem = MappingProblem(load_architecture("eyeriss"), layer, "energy")
    best = solve(problem, Budget())
    for_proof = len(asked)
    near = solve(problem, Budget(), Params(tolerance=0.05))
    assert best.objective is not None
    assert near.objective is not None
    assert best.objective <= near.objective <= best.objective / 0.95
    assert 5 * (len(asked) - for_proof) < for_proof


def test_what_the_cost_models_bound_proves_asks_for_no_bounds_of_all_assignments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the ways to spread this layer over Simba's PEs a few keep all of them busy, and one is enough."""
    bounded: list[int] = []
    prepare = Assignments._bound_spreads

    def counted(assignments: Assignments, in_time: InTime) -> bool:
        bounded.append(len(assignments._spreads))
        return prepare(assignments, in_time)

    monkeypatch.setattr(Assignments, "_bound_spreads", counted)
    problem = MappingProblem(load_architecture("B_simba_like"), load_layer("deepbench/ocr_3"), "cycles")
    outcome = solve(problem, Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == space_bound(problem)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert max(bounded) <= 2 * exact_solver.SHORT_LIST


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_ceiling_ends_the_search_with_itself_for_a_bound(objective: Objective) -> None:
    architecture = small(load_architecture("eyeriss"), (8, 400))
    problem = MappingProblem(architecture, gemm("g", M=8, N=6, K=4), objective)
    best = solve(problem, Budget(60))
    assert best.objective is not None
    for share in (0.5, 0.99, 1 - 1e-6):
        ceiling = share * best.objective
        stopped = Solving(problem, ceiling=ceiling).go_on(60)
        assert stopped.status in (Status.UNKNOWN, Status.FEASIBLE)
        assert stopped.bound is not None
        # the cost model's own bound may say more than the ceiling
        assert ceiling <= stopped.bound <= best.objective
    for share in (1 + 1e-6, 1.01, 2.0):
        found = Solving(problem, ceiling=share * best.objective).go_on(60)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(best.objective, rel=1e-12)


def test_a_start_that_is_best_stays() -> None:
    problem = hard_problem()
    best = solve(problem, Budget())
    again = solve(problem, Budget(), start=best.solution)
    assert (again.status, again.solution, again.objective) == (Status.OPTIMAL, best.solution, best.objective)


def test_dominance_changes_no_optimum() -> None:
    layer = convolution("c", K=4, C=4, P=6, Q=6, R=3, S=3)
    problem = MappingProblem(ARCHITECTURES["A_eyeriss_like"], layer, "energy")
    with_it, without = solve(problem, Budget()), solve(problem, Budget(), Params(dominance=False))
    assert with_it.objective == pytest.approx(without.objective, rel=1e-12)


def test_a_machine_of_one_level(two_levels: Architecture) -> None:
    dram: StorageLevel = replace(two_levels.levels[-1], fanout_x=4)
    architecture = replace(two_levels, levels=(dram,))
    problem = MappingProblem(architecture, gemm("g", M=4, N=3, K=2), "edp")
    outcome, every = solve(problem, Budget()), all_mappings(problem)
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == every.objective


def test_the_answer_is_the_cost_models(two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, LAYERS[0], "edp")
    outcome = solve(problem, Budget())
    assert outcome.solution is not None
    evaluation = evaluate(two_levels, LAYERS[0], outcome.solution)
    assert outcome.objective == objective_of(evaluation, "edp")


@pytest.mark.parametrize("tolerance", [1.0, float("nan"), True])
def test_a_tolerance_is_a_fraction(tolerance: float) -> None:
    with pytest.raises(InputError, match="exact: tolerance: expected a fraction"):
        Params(tolerance=tolerance)


class FewLooks:
    """A deadline that is over when it was looked at three times, whatever time it is."""

    left = 1.0

    def __init__(self, wall_seconds: float) -> None:
        self.looks = 0

    def in_time(self) -> bool:
        self.looks += 1
        return self.looks <= 3


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(SpaceRules(), id="even"),
        pytest.param(SpaceRules(uneven=True), id="uneven", marks=pytest.mark.slow),
    ],
)
def test_a_solve_that_is_left_and_continued_ends_where_one_that_is_not_does(
    rules: SpaceRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = MappingProblem(ARCHITECTURES["E_four_level"], LAYERS[0], "energy", rules)
    whole = solve(problem, Budget())
    monkeypatch.setattr(exact_solver, "SLICE", 2)
    monkeypatch.setattr(exact_solver, "Deadline", FewLooks)
    solving, objectives = Solving(problem), [inf]
    while not solving.ended and len(objectives) < 1000:
        outcome = solving.go_on(60.0)
        assert outcome.bound is not None
        assert whole.objective is not None
        assert outcome.bound <= whole.objective
        objectives.append(inf if outcome.objective is None else outcome.objective)
    assert len(objectives) > 3
    assert objectives == sorted(objectives, reverse=True)
    assert (outcome.status, outcome.objective) == (Status.OPTIMAL, whole.objective)


def test_a_better_mapping_given_in_between_is_taken(small_problem: MappingProblem) -> None:
    best = solve(small_problem, Budget())
    solving = Solving(small_problem)
    solving.go_on(1e-9)  # what is served when no time is left
    outcome = solving.go_on(60.0, best.solution)
    assert (outcome.status, outcome.objective) == (best.status, best.objective)
