"""The program of costs: its sum of powers against the cost model, its optimum against all mappings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exhaustive
from solvers.mapping.cosa import Params, solve
from solvers.mapping.cosa.capacity import keep_choices
from solvers.mapping.cosa.cost_program import CLOSE, CostProgram
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.highs import Highs
from solvers.mapping.cosa.linear import value
from solvers.mapping.cosa.program import CosaProgram
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from sweep.study.hardware_space import with_hardware_constraints

COST = Params(surrogate="cost", polish=False, capacity_split="free")


def level(name: str, words: int | None, pj: float, x: int = 1, y: int = 1, **more: Any) -> StorageLevel:
    return StorageLevel(name, words, 8, pj, 1.5 * pj, 1.25 * pj, fanout_x=x, fanout_y=y, **more)


SMALL = Architecture(
    "small",
    (
        level("Register", 1, 0.1, keeps=("weights",)),
        level("Buffer", 24, 1.0, x=2, y=2),
        level("Global", 200, 6.0, x=4, keeps=("inputs", "outputs")),
        level("DRAM", None, 100.0, read_bandwidth=2.0, write_bandwidth=1.0),
    ),
    Compute("MAC", 8, 0.5),
)
LEAKS = replace(
    SMALL,
    levels=tuple(
        replace(one, leakage_pj_per_cycle=leakage, read_bandwidth=0.5 if one.name == "DRAM" else None)
        for one, leakage in zip(SMALL.levels, (0.5, 2.0, 30.0, 400.0), strict=True)
    ),
)
"""A machine that waits for DRAM most of the time, and leaks meanwhile."""
LAYERS = [
    gemm("gemm", M=8, N=6, K=8),
    batched_matmul("matmul", B=2, M=4, N=2, K=6),
    convolution("pointwise", K=8, C=4, P=3, Q=2, R=1, S=1),
]


ORDERS = {
    "any order": SpaceRules(),
    "summed inside": SpaceRules(levels=(LevelRules("DRAM", innermost=("K", "C")),)),
    "one order": SpaceRules(
        levels=(
            LevelRules("DRAM", outermost=("K", "C", "M", "P", "N", "Q")),
            LevelRules("Global", innermost=("N", "P"), outermost=("M",)),
        )
    ),
}
"""Rules on loop orders, for the dims of all ``LAYERS`` together."""


def program_of(
    layer: Layer, objective: Any, architecture: Architecture = SMALL, rules: SpaceRules = ORDERS["any order"]
) -> CostProgram:
    space = MappingSpace(architecture, layer, rules)
    return CostProgram(space, next(keep_choices(space, COST)), COST, objective)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("engine", [CpSat, Highs])
def test_the_sum_of_powers_is_the_energy_of_the_cost_model(layer: Layer, orders: str, engine: Any) -> None:
    """Of every solution that the program goes through, where nothing slides and a block is a word."""
    program = program_of(layer, "energy", rules=ORDERS[orders].for_layer(layer))
    for ours, mapping in solutions(program, engine):
        assert ours == pytest.approx(evaluate(SMALL, layer, mapping).energy_pj, rel=1e-9)


def solutions(program: CostProgram, engine: Any) -> list[tuple[float, Mapping]]:
    """Every solution that a proven program goes through: what it costs by the program, and its mapping."""
    seen: list[tuple[float, Mapping]] = []
    inner = engine(program.integer, 0)

    class Watched:
        require = inner.require

        def minimise(self, goal: Any, seconds: float) -> Any:
            answer = inner.minimise(goal, seconds)
            if answer.values is not None:
                mapping = program._mapping(answer.values, program.patterns[0])
                if all(buffer.fits(mapping.tiles[buffer.level]) for buffer in program._buffers):
                    seen.append((program._cost_at(answer.values), mapping))
            return answer

    solved = program.solve(program.patterns[0], Watched(), 60)
    assert solved.proven
    assert seen
    return seen


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_what_leaks_while_a_machine_waits_counts(layer: Layer, objective: Any) -> None:
    """As the cost model counts it, but for the part of a cycle that the latter rounds up to."""
    leaked_per_cycle = 0.0
    for ours, mapping in solutions(program_of(layer, objective, LEAKS), CpSat):
        counted = evaluate(LEAKS, layer, mapping)
        assert counted.cycles > counted.compute_cycles
        leaked_per_cycle = sum(level.leakage_pj for level in counted.levels) / counted.cycles
        less = counted.energy_pj - leaked_per_cycle
        if objective == "edp":
            less *= counted.cycles - 1
        assert less * (1 - 1e-9) <= ours <= objective_of(counted, objective) * (1 + 1e-9)
    assert leaked_per_cycle > 400


def test_no_program_that_has_a_solution_is_called_infeasible() -> None:
    """The best solution so far is within all rows that are added. CP-SAT's presolve called this program
    infeasible when the numbers of its tangents were whole numbers of ten digits."""
    architecture = load_architecture("C_two_level")
    layer = next(layer for layer in load_network("cosa_resnet50").layers if layer.name == "conv1")
    rules = with_hardware_constraints(SpaceRules(), "C_two_level", layer)
    program = program_of(layer, "energy", architecture, rules)
    inner, answers = CpSat(program.integer, 0), []

    class Watched:
        require = inner.require

        def minimise(self, goal: Any, seconds: float) -> Any:
            answers.append(inner.minimise(goal, seconds))
            return answers[-1]

    assert program.solve(program.patterns[0], Watched(), 60).proven
    assert len(answers) > 1
    assert all(answer.values is not None for answer in answers)


@pytest.mark.parametrize("objective", ["energy", "edp", "cycles"])
def test_a_search_that_was_cut_short_begins_again_within_all_rows(objective: Any) -> None:
    """The start of the next solve is the best solution so far, at or above every tangent."""
    program = program_of(LAYERS[0], objective)
    inner, starts, rows = CpSat(program.integer, 0), 0, list(program.integer.rows)

    class CutShort:
        def require(self, row: Any) -> None:
            rows.append(row)
            inner.require(row)

        def minimise(self, goal: Any, seconds: float) -> Any:
            nonlocal starts
            if goal.start is not None:
                starts += 1
                for row in (*rows, *goal.rows):
                    reached = value(row.terms, goal.start)
                    assert row.low - 1e-6 <= reached <= row.high + 1e-6 * max(1.0, abs(row.high))
            answer = inner.minimise(goal, seconds)
            return replace(answer, proven=answer.proven and starts >= 2)

    solved = program.solve(program.patterns[0], CutShort(), 600)
    assert starts >= 2
    assert solved.proven


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("architecture", [SMALL, LEAKS], ids=["small", "leaks"])
def test_a_proven_program_of_energy_has_the_best_mapping_of_its_keep_choice(
    layer: Layer, orders: str, architecture: Architecture
) -> None:
    """Against every mapping of the space, of which this one's levels keep as much as they can."""
    problem = MappingProblem(architecture, layer, "energy", ORDERS[orders].for_layer(layer))
    best = exhaustive.solve(problem, Budget(), exhaustive.Params(limit=10**8))
    outcome = solve(problem, Budget(), COST)
    assert outcome.program_proven
    assert outcome.objective is not None
    assert best.objective is not None
    assert best.objective <= outcome.objective * (1 + 1e-9)
    assert outcome.objective <= best.objective * (1 + 2 * CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_one_shot_of_costs_beats_the_paper(objective: Any) -> None:
    layer = convolution("conv", K=64, C=32, P=14, Q=14, R=3, S=3)
    problem = MappingProblem(load_architecture("simba"), layer, objective)
    paper = solve(problem, Budget(), Params(preset="paper"))
    cost = solve(problem, Budget(), Params(surrogate="cost", polish=False))
    assert cost.objective is not None
    assert paper.objective is not None
    assert cost.objective < paper.objective


def test_cycles_that_bandwidth_asks_for_are_counted() -> None:
    """A machine whose DRAM is too slow for its MACs: the program counts the cycles of both."""
    slow = replace(SMALL, levels=(*SMALL.levels[:-1], replace(SMALL.levels[-1], read_bandwidth=0.05)))
    layer = LAYERS[0]
    problem = MappingProblem(slow, layer, "cycles")
    outcome = solve(problem, Budget(), COST)
    assert outcome.solution is not None
    evaluation = evaluate(slow, layer, outcome.solution)
    assert outcome.objective == objective_of(evaluation, "cycles")
    assert evaluation.cycles > evaluation.compute_cycles
    quick = solve(replace(problem, architecture=SMALL), Budget(), COST)
    assert quick.solution is not None
    assert outcome.objective is not None
    assert outcome.objective <= evaluate(slow, layer, quick.solution).cycles


@pytest.mark.parametrize("preset", ["paper", "archsweep"])
def test_a_preset_decides_what_is_not_stated(preset: Any) -> None:
    params = Params(preset=preset, kicks=7)
    assert params.kicks == 7
    assert params.polish is (preset == "archsweep")
    assert params.boundaries == ("paper" if preset == "paper" else "network")
    assert params.utilisation_weight == (0.1 if preset == "paper" else 0.0)
    assert replace(params, polish=True).boundaries == params.boundaries


def test_permutation_in_the_program_comes_to_the_enumerated_optimum() -> None:
    problem = MappingProblem(
        load_architecture("simba"), convolution("conv", K=64, C=32, P=14, Q=14, R=3, S=3), "edp"
    )
    space = MappingSpace(problem.architecture, problem.layer)
    optima = []
    for permutation in ("program", "enumerated"):
        params = Params(permutation=permutation, polish=False)

        program = CosaProgram(space, next(keep_choices(space, params)), params)
        assert len(program.patterns) == (1 if permutation == "program" else 3)
        engine, found = CpSat(program.integer, 0), []
        for pattern in program.patterns:
            goal = program.goal(pattern)
            answer = engine.minimise(goal, 60)
            assert answer.proven
            assert answer.values is not None
            found.append(value(goal.objective, answer.values))
        optima.append(min(found))
    assert optima[0] == pytest.approx(optima[1], abs=2e-3)
