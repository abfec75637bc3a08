"""RA trees: text, validity, data flow and S-T graphs, against definitions written out."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.spatial_temporal import ChartBox, spatial_temporal_graph
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, depth, leaves
from costmodel.schedule.tree.validity import least_tiles, violations
from tests.costmodel.schedule.tree.formulas import broken_formulas, node_attributes

FIGURE_2 = "T 4/1\n\tS 4/2\n\t\tT 2/2\n\t\t\tL1 1\n\t\t\tL2 1\n\t\tL3 2\n\tL4 4\n"
FIGURE_2_PRODUCERS = {"L1": (), "L2": ("L1",), "L3": (), "L4": ("L1", "L2", "L3")}


@st.composite
def trees(draw: st.DrawFn, batch: int = 8, most: int = 4) -> TreeNode:
    """Trees whose batches divide, leaves numbered from left to right."""
    drawn = draw(_nodes(batch, most))
    names = iter(range(1000))

    def named(node: TreeNode) -> TreeNode:
        if isinstance(node, Leaf):
            return Leaf(f"layer{next(names)}", node.batch)
        return Cut(node.kind, node.batch, node.subbatches, tuple(map(named, node.children)))

    return named(drawn)


@st.composite
def _nodes(draw: st.DrawFn, batch: int, most: int) -> TreeNode:
    if most == 0 or draw(st.booleans()):
        return Leaf("", batch)
    parts = draw(st.sampled_from([part for part in range(1, batch + 1) if batch % part == 0]))
    children = draw(st.lists(_nodes(batch // parts, most - 1), min_size=1, max_size=3))
    return Cut(draw(st.sampled_from("ST")), batch, parts, tuple(children))


@pytest.mark.slow
@given(trees())
def test_text_says_all_of_a_tree(tree: TreeNode) -> None:
    text = format_tree(tree)
    assert parse_tree(text) == tree
    assert max(len(line) - len(line.lstrip("\t")) for line in text.splitlines()) == depth(tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a line for the root"),
        ("T 4/1\n\t\tL1 4\n", "line 2: expected at most 1 tabs"),
        ("T 4/1\n\tL1 4\nT 4/1\n", "line 3: expected one root"),
        ("T 4/1\n\tL1 4\n\t\tL2 4\n", "line 2: expected a cut such as 'T 8/2'"),
        ("T 4/1\n", "line 1: expected at least one child"),
        ("T 4/0\n\tL1 4\n", "line 1: subbatches: expected a whole number of at least 1"),
        ("T 4/1\n\tL1\n", "line 2: expected a cut such as 'T 8/2' or a leaf"),
        ("L1 " + "9" * 5000, "numbers of ordinary length"),
    ],
)
def test_text_that_is_no_tree(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_tree(text)
    assert message in str(caught.value)


def test_deep_text_ends_in_an_error_not_in_the_stack() -> None:
    text = "".join("\t" * level + "T 1/1\n" for level in range(2000))
    with pytest.raises(InputError, match="at most 500 tabs"):
        parse_tree(text)


@given(trees())
def test_drawn_trees_are_valid_in_their_own_order(tree: TreeNode) -> None:
    names = [leaf.layer for leaf in leaves(tree)]
    producers = {name: names[:index] for index, name in enumerate(names)}
    assert violations(tree, producers, 8) == []
    assert violations(tree, producers, 8, least_tiles(tree)) == []
    assert violations(tree, producers, 8, least_tiles(tree) - 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("T 8/1\n\tL1 8\n\tL2 8\n\tL3 8\n\tL4 8\n", "the root's batch is 8, the workload's 4"),
        ("T 4/3\n\tL1 1\n\tL2 1\n\tL3 1\n\tL4 1\n", "T cut 4/3: 3 sub-batches do not divide 4 samples"),
        ("T 4/2\n\tL1 4\n\tL2 2\n\tL3 2\n\tL4 2\n", "T cut 4/2: layer L1 has a batch of 4, not 2"),
        ("T 4/1\n\tL1 4\n\tL2 4\n\tL3 4\n", "layer L4 has no leaf"),
        ("T 4/1\n\tL1 4\n\tL1 4\n\tL2 4\n\tL3 4\n\tL4 4\n", "layer L1 has 2 leaves"),
        ("T 4/1\n\tL1 4\n\tL2 4\n\tL3 4\n\tL4 4\n\tL5 4\n", "no layer L5 in the network"),
        ("T 4/1\n\tL2 4\n\tL1 4\n\tL3 4\n\tL4 4\n", "L2 comes before L1, whose outputs it needs"),
        ("S 4/1\n\tL1 4\n\tL2 4\n\tL3 4\n\tL4 4\n", "its S cuts need 4 tiles side by side, the chip has 3"),
    ],
)
def test_reasons_against_a_tree(text: str, reason: str) -> None:
    assert violations(parse_tree(text), FIGURE_2_PRODUCERS, 4, 3) == [reason]


def test_a_cut_from_another_process_is_found_among_equal_ones() -> None:
    """Texts have other hashes there, and a cut remembers its own."""
    tree = parse_tree(FIGURE_2)
    assert tree in {tree}  # hashed
    look_up = "import pickle, sys; trees = pickle.loads(sys.stdin.buffer.read())\n"
    look_up += "from costmodel.schedule.tree.text import format_tree, parse_tree\n"
    look_up += "assert trees[0] in {parse_tree(format_tree(trees[0]))}"
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", look_up], input=pickle.dumps([tree]), env=environment, check=True
        )


def test_values_are_checked_when_built() -> None:
    for build in (
        lambda: Leaf("L1", 0),
        lambda: Cut("T", 4, 1, ()),
        lambda: Cut("X", 4, 1, (Leaf("L1", 4),)),  # type: ignore[arg-type]
        lambda: Cut("T", 4, True, (Leaf("L1", 4),)),
    ):
        with pytest.raises(InputError):
            build()


def test_stages_and_edges_of_figure_2() -> None:
    flow = DataFlow(parse_tree(FIGURE_2), FIGURE_2_PRODUCERS)
    # no dependency from T 2/2 to L3: both start at once
    assert flow.stages == {1: [0, 0]}
    on_chip = {(edge.producer, edge.consumer) for edge in flow.edges if edge.on_chip}
    # across children of the root T cut everything goes through DRAM
    assert on_chip == {("L1", "L2")}


@given(trees(batch=4, most=3))
def test_edges_by_definition(tree: TreeNode) -> None:
    """Section 3.3.1 said of paths from the root instead of climbing from the leaves."""
    names = [leaf.layer for leaf in leaves(tree)]
    producers = {
        name: [names[i] for i in range(index) if (i * 7 + index) % 3] for index, name in enumerate(names)
    }
    flow = DataFlow(tree, producers)
    paths = dict(_paths(tree, ()))
    edges = {(edge.producer, edge.consumer): edge.on_chip for edge in flow.edges}
    assert set(edges) == {(producer, name) for name in names for producer in producers[name]}
    for (producer, consumer), on_chip in edges.items():
        meeting = next(
            i for i, (a, b) in enumerate(zip(paths[producer], paths[consumer], strict=False)) if a != b
        )
        cut, at, to = (
            _node(tree, paths[producer][:meeting]),
            paths[producer][meeting],
            paths[consumer][meeting],
        )
        assert isinstance(cut, Cut)
        if cut.kind == "T":
            assert on_chip == (meeting > 0 and to == at + 1)
        else:
            stages = _stages(cut, producers)
            assert on_chip == (stages[to] <= stages[at] + 1)


def _paths(node: TreeNode, path: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    if isinstance(node, Leaf):
        return [(node.layer, path)]
    return [found for i, child in enumerate(node.children) for found in _paths(child, (*path, i))]


def _node(node: TreeNode, path: tuple[int, ...]) -> TreeNode:
    for index in path:
        assert isinstance(node, Cut)
        node = node.children[index]
    return node


def _stages(cut: Cut, producers: dict[str, list[str]]) -> list[int]:
    stages: list[int] = []
    for child in cut.children:
        needed = {name for leaf in leaves(child) for name in producers[leaf.layer]}
        before = [
            stage
            for stage, other in zip(stages, cut.children, strict=False)
            if needed & {leaf.layer for leaf in leaves(other)}
        ]
        stages.append(1 + max(before) if before else 0)
    return stages


def figure_2_graph() -> list[ChartBox]:
    flow = DataFlow(parse_tree(FIGURE_2), FIGURE_2_PRODUCERS)
    # positions: 0 T 4/1, 1 S 4/2, 2 T 2/2, 3 L1, 4 L2, 5 L3, 6 L4
    cycles = {0: 100, 1: 60, 2: 30, 3: 10, 4: 5, 5: 20, 6: 40}
    tiles = {3: (0, 2), 4: (0, 2), 5: (2, 3), 6: (0, 3)}
    return spatial_temporal_graph(flow, cycles, tiles)


def test_spatial_temporal_graph_of_figure_2() -> None:
    drawn = figure_2_graph()
    found = {(r.layer, r.first_sample, r.end_sample): (r.start, r.end) for r in drawn}
    assert found[("L1", 0, 1)] == (0, 10)
    assert found[("L2", 1, 2)] == (25, 30)
    assert found[("L1", 2, 3)] == (30, 40)
    assert found[("L3", 0, 2)] == (0, 20)
    assert found[("L3", 2, 4)] == (30, 50)
    assert found[("L4", 0, 4)] == (60, 100)
    assert len(drawn) == 4 + 4 + 2 + 1


@given(trees(batch=4, most=3))
def test_rectangles_cover_every_sample_once_and_never_overlap(tree: TreeNode) -> None:
    names = [leaf.layer for leaf in leaves(tree)]
    producers = {name: names[max(index - 2, 0) : index] for index, name in enumerate(names)}
    flow = DataFlow(tree, producers)
    cycles, tiles = _timed(flow)
    drawn = spatial_temporal_graph(flow, cycles, tiles)
    for name in names:
        samples = [s for r in drawn if r.layer == name for s in range(r.first_sample, r.end_sample)]
        assert sorted(samples) == list(range(4))
    assert max(r.end for r in drawn) <= cycles[0]
    for one, other in combinations(drawn, 2):
        apart_in_time = one.end <= other.start or other.end <= one.start
        assert apart_in_time or one.end_tile <= other.first_tile or other.end_tile <= one.first_tile


def _grouped(flow: DataFlow) -> dict[int, tuple[int, int]]:
    """Every S cut gives a child just the tiles that it needs, the last one what is left."""
    tiles: dict[int, tuple[int, int]] = {0: (0, least_tiles(flow.positions[0].node))}
    for position in flow.positions[1:]:
        parent = flow.positions[position.parent].node
        first, end = tiles[position.parent]
        if isinstance(parent, Cut) and parent.kind == "S":
            first += sum(least_tiles(child) for child in parent.children[: position.rank])
            last = position.rank == len(parent.children) - 1
            end = end if last else first + least_tiles(position.node)
        tiles[position.number] = first, end
    return tiles


def _timed(flow: DataFlow) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Leaves take 1 to 7 cycles."""
    cycles: dict[int, int] = {}
    tiles = _grouped(flow)
    for position in reversed(flow.positions):
        node = position.node
        if isinstance(node, Leaf):
            cycles[position.number] = 1 + position.number % 7
            continue
        taken = [cycles[child] for child in flow.children[position.number]]
        if node.kind == "T":
            cycles[position.number] = node.subbatches * sum(taken)
        else:
            stages = flow.stages[position.number]
            through = [
                max(time for time, at in zip(taken, stages, strict=True) if at == stage)
                for stage in range(max(stages) + 1)
            ]
            cycles[position.number] = (node.subbatches - 1) * max(taken) + sum(through)
    return cycles, {p.number: tiles[p.number] for p in flow.positions if isinstance(p.node, Leaf)}


