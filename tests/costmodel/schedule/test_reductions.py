"""Leaves whose input channels are cut: what they move, hold, take and cost, and the programs that do it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random
from statistics import mean
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.programs import program_from_json, program_to_json
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.bounds.bounds import lower_bounds
from costmodel.schedule.bounds.staying import SegmentKinds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Instruction, Program, Repeat
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.reductions import reduction_violations, whole_channels_reason
from costmodel.schedule.tile_cost import TileFloor
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, has_reductions
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.tree.validity import violations as tree_violations
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    chain,
    chip,
    cut_off,
    every_kind,
    layer,
    of_widths,
    random_tree,
    read_in_part,
)
from tests.costmodel.schedule.chip_counts import energy_pj, recount
from tests.costmodel.schedule.program.test_writer import replayed_as_counted
from tests.costmodel.schedule.test_evaluate import check_segment, stages_of

CHIPS = [
    chip(2, 2),
    of_widths(chip(3, 2, stripe=2, link=2), 4, 8, 32),
    chip(1, 4),
    chip(6, 1, dram=9),
    of_widths(chip(2, 3), 5, 12, 24),
]
GRAPHS = [every_kind(), read_in_part(), cut_off(), chain(3)]
SEEDS = range(10)
MORE_SEEDS = pytest.param(range(10, 40), marks=[pytest.mark.slow, pytest.mark.thorough])


def with_reductions(random: Random, node: TreeNode, graph: LayerGraph) -> TreeNode:
    """The tree with the input channels of about half the leaves cut where that can be."""
    if isinstance(node, Cut):
        return replace(node, children=tuple(with_reductions(random, one, graph) for one in node.children))
    it = graph.layers[graph.index[node.layer]]
    if whole_channels_reason(it) or random.random() < 0.5:
        return node
    return replace(node, reduced=random.choice([one for one in (1, 2, 3, 4) if one <= it.c]))


def evaluated(
    graph: LayerGraph, on: Chip, seed: int, idle: bool = False
) -> tuple[ChipEvaluation, FormulaCosts] | None:
    """A random tree with some input channels cut; None where it does not fit, or none are cut."""
    random = Random(seed)
    batch = random.choice([1, 2, 4, 6])
    costs = FormulaCosts(graph, idle)
    tree = with_reductions(random, random_tree(random, graph, batch), graph)
    if not has_reductions(tree):
        return None
    try:
        return ChipEvaluator(graph, on, batch, costs, (1.5, 2.0)).evaluate(tree), costs
    except NotPossibleError:
        return None


@pytest.mark.parametrize("on", CHIPS, ids=lambda on: f"{on.columns}x{on.rows}")
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
@pytest.mark.parametrize(
    "seeds",
    [SEEDS, pytest.param(range(10, 40), marks=[pytest.mark.slow, pytest.mark.thorough])],
    ids=["few", "many"],
)
def test_all_counts_of_random_trees(on: Chip, idle: bool, seeds: range) -> None:
    """Traffic on every link, DRAM, energy and cycles are those of a count element by element."""
    checked = 0
    for graph, seed in product(GRAPHS, seeds):
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
        assert evaluation.energy_pj == pytest.approx(total, rel=1e-12)
        checked += 1
    assert checked > 3


@pytest.mark.slow
@pytest.mark.parametrize("on", CHIPS, ids=lambda on: f"{on.columns}x{on.rows}")
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
@pytest.mark.parametrize(
    "seeds",
    [SEEDS, pytest.param(range(10, 40), marks=[pytest.mark.slow, pytest.mark.thorough])],
    ids=["few", "many"],
)
def test_programs_of_random_trees(on: Chip, idle: bool, seeds: range) -> None:
    """They can run, move what the model counts link by link, do all operations, and hold no more.

    A replay takes as long as the model says, or a bit more.
    """
    ratios: list[float] = []
    for graph, seed in product(GRAPHS, seeds):
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, _ = found
        program = write_program(graph, evaluation)
        again = replayed_as_counted(program, evaluation, operations(graph, evaluation))
        ratios.append(evaluation.cycles / again.cycles)
    assert len(ratios) > 3
    assert 0.85 < mean(ratios) < 1.15


class OnlyOperations:
    """Floors that hold for any part of a layer: its operations of 1 pJ."""

    def __init__(self, graph: LayerGraph) -> None:
        self.graph = graph

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return TileFloor(float(self.graph.layers[layer].operations), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "on", [chip(2, 2, dram=1), chip(3, 2, 180, dram=1), chip(1, 4, 300, dram=2)], ids=lambda on: f"{on.tiles}"
)
def test_bounds_of_random_trees(on: Chip) -> None:
    """With cut input channels no tree is below the bounds that allow them."""
    checked = 0
    for graph, seed in product(GRAPHS, range(40)):
        found = evaluated(graph, on, seed)
        if found is not None:
            evaluation, _ = found
            kinds, batch = SegmentKinds(reductions=True), evaluation.tree.batch
            bounds = lower_bounds(graph, on, batch, OnlyOperations(graph), kinds)
            assert evaluation.energy_pj >= bounds.energy_pj
            assert evaluation.cycles >= bounds.cycles
            assert evaluation.energy_pj * evaluation.cycles >= bounds.product((1.0, 1.0))
            checked += 1
    assert checked > 3


def operations(graph: LayerGraph, evaluation: ChipEvaluation) -> int:
    """Products and element operations of all layers, and one operation for each partial sum that is added."""
    batch, total = evaluation.tree.batch, 0
    for cost in evaluation.nodes():
        if isinstance(cost.node, Leaf):
            it = graph.layers[graph.index[cost.node.layer]]
            added = cost.node.reduced * it.k * it.h * it.w if cost.node.reduced > 1 else 0
            total += batch * (it.operations + added)
    return total


def deep(c: int = 256, k: int = 2, **sizes: Any) -> LayerGraph:
    """A layer of many input channels, few output channels and small maps: weights are most of its data."""
    given = {"c": c, "k": k, "h": 2, "w": 2, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, **sizes}
    return LayerGraph("deep", (layer("deep", external_c=c, **given),))


def test_a_cut_of_input_channels_pays_where_weights_are_most_of_the_data() -> None:
    """256 input channels and 2 x 2 x 2 outputs on 16 tiles: these suffice for 8, and repeat all weights."""
    graph, on = deep(), of_widths(chip(4, 4, link=16, dram=64), 8, 8, 32)
    costs = FormulaCosts(graph, idle=True)
    found = {}
    for reduced in (1, 2, 4, 8, 16):
        evaluation = ChipEvaluator(graph, on, 1, costs).evaluate(Leaf("deep", 1, reduced))
        again = replay(write_program(graph, evaluation))
        assert 0.85 < evaluation.cycles / again.cycles < 1.15
        found[reduced] = evaluation.energy_pj * evaluation.cycles, again.cycles
    products, replayed = zip(*found.values(), strict=True)
    assert min(products) < 0.7 * products[0]
    assert min(replayed) < 0.7 * replayed[0]


def test_text_of_a_tree_with_input_channels_cut() -> None:
    text = "T 4/2\n\tS 2/2\n\t\tlayer0 1 C4\n\t\tlayer1 1\n\tlayer2 2 C2\n"
    tree = parse_tree(text)
    assert format_tree(tree) == text
    assert has_reductions(tree)
    assert not has_reductions(parse_tree(text.replace(" C4", "").replace(" C2", "")))
    with pytest.raises(InputError, match="reduced"):
        parse_tree(text.replace("C4", "C0"))
    # a layer may have such a name
    assert parse_tree("layer 1 C4 2\n") == Leaf("layer 1 C4", 2)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ("right 1 C2", "its channels are in 3 groups"),
        ("pooled 1 C2", r"its outputs \(pool\) are no sums of products over input channels"),
        ("squashed 1 C2", r"its outputs \(ptp\) are no sums of products"),
        ("stem 1 C4", "4 parts of 3 input channels"),
        ("S 1/1x2\n\tstem 1 C2\n\tleft 1\n", r"in bands no input channels are cut \(stem\)"),
    ],
)
def test_what_cannot_be_cut_is_refused(tree: str, reason: str) -> None:
    graph, node = every_kind(), parse_tree(tree)
    assert any(re.search(reason, one) for one in reduction_violations(node, graph))
    evaluator = ChipEvaluator(graph, chip(2, 2), 1, FormulaCosts(graph))
    if isinstance(node, Leaf):
        with pytest.raises(InputError, match=reason):
            evaluator.segment(node)


def test_parts_have_to_divide_the_tiles() -> None:
    graph = chain(1)
    with pytest.raises(NotPossibleError, match="3 parts, which do not divide 4 tiles"):
        ChipEvaluator(graph, chip(2, 2), 1, FormulaCosts(graph)).evaluate(Leaf("layer0", 1, 3))
    both = parse_tree("S 1/1\n\tlayer0 1 C4\n\tlayer1 1 C4\n")
    assert tree_violations(both, chain(2).producers, 1, 8) == []
    (reason,) = tree_violations(both, chain(2).producers, 1, 4)
    assert "need 8 tiles" in reason


def gathered() -> Program:
    """Four tiles: two groups of two, for two runs."""
    graph = chain(1, k=2, h=1, w=1)
    tree = parse_tree("T 2/1\n\tT 2/2\n\t\tlayer0 1 C2\n")
    return write_program(graph, ChipEvaluator(graph, chip(2, 2), 2, FormulaCosts(graph)).evaluate(tree))


def test_the_checker_finds_partial_sums_that_are_lost_or_leave() -> None:
    """Each way to leave partial sums out, or to pass them for outputs, has a reason of its own."""
    program = gathered()
    assert violations(program) == []
    adding = [number for number, work in enumerate(program.works) if work.adds]
    assert len(adding) == 2
    plain = tuple(replace(one, partial=False) for one in program.messages)
    assert any("not partial sums" in one for one in violations(replace(program, messages=plain)))
    works = tuple(replace(one, adds=False) for one in program.works)
    assert any("no compute adds up" in one for one in violations(replace(program, works=works)))

    def forgetful(code: Sequence[Instruction | Repeat]) -> tuple[Instruction | Repeat, ...]:
        """Every compute that adds reads one message less."""
        return tuple(
            Repeat(item.times, forgetful(item.body))
            if isinstance(item, Repeat)
            else replace(item, reads=item.reads[1:])
            if item.work in adding
            else item
            for item in code
        )

    fewer = replace(program, tiles=tuple(map(forgetful, program.tiles)))
    assert any("are not all partial sums" in one for one in violations(fewer))


def test_programs_with_partial_sums_survive_their_file() -> None:
    program = gathered()
    assert program_from_json(program_to_json(program)) == program
