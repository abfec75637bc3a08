"""The polish's neighbourhood against the definition of a small change."""

from __future__ import annotations

from itertools import chain, islice

import numpy as np
import pytest

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.workload.network import Layer, convolution
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.neighbours import Neighbourhood
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from tests.solvers.mapping.random_problems import (
    constrained,
    invented_problems,
    problems,
    processing_problems,
)
from tests.thorough import how_many

LAYER = convolution("layer", K=4, C=6, P=4, Q=2, R=3, S=1)
ALL = frozenset({"Weights", "Inputs", "Outputs"})


@pytest.fixture
def start(three_levels: Architecture) -> Mapping:
    levels = (
        LevelMapping((), (), (), ALL),
        LevelMapping((("R", 3),), (("K", 2),), (("C", 2),), ALL),
        LevelMapping((("P", 4), ("Q", 2), ("C", 3), ("K", 2)), (), (), ALL),
    )
    mapping = Mapping(levels)
    assert violations(three_levels, LAYER, mapping) == []
    return mapping


def around(architecture: Architecture, layer: Layer, mapping: Mapping) -> list[Mapping]:
    space = MappingSpace(architecture, layer, SpaceRules("free"))
    rows = Neighbourhood(space).around(MappingBatch.of([mapping], architecture, layer))
    return [rows.mapping(row, layer) for row in range(len(rows))]


def test_neighbours_are_mappings_but_for_their_tiles(three_levels: Architecture, start: Mapping) -> None:
    neighbours = around(three_levels, LAYER, start)
    for neighbour in neighbours:
        reasons = violations(three_levels, LAYER, neighbour)
        assert all("words" in reason or "stands twice" in reason for reason in reasons)
        assert neighbour.levels[-1].keep == ALL
    evaluator = BatchEvaluator(three_levels, LAYER)
    valid = evaluator.evaluate(MappingBatch.of([start], three_levels, LAYER)).valid
    assert valid.all()


def test_every_move_exchange_turn_and_bypass_is_there(three_levels: Architecture, start: Mapping) -> None:
    neighbours = set(around(three_levels, LAYER, start))
    register, buffer, dram = start.levels

    def mapped(*levels: LevelMapping) -> Mapping:
        return Mapping(levels)

    dram_less = LevelMapping((("P", 2), ("Q", 2), ("C", 3), ("K", 2)), (), (), ALL)
    for loops in ((("P", 2), ("R", 3)), (("R", 3), ("P", 2))):
        moved = LevelMapping(loops, buffer.spatial_x, buffer.spatial_y, ALL)
        assert mapped(register, moved, dram_less) in neighbours, "P=2 to the buffer, innermost and outermost"
    swapped = LevelMapping((("R", 3),), (("Q", 2),), (("C", 2),), ALL)
    dram_swapped = LevelMapping((("P", 4), ("C", 3), ("K", 4)), (), (), ALL)
    assert mapped(register, swapped, dram_swapped) in neighbours, "K=2 on X for Q=2 of DRAM"
    turned = LevelMapping((("C", 3), ("P", 4), ("Q", 2), ("K", 2)), (), (), ALL)
    assert mapped(register, buffer, turned) in neighbours, "C innermost at DRAM"
    for tensor in ALL:
        bypassed = LevelMapping(buffer.temporal, buffer.spatial_x, buffer.spatial_y, ALL - {tensor})
        assert mapped(register, bypassed, dram) in neighbours
    full = [LevelMapping((), (("K", 4),), buffer.spatial_y, ALL)]
    assert not any(neighbour.levels[1].spatial_x == full[0].spatial_x for neighbour in neighbours)


def test_a_layer_of_one_point(three_levels: Architecture) -> None:
    point = convolution("point", K=1, C=1, P=1, Q=1, R=1, S=1)
    alone = Mapping(tuple(LevelMapping((), (), (), ALL) for _ in three_levels.levels))
    assert len(around(three_levels, point, alone)) == np.count_nonzero([3, 3, 0]) * 3


def test_rows_have_the_neighbours_that_each_has_by_itself(three_levels: Architecture, start: Mapping) -> None:
    """One behind the other, of a mapping with bypasses and one with all loops outermost, too."""
    space = MappingSpace(three_levels, LAYER, SpaceRules("free"))
    rows = space.sample(range(6), seed=3, rows_per_block=4)
    neighbourhood = Neighbourhood(space)
    every, counts = neighbourhood.around_each(rows)
    alone = [neighbourhood.around(rows[slice(row, row + 1)]) for row in range(len(rows))]
    assert counts.tolist() == [len(one) for one in alone]
    assert len(set(counts.tolist())) > 1
    for number, array in enumerate(every.rows):
        assert (array == np.concatenate([one.rows[number] for one in alone])).all()


