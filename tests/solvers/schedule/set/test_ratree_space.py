"""Spaces of RA trees: members, size and canonical trees, against enumeration."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.published.set_isca2023.evaluator import TreeEvaluator
from costmodel.published.set_isca2023.hardware import PLATFORMS
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from solvers.schedule.set.canonical import PatternSegment, layer_pipeline, layer_sequential, sequential_tree
from solvers.schedule.set.size import tree_at, tree_count
from solvers.schedule.set.space import SPACES, SpaceName, TreeSpace
from tests.solvers.schedule.small_trees import every_tree


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(
    ("layers", "batch"), [(2, 1), (3, 1), (5, 1), (2, 6), (3, 4), (3, 6), (4, 2), (4, 3)]
)
def test_counts_by_enumeration(name: SpaceName, layers: int, batch: int) -> None:
    names = tuple(f"layer{i}" for i in range(layers))
    space = TreeSpace(dict.fromkeys(names, ()), batch, tiles=layers, name=name)
    members = [tree for tree in every_tree(names, batch) if not space.violations(tree)]
    assert len(members) == len(set(members)) == tree_count(layers, batch, name)


@pytest.mark.parametrize(("layers", "batch"), [(1, 4), (2, 1), (4, 1), (3, 6), (4, 2)])
def test_every_tree_has_one_number(layers: int, batch: int) -> None:
    names = tuple(f"layer{i}" for i in range(layers))
    count = tree_count(layers, batch)
    numbered = [tree_at(number, names, batch) for number in range(count)]
    assert len(set(numbered)) == count
    assert set(numbered) == set(every_tree(names, batch))
    for number in (-1, count):
        with pytest.raises(InputError, match=f"0 to before {count}"):
            tree_at(number, names, batch)


def test_the_last_number_of_a_large_network_has_a_valid_tree() -> None:
    graph = load_graph("resnet")
    tree = tree_at(tree_count(72, 8) - 1, tuple(graph.producers), 8)
    assert TreeSpace(graph.producers, 8, tiles=72).violations(tree) == []


def test_networks_of_hundreds_of_layers_are_counted_and_drawn() -> None:
    """Of 600 layers no count calls itself more deeply than Python allows, and draws have them all."""
    names, random = tuple(f"layer{i}" for i in range(600)), Random(5)
    for _ in range(5):
        drawn = tree_at(random.randrange(tree_count(600, 4)), names, 4)
        assert tuple(leaf.layer for leaf in leaves(drawn)) == names


def test_growth_is_the_papers() -> None:
    """Section 3.2: O(9.899^n); a count of trees grows as (5 + 2 sqrt 6)^n n^-3/2."""
    growth = 5 + 2 * 6**0.5
    assert growth == pytest.approx(9.899, abs=1e-3)
    for layers in (100, 200):
        ratio = tree_count(layers + 1) / tree_count(layers)
        assert ratio == pytest.approx(growth * (1 - 1.5 / (layers + 1)), rel=1e-3)


def test_segmented_spaces_have_the_papers_size() -> None:
    """Section 3.4: 2^(n - 1) ways to cut a list into segments, less the one of a single segment."""
    for layers in range(2, 12):
        assert tree_count(layers, 1, "layer_pipeline") == 2 ** (layers - 1) - 1


def test_canonical_trees_are_in_their_spaces() -> None:
    graph = load_graph("resnet")
    names = tuple(graph.producers)
    segments = [
        PatternSegment(names[:3], 4),
        PatternSegment(names[3:4], 1),
        PatternSegment(names[4:8]),
        PatternSegment(names[8:], 2),
    ]
    for build, name in ((layer_sequential, "layer_sequential"), (layer_pipeline, "layer_pipeline")):
        tree = build(segments, 8, 2)
        assert tuple(leaf.layer for leaf in leaves(tree)) == names
        for space in ("paper", "released", name):
            assert TreeSpace(graph.producers, 8, 144, space).violations(tree) == []  # type: ignore[arg-type]
    pipeline = layer_pipeline(segments, 8, 2)
    assert TreeSpace(graph.producers, 8, 144, "layer_sequential").violations(pipeline)


def test_the_search_starts_from_the_sequential_tree() -> None:
    graph = load_graph("resnet")
    tree = sequential_tree(tuple(graph.producers), 8, 1)
    cost = TreeEvaluator(TileTables(graph, PLATFORMS["edge"], 8, 2)).evaluate(tree)
    assert cost.cycles == sum(child.cycles for child in cost.children)
    assert len(cost.children) == len(graph.layers)


@pytest.mark.parametrize(
    ("tree", "space", "reason"),
    [
        (Cut("S", 4, 1, (Leaf("a", 4), Leaf("b", 4))), "released", "the root is not a T cut"),
        (
            Cut("T", 4, 1, (Cut("T", 4, 1, (Leaf("a", 4),)), Leaf("b", 4))),
            "released",
            "T cut 4/1 has one child",
        ),
        (
            Cut("T", 4, 1, (Cut("S", 4, 4, (Leaf("a", 1), Leaf("b", 1))),)),
            "layer_sequential",
            "S cut 4/4 below the root is not a T cut",
        ),
    ],
)
def test_reasons_against_a_space(tree: TreeNode, space: SpaceName, reason: str) -> None:
    producers = {"a": (), "b": ("a",)}
    assert reason in TreeSpace(producers, 4, 16, space).violations(tree)
    assert TreeSpace(producers, 4, 16, "paper").violations(tree) == []


def test_deep_cuts_of_one_kind_are_the_papers_alone() -> None:
    names = tuple("abcd")
    producers = dict.fromkeys(names, ())
    inner = Cut("T", 6, 3, (Leaf("b", 2), Leaf("c", 2)))
    tree = Cut("T", 6, 1, (Cut("T", 6, 1, (Leaf("a", 6), inner)), Leaf("d", 6)))
    assert TreeSpace(producers, 6, 4).violations(tree) == []
    assert TreeSpace(producers, 6, 4, deepest=2).violations(tree) == [
        "cuts are 3 deep, at most 2 are allowed"
    ]
    reasons = TreeSpace(producers, 6, 4, "released").violations(tree)
    assert reasons == ["T cut 6/3 is below another T cut", "T cut 6/3: sub-batches are no power of two"]


def test_what_is_no_space() -> None:
    with pytest.raises(InputError, match="Did you mean released"):
        TreeSpace({}, 1, 1, "relesed")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch"):
        TreeSpace({}, 0, 1)
    with pytest.raises(InputError, match="subbatches"):
        sequential_tree(("a",), 8, 3)
    with pytest.raises(InputError, match="at least one layer"):
        PatternSegment(())
