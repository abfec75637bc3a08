"""CoSA's program of costs on architectures with timing: its cycles against the cost model's."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import ALL_ROLES, Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.cosa import Params, solve
from solvers.mapping.cosa.capacity import keep_choices
from solvers.mapping.cosa.cost_program import CostProgram
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.linear import EngineGoal
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from sweep.study.hardware_space import with_hardware_constraints

COST = Params(surrogate="cost", polish=False)
GEMMINI = load_architecture("gemmini")
TIMING = GEMMINI.timing
assert TIMING is not None

FACTORED = replace(TIMING, caches=(), ahead_cycles=0.0)
"""Gemmini's timing without what is no product over the dims."""
SPILLS = replace(FACTORED, reloads=(), keeps_partial_sums=False, whole_steps=(), product_block=())
"""One that keeps a tile until the next replaces it, and sends partial sums out and fetches them."""

LAYERS = [
    convolution("windows", K=48, C=32, P=28, Q=6, R=3, S=3),
    convolution("strides", K=32, C=3, P=24, Q=8, R=5, S=1, stride=(2, 2)),
    convolution("pointwise", K=64, C=96, P=14, Q=14, R=1, S=1),
    gemm("gemm", M=48, N=40, K=96),
]


def rules_of(layer: Layer) -> SpaceRules:
    return with_hardware_constraints(SpaceRules(), "gemmini", layer)


def drawn_cycles(architecture: Architecture, layer: Layer, seed: int) -> list[tuple[float, int]]:
    """Cycles as the program and as the cost model count them, of solutions at random corners of the program.

    Each is the optimum of random weights of the counts of primes.
    """
    random, rules = Random(seed), rules_of(layer)
    space = MappingSpace(architecture, layer, rules)
    program = CostProgram(space, next(keep_choices(space, COST)), COST, "cycles")
    engine, found = CpSat(program.integer, 0), []
    saved = {index: -1e-3 for terms in program._traffic._savings.values() for index in _saving(terms)}
    for _ in range(12):
        weights = {index: random.uniform(-1.0, 1.0) for index in program._variables._index.values()}
        answer = engine.minimise(EngineGoal(saved | weights), 60)
        assert answer.values is not None
        mapping: Mapping = program._mapping(answer.values, program.patterns[0])
        if not violations(MappingProblem(architecture, layer, "cycles", rules), mapping):
            counted = evaluate(architecture, layer, mapping).cycles
            found.append((program._cost_at(answer.values), counted))
    assert len(found) > 3
    return found


def _saving(by_level: Any) -> list[int]:
    """Variables of savings, which stand below their limits where no objective pushes them up."""
    return [index for groups in by_level.values() for terms in groups.values() for index in terms]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize(
    "timing",
    [
        FACTORED,
        replace(FACTORED, steps_in_flight=1),
        replace(FACTORED, whole_steps=("convolution", "product")),
        replace(FACTORED, array=None),
    ],
    ids=["as it is", "one step in flight", "whole steps", "no array"],
)
def test_timed_cycles_are_the_cost_models(layer: Layer, timing: Any) -> None:
    """To the cycle that the cost model rounds up to, where nothing misses a cache."""
    for ours, counted in drawn_cycles(replace(GEMMINI, timing=timing), layer, seed=len(layer.name)):
        assert counted - 1 - 1e-6 * counted <= ours <= counted * (1 + 1e-6)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_tiles_that_stay_and_sums_that_leave(layer: Layer) -> None:
    """Every tensor is kept by the level that DRAM fills, whose loops the program looks at."""
    levels = (GEMMINI.levels[0], *(replace(one, keeps=ALL_ROLES) for one in GEMMINI.levels[1:]))
    for ours, counted in drawn_cycles(replace(GEMMINI, levels=levels, timing=SPILLS), layer, seed=3):
        assert counted - 1 - 1e-6 * counted <= ours <= counted * (1 + 1e-6)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_caches_and_overlapping_parts_are_close(layer: Layer) -> None:
    """Misses and ``ahead`` are no products over the dims."""
    for ours, counted in drawn_cycles(GEMMINI, layer, seed=5):
        assert counted * 0.9 <= ours <= counted * 1.35


@pytest.mark.parametrize("objective", ["cycles", "edp"])
def test_one_shot_of_costs_cuts_a_layer_into_steps(objective: Any) -> None:
    """One step for the whole layer moves least and takes longest: nothing overlaps."""
    layer = convolution("conv", K=256, C=128, P=14, Q=14, R=1, S=1)
    problem = MappingProblem(GEMMINI, layer, objective, rules_of(layer))
    best, outcome = exact.solve(problem, Budget()), solve(problem, Budget(), COST)
    assert outcome.objective is not None
    assert best.objective is not None
    assert outcome.objective <= 1.05 * best.objective
    assert outcome.solution is not None
    assert outcome.solution.levels[-1].temporal
    assert not outcome.note or "without the architecture's timing" not in outcome.note
    unaware = solve(problem, Budget(), Params(polish=False))
    assert "without the architecture's timing" in (unaware.note or "")
