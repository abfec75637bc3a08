"""KAPLA's segments with layers on the whole chip, training steps, and costs that are asked for."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.mapping.bounds.sharing import largest_product
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.tree import Cut, Leaf, leaves
from costmodel.schedule.whole_chip.cost import WholeChipCost
from costmodel.schedule.whole_chip.padding import padded_inputs
from solvers.budget import Budget
from solvers.outcome import Outcome
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel, LastEvaluator
from solvers.schedule.kapla import solver as kapla_solver
from solvers.schedule.kapla.costing import Costing
from solvers.schedule.kapla.estimates.estimate import BatchCost, SchemeEstimate, SegmentAccesses
from solvers.schedule.kapla.pareto import undominated
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, violations
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, Request, TileCostDemand, TilePart, requested_parts
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of
from solvers.schedule.tiles.partition_ranking import busy_macs
from solvers.schedule.whole_chip_costs import NestShape, WholeChipCosts, nest_shape
from tests.costmodel.schedule.chip_cases import strided
from tests.solvers.schedule.kapla.test_pareto import counts as access_counts
from tests.solvers.schedule.kapla.test_pareto import segments_of

CHIP = load_chip("kapla-16x16-released", {"mesh": [2, 2], "stripe": 2})
MAPPER = TileMapper("random_search", budget=Budget(iterations=60))
BATCH = 4
FEW = Pruning(most=3)


def product(name: str, c: int, k: int, producer: int | None, size: int = 4) -> NetworkLayer:
    """A 1 x 1 convolution of the layer before, or of the network's input."""
    windows = {"r": 1, "s": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0}
    sizes = {"c": c, "k": k, "h": size, "w": size, "input_h": size, "input_w": size}
    external = {"external_c": c} if producer is None else {"producers": (producer,)}
    return NetworkLayer(name, "conv", **sizes, **windows, **external)  # type: ignore[arg-type]


SMALL = LayerGraph("small", tuple(product(f"l{i}", 16, 16, i - 1 if i else None) for i in range(4)))
MIXED = LayerGraph(
    "mixed",
    (product("a", 16, 32, None), product("b", 32, 16, 0), product("c", 16, 64, 1), product("d", 64, 8, 2)),
)
LARGE = LayerGraph("large", (product("first", 16, 512, None), product("second", 512, 512, 0)))
"""The second layer has more weights (256 Ki) than the four buffers (64 Ki)."""


NOTHING = Slicing(ScheduleProblem(SMALL, ChipModel(CHIP, None), BATCH), kapla.Params())  # type: ignore[arg-type]


def problem_of(graph: LayerGraph, costs: TileCosts) -> ScheduleProblem:
    return ScheduleProblem(graph, ChipModel(CHIP, costs), BATCH)


def in_process(graph: LayerGraph, whole_chip: bool = True) -> ScheduleProblem:
    demand = TileCostDemand(graph, CHIP.tile, CHIP.tiles, BATCH, FEW)
    return problem_of(graph, solved_costs(demand, MAPPER, CHIP if whole_chip else None))


def solved(problem: ScheduleProblem, seed: int = 0, **params: Any) -> Outcome[ScheduleSolution]:
    return kapla.solve(problem, Budget(seed=seed), kapla.Params(**params))


def counts(outcome: Outcome[ScheduleSolution]) -> dict[str, int]:
    return {
        name: int(count)
        for name, count in (word.split("=") for word in outcome.note.partition("; ")[0].split())
    }


def segments(outcome: Outcome[ScheduleSolution]) -> list[Any]:
    assert outcome.solution is not None
    assert isinstance(outcome.solution.tree, Cut)
    return list(outcome.solution.tree.children)


@pytest.mark.slow
def test_layers_of_too_many_weights_stream_them_where_that_costs_less_than_the_whole_chip() -> None:
    """Whatever is offered, the second layer costs what the better way costs."""
    for problem in (in_process(LARGE, whole_chip=False), in_process(LARGE)):
        outcome = solved(problem)
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
        assert [leaf.layer for leaf in leaves(outcome.solution.tree)][-1] == "second"
        assert isinstance(problem.model, ChipModel)
        evaluator = problem.model.evaluator(LARGE, BATCH, problem.objective)
        cost = evaluator.segment(Leaf("second", BATCH))
        assert cost.leaf is not None
        assert cost.leaf.slices > 1
        there = problem.model.tile_costs.on_whole_chip(1, BATCH)
        assert there is None or sum(cost.parts_pj) * cost.cycles < there.energy_pj * there.cycles