@pytest.mark.slow
@given(trees(batch=6, most=3))
def test_the_papers_formulas_hold_for_valid_trees(tree: TreeNode) -> None:
    names = [leaf.layer for leaf in leaves(tree)]
    producers = {name: names[max(index - 2, 0) : index] for index, name in enumerate(names)}
    flow = DataFlow(tree, producers)
    nodes = node_attributes(flow, _grouped(flow))
    assert broken_formulas(nodes, frozenset(names), least_tiles(tree), 6) == []
    # Formulas 5 and 6 say the same of both ends
    assert {(i, j) for i, node in enumerate(nodes) for j in node.targets} == {
        (i, j) for j, node in enumerate(nodes) for i in node.sources
    }
    for name, number in flow.leaf_of.items():
        of_leaves = {other for other in names if flow.leaf_of[other] in nodes[number].sources}
        assert of_leaves == set(producers[name])


def test_deduced_dependencies_of_figure_2() -> None:
    """T 2/2 -> L4 follows from L1 -> L4; nothing leads from T 2/2 to L3."""
    flow = DataFlow(parse_tree(FIGURE_2), FIGURE_2_PRODUCERS)
    nodes = node_attributes(flow, _grouped(flow))
    assert nodes[2].targets == {0, 1, 3 + 1, 6}
    assert nodes[5].sources == set()
    assert nodes[6].sources == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("number", "change", "formula"),
    [
        (0, {"tiles": frozenset({0})}, "the root's TG is not all tiles"),
        (0, {"batch": 8}, "the root's b is not the total batch"),
        (1, {"subbatches": 3}, "node 1: Formula 4"),
        (3, {"subbatches": 2, "batch": 2}, "node 3: Formula 7"),
        (4, {"batch": 2}, "node 2: Formula 8"),
        (1, {"kind": "TCut"}, "node 1: Formula 9"),
        (5, {"tiles": frozenset({0, 1})}, "node 1: Formula 10"),
        (6, {"layers": frozenset({"L1"})}, "node 0: section 3.1.2"),
        (6, {"layers": frozenset({"L9"})}, "node 6: Formula 3"),
    ],
)
def test_formulas_that_do_not_hold(number: int, change: dict[str, Any], formula: str) -> None:
    flow = DataFlow(parse_tree(FIGURE_2), FIGURE_2_PRODUCERS)
    nodes = list(node_attributes(flow, _grouped(flow)))
    every, tiles = frozenset(FIGURE_2_PRODUCERS), len(nodes[0].tiles)
    assert broken_formulas(nodes, every, tiles, 4) == []
    nodes[number] = replace(nodes[number], **change)
    reasons = broken_formulas(nodes, every, tiles, 4)
    assert [reason for reason in reasons if reason.startswith(formula)], reasons