def test_a_polish_of_several_starts_ends_at_the_best_of_their_ends(three_levels: Architecture) -> None:
    """Each start by itself, by the plainest descent: the best neighbour as long as it is better."""
    problem = MappingProblem(three_levels, LAYER, "energy")
    space = MappingSpace(three_levels, LAYER)
    rows = space.sample(range(12), seed=5, rows_per_block=2)
    evaluator, neighbourhood = BatchEvaluator(three_levels, LAYER), Neighbourhood(space)
    valid = np.flatnonzero(evaluator.evaluate(rows).valid).tolist()
    starts = [rows.mapping(row, LAYER) for row in valid]
    assert len(starts) > 4
    rows, ends = MappingBatch.of(starts, three_levels, LAYER), []
    for row in range(len(rows)):
        here, cost = rows[slice(row, row + 1)], np.inf
        while True:
            found = evaluator.evaluate(here)
            costs = np.where(space.allowed(here), found.energy_pj, np.inf)
            best = int(costs.argmin())
            if not costs[best] < cost * (1 - 1e-12):
                break
            cost, here = float(costs[best]), neighbourhood.around(here[slice(best, best + 1)])
        ends.append(cost)
    answer = Polish(problem, 0.0, lambda: True).best(starts, 0, 0)
    assert len(set(ends)) > 1
    assert evaluate(three_levels, LAYER, answer).energy_pj == pytest.approx(min(ends))


def test_compiled_descents_are_those_step_by_step() -> None:
    """From random starts of random problems, also with rules and timing: equal ends, costs and counts."""
    ended, moved = 0, 0
    ruled = (constrained(problem, 5) for problem in invented_problems(5))
    drawn = zip(problems(3), invented_problems(4), ruled, processing_problems(6), strict=False)
    for problem in islice(chain.from_iterable(drawn), how_many(24, thorough=200)):
        space = MappingSpace(problem.architecture, problem.layer, problem.rules)
        rows = space.sample(range(6), seed=ended, rows_per_block=2)
        polish = Polish(problem, -1.0, lambda: True, space=space)  # a bound that no descent meets
        costs = polish._costs(rows)
        valid = np.flatnonzero(np.isfinite(costs))
        rows, costs = rows[valid], costs[valid]
        polish.evaluations = 0
        ends, reached = polish._descended(rows, costs)
        compiled, polish.evaluations = polish.evaluations, 0
        plain, expected = rows[np.arange(len(rows))], costs.copy()
        polish._descend_step_by_step(plain, expected, np.ones(len(rows), np.bool_))
        assert polish.evaluations == compiled
        assert reached.tolist() == expected.tolist()
        for one, other in zip(ends.rows, plain.rows, strict=True):
            assert (one == other).all()
        ended, moved = ended + len(rows), moved + int((reached < costs).sum())
    assert moved > ended / 2 > 20


def test_neighbours_stand_in_the_order_of_the_rules(three_levels: Architecture) -> None:
    """As :meth:`MappingSpace.reordered` sorts them, which the count of allowed orders rests on."""
    rules = SpaceRules(levels=(LevelRules("DRAM", innermost=("R", "K"), outermost=("C",)),))
    free, space = MappingSpace(three_levels, LAYER), MappingSpace(three_levels, LAYER, rules)
    rows = space.sample(range(3), seed=2, rows_per_block=2)
    found, _ = Neighbourhood(space).around_each(rows)
    plain, _ = Neighbourhood(free).around_each(rows)
    assert (found.permutation == space.reordered(plain.permutation)).all()
    assert (found.permutation != plain.permutation).any()


def test_no_mapping_has_more_neighbours_than_there_are_rows_for() -> None:
    most = 0
    for problem in islice(invented_problems(8), 30):
        space = MappingSpace(problem.architecture, problem.layer, problem.rules)
        neighbourhood = Neighbourhood(space)
        _, counts = neighbourhood.around_each(space.sample(range(20), seed=1, rows_per_block=1))
        assert counts.max() <= neighbourhood.most
        most = max(most, counts.max() / neighbourhood.most)
    assert most > 0.5
