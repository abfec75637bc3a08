"""The search of pipelines: its answers and bounds against every pipeline of small groups, and its parts."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import product
from math import inf
from random import Random
from typing import Any, cast

import pytest

from costmodel.formats.json.fused_layers_json import group_mapping_from_json, group_mapping_to_json
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.turns import held_tiles
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.workload.network import gemm
from solvers.budget import Budget, Deadline
from solvers.fusion.layers import solve
from solvers.fusion.layers.corners import Corner, corner_value
from solvers.fusion.layers.floors import LayerFloors
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.pipelined import Pipelining
from solvers.fusion.layers.problem import LayerFusionProblem, objective_of, violations
from solvers.fusion.layers.structures import GroupStructure, Run
from solvers.fusion.problem import OBJECTIVES
from solvers.outcome import Outcome, Status
from tests.costmodel.mapping.fused.layers import random_groups
from tests.costmodel.mapping.fused.layers.test_pipelines import pipelined_group
from tests.solvers.fusion.layers import enumerated_groups, enumerated_pipelines
from tests.solvers.fusion.layers.told import check_against


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


def held_to_every_pipeline(
    group: LayerGroup, objective: str
) -> tuple[Outcome[GroupMapping], FusedMapping, bool]:
    """The answer for a group, held to enumeration; its tree, and whether some pipeline beats all others."""
    problem = LayerFusionProblem(group, cast(Any, objective), pipelined=True)
    outcome = solve(problem, Budget(120))
    apart = enumerated_groups.least(group, objective)
    together = enumerated_pipelines.least_pipelined(group, objective)
    assert apart is not None
    found = check_against(problem, outcome, apart if together is None else min(apart, together))
    gains = together is not None and together < apart * (1 - 1e-9)
    return outcome, found.shared, gains


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_small_groups_against_every_pipeline(objective: str) -> None:
    random, proven, pipelined, better = Random(objective), 0, 0, 0
    for number in range(4):
        group = small(random, leaks=objective == "energy" or number == 3, rates=number % 2 == 1)
        outcome, shared, gains = held_to_every_pipeline(group, objective)
        proven += outcome.status is Status.OPTIMAL
        pipelined += bool(shared.pipelines)
        better += gains
        assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert better >= 1
    assert pipelined >= 1
    assert proven >= 1


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["cycles", "edp"])
def test_small_windows_against_every_pipeline(objective: str) -> None:
    """Loops through windows: turns of several kinds, some stages idle in some of them."""
    random, pipelined, slid, proven, looked_at = Random(f"windows {objective}"), 0, 0, 0, 0
    while looked_at < 6:
        machine = random_groups.architecture(random, room=random.randint(20, 40), registers=6, fanout=2)
        # with one channel, rows are all that can be shared
        channels = (1,) if looked_at % 2 else (1, 3)
        group = random_groups.convolutions(random, machine, 2, channels=channels, rows=(3, 5), width=(1,))
        if not any(group.slides):
            continue
        looked_at += 1
        outcome, shared, _ = held_to_every_pipeline(group, objective)
        proven += outcome.status is Status.OPTIMAL
        pipelined += bool(shared.pipelines)
        slid += bool(shared.pipelines) and any(name in group.slides[0] for name, _ in shared.paths[0])
    assert pipelined >= 1
    assert proven >= 1
    assert slid >= 1


def test_a_pipeline_pays_where_no_layer_uses_the_whole_array_by_itself() -> None:
    """Products of odd sizes on two columns: by itself each uses one, as its factors divide nothing by two."""
    random = Random(1)
    machine = random_groups.architecture(random, room=64, fanout=2)
    group = random_groups.chain(machine, tuple(gemm(name, M=9, N=3, K=3) for name in "ab"))
    apart = solve(LayerFusionProblem(group, "cycles"), Budget(60))
    found = solve(LayerFusionProblem(group, "cycles", pipelined=True), Budget(60))
    assert apart.status is found.status is Status.OPTIMAL
    # 81 multiplications each, one after the other on one column; together with a turn for each of the 27
    # elements of what is passed on, and one to drain, each of 3 cycles
    assert apart.objective == 2 * 81
    assert found.objective == 28 * 3
    assert found.solution is not None
    (pipeline,) = found.solution.shared.pipelines
    assert pipeline.parts == (1, 1)
    # for energy nothing can be gained, and nobody looks
    without, with_them = (
        solve(LayerFusionProblem(group, "energy", pipelined=some), Budget(60)) for some in (False, True)
    )
    assert without.objective == with_them.objective
    assert with_them.status is Status.OPTIMAL
    assert with_them.solution is not None
    assert not with_them.solution.shared.pipelines


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_pipeline_costs_less_than_what_is_still_to_be_looked_at(objective: str) -> None:
    """Random pipelines of three stages, with windows and rows made anew, against all bounds on the way."""
    random, compared, worked_out = Random(objective), 0, 0
    for number in range(12):
        while True:
            group, mapping = pipelined_group(random, 2 + number % 2, anew=number % 4 == 3)
            if not any(mapping.shared.hoist.values()):
                break
        run = Run(group, 0, len(group.layers) - 1)
        bare = replace(mapping.shared, pipelines=())
        words = {tile.position: tile.words for tile in held_tiles(group, bare)}
        names = {group.layers[position].name: count for position, count in words.items()}
        structure = GroupStructure(run, bare, names)
        parts = Parts(group.architecture, group.layers, cast(Any, objective), Deadline(60))
        parts.prices = (0.5, 8.0) if objective == "edp" else ()
        parts.forget()
        pipelining = Pipelining(run.group, parts, LayerFloors(run.group, parts), Deadline(60))
        pipelines = pipelining.pipelines_of(structure)
        if pipelines is None:
            assert not pipelining.pays
            continue
        told = evaluate_group(group, mapping)

        def value(corner: Corner, parts: Parts = parts) -> float:
            return corner_value(cast(Any, objective), corner, parts.prices)

        for _ in range(12):
            corner = pipelines.corner
            assert corner.energy <= told.energy_pj * (1 + 1e-12)
            assert corner.cycles <= told.cycles
            for price, priced in zip(parts.prices, corner.priced, strict=True):
                assert priced <= (told.energy_pj + price * told.cycles) * (1 + 1e-12)
            compared += 1
            if pipelines.value(value) == inf:
                break
            ways, _ = pipelines.step(value, inf)
            worked_out += len(ways)
            for way in ways:
                assert corner_value(cast(Any, objective), corner, parts.prices) <= {
                    "energy": way.energy,
                    "cycles": way.cycles,
                    "edp": way.energy * way.cycles,
                }[objective] * (1 + 1e-12)
    assert compared > 30
    assert worked_out > 0


@pytest.mark.slow
def test_what_more_options_allow_holds_what_fewer_find() -> None:
    """Windows along rows and columns, made anew or not, as a pipeline or not: bounds of wider spaces hold for
    narrower ones, optima are no worse, and answers are what their JSON says."""
    random, pipelined, through_columns = Random("anew cycles"), 0, 0
    options = tuple((anew, together) for anew in (False, True) for together in (False, True))
    for _ in range(30):
        machine = random_groups.architecture(random, room=random.randint(12, 30), registers=6, fanout=2)
        sizes: dict[str, Any] = {"channels": (3,), "rows": (3,), "width": (1, 3)}
        group = random_groups.convolutions(random, machine, 2, columns=True, **sizes)
        found = {}
        for anew, together in options:
            problem = LayerFusionProblem(group, "cycles", 3, anew, together)
            outcome = found[anew, together] = solve(problem, Budget(60))
            if outcome.solution is None:
                continue
            assert violations(problem, outcome.solution) == []
            written = json.loads(json.dumps(group_mapping_to_json(group, outcome.solution)))
            back = group_mapping_from_json(group, written)
            assert back == outcome.solution
            assert objective_of(problem, back) == outcome.objective
            shared = outcome.solution.shared
            pipelined += bool(shared.pipelines)
            columns = {name for name, dim in group.slides[0].items() if dim == "Q"}
            through_columns += bool(shared.pipelines) and any(name in columns for name, _ in shared.paths[0])
        for narrow, wide in product(options, repeat=2):
            if all(one <= other for one, other in zip(narrow, wide, strict=True)):
                mine, theirs = found[wide], found[narrow]
                assert (mine.objective is None) <= (theirs.objective is None)
                if mine.objective is None or mine.bound is None or theirs.objective is None:
                    continue
                assert mine.bound <= theirs.objective * (1 + 1e-12)
                if mine.status is Status.OPTIMAL:
                    assert mine.objective <= theirs.objective * (1 + 1e-12)
    assert pipelined >= 1
    assert through_columns >= 1


@pytest.mark.slow
def test_a_structure_that_fits_no_more_is_left() -> None:
    """Answers about other structures show that no nest of its parts fits: it came first for ever."""
    random = Random("anew energy")
    for _ in range(11):  # the last one drawn
        machine = random_groups.architecture(random, room=random.randint(12, 30), registers=6, fanout=2)
        levels = tuple(replace(level, leakage_pj_per_cycle=16.0) for level in machine.levels)
        machine = replace(machine, levels=levels)
        sizes: dict[str, Any] = {"channels": (3,), "rows": (3,), "width": (1, 3)}
        group = random_groups.convolutions(random, machine, 2, columns=True, **sizes)
    assert solve(LayerFusionProblem(group, "energy"), Budget(60)).status is Status.OPTIMAL
