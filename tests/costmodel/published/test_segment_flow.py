"""What a segment says of its own data flow is what the whole tree says of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.published.set_isca2023.segment_flow import SegmentFlow
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.wiring import Wiring
from tests.costmodel.schedule.tree.random_trees import NAMES, PRODUCERS, random_tree


@pytest.mark.parametrize("seed", range(200))
def test_segments_agree_with_the_whole_tree(seed: int) -> None:
    random, wiring, names = Random(seed), Wiring.of(PRODUCERS), NAMES
    tree = random_tree(names, 1, random)
    if isinstance(tree, Cut) and random.random() < 0.6:  # most have several segments
        tree = replace(tree, kind="T")
    whole = DataFlow(tree, PRODUCERS)
    in_time = isinstance(tree, Cut) and tree.kind == "T"
    segments = tree.children if isinstance(tree, Cut) and in_time else (tree,)
    sources: dict[str, set[str]] = {}
    written, stages = set(), []
    for segment in segments:
        flow = SegmentFlow(segment, wiring)
        assert [names[layer] for layer in flow.layers] == [leaf.layer for leaf in _leaves(segment)]
        for layer, found in flow.sources.items():
            sources[names[layer]] = {names[one] for one in found}
        written |= {names[layer] for layer in flow.written}
        stages += [one for one in flow.stages if one]
    expected: dict[str, set[str]] = {}
    for edge in whole.edges:
        if edge.on_chip:
            expected.setdefault(edge.consumer, set()).add(edge.producer)
    assert sources == expected
    unused = set(names) - {name for read in PRODUCERS.values() for name in read}
    assert written == unused | {edge.producer for edge in whole.edges if not edge.on_chip}
    assert stages == [whole.stages[number] for number in sorted(whole.stages)]


def _leaves(node: TreeNode) -> list[Leaf]:
    return [node] if isinstance(node, Leaf) else [leaf for child in node.children for leaf in _leaves(child)]
