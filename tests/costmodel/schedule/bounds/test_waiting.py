"""Layers whose weights come while nothing computes, as the buffers do not hold them before."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.bounds import least_by_rounds, lower_bounds
from costmodel.schedule.bounds.waiting import LayerTimes, least_cycles_in_order
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.divisors import divisors
from solvers.outcome import Status
from solvers.schedule import exhaustive, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.segment_chain.forms import comb
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer
from tests.thorough import how_many


def heavy_tail(count: int) -> LayerGraph:
    """A layer of 36,864 tile-cycles and 3,328 bytes, then ``count`` layers of 1,024 bytes of weights each."""
    layers = [layer("slow", c=16, k=16, h=8, w=8, r=3, s=3, pad_h=1, pad_w=1, external_c=16)]
    layers.append(layer("heavy0", "fc", c=16, k=1, h=1, w=1, r=8, s=8, input_h=8, input_w=8, producers=(0,)))
    sizes = [1, 1024] * count
    for number, (c, k) in enumerate(list(pairwise(sizes))[: count - 1], 1):
        layers.append(layer(f"heavy{number}", "fc", c=c, k=k, h=1, w=1, producers=(number,)))
    return LayerGraph("heavy tail", tuple(layers))


def random_chain(random: Random, graph: LayerGraph, batch: int) -> TreeNode:
    """Segments of one to five layers next to one another, as leaves, combs, T cuts or S cuts."""
    rounds = random.choice(divisors(batch))
    names, segments = [one.name for one in graph.layers], list[TreeNode]()
    samples = batch // rounds
    while names:
        count = min(len(names), random.choice((1, 1, 1, 2, 3, 5)))
        parts = random.choice(divisors(samples))
        leaves = tuple(Leaf(name, samples // parts) for name in names[:count])
        kind: CutKind = random.choice(("T", "T", "S"))
        if count == 1 and parts == 1:
            segments.append(leaves[0])
        elif random.random() < 0.5 or count == 1:
            segments.append(Cut(kind, samples, parts, leaves))
        else:
            segments.append(comb(leaves) if parts == 1 else Cut("T", samples, parts, (comb(leaves),)))
        names = names[count:]
    return Cut("T", batch, rounds, tuple(segments))


def test_what_buffers_do_not_hold_comes_when_the_layers_in_front_have_ended() -> None:
    """By hand: 36,864 cycles, then all but 4,000 of 12,288 bytes at two bytes a cycle.

    A chain of segments takes little more.
    """
    graph, on = heavy_tail(12), chip(1, 1, 4000, dram=2)
    costs = FormulaCosts(graph, idle=True)
    (least,) = least_by_rounds(graph, on, 1, costs)
    (floor,) = least.segments
    assert floor.order == pytest.approx(36864 + (12 * 1024 - 4000) / 2)
    assert floor.order > max(floor.work, floor.dram)
    problem = ScheduleProblem(graph, ChipModel(on, costs), 1, Objective.named("cycles"))
    found = segment_chain.solve(problem, Budget()).solution
    assert found is not None
    assert floor.order <= found.cycles < 1.1 * floor.order


def test_rounds_wait_one_after_the_other() -> None:
    """Each of two rounds does the work of its samples, and brings the same weights."""
    graph, on = heavy_tail(12), chip(1, 1, 4000, dram=2)
    one, two = least_by_rounds(graph, on, 2, FormulaCosts(graph))
    # rounds come by rising numbers of samples
    assert [one.rounds, two.rounds] == [2, 1]
    assert one.segments[-1].order == pytest.approx(2 * (36864 + (12 * 1024 - 4000) / 2))
    # in one round the work takes longer than that of the first layer and what comes after it
    assert two.segments[-1].order == pytest.approx(2 * (36864 + 12 * 1024 / 4))


def test_weights_between_two_ends_count_once_for_each_layer() -> None:
    """By hand: two branches of 50 and 60 cycles of weights meet; buffers hold what takes 20 cycles."""
    layers = (
        layer("first", external_c=4),
        layer("left", producers=(0,)),
        layer("right", producers=(0,)),
        layer("sum", "eltwise", c=8, operands=2, producers=(1, 2)),
        layer("last", producers=(3,)),
    )
    graph = LayerGraph("branches", layers)
    work, reads = np.array([100.0, 0, 0, 0, 0]), np.array([1.0, 50, 60, 0, 30])
    times = LayerTimes(work, reads, np.array([1.0, 50, 60, 0, 30]))
    assert least_cycles_in_order(graph, times, 20.0, 1) == pytest.approx(100 + 140 - 20)
    # the work of the last but one layer has to wait for the weights before it, those of the last for it
    work[3] = 200.0
    assert least_cycles_in_order(graph, times, 20.0, 1) == pytest.approx(300 + 30 - 20)
    work[3] = 80.0
    assert least_cycles_in_order(graph, times, 20.0, 1) == pytest.approx(100 + (110 - 20) + (30 - 20) + 20)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "on",
    [chip(1, 1, 7000, dram=2), chip(2, 1, 5000, dram=2), chip(2, 2, 3000, dram=2), chip(3, 1, 3500, dram=2)],
    ids=lambda on: f"{on.tiles}",
)
def test_random_trees_do_not_wait_less(on: Chip, batch: int) -> None:
    random, fitting, waiting = Random(on.tiles), 0, 0
    for graph in (heavy_tail(20), heavy_tail(6)):
        costs = FormulaCosts(graph, idle=True)
        least = least_by_rounds(graph, on, batch, costs)
        bounds = lower_bounds(graph, on, batch, costs)
        waiting += any(floor.order > max(floor.work, floor.dram) for one in least for floor in one.segments)
        evaluator = ChipEvaluator(graph, on, batch, costs)
        for _ in range(how_many(150, thorough=400)):
            try:
                found = evaluator.evaluate(random_chain(random, graph, batch))
            except NotPossibleError:
                continue
            fitting += 1
            assert found.cycles >= bounds.cycles
            assert found.cycles >= min(one.cycles for one in least if one.rounds == found.rounds)
    assert fitting > how_many(40, thorough=100)
    assert waiting


@pytest.mark.slow
@pytest.mark.parametrize("size", [4000, 5000, 6500])
def test_the_best_trees_do_not_wait_less(size: int) -> None:
    """Every tree of four layers is costed."""
    graph, on = heavy_tail(3), chip(2, 1, size, dram=2)
    problem = ScheduleProblem(
        graph, ChipModel(on, FormulaCosts(graph, idle=True)), 2, Objective.named("cycles")
    )
    best, bound = exhaustive.solve(problem, Budget()), problem.bound()
    assert best.status is Status.OPTIMAL
    assert best.objective is not None
    assert bound is not None
    assert 0 < bound <= best.objective