def test_a_training_step_needs_layers_on_the_whole_chip_and_gets_them_by_themselves() -> None:
    strided = replace(product("strided", 16, 16, 0, 2), stride_h=2, stride_w=2, input_h=4, input_w=4)
    graph = training_graph(LayerGraph("net", (product("first", 16, 16, None), strided)))
    bound = {layer.name for layer in graph.layers if layer.needs_whole_chip}
    assert bound == {"first.update", "strided.update", "strided.error"}
    with pytest.raises(InputError, match=r"as strided\.error runs in no other way, found not offered, and 3"):
        solved(in_process(graph, whole_chip=False))
    problem = in_process(graph)
    outcome = solved(problem)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert bound <= {node.layer for node in segments(outcome) if isinstance(node, Leaf)}


class Answers:
    """What a cluster would answer, and everything that it was asked."""

    def __init__(self, graph: LayerGraph) -> None:
        self.graph = graph
        self.tile_parts: dict[TilePart, TilePartCost | None] = {}
        self.whole_chip: dict[NestShape, WholeChipCost | None] = {}
        self.asked: list[Request] = []

    def table(self) -> TabledTileCosts:
        whole_chip = WholeChipCosts(CHIP, dict(self.whole_chip))
        return TabledTileCosts(self.graph, CHIP.tile, dict(self.tile_parts), None, FEW, whole_chip)

    def answer(self, requests: tuple[Request, ...]) -> None:
        self.asked += requests
        for request in requests:
            if request.on_whole_chip:
                layer = self.graph.layers[request.layer]
                cost = MAPPER.whole_chip_cost(CHIP, layer.nest(request.batch), padded_inputs(layer))
                self.whole_chip[nest_shape(layer, request.batch, CHIP.tile.widths)] = cost
            tile_parts = requested_parts(self.graph, request, CHIP.tile, FEW)
            self.tile_parts |= MAPPER.costs(architecture_of(CHIP.tile), tile_parts)


@pytest.mark.slow
def test_asked_again_with_what_it_needs_it_ends_with_the_same_answer() -> None:
    """Nothing is asked for twice, and less than the whole table."""
    answers, outcome = Answers(SMALL), None
    while outcome is None:
        try:
            outcome = solved(problem_of(SMALL, answers.table()))
        except TileCostsNeeded as needed:
            answers.answer(needed.requests)
    here = solved(in_process(SMALL))
    assert outcome.solution == here.solution
    assert outcome.note == here.note
    assert len(set(answers.asked)) == len(answers.asked)
    assert {request.layer for request in answers.asked} == {0}  # all layers are equal
    whole = TileCostDemand(SMALL, CHIP.tile, CHIP.tiles, BATCH).tile_parts()
    assert set(answers.tile_parts) < set(whole)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"rounds": 1}, {"chains": 1, "pareto": 0.0}, {"probability": 0.5}])
