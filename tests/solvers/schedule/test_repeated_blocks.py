"""Networks that repeat a block: the block is found, scheduled once, and the whole is counted and executed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves, rounds_of_segments
from costmodel.schedule.tree.validity import violations as tree_violations
from solvers.budget import Budget
from solvers.outcome import Status
from solvers.schedule import exhaustive, kapla, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, violations
from solvers.schedule.repeated.blocks import RepeatedBlock, part_of, repeated_block
from solvers.schedule.repeated.solver import NO_BLOCK, solve_repeated
from solvers.schedule.repeated.trees import joined, renamed, with_samples
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand, TilePart, requested_parts
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, mapped_chip
from tests.costmodel.schedule.chip_cases import layer as plain
from tests.costmodel.schedule.program.program_counts import check_work

EXACT = TileMapper("exact", "edp", budget=Budget(wall_seconds=60.0))


def decoder(copies: int, weights_of_before: bool = False) -> LayerGraph:
    """A stem, copies of four layers with a residual connection, and two layers behind.

    ``weights_of_before``: a copy's second product has the sum of the copy before for its weights.
    """
    # the weights of a product of 4 channels are 4 x 1 elements of each output channel
    columns, weights = (1, 1) if weights_of_before else (4, 0)

    def layer(name: str, kind: str = "conv", **sizes: Any) -> NetworkLayer:
        return plain(name, kind, w=columns, **sizes)

    layers = [layer("stem", external_c=4)]
    for copy in range(copies):
        x = len(layers) - 1
        layers += [
            layer(f"block{copy}.norm", "ptp", producers=(x,)),
            layer(f"block{copy}.up", producers=(x + 1,), weight_producers=(x,) * weights),
            layer(f"block{copy}.down", producers=(x + 2,)),
            layer(f"block{copy}.add", "eltwise", c=8, operands=2, producers=(x, x + 3)),
        ]
    last = len(layers) - 1
    layers += [layer("norm", "ptp", producers=(last,)), layer("head", k=12, producers=(last + 1,))]
    return LayerGraph("decoder", tuple(layers))


def problem_of(graph: LayerGraph, batch: int = 1, buffer: int = 1 << 20) -> ScheduleProblem:
    """A problem on four tiles whose costs are solved as they are asked for."""
    on = mapped_chip(2, 2, buffer)
    demand = TileCostDemand(graph, on.tile, on.tiles, batch)
    model = ChipModel(on, solved_costs(demand, EXACT))
    return ScheduleProblem(graph, model, batch, Objective.named("edp"))


def solved(problem: ScheduleProblem, wall_seconds: float = 600.0) -> ScheduleSolution:
    outcome = solve_repeated(problem, Budget(wall_seconds), segment_chain.Params(), segment_chain.solve)
    assert outcome.solution is not None, outcome.note
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert outcome.bound <= outcome.objective
    assert violations(problem, outcome.solution) == []
    return outcome.solution


@pytest.mark.parametrize("copies", [3, 5, 12])
def test_the_block_is_what_one_copy_was_made_of(copies: int) -> None:
    assert repeated_block(decoder(copies)) == RepeatedBlock(first=1, layers=4, copies=copies)


def test_networks_without_a_block_have_none() -> None:
    assert repeated_block(decoder(2)) is None, "too few copies"
    assert repeated_block(chain(12)) is None, "a chain of equal layers has a period of one"
    wider = list(decoder(3).layers)
    wider[7] = replace(wider[7], r=3, pad_h=1)
    assert repeated_block(LayerGraph("one is larger", tuple(wider))) is None


def test_where_a_copy_ends_is_where_one_tensor_crosses() -> None:
    rotated = decoder(6)
    block = repeated_block(rotated)
    assert block is not None
    for boundary in range(block.first, block.end, block.layers):
        crossing = {
            producer for one in rotated.layers[boundary:] for producer in one.producers if producer < boundary
        }
        assert crossing == {boundary - 1}


def test_parts_have_what_other_parts_make_from_outside() -> None:
    graph = decoder(3)
    block = part_of(graph, 5, 9)
    assert block is not None
    norm, _, _, add = block.layers
    assert (norm.external_c, norm.producers) == (4, ())
    assert (add.external_c, add.producers) == (4, (2,))
    assert [one.operations for one in block.layers] == [one.operations for one in graph.layers[5:9]]


def test_no_copy_begins_where_it_would_lose_its_weights() -> None:
    """The weights of a copy's product are the sum before it, so this sum has to be in the same copy."""
    graph = decoder(4, weights_of_before=True)
    assert part_of(graph, 5, 9) is None
    block = repeated_block(graph)
    assert block is not None
    assert graph.layers[block.first].name == "block0.down"
    assert block.copies == 3


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
def test_every_copy_has_the_tree_of_one_and_the_whole_is_counted_as_one_tree(batch: int) -> None:
    graph = decoder(4)
    problem = problem_of(graph, batch)
    found = solved(problem)
    assert [leaf.layer for leaf in leaves(found.tree)] == [one.name for one in graph.layers]
    assert tree_violations(found.tree, graph.producers, batch, 4) == []
    copies: list[list[TreeNode]] = [[] for _ in range(4)]
    for segment in rounds_of_segments(found.tree)[1]:
        names = {leaf.layer.split(".")[0] for leaf in leaves(segment)}
        assert len(names) == 1 or not any(name.startswith("block") for name in names)
        for copy in range(4):
            if names == {f"block{copy}"}:
                copies[copy].append(segment)
    first, *others = copies
    for copy, segments in enumerate(others, 1):
        new_names = {f"block0.{part}": f"block{copy}.{part}" for part in ("norm", "up", "down", "add")}
        assert [renamed(segment, new_names) for segment in first] == segments
    judge = ChipEvaluator(graph, problem.model.chip, batch, problem.model.tile_costs, (1, 1))  # type: ignore[attr-defined]
    cost = judge.evaluate(found.tree)
    assert (cost.energy_pj, cost.cycles) == (found.energy_pj, found.cycles)


