"""Schedules on a chip, against counts element by element and moment by moment, and closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment.known_nodes import MOST_REMEMBERED
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    chip,
    cut_off,
    equal_parts,
    every_kind,
    of_widths,
    random_tree,
    read_in_part,
    recurrent,
    routed,
    shared_heads,
)
from tests.costmodel.schedule.chip_counts import Counts, cycles, energy_pj, most_held, recount, recount_leaf
from tests.thorough import how_many

CHIPS = [chip(2, 2), chip(3, 2, stripe=2, link=2), chip(1, 4), chip(5, 1, dram=9)]
OTHER_WIDTHS = [
    of_widths(chip(2, 2), 16, 16, 16),
    of_widths(chip(3, 2, stripe=2, link=2), 4, 8, 32),
    of_widths(chip(2, 2, 2100), 5, 12, 24),
]
SMALL = chip(2, 2, 350)
"""Its buffers hold few trees whose weights are all pinned."""
SEEDS = range(24)
ENERGY, CYCLES = 1.5, 2.0
"""Exponents of the objective."""


def named(on: Chip) -> str:
    return f"{on.columns}x{on.rows} {on.name}"


def evaluated(
    graph: LayerGraph, on: Chip, seed: int, idle: bool = False
) -> tuple[ChipEvaluation, FormulaCosts] | None:
    """A random tree; None where it does not fit. ``idle``: leaves may have tiles without a part."""
    random = Random(seed)
    batch = random.choice([1, 2, 4, 6, 7, 12])
    costs = FormulaCosts(graph, idle, slices=(3, 2, 1))
    evaluator = ChipEvaluator(graph, on, batch, costs, (ENERGY, CYCLES))
    try:
        return evaluator.evaluate(random_tree(random, graph, batch)), costs
    except NotPossibleError:
        return None


def stages_of(evaluation: ChipEvaluation, flow: DataFlow) -> dict[int, list[int]]:
    """The stages of every S cut's children by the id of its cost."""
    tree = evaluation.tree
    skipped = int(isinstance(tree, Cut) and tree.kind == "T")
    return {
        id(cost): flow.stages[number + skipped]
        for number, cost in enumerate(evaluation.nodes())
        if number + skipped in flow.stages
    }


def link_bits(on: Chip, cost: NodeCost) -> dict[tuple[tuple[int, int], tuple[int, int]], int]:
    """The model's links as pairs of neighbours, in bits times ports."""
    found = {}
    for column in range(on.columns):
        for row in range(on.rows):
            ends = [(column + 1, row), (column, row - 1), (column - 1, row), (column, row + 1)]
            for direction, end in enumerate(ends):
                if size := int(cost.links[(column * on.rows + row) * 4 + direction]):
                    found[(column, row), end] = size
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "on"),
    [
        *((every_kind(), on) for on in (*CHIPS, *OTHER_WIDTHS, SMALL)),
        (read_in_part(), CHIPS[0]),
        (cut_off(), CHIPS[0]),
        (routed(), CHIPS[1]),
        (recurrent(), CHIPS[1]),
        (equal_parts(), CHIPS[1]),
        (shared_heads(), CHIPS[0]),
        (shared_heads(), CHIPS[1]),
    ],
    ids=lambda one: one.name if isinstance(one, LayerGraph) else named(one),
)
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
def test_all_counts_of_random_trees(graph: LayerGraph, on: Chip, idle: bool) -> None:
    checked = streaming = 0
    for seed in SEEDS if on is not SMALL else range(how_many(60, thorough=200)):
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, costs = found
        flow = DataFlow(evaluation.tree, graph.producers)
        stages, total = stages_of(evaluation, flow), 0.0
        for segment in evaluation.segments:
            counts = recount(graph, evaluation, segment, flow)
            total += evaluation.rounds * sum(energy_pj(counts, costs, number) for number in counts.leaves)
            check_segment(counts, segment, stages)
            streaming += sum(map(counts.streams, counts.leaves))
        assert evaluation.energy_pj == pytest.approx(total, rel=1e-12)
        checked += 1
    assert checked >= len(SEEDS) // 5
    assert streaming > how_many(1, thorough=5) or on is not SMALL


def check_segment(counts: Counts, segment: NodeCost, stages: dict[int, list[int]]) -> None:
    for number, cost in counts.leaves.items():
        assert cost.dram_read_bits == counts.read[number]
        assert cost.dram_write_bits == counts.written[number]
        ports = len(counts.chip.ports)
        expected = {link: ports * size for link, size in counts.links[number].items() if size}
        assert link_bits(counts.chip, cost) == expected
    waiting, expected_times = [segment], cycles(counts, segment, stages)
    while waiting:
        cost = waiting.pop()
        waiting += cost.children
        assert cost.cycles == expected_times[id(cost)].cycles


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "on"),
    [
        *((every_kind(), on) for on in (*CHIPS[:2], OTHER_WIDTHS[1], SMALL)),
        (routed(), CHIPS[0]),
        (recurrent(), CHIPS[0]),
        (equal_parts(), CHIPS[1]),
        (shared_heads(), CHIPS[1]),
    ],
    ids=lambda one: one.name if isinstance(one, LayerGraph) else named(one),
)
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
def test_buffers_hold_what_is_there_at_any_moment(graph: LayerGraph, on: Chip, idle: bool) -> None:
    """What the model charges is enough, and not more for leaves side by side or one after the other."""
    exact = streaming = 0
    for seed in SEEDS if on is not SMALL else range(how_many(60, thorough=200)):
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, _ = found
        flow = DataFlow(evaluation.tree, graph.producers)
        drawn = evaluation.spatial_temporal(graph.producers)
        for segment in evaluation.segments:
            counts = recount(graph, evaluation, segment, flow)
            names = {graph.layers[number].name for number in counts.leaves}
            mine = [one for one in drawn if one.layer in names and one.end_sample <= segment.node.batch]
            most = most_held(counts, mine, flow, set(fetched_weights(segment.node)))
            assert segment.held.most >= most
            if any(map(counts.streams, counts.leaves)):
                streaming += 1  # slices of one tile may differ by a channel, and not all are there at a time
            elif all(cost.leaf for cost in segment.children):
                exact += 1
                if not (isinstance(segment.node, Cut) and segment.node.kind == "S"):
                    assert segment.held.most == most
    assert exact > 3 or on is SMALL
    assert streaming > how_many(0, thorough=3) or on is not SMALL


