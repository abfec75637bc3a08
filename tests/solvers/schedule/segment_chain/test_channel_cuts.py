"""Schedulers that cut input channels: where that pays, what they ask for, and what is said of bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from costmodel.formats.chips import load_chip
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.bounds.staying import SegmentKinds, layers_by_themselves
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations as program_violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import has_reductions, leaves
from solvers.budget import Budget
from solvers.outcome import Outcome
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.known_trees import KnownTree, best_of
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, violations
from solvers.schedule.set.space import TreeSpace
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded
from solvers.schedule.tiles.layer_parts import Pruning, Request, TileCostDemand, requested_parts
from solvers.schedule.tiles.mapper import TileMapper, architecture_of
from tests.costmodel.schedule.chip_cases import layer

CUT = segment_chain.Params(reductions=True)
FEW = Pruning(most=4)


def deep() -> LayerGraph:
    """A small map of many channels, of which a layer makes few: weights are most of its data."""
    sizes: dict[str, Any] = {"h": 4, "w": 4, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    few = layer("few", c=512, k=4, external_c=512, **sizes)
    return LayerGraph("deep", (few, layer("last", c=4, k=4, producers=(0,), **sizes)))


def wide_chip() -> Chip:
    return load_chip("set-edge", {"mesh": [4, 4]})


def problem_on(chip: Chip, graph: LayerGraph) -> ScheduleProblem:
    solve = partial(TileMapper("nvdla").costs, architecture_of(chip.tile))
    return ScheduleProblem(graph, ChipModel(chip, TabledTileCosts(graph, chip.tile, {}, solve, FEW)), 1)


def solved(problem: ScheduleProblem, params: segment_chain.Params) -> Outcome[ScheduleSolution]:
    return segment_chain.solve(problem, Budget(wall_seconds=600), params)


def replayed(problem: ScheduleProblem, outcome: Outcome[ScheduleSolution]) -> tuple[ChipEvaluation, int]:
    assert outcome.solution is not None
    evaluation = problem.judge().evaluate(outcome.solution.tree)
    assert isinstance(evaluation, ChipEvaluation)
    program = write_program(problem.graph, evaluation)
    assert program_violations(program) == []
    return evaluation, replay(program).cycles


def test_input_channels_are_cut_where_it_pays_and_a_replay_confirms_it() -> None:
    """Of 512 input channels and 4 x 4 x 4 outputs, on the 16 tiles of SET's edge platform."""
    problem = problem_on(wide_chip(), deep())
    without, within = solved(problem, segment_chain.Params()), solved(problem, CUT)
    assert without.solution is not None
    assert within.solution is not None
    assert not has_reductions(without.solution.tree)
    cut = {leaf.layer: leaf.reduced for leaf in leaves(within.solution.tree)}
    assert cut["few"] > 1
    assert within.objective is not None
    assert without.objective is not None
    assert within.objective < 0.5 * without.objective
    (before, cycles_before), (after, cycles_after) = (
        replayed(problem, without),
        replayed(problem, within),
    )
    assert cycles_after < 0.8 * cycles_before
    assert abs(after.cycles / cycles_after - 1) < 0.15
    assert abs(before.cycles / cycles_before - 1) < 0.15
    assert violations(problem, within.solution) == []


def test_bounds_of_schedules_that_may_cut_input_channels() -> None:
    """They are below those of other schedules, and hold whoever costs such a tree."""
    problem = problem_on(wide_chip(), deep())
    without, within = solved(problem, segment_chain.Params()), solved(problem, CUT)
    assert within.solution is not None
    assert within.bound is not None
    assert without.bound is not None
    assert within.objective is not None
    assert 0 < within.bound < without.bound
    assert within.bound < within.objective
    costed = best_of(problem, [KnownTree("a", within.solution.text)], 60)
    assert costed.outcome.bound == within.bound
    assert costed.outcome.objective == within.objective


def test_bounds_know_that_parts_of_input_channels_fit_where_whole_ones_do_not() -> None:
    """Tiles with 2 KiB beside their outputs hold no channel of ``few`` (4.5 KiB), but a sixteenth."""
    problem = problem_on(load_chip("set-edge", {"mesh": [4, 4], "tile.buffer.size": "12 KiB"}), deep())
    assert isinstance(problem.model, ChipModel)
    plain, cut = (
        layers_by_themselves(problem.graph, problem.model.chip, 1, SegmentKinds(reductions=cuts))
        for cuts in (False, True)
    )
    assert [sorted(plain), sorted(cut)] == [[0], []]


def test_what_is_not_known_is_asked_for_all_at_once() -> None:
    """A table has all parts with whole input channels; the others are asked for as a solver comes to them.

    With the answers it comes to the same schedule as one that solves by itself.
    """
    graph, chip = deep(), wide_chip()
    mapper, demand = TileMapper("nvdla"), TileCostDemand(graph, chip.tile, chip.tiles, 1, FEW)
    known = dict(mapper.costs(architecture_of(chip.tile), demand.tile_parts()))
    asked: list[Request] = []
    problem = ScheduleProblem(graph, ChipModel(chip, TabledTileCosts(graph, chip.tile, known, None, FEW)), 1)
    alone = solved(problem_on(chip, graph), CUT)
    for _ in range(2):
        try:
            outcome = solved(problem, CUT)
            break
        except TileCostsNeeded as needed:
            for request in needed.requests:
                assert Request.of_numbers(request.numbers) == request
                parts = requested_parts(graph, request, chip.tile, FEW)
                known |= mapper.costs(architecture_of(chip.tile), parts)
            asked += needed.requests
    assert outcome.objective == alone.objective
    assert {request.reduced for request in asked} == {2, 4, 8, 16}


def test_spaces_of_annealing_have_no_such_trees() -> None:
    producers = deep().producers
    tree = parse_tree("T 1/1\n\tfew 1 C4\n\tlast 1\n")
    (reason,) = TreeSpace(producers, 1, 16).violations(tree)
    assert "input channels are cut" in reason


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_costs_of_uneven_parts_are_those_of_each(parts: int) -> None:
    """Rows add up what the mapper says of each part of the channels; the slowest one is waited for."""
    graph, chip = LayerGraph("one", (layer("one", c=32, k=8, external_c=32),)), wide_chip()
    mapper, tile = TileMapper("nvdla"), architecture_of(chip.tile)
    costs = TabledTileCosts(graph, chip.tile, {}, partial(mapper.costs, tile))
    rows = costs.reduced_rows(0, 1, 4, parts)
    assert len(rows.parts)
    ends = [-(-32 * part // parts) for part in range(parts + 1)]
    for row, cut in enumerate(rows.parts.tolist()):
        energy, cycles = 0.0, 0
        for first, end in pairwise(ends):
            piece = LayerGraph("piece", (replace(graph.layers[0], c=end - first, external_c=end - first),))
            every = Pruning(least_utilization=0.0)
            plain = TabledTileCosts(piece, chip.tile, {}, partial(mapper.costs, tile), every).rows(0, 1, 4)
            number = plain.parts.tolist().index(cut)
            energy += float(plain.energy_pj[number])
            cycles = max(cycles, int(plain.cycles[number]))
        assert rows.energy_pj[row] == pytest.approx(energy, rel=1e-12)
        assert rows.cycles[row] == cycles