@pytest.mark.slow
def test_the_block_has_the_best_tree_of_all_that_one_copy_can_have() -> None:
    """Of one copy by itself every tree is tried; the whole has the cost of its parts, less what they save by
    following one another."""
    problem = problem_of(decoder(5))
    every = solve_repeated(problem, Budget(600.0), exhaustive.Params(), exhaustive.solve)
    assert every.solution is not None
    assert every.status is not Status.OPTIMAL
    parts = [part_of(problem.graph, *ends) for ends in ((0, 1), (1, 5), (21, 23))]
    alone = []
    for part in parts:
        assert part is not None
        best = exhaustive.solve(problem_of(part), Budget(600.0), exhaustive.Params())
        assert best.solution is not None
        alone.append(best.solution)
    head, block, tail = alone
    assert every.solution.cycles <= head.cycles + 5 * block.cycles + tail.cycles
    assert every.solution.energy_pj <= head.energy_pj + 5 * block.energy_pj + tail.energy_pj + 1e-6
    # what saves cycles is that a segment's first data come while the one before it ends
    saved = head.cycles + 5 * block.cycles + tail.cycles - every.solution.cycles
    assert saved < 0.5 * every.solution.cycles
    assert violations(problem, every.solution) == []


def test_a_program_of_the_whole_depth_does_the_work_of_every_copy() -> None:
    graph = decoder(3)
    problem = ScheduleProblem(graph, ChipModel(chip(2, 2), FormulaCosts(graph)), 2, Objective.named("edp"))
    # the costs by formula are those of a whole network: the trees of its parts stand for what a solver finds
    block = Cut("T", 2, 2, tuple(Leaf(f"block0.{part}", 1) for part in ("norm", "up", "down", "add")))
    copies = [
        renamed(block, {leaf.layer: leaf.layer.replace("0", str(copy)) for leaf in leaves(block)})
        for copy in range(3)
    ]
    tail = Cut("T", 2, 1, (Leaf("norm", 2), Leaf("head", 2)))
    for tree in joined([Leaf("stem", 2), *copies, tail], 2):
        evaluation = problem.judge().evaluate(tree)
        program = write_program(graph, evaluation)  # type: ignore[arg-type]
        check_work(graph, [(program, evaluation)])  # type: ignore[list-item]
        works = Counter(work.layer.split(".")[-1] for work in program.works)
        assert works["up"] == works["down"] > 0


def test_solvers_that_ask_for_costs_are_told_those_of_the_whole_networks_layers() -> None:
    graph, on = decoder(3), mapped_chip(2, 2, 1 << 20)
    architecture, pruning = on.tile.architecture, Pruning(most=2)
    assert architecture is not None
    known, rounds = dict[TilePart, TilePartCost | None](), 0
    while True:
        model = ChipModel(on, TabledTileCosts(graph, on.tile, known, None, pruning))
        problem = ScheduleProblem(graph, model, 1, Objective.named("edp"))
        try:
            outcome = solve_repeated(problem, Budget(600.0), kapla.Params(), kapla.solve)
            break
        except TileCostsNeeded as needed:
            rounds += 1
            assert rounds < 50
            parts = {
                part for one in needed.requests for part in requested_parts(graph, one, on.tile, pruning)
            }
            missing = [part for part in parts if part not in known]
            assert missing, "it asks for what is known"
            known |= EXACT.costs(architecture, missing)
    assert outcome.solution is not None
    assert rounds
    assert violations(problem, outcome.solution) == []


def test_networks_without_a_block_are_scheduled_as_a_whole_and_it_is_said() -> None:
    graph = chain(4)
    problem = ScheduleProblem(graph, ChipModel(chip(2, 2), FormulaCosts(graph)), 1, Objective.named("edp"))
    whole = segment_chain.solve(problem, Budget(600.0), segment_chain.Params())
    found = solve_repeated(problem, Budget(600.0), segment_chain.Params(), segment_chain.solve)
    assert found.note.startswith(NO_BLOCK)
    assert (found.solution and found.solution.text) == (whole.solution and whole.solution.text)


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("others", [1, 2, 3, 6])
def test_joined_parts_have_equally_many_rounds_and_all_samples(rounds: int, others: int) -> None:
    batch = 12
    one = Cut("T", batch, rounds, (Leaf("a", batch // rounds), Leaf("b", batch // rounds)))
    other = Cut("T", batch, others, (Cut("S", batch // others, 1, (Leaf("c", batch // others),) * 2),))
    for whole in joined([one, other], batch):
        count, segments = rounds_of_segments(whole)
        assert count % rounds == 0
        assert count % others == 0
        assert len(segments) == 3
        for segment in segments:
            batches = {leaf.batch for leaf in leaves(segment)}
            assert batches == {batch // count}
    # one tree where both have equally many rounds: nothing of it changes
    if rounds == others:
        assert joined([one, other], batch)[0] == Cut("T", batch, rounds, (*one.children, *other.children))


def test_fewer_samples_run_in_at_most_as_many_subbatches() -> None:
    node = Cut("S", 12, 4, (Leaf("a", 3), Cut("T", 3, 3, (Leaf("b", 1),))))
    for batch in (12, 6, 4, 3, 2, 1):
        found = with_samples(node, batch)
        assert isinstance(found, Cut)
        assert found.batch == batch
        assert found.subbatches <= 4
        assert batch % found.subbatches == 0
        for child in found.children:
            assert child.batch == batch // found.subbatches