def test_a_search_goes_on_where_it_lacked_costs(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker does: the table is taught, and the evaluator remembered. No scheme is costed twice."""
    here = solved(in_process(MIXED), **params)
    answers, costed, outcome, times = Answers(MIXED), list[Scheme](), None, 0
    once = Costing._cost

    def cost(self: Costing, scheme: Scheme) -> None:
        costed.append(scheme)
        once(self, scheme)

    monkeypatch.setattr(Costing, "_cost", cost)
    # the first chain is costed apart, again in every call
    monkeypatch.setattr(kapla_solver, "_one_by_one", lambda *_: kapla_solver.Searched(NOTHING, None, ""))
    table, remembered = answers.table(), LastEvaluator()
    while outcome is None:
        times += 1
        problem = ScheduleProblem(MIXED, ChipModel(CHIP, table, searching=remembered), BATCH)
        try:
            outcome = solved(problem, **params)
        except TileCostsNeeded as needed:
            answers.answer(needed.requests)
            table.learn(answers.tile_parts, answers.whole_chip)
    assert times > 2
    assert (outcome.solution, outcome.note, outcome.evaluations) == (
        here.solution,
        here.note,
        here.evaluations,
    )
    assert len(costed) == len(set(costed)) == outcome.evaluations
    # a search that ended is not gone on with: it is another one that costs all again
    again = solved(ScheduleProblem(MIXED, ChipModel(CHIP, table, searching=remembered), BATCH), **params)
    assert again.evaluations == outcome.evaluations
    assert costed[: len(costed) // 2] == costed[len(costed) // 2 :]


def test_floors_and_needs_solve_nothing() -> None:
    def solve(*_: Any) -> Any:
        raise AssertionError("solved")

    costs = TabledTileCosts(SMALL, CHIP.tile, {}, solve, FEW, WholeChipCosts(CHIP, {}, solve))
    costs.need([Request(0, 1, 1), Request(2, BATCH, 4), Request(1, BATCH, 0)])
    floor = costs.floor(0, (1, 2, 4), 4)
    work = SMALL.layers[0].operations
    assert floor.tile_cycles == work / CHIP.tile.macs
    assert work * CHIP.tile.mac_pj < floor.energy_pj < floor.whole_chip_pj  # which fills buffers, too
    part = TileMapper("kapla", "energy").cost(
        architecture_of(CHIP.tile), TilePart.of(SMALL.layers[0], (1, 1, 1, 1), 4)
    )
    assert part is not None
    assert floor.energy_pj <= part.energy_pj / 4
    asking = TabledTileCosts(SMALL, CHIP.tile, {}, None, FEW, WholeChipCosts(CHIP, {}))
    with pytest.raises(TileCostsNeeded) as needed:
        asking.need([Request(3, 1, 1), Request(0, 1, 1), Request(2, BATCH, 0)])
    assert needed.value.requests == (Request(0, 1, 1), Request(0, BATCH, 0))


@pytest.mark.slow
@pytest.mark.parametrize("graph", [strided(), training_graph(strided())], ids=lambda graph: graph.name)
def test_no_mapping_takes_less_than_the_floor_of_work(graph: LayerGraph) -> None:
    """Of layers on the whole chip, training steps and padding included, and of parts on tiles."""
    small = replace(CHIP.tile.buffer, size_bytes=600)
    on = replace(CHIP, tile=replace(CHIP.tile, buffer=small))
    demand, ratios = TileCostDemand(graph, on.tile, on.tiles, 4, FEW), []
    for solver in ("random_search", "kapla"):
        costs = solved_costs(demand, TileMapper(solver, "energy", budget=Budget(10.0, 100)), on)
        for number, one in enumerate(graph.layers):
            floor = costs.floor_of_work(number, 4)
            for batch in (1, 4):
                found = costs.on_whole_chip(number, batch)
                if found is not None:
                    ratios.append(sum(found.parts_pj[:2]) / (batch * floor.whole_chip_pj))
                    assert found.tile_cycles >= batch * floor.tile_cycles
                rows = costs.rows(number, batch, 2)
                if not one.needs_whole_chip and len(rows.parts):
                    ratios.append(rows.energy_pj.min() / (batch * floor.energy_pj))
                    assert rows.cycles.min() * 2 >= batch * floor.tile_cycles
    assert len(ratios) > 30
    assert 1 - 1e-12 <= min(ratios) < 1.2


@pytest.mark.slow
def test_random_choice_is_of_the_seed_and_keeps_single_layers() -> None:
    problem = in_process(SMALL)
    every = solved(problem, chains=0)
    none, half, again = (solved(problem, seed=3, chains=0, probability=kept) for kept in (0.0, 0.5, 0.5))
    assert half.solution == again.solution
    assert counts(none)["drawn"] == 0
    assert counts(none)["costed"] == len(SMALL.layers)
    assert 0 < counts(half)["drawn"] < counts(half)["fitting"] == counts(every)["drawn"]
    assert every.objective is not None
    assert half.objective is not None
    assert none.objective is not None
    assert every.objective <= half.objective <= none.objective


def test_counts_of_pruning_fall_from_pass_to_pass() -> None:
    found = counts(solved(in_process(SMALL)))
    assert found["schemes"] >= found["fitting"] == found["drawn"] >= found["undominated"] > 0
    assert found["costed"] >= found["possible"] > 0
    # 4 single layers; of the 6 longer ranges turns and pipelines; three sub-batches of 4 samples
    assert found["segments"] == 16
    assert found["schemes"] == 3 * found["segments"]


@pytest.mark.parametrize("margin", [1.0, 0.8])
def test_pareto_pruning_keeps_what_no_other_scheme_beats(margin: float) -> None:
    """By its definition, pair by pair."""
    random = Random(margin)
    estimates = {
        Scheme(Segment(0, end, "turns"), BatchDivision(parts)): SchemeEstimate(
            BatchCost(1.0, float(random.randint(1, 9))),
            SegmentAccesses(
                (random.randint(0, 2),), (random.randint(0, 2),), (float(random.randint(0, 2)),), 0
            ),
        )
        for end in (2, 3)
        for parts in range(1, 30)
    }

    def beaten(scheme: Scheme, other: Scheme) -> bool:
        one, two = estimates[scheme], estimates[other]
        if other == scheme or other.segment != scheme.segment:
            return False
        no_more = all(b <= a for a, b in zip(access_counts(one), access_counts(two), strict=True))
        if not (no_more and two.cost.cycles <= margin * one.cost.cycles):
            return False
        return one != two or other.subbatches < scheme.subbatches

    kept = {
        Scheme(segment, division)
        for segment, some in undominated(segments_of(estimates), margin)
        for division in some.divisions
    }
    assert kept == {one for one in estimates if not any(beaten(one, other) for other in estimates)}
    assert 2 < len(kept) < len(estimates)


def test_ranking_knows_how_many_macs_even_parts_keep_busy() -> None:
    work = np.arange(1, 3000)
    expected = [largest_product(int(macs), (8, 8)) for macs in work]
    assert busy_macs(work, CHIP.tile).tolist() == expected
    assert busy_macs(work, replace(CHIP.tile, architecture=None)).max() == CHIP.tile.macs
