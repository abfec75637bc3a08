"""Padding: which sizes are tried, and that the answer and its bound are those of the whole padded space."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice, product

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import gemm
from solvers.budget import Budget, Deadline
from solvers.divisors import prime_powers
from solvers.mapping import cosa, exact, exhaustive, random_search
from solvers.mapping.problem import MappingProblem, executed_layer, objective_of, padded_dims, violations
from solvers.mapping.space import padded_sizes, padding
from solvers.mapping.space.padded_sizes import OpenBoxes, at_sizes, count_sizes, promising_sizes
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status
from tests.solvers.mapping.random_problems import problems


def every_size(problem: MappingProblem) -> product[tuple[int, ...]]:
    """All sizes within the padding."""
    return product(*(range(size, problem.largest_size(dim) + 1) for dim, size in problem.layer.dims))


def test_sizes_within_the_padding(two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("g", M=10, N=7, K=1), rules=SpaceRules(padding=0.1))
    assert list(every_size(problem)) == [(10, 7, 1), (11, 7, 1)]
    assert count_sizes(problem) == 2
    only_n = MappingProblem(two_levels, problem.layer, rules=SpaceRules(padding=0.3, padded_dims=("N",)))
    assert [sizes[1] for sizes in every_size(only_n)] == [7, 8, 9]
    assert at_sizes(only_n, (10, 9, 1)).rules == SpaceRules()


def promising_by_definition(problem: MappingProblem, dim: str) -> list[int]:
    """One size after the other: the definition, too slow for large sizes."""
    sides = {side for level in problem.architecture.levels for side in (level.fanout_x, level.fanout_y)}
    least = problem.layer.sizes[dim]
    kept: dict[int, tuple[int, ...]] = {}
    for size in range(least, problem.largest_size(dim) + 1):
        found = [d for d in range(1, size + 1) if size % d == 0]
        prime = max((d for d in found[1:] if all(d % e for e in found[1:] if e < d)), default=1)
        offers = (-prime, *(max(d for d in found if d <= side) for side in sorted(sides)))
        wasteful = size > least and prime * (size - least) >= size
        covered = any(all(a >= b for a, b in zip(other, offers, strict=True)) for other in kept.values())
        if not wasteful and not covered:
            kept[size] = offers
    return list(kept)


@pytest.mark.parametrize("block", [7, 2000])
@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-like"])
def test_promising_sizes_are_found_without_looking_at_every_size(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(padded_sizes, "BLOCK", block)
    monkeypatch.setattr(padded_sizes, "TABLE", (2, 3, 5, 7, 11, 13))
    for size in (1, 16, 97, 199, 360, 1009):
        rules = SpaceRules(padding=0.5)
        problem = MappingProblem(load_architecture(name), gemm("g", M=size, N=2, K=2), rules=rules)
        assert promising_sizes(problem, "M") == promising_by_definition(problem, "M")


@pytest.mark.slow
def test_a_million_sizes_are_looked_through_in_a_few_blocks() -> None:
    """What offers more than the best of the first thousands has small primes only, and is listed."""
    architecture = load_architecture("eyeriss")
    rules = SpaceRules(padding=0.001)
    problem = MappingProblem(architecture, gemm("g", M=1_000_000_007, N=2, K=2), rules=rules)
    looks = []
    found = promising_sizes(problem, "M", lambda: bool(looks.append(1)) or True)  # type: ignore[func-returns-value]
    assert len(looks) * padded_sizes.BLOCK < 1_000_000
    assert found[0] == 1_000_000_007
    assert max(max(prime for prime, _ in prime_powers(size)) for size in found[-3:]) < 30
    assert promising_sizes(problem, "M", lambda: False) == [size for size in found if size < found[0] + 2000]


def test_looking_for_sizes_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at between blocks of sizes; the layer's own size has been solved by then."""
    rules = SpaceRules(padding=1.0)
    layer = gemm("g", M=1_000_000_007, N=2, K=1)
    problem = MappingProblem(load_architecture("tpu-like"), layer, rules=rules)
    monkeypatch.setattr(Deadline, "left", 0.0)
    asked = []

    @over_padded_sizes
    def solver(problem: MappingProblem, budget: Budget) -> Outcome[Mapping]:
        asked.append(problem.layer.sizes["M"])
        return random_search.solve(problem, replace(budget, iterations=2000))

    assert solver(problem, Budget(1e-3)).objective is not None
    assert asked == [1_000_000_007]


