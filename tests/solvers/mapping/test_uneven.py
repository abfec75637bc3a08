"""The exact mapper on uneven mappings: against enumeration, random and even ones; rules, other solvers."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from math import prod

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.mapping.uneven import UnevenMapping
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget, always_in_time
from solvers.catalogue import CATALOGUE, Entry
from solvers.mapping.auto import solve as solve_automatically
from solvers.mapping.exact import Params, solve
from solvers.mapping.exact.bound import bound_in_time
from solvers.mapping.exact.parts import part_space
from solvers.mapping.exact.spatial import spreads
from solvers.mapping.exact.tables import assignment_workspace, lattice_workspace, space_of
from solvers.mapping.problem import OBJECTIVES, MappingProblem, violations
from solvers.mapping.space.rules import FactorRule, KeepRule, LevelRules, SpaceRules
from solvers.outcome import Status
from tests.solvers.mapping.uneven_enumeration import least, problems, random_costs
from tests.thorough import how_many

UNEVEN = SpaceRules(uneven=True)
VIT = gemm("vit", M=197, N=768, K=3072)


def even(problem: MappingProblem) -> MappingProblem:
    return replace(problem, rules=problem.rules.even)


@pytest.mark.slow
def test_as_good_as_every_uneven_mapping() -> None:
    """To the last digit, but for the order in which floating-point numbers are added."""
    enumerated, gained = 0, 0
    for problem in islice(problems(seed=3), how_many(8, thorough=12)):
        if (every := least(problem, limit=3000)) is None:
            continue
        enumerated += 1
        best, found = every
        outcome = solve(problem, Budget(wall_seconds=120))
        if found is None:
            assert outcome.status is Status.INFEASIBLE
            continue
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == outcome.bound == pytest.approx(best, rel=1e-12)
        assert outcome.objective is not None
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
        evenly = solve(even(problem), Budget()).objective
        assert evenly is not None
        assert outcome.objective <= evenly
        gained += outcome.objective < evenly * (1 - 1e-9)
    assert enumerated > how_many(2, thorough=4)
    assert gained > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("name", "layer"),
    [("eyeriss", gemm("g", M=64, N=48, K=96)), ("simba", convolution("c", K=32, C=16, P=14, Q=14, R=3, S=3))],
    ids=["eyeriss", "simba"],
)
def test_no_random_uneven_mapping_is_below_the_bound(name: str, layer: Layer, objective: str) -> None:
    problem = MappingProblem(load_architecture(name), layer, objective, UNEVEN)  # type: ignore[arg-type]
    outcome = solve(problem, Budget(wall_seconds=120))
    stopped = solve(problem, Budget(iterations=1))
    assert outcome.bound is not None
    assert stopped.bound is not None
    assert stopped.bound <= outcome.bound * (1 + 1e-12)
    assert outcome.bound * (1 - 1e-12) <= min(random_costs(problem, 80, seed=2))


def test_a_product_of_a_transformer_gains() -> None:
    """A's words pass through the registers one by one while tiles of B and Z stay."""
    problem = MappingProblem(load_architecture("eyeriss"), VIT, "edp", UNEVEN)
    evenly, outcome = solve(even(problem), Budget()), solve(problem, Budget(wall_seconds=120))
    assert outcome.status is Status.OPTIMAL
    assert isinstance(outcome.solution, UnevenMapping)
    assert violations(problem, outcome.solution) == []
    assert "RegFile: tiles end at 2 different loops, 1 allowed" in violations(even(problem), outcome.solution)
    assert evenly.objective is not None
    assert outcome.objective is not None
    assert outcome.objective < 0.98 * evenly.objective
    assert evenly.solution is not None
    assert violations(problem, evenly.solution) == []
    again = solve(problem, Budget(wall_seconds=120), start=outcome.solution)
    assert (again.status, again.objective, again.solution) == (
        Status.OPTIMAL,
        outcome.objective,
        outcome.solution,
    )


def test_only_the_levels_asked_for_are_uneven() -> None:
    rules = SpaceRules(uneven=True, uneven_levels=("SRAM",))
    problem = MappingProblem(load_architecture("eyeriss"), VIT, "edp", rules)
    outcome = solve(problem, Budget(wall_seconds=120), Params(tolerance=0.001))
    assert isinstance(outcome.solution, UnevenMapping)
    register_file, buffer, dram = outcome.solution.parts
    assert (len(register_file), len(dram)) == (1, 1)
    assert len(buffer) > 1
    assert violations(problem, outcome.solution) == []


def test_where_all_fits_uneven_is_even() -> None:
    problem = MappingProblem(load_architecture("C_two_level"), gemm("g", M=8, N=6, K=4), "energy", UNEVEN)
    outcome = solve(problem, Budget(wall_seconds=60))
    assert not isinstance(outcome.solution, UnevenMapping)
    assert outcome.objective == solve(even(problem), Budget()).objective


