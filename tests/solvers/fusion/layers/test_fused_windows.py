"""Loops over windows in the solver of fused layers: its answers against every mapping, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import combinations, product
from random import Random
from typing import Any, cast

import pytest

from costmodel.mapping.fused.layers.checker import tree_violations, violations
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.mapping.fused.mapping import FusedMapping
from solvers.budget import Budget, Deadline
from solvers.fusion.layers import solve
from solvers.fusion.layers.choices import Choices
from solvers.fusion.layers.corners import Corner
from solvers.fusion.layers.floors import LayerFloors, group_bounds
from solvers.fusion.layers.options import LayerOptions
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.layers.solver import Params
from solvers.fusion.layers.structures import Run, structures
from solvers.outcome import Status
from tests.costmodel.mapping.fused.layers import random_groups
from tests.solvers.fusion.layers import enumerated_groups


def small(
    random: Random, count: int = 2, *, room: tuple[int, int] = (8, 20), registers: int = 6, **sizes: Any
) -> LayerGroup:
    """A chain of small convolutions through whose windows a loop passes."""
    while True:
        machine = random_groups.architecture(
            random, room=random.randint(*room), registers=random.randint(registers - 2, registers + 2)
        )
        group = random_groups.convolutions(random, machine, count, **sizes)
        if any(group.slides):
            return group


def slides(group: LayerGroup, paths: Any) -> bool:
    return any(name in names for names, path in zip(group.slides, paths, strict=True) for name, _ in path)


WIDER: dict[str, Any] = {"gaps": True, "pooled": True}
"""Windows that are dilated or leave rows out, and poolings between layers."""
COLUMNS: dict[str, Any] = {"columns": True, "width": (2, 4)}
"""Windows along columns, too."""


@pytest.mark.slow
@pytest.mark.parametrize("wider", [{}, WIDER])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_small_groups_with_windows_against_every_mapping(
    objective: str, recompute: bool, wider: dict[str, Any]
) -> None:
    random, proven, slid = Random(objective), 0, 0
    for _ in range(3):
        group = small(random, channels=(1, 2), rows=(3, 4), width=(1,), **wider)
        problem = LayerFusionProblem(group, cast(Any, objective), recompute=recompute)
        outcome = solve(problem, Budget(60))
        told = enumerated_groups.least(group, objective, recompute=recompute)
        assert (outcome.objective is None) == (told is None)
        if outcome.objective is None or outcome.bound is None or outcome.solution is None or told is None:
            continue
        assert violations(group, outcome.solution) == []
        assert outcome.bound <= told * (1 + 1e-12)
        assert told <= outcome.objective * (1 + 1e-12)
        if outcome.status is Status.OPTIMAL:
            assert outcome.objective == pytest.approx(told, rel=1e-12)
        proven += outcome.status is Status.OPTIMAL
        slid += slides(group, outcome.solution.shared.paths)
    assert slid >= 1
    assert proven >= 1


@pytest.mark.slow
def test_small_groups_with_tiles_in_both_dims_against_every_mapping() -> None:
    """Loops over rows and columns together, both through windows, with either made anew."""
    random, both, proven = Random(2), 0, 0
    while both < 3:
        sizes: dict[str, Any] = {"channels": (1, 2), "rows": (2,), "width": (2,)}
        group = small(random, room=(10, 16), columns=True, **sizes)
        problem = LayerFusionProblem(group, "energy", recompute=True)
        listed = structures(Run(group, 0, 1), recompute=True)
        # in some structures a layer makes rows or columns anew below loops over both
        if not any(one.shared.recompute and len(one.shared.paths[0]) > 1 for one in listed):
            continue
        outcome = solve(problem, Budget(60))
        told = enumerated_groups.least(group, "energy", recompute=True)
        assert (outcome.objective is None) == (told is None)
        if outcome.objective is None or outcome.bound is None or told is None:
            continue
        both += 1
        assert outcome.bound <= told * (1 + 1e-12)
        assert told <= outcome.objective * (1 + 1e-12)
        if outcome.status is Status.OPTIMAL:
            assert outcome.objective == pytest.approx(told, rel=1e-12)
            proven += 1
    assert proven >= 1


@pytest.mark.slow
@pytest.mark.parametrize("wider", [{}, WIDER, COLUMNS])
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_no_layer_of_a_structure_with_windows_costs_less_than_its_bounds(
    objective: str, wider: dict[str, Any]
) -> None:
    random, compared, met = Random(objective), 0, 0
    for count in (2, 3, 2, 3):
        group = small(random, count, room=(30, 60), **wider)
        parts = Parts(group.architecture, group.layers, cast(Any, objective), Deadline(60))
        options, floors = LayerOptions(parts), LayerFloors(group, parts)
        listed = structures(Run(group, 0, count - 1), recompute=True)
        found = [one for one in listed if slides(group, one.shared.paths)]
        anew = [one for one in found if one.shared.recompute]
        met += bool(anew)
        for structure in [*random.sample(found, min(len(found), 10)), *anew[:5]]:
            for number in range(count):
                floor = floors.of(structure, number)
                bare = LayerTurns(group, structure.shared, number)
                for option in options.of(structure, number):
                    closed = option.least(parts)
                    nests = option.ask(parts, (objective,))
                    if not all(nests):
                        continue
                    for point in parts.points(option.turns, nests):
                        for least in (floor, closed, option.least(parts)):
                            assert least.energy <= point.energy * (1 + 1e-12)
                            assert least.cycles <= point.cycles
                        compared += len(bare.kinds) > 1
    assert compared > 10
    assert met > 0


@pytest.mark.slow
def test_choices_of_hoisted_tiles_against_all_of_them() -> None:
    """The least sums over choices that fit are those of every choice, one after the other."""
    random, narrowed = Random(5), 0
    for count in (2, 3, 3):
        group = small(random, count, room=(12, 24))
        parts = Parts(group.architecture, group.layers, "edp", Deadline(60))
        parts.prices = (3.0, 2.0)
        parts.forget()
        options = LayerOptions(parts)
        found = list(structures(Run(group, 0, count - 1), recompute=True))
        for structure in random.sample(found, min(len(found), 100)):
            of_layers = [options.of(structure, number) for number in range(count)]
            if not all(of_layers):
                continue
            choices = Choices(structure.shared, of_layers, group.outermost - 1, parts)
            every = []
            for chosen in product(*of_layers):
                taken = structure.shared.taken_by_others([option.take for option in chosen])
                least = [
                    option.beside(words, group.outermost - 1).least(parts)
                    for option, words in zip(chosen, taken, strict=True)
                ]
                every.append(reduce(Corner.__add__, least))
            told, least_of_all = choices.least(), reduce(Corner.least, every)
            assert (told.energy, told.cycles) == pytest.approx((least_of_all.energy, least_of_all.cycles))
            assert told.priced == pytest.approx(least_of_all.priced)
            alone = [reduce(Corner.least, (one.least(parts) for one in some)) for some in of_layers]
            narrowed += reduce(Corner.__add__, alone).energy < told.energy
    assert narrowed > 3


@pytest.mark.slow
def test_no_drawn_mapping_costs_less_than_the_bounds() -> None:
    random, compared, anew = Random(11), 0, 0
    for count, wider in product((2, 3), ({}, WIDER, COLUMNS)):
        group = small(random, count, room=(60, 120), registers=24, **wider)
        problem = LayerFusionProblem(group, "energy", recompute=True)
        bound = solve(problem, Budget(3), Params(0.02)).bound
        energy, cycles = group_bounds(group)
        assert bound is not None
        for _ in range(150):
            shared = random_groups.window_tree(random, group, anew=random.random() < 0.5)
            if any(not tree_violations(group, fewer) for fewer in with_fewer_anew(shared)):
                continue  # rows are made anew only where a line buffer cannot stay
            kept = zip(shared.prefix, group.layers, strict=False)
            if any(loops and layer.name not in shared.backing for loops, layer in kept):
                continue  # neighbours that share loops keep what passes between them
            mapping = random_groups.whole(random, group, shared)
            if violations(group, mapping):
                continue
            found = evaluate_group(group, mapping)
            assert found.energy_pj >= max(bound, energy) * (1 - 1e-12)
            assert found.cycles >= cycles
            compared += slides(group, shared.paths)
            anew += bool(shared.recompute)
    assert compared > 10
    assert anew > 3


def with_fewer_anew(shared: FusedMapping) -> Iterator[FusedMapping]:
    """The tree with fewer layers that make rows anew."""
    names = sorted(shared.recompute)
    for count in range(len(names)):
        for some in combinations(names, count):
            yield replace(shared, recompute=frozenset(some))