def test_promising_sizes_of_a_prime() -> None:
    """14 x 12 PEs: 198 = 11 * 18 fills eleven of a side, 204 = 12 * 17 twelve, 210 = 14 * 15 fourteen."""
    rules = SpaceRules(padding=0.07)
    problem = MappingProblem(load_architecture("eyeriss"), gemm("g", M=197, N=3072, K=768), rules=rules)
    assert promising_sizes(problem, "M") == [197, 198, 200, 204, 208, 210]


def test_a_large_prime_makes_a_size_wasteful(two_levels: Architecture) -> None:
    """Every mapping of 206 = 2 * 103 has a factor 103 or 206 that could be one less, still at least 197."""
    problem = MappingProblem(two_levels, gemm("g", M=197, N=1, K=1), rules=SpaceRules(padding=1.0))
    for size in promising_sizes(problem, "M")[1:]:
        factors = [f for f in range(2, size + 1) if size % f == 0 and all(f % d for d in range(2, f))]
        assert all(size // factor * (factor - 1) < 197 for factor in factors)


TWO_OF_M = LevelRules("Buffer", (FactorRule("M", 2, 2),))
CASES = [
    (gemm("g", M=5, N=7, K=2), SpaceRules(padding=0.25)),
    (gemm("g", M=5, N=7, K=3), SpaceRules("free", padding=0.25, padded_dims=("M",))),
    (gemm("g", M=7, N=2, K=3), SpaceRules(levels=(TWO_OF_M,), padding=0.15)),
]


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize(("layer", "rules"), CASES)
def test_the_best_of_all_sizes_is_proven(
    two_levels: Architecture, layer: object, rules: SpaceRules, objective: str
) -> None:
    problem = MappingProblem(two_levels, layer, objective, rules)  # type: ignore[arg-type]
    each = [exhaustive.solve(at_sizes(problem, sizes), Budget()) for sizes in every_size(problem)]
    best = min(outcome.objective for outcome in each if outcome.objective is not None)
    outcome = exhaustive.solve(problem, Budget())
    assert (outcome.status, outcome.gap) == (Status.OPTIMAL, 0)
    assert outcome.objective == pytest.approx(best, rel=1e-12)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    executed = executed_layer(problem, outcome.solution)
    again = evaluate(two_levels, executed, outcome.solution)
    assert again.macs == executed.macs >= problem.layer.macs
    assert objective_of(again, problem.objective) == outcome.objective


def test_a_dim_with_no_factor_of_its_own_is_padded(two_levels: Architecture) -> None:
    """7 has no factor 2, 8 has: only padded there is a mapping."""
    problem = MappingProblem(two_levels, *CASES[2][:1], rules=CASES[2][1])
    outcome = exhaustive.solve(problem, Budget())
    assert outcome.solution is not None
    assert padded_dims(problem, outcome.solution) == {"M": 8}
    unpadded = MappingProblem(two_levels, problem.layer, rules=SpaceRules(levels=problem.rules.levels))
    assert exhaustive.solve(unpadded, Budget()).status is Status.INFEASIBLE


def test_infeasible_at_every_size(two_levels: Architecture) -> None:
    rules = SpaceRules(levels=(LevelRules("Buffer", (FactorRule("M", 5, 5),)),), padding=0.2)
    outcome = exhaustive.solve(MappingProblem(two_levels, gemm("g", M=6, N=2, K=2), rules=rules), Budget())
    assert outcome.status is Status.INFEASIBLE
    assert "no temporal factor M = 5 divides M=6" in outcome.note
    assert "2 of 2 padded sizes solved" in outcome.note


@pytest.mark.slow
def test_a_heuristic_proves_no_more_than_the_bounds() -> None:
    layer = gemm("g", M=197, N=3072, K=768)
    plain = MappingProblem(load_architecture("simba"), layer)
    padded = MappingProblem(plain.architecture, layer, rules=SpaceRules(padding=0.03, padded_dims=("M",)))
    before, after = (cosa.solve(problem, Budget()) for problem in (plain, padded))
    assert before.objective is not None
    assert after.objective is not None
    assert after.bound is not None
    assert after.objective < 0.7 * before.objective
    assert space_bound(padded) <= after.bound <= after.objective
    assert after.bound <= min(space_bound(at_sizes(padded, sizes)) for sizes in every_size(padded))


def test_time_is_shared_out(two_levels: Architecture) -> None:
    """A solver that takes all it gets leaves room for other sizes, and the whole keeps to the limit."""
    asked: list[float] = []

    @over_padded_sizes
    def slow(problem: MappingProblem, budget: Budget) -> Outcome[Mapping]:
        asked.append(budget.wall_seconds)
        return Outcome(Status.UNKNOWN, None, None, None, 0.0, 0.0, "nothing found")

    problem = MappingProblem(two_levels, gemm("g", M=5, N=7, K=2), rules=SpaceRules(padding=0.25))
    outcome = slow(problem, Budget(8.0))
    assert outcome.status is Status.UNKNOWN
    assert outcome.bound == min(space_bound(at_sizes(problem, sizes)) for sizes in every_size(problem))
    assert len(asked) >= 3
    assert asked[0] <= 4.0
    assert max(asked) < 8.0


def test_every_combination_is_counted(two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("g", M=9, N=5, K=4), rules=SpaceRules(padding=0.4))
    assert list(every_size(problem)) == list(product(range(9, 13), range(5, 8), range(4, 6)))
    assert count_sizes(problem) == 24


def test_boxes_hold_every_size_once_and_bound_what_is_in_them(two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("g", M=9, N=5, K=4), "energy", SpaceRules(padding=0.4))
    boxes, sizes = OpenBoxes(problem), []
    while boxes.bound < float("inf"):
        bound, box = boxes.bound, boxes.pop()
        inside = product(*(range(low, high + 1) for low, high in zip(*box, strict=True)))
        assert all(bound <= space_bound(at_sizes(problem, size)) for size in inside)
        if box.is_one_size:
            sizes.append(box.low)
        else:
            for half in box.halves():
                boxes.add(half)
    assert sorted(sizes) == list(every_size(problem))


def padded_problems(seed: int, count: int) -> list[MappingProblem]:
    """Random small problems, two of whose dims may grow by half, to at most a dozen sizes."""
    rng, found = random.Random(seed), []
    for problem in islice(problems(seed), 40 * count):
        dims = tuple(rng.sample(list(problem.layer.sizes), min(2, len(problem.layer.dims))))
        padded = replace(problem, rules=replace(problem.rules, padding=0.5, padded_dims=dims))
        if 3 <= count_sizes(padded) <= 12 and problem.layer.macs <= 40:
            found.append(padded)
    return found[:count]


@pytest.mark.slow
@pytest.mark.parametrize("problem", padded_problems(seed=3, count=10), ids=lambda p: p.architecture.name)
def test_random_problems_are_proven_over_all_sizes_as_enumeration_finds_it(problem: MappingProblem) -> None:
    every = [exhaustive.solve(at_sizes(problem, sizes), Budget(60)) for sizes in every_size(problem)]
    assert all(outcome.status in (Status.OPTIMAL, Status.INFEASIBLE) for outcome in every)
    best = min((outcome.objective for outcome in every if outcome.objective is not None), default=None)
    outcome = exact.solve(problem, Budget(60))
    if best is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == pytest.approx(best, rel=1e-12)
    for hasty in (
        exact.solve(problem, Budget(1e-4)),
        exact.solve(problem, Budget(60, iterations=1)),
        cosa.solve(problem, Budget(60, iterations=1)),
    ):
        assert hasty.bound is not None
        assert hasty.bound <= best * (1 + 1e-12)


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_a_tolerance_is_kept_over_all_sizes(two_levels: Architecture, objective: str) -> None:
    """With one a solver proves no optimum of a size, yet something about it."""
    problem = MappingProblem(two_levels, gemm("g", M=7, N=5, K=6), objective, SpaceRules("free", padding=0.3))  # type: ignore[arg-type]
    best = exact.solve(problem, Budget(60)).objective
    assert best is not None
    for tolerance in (0.02, 0.2):
        outcome = exact.solve(problem, Budget(60), exact.Params(tolerance=tolerance))
        assert outcome.bound is not None
        assert outcome.objective is not None
        assert outcome.bound <= best * (1 + 1e-12) <= outcome.objective * (1 + 2e-12)
        assert outcome.gap is not None
        assert outcome.gap <= tolerance + 1e-12


def test_a_proven_bound_of_nothing_is_a_bound() -> None:
    """Energies may all be 0: then 0 is what is proven, and not what is missing."""
    free: Outcome[Mapping] = Outcome(Status.UNKNOWN, None, None, 0.0, 0.0, 0.0)
    unproven = replace(free, bound=None)
    for before, now in ((free, unproven), (unproven, free), (free, free)):
        assert padding._learned(before, now).bound == 0.0
    assert padding._learned(unproven, unproven).bound is None
