"""Weights that come slice by slice for every run of a leaf: where that pays, and where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.formats.chips import load_chip
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.schedule import kapla, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer

BATCH = 8


def heavy_pair() -> LayerGraph:
    """Two layers of 4 KiB of weights each, for 1 KiB of outputs of a sample."""
    sizes: dict[str, Any] = {"c": 64, "k": 64, "h": 4, "w": 4}
    return LayerGraph("pair", (layer("one", external_c=64, **sizes), layer("two", producers=(0,), **sizes)))


def evaluated(size: int, tree: str, slices: tuple[int, ...] = (8,)) -> ChipEvaluation:
    graph, on = heavy_pair(), chip(2, 1, size)
    return ChipEvaluator(graph, on, BATCH, FormulaCosts(graph, slices=slices)).evaluate(parse_tree(tree))


PIPELINE = "S 8/8\n\tone 1\n\ttwo 1\n"


def slices_of(found: ChipEvaluation) -> list[int]:
    return [node.leaf.slices for node in found.nodes() if node.leaf]


def test_weights_that_fit_are_pinned() -> None:
    found = evaluated(16384, PIPELINE)
    assert slices_of(found) == [0, 0]
    # both layers' weights once, and eight samples of 1 KiB
    assert found.dram_read_bytes == 2 * 4096 + 8 * 1024
    assert found.dram_write_bytes == 8 * 1024


def test_a_pipeline_whose_weights_do_not_fit_streams_them_and_keeps_its_edge() -> None:
    """By hand: a tile has 4 KiB of weights and two samples' inputs, or three slices and these inputs."""
    with pytest.raises(NotPossibleError):
        evaluated(4096, PIPELINE, ())
    found = evaluated(4096, PIPELINE)
    assert slices_of(found) == [8, 8]
    assert found.dram_read_bytes == 8 * (2 * 4096 + 1024)
    assert found.dram_write_bytes == 8 * 1024
    assert found.segments[0].held.most == 8 * (2 * 1024 + 3 * 512 + 8)
    program = write_program(heavy_pair(), found)
    assert violations(program) == []
    done = replay(program)
    assert (done.dram_read_bytes, done.dram_write_bytes) == (found.dram_read_bytes, found.dram_write_bytes)
    assert done.hop_bytes == found.noc_hop_bytes
    assert found.cycles == pytest.approx(done.cycles, rel=0.1)


def of_nodes() -> tuple[LayerGraph, TabledTileCosts, ChipModel]:
    """Six layers on four of KAPLA's nodes, each with 4 Ki weights for 16 Ki words of a sample's outputs.

    A node that takes a quarter of the rows needs all weights, and its buffer holds those of three layers with
    their inputs.
    """
    sizes: dict[str, Any] = {"c": 64, "k": 64, "h": 16, "w": 16, "r": 1, "s": 1}
    others = (layer(f"layer{number}", producers=(number - 1,), **sizes) for number in range(1, 6))
    graph = LayerGraph("products", (layer("layer0", external_c=64, **sizes), *others))
    on = load_chip("kapla-16x16-released", {"mesh": [2, 2], "stripe": 2})
    demand = TileCostDemand(graph, on.tile, on.tiles, BATCH, Pruning(most=4))
    costs = solved_costs(demand, TileMapper("kapla"), on)
    return graph, costs, ChipModel(on, costs)


class Pinning:
    """The same tile costs without streamed weights."""

    def __init__(self, costs: TabledTileCosts) -> None:
        self.costs = costs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.costs, name)

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([])


@pytest.mark.slow
@pytest.mark.parametrize("solver", [kapla, segment_chain], ids=["kapla", "segment_chain"])
def test_on_nodes_more_layers_run_together_and_a_replay_confirms_the_gain(solver: Any) -> None:
    """Of pinned weights no more than two layers fit. Streamed, all six hand on their outputs on the chip."""
    graph, costs, model = of_nodes()
    objective = Objective()

    def best(on: ChipModel) -> tuple[ChipEvaluation, int]:
        """The best schedule, and how long its program takes in a replay."""
        outcome = solver.solve(ScheduleProblem(graph, on, BATCH, objective), Budget(60))
        assert outcome.solution is not None
        found = on.judge(graph, BATCH, objective).evaluate(outcome.solution.tree)
        program = write_program(graph, found)
        assert violations(program) == []
        done = replay(program)
        moved = done.dram_read_bytes, done.dram_write_bytes, done.hop_bytes
        assert moved == (found.dram_read_bytes, found.dram_write_bytes, found.noc_hop_bytes)
        assert found.cycles == pytest.approx(done.cycles, rel=0.05)
        return found, done.cycles

    (pinned, slower), (found, cycles) = best(ChipModel(model.chip, Pinning(costs))), best(model)
    assert max(len(list(leaves(one.node))) for one in pinned.segments) == 2
    assert [len(list(leaves(one.node))) for one in found.segments] == [6]
    assert sum(one > 0 for one in slices_of(found)) >= 5  # one of six may pin what then fits
    assert found.dram_bytes < 0.6 * pinned.dram_bytes
    assert found.energy_pj * cycles < 0.75 * pinned.energy_pj * slower