def fetched_weights(node: TreeNode, once: bool = True, fetched: bool = False) -> Iterator[str]:
    """Layers of a segment below a T cut that runs once while weights are pinned, and whose children do."""
    if isinstance(node, Leaf):
        yield from [node.layer] if fetched else []
        return
    below = once and node.subbatches == 1
    for child in node.children:
        yield from fetched_weights(child, below, fetched or (below and node.kind == "T"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "on"),
    [
        *((every_kind(), on) for on in (*CHIPS[:2], OTHER_WIDTHS[1])),
        (routed(), CHIPS[0]),
        (recurrent(), CHIPS[0]),
        (equal_parts(), CHIPS[1]),
        (shared_heads(), CHIPS[1]),
    ],
    ids=lambda one: one.name if isinstance(one, LayerGraph) else named(one),
)
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
def test_no_partition_or_placement_of_a_leaf_is_better(graph: LayerGraph, on: Chip, idle: bool) -> None:
    """Every way to place each leaf, with its producers where they are, counted element by element."""
    compared = 0
    for seed in SEEDS[:8]:
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, costs = found
        flow = DataFlow(evaluation.tree, graph.producers)
        for segment in evaluation.segments:
            counts = recount(graph, evaluation, segment, flow)
            for number in counts.leaves:
                compared += _compare_placements(counts, costs, flow, number)
    assert compared > 80


def _compare_placements(counts: Counts, costs: FormulaCosts, flow: DataFlow, number: int) -> int:
    """How many there are; none is better than the one picked, counted in the same way."""
    picked = counts.leaves[number]
    assert picked.leaf is not None
    rows = costs.rows(number, picked.node.batch, picked.tiles)
    values = {}
    for parts, tile_cycles in zip(rows.parts.tolist(), rows.cycles.tolist(), strict=True):
        for order in {tuple(axis for axis in one if parts[axis] > 1) for one in permutations(range(4))}:
            rest = tuple(axis for axis in range(3, -1, -1) if parts[axis] == 1)
            place = replace(picked.leaf.placement, parts=tuple(parts), order=order + rest)
            leaf = replace(picked.leaf, placement=place, tile_cycles=tile_cycles)
            counts.leaves[number] = replace(picked, leaf=leaf)
            recount_leaf(counts, flow, number)
            energy = energy_pj(counts, costs, number)
            # a leaf is chosen for its runs; the first fetch, where it is a segment of its own, comes on top
            time = cycles(counts, counts.leaves[number], {}, top=False)[id(counts.leaves[number])]
            values[place] = energy**ENERGY * time.cycles**CYCLES
    counts.leaves[number] = picked
    recount_leaf(counts, flow, number)
    assert values[picked.leaf.placement] == pytest.approx(min(values.values()), rel=1e-12)
    return len(values)


@pytest.mark.slow
@pytest.mark.parametrize("most", [MOST_REMEMBERED, 7])
def test_what_is_remembered_costs_what_it_costs_anew(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Many trees by one evaluator, which may have to forget between them, and each by a new one."""
    monkeypatch.setattr("costmodel.schedule.segment.known_nodes.MOST_REMEMBERED", most)
    graph, on, random = every_kind(), CHIPS[1], Random(5)
    costs, possible = FormulaCosts(graph), 0
    evaluator = ChipEvaluator(graph, on, 4, costs)
    for _ in range(80):
        tree = random_tree(random, graph, 4)
        known, anew = _all_counts(evaluator, tree), _all_counts(ChipEvaluator(graph, on, 4, costs), tree)
        assert known == anew
        possible += not isinstance(anew, str)
    assert 15 < possible < 80


def _times(cost: NodeCost) -> list[object]:
    """How a node runs its first batch and each later one."""
    return [
        (
            (run.ahead_bits, run.link_cycles, run.early, run.running, run.dram_bits),
            (run.ahead.tolist(), run.during.tolist()),
        )
        for run in ((cost.runs.first, cost.runs.later) if cost.runs else ())
    ]


def _all_counts(evaluator: ChipEvaluator, tree: TreeNode) -> list[object] | str:
    """Every count of every node; the reason where the tree is not possible."""
    try:
        nodes = evaluator.evaluate(tree).nodes()
    except NotPossibleError as reason:
        return str(reason)
    return [
        (
            (cost.node, cost.first_tile, cost.tiles, cost.cycles, cost.parts_pj, cost.busy),
            _times(cost),
            (cost.dram_read_bits, cost.dram_write_bits, cost.links.tolist(), cost.held.busy.tolist()),
            (
                cost.held.weights.tolist(),
                cost.held.ahead.tolist(),
                [one.tolist() for one in cost.held.arriving],
            ),
        )
        for cost in nodes
    ]