def test_padding_and_auto_map_unevenly() -> None:
    architecture = load_architecture("C_two_level")
    buffer = replace(architecture.levels[0], size_words=12, fanout_x=1, fanout_y=1)
    architecture = replace(architecture, levels=(buffer, architecture.levels[1]))
    rules = replace(UNEVEN, padding=0.1, padded_dims=("K",))
    problem = MappingProblem(architecture, gemm("g", M=4, N=4, K=2), "energy", rules)
    for solver in (solve, solve_automatically):
        outcome = solver(problem, Budget(wall_seconds=60))
        assert outcome.status is Status.OPTIMAL
        assert isinstance(outcome.solution, UnevenMapping)
        assert violations(problem, outcome.solution) == []
    assert outcome.solved_by == "exact"


@pytest.mark.parametrize(
    "entry", [entry for entry in CATALOGUE if entry.family == "mapping"], ids=lambda entry: entry.name
)
def test_every_solver_maps_unevenly_or_says_who_can(entry: Entry) -> None:
    problem = MappingProblem(load_architecture("C_two_level"), gemm("g", M=4, N=4, K=2), "edp", UNEVEN)
    module = entry.load()
    if entry.maps_unevenly:
        assert module.solve(problem, Budget(wall_seconds=60)).status is Status.OPTIMAL
    else:
        with pytest.raises(InputError, match=r"uneven: expected even mappings.*Ask exact, or auto"):
            module.solve(problem, Budget(wall_seconds=60))


def test_the_rules_name_the_space_and_come_back() -> None:
    rules = SpaceRules("free", uneven=True, uneven_levels=("SRAM",))
    assert rules.describe() == (
        "perfect factors; any bypass; uneven: tensors end their tiles at SRAM at different loops"
    )
    assert SpaceRules.from_json(rules.to_json()) == rules
    assert SpaceRules.from_json(UNEVEN.to_json()) == UNEVEN
    assert "uneven" not in SpaceRules().to_json()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (replace(UNEVEN, uneven_levels=("SRAN",)), "uneven_levels: .*Did you mean SRAM"),
        (
            replace(UNEVEN, levels=(LevelRules("SRAM", temporal=(FactorRule("M", 4, 4),)),)),
            "constraint on SRAM: expected none on temporal loops",
        ),
        (
            replace(UNEVEN, levels=(LevelRules("RegFile", innermost=("K",)),)),
            "constraint on RegFile: expected none on temporal loops",
        ),
    ],
)
def test_rules_that_uneven_levels_cannot_have(rules: SpaceRules, said: str) -> None:
    with pytest.raises(InputError, match=said):
        MappingProblem(load_architecture("eyeriss"), VIT, rules=rules)
    with pytest.raises(InputError, match="mapping space: uneven: expected true or false"):
        SpaceRules(uneven=1)  # type: ignore[arg-type]


def test_constraints_elsewhere_are_kept() -> None:
    spread = LevelRules("SRAM", spatial_x=("N",), spatial_y=("M",), bypass=("A",))
    fixed = LevelRules("DRAM", temporal=(FactorRule("K", 2, 2),))
    rules = SpaceRules("free", (spread, fixed), uneven=True)
    problem = MappingProblem(load_architecture("eyeriss"), gemm("g", M=24, N=28, K=32), "energy", rules)
    outcome = solve(problem, Budget(wall_seconds=120), Params(tolerance=0.02))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert outcome.objective is not None
    evenly = solve(even(problem), Budget(wall_seconds=60)).objective
    assert evenly is not None
    assert outcome.objective <= evenly / (1 - 0.02)


@pytest.mark.parametrize("price", [0.0, 0.5])
@pytest.mark.parametrize(("name", "keep"), [("eyeriss", "all"), ("eyeriss", "free"), ("simba", "fitting")])
def test_the_bound_of_all_orders_is_the_least_of_each(name: str, keep: KeepRule, price: float) -> None:
    """For random spatial factors and choices of kept tensors, at whatever price of a word."""
    layer = convolution("c", K=6, C=4, P=6, Q=1, R=3, S=1)
    problem = MappingProblem(load_architecture(name), layer, "energy", SpaceRules(keep, uneven=True))
    parts = part_space(problem)
    tables = space_of(problem, parts, dominance=True)
    tables.prices[:] = np.where(tables.last > tables.first, price, 0.0)
    assignment = assignment_workspace(tables)
    lattice = lattice_workspace(tables, prod(tables.divisor_count.tolist()))
    factors = spreads(parts.space)
    assert factors is not None
    rng = np.random.default_rng(1)
    for orders in [parts.orders[choice] for choice in rng.choice(len(parts.orders), 6)]:
        assignment.spatial[:] = factors[rng.integers(len(factors))]
        bounds = []
        for order in orders:
            assignment.keep[:] = order
            bounds.append(bound_in_time(tables, assignment, lattice, False, always_in_time))
        assignment.keep[:] = orders[rng.integers(len(orders))]
        assert bound_in_time(tables, assignment, lattice, True, always_in_time) == pytest.approx(
            min(bounds), rel=1e-12
        )
