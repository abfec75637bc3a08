"""The search of pipelines: its answers and bounds against every pipeline of small groups, and its parts."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from costmodel.mapping.fused.layers.group import LayerGroup
from solvers.budget import Budget
from solvers.fusion.layers import solve
from solvers.fusion.layers.problem import LayerFusionProblem, objective_of, violations
from solvers.fusion.problem import OBJECTIVES
from solvers.outcome import Status
from tests.costmodel.mapping.fused.layers import random_groups
from tests.solvers.fusion.layers import enumerated_groups, enumerated_pipelines


def small(random: Random, *, leaks: bool, rates: bool) -> LayerGroup:
    """Two small products in memories that hold some of it, on an array of two or three columns.

    Odd layers cannot use two columns by themselves.
    """
    columns = random.choice((2, 2, 3))
    machine = random_groups.architecture(
        random,
        room=random.randint(16, 30),
        registers=random.randint(3, 6),
        fanout=columns,
        rates=rates,
    )
    leakage = random.choice((16.0, 64.0)) if leaks else 0.0
    levels = tuple(replace(level, leakage_pj_per_cycle=leakage) for level in machine.levels)
    layers = random_groups.products(random, 2, (3,) if columns == 2 else (2, 3))
    return random_groups.chain(replace(machine, levels=levels), layers)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_small_groups_against_every_pipeline(objective: str) -> None:
    random, proven, pipelined, better = Random(objective), 0, 0, 0
    for number in range(4):
        group = small(random, leaks=objective == "energy" or number == 3, rates=number % 2 == 1)
        problem = LayerFusionProblem(group, cast(Any, objective), pipelined=True)
        outcome = solve(problem, Budget(120))
        apart = enumerated_groups.least(group, objective)
        together = enumerated_pipelines.least_pipelined(group, objective)
        assert apart is not None
        told = apart if together is None else min(apart, together)
        assert outcome.objective is not None
        assert outcome.bound is not None
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
        assert outcome.objective == objective_of(problem, outcome.solution)
        # nothing costs less than the bound, and the answer is no better than the best
        assert outcome.bound <= told * (1 + 1e-12)
        assert told <= outcome.objective * (1 + 1e-12)
        if outcome.status is Status.OPTIMAL:
            assert outcome.objective == pytest.approx(told, rel=1e-12)
        proven += outcome.status is Status.OPTIMAL
        pipelined += bool(outcome.solution.shared.pipelines)
        better += together is not None and together < apart * (1 - 1e-9)
        print(objective, number, outcome.status, outcome.objective, outcome.bound, apart, together)
        assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert better >= 1
    assert pipelined >= 1
    assert proven >= 1
