"""Groups of layers on small chips, with fused mappings drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import tile_stack
from costmodel.mapping.fused.layers.checker import violations
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.fused_groups.cost import FusedGroupCost, fused_group_cost, works_outside
from costmodel.schedule.fused_groups.cuts import CutGroup, cuts_of
from costmodel.schedule.fused_groups.members import ChipGroup, chip_group
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from tests.costmodel.mapping.fused.layers import random_groups
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, layer, mapped_chip

BATCH = 2


def roomy_chip(columns: int, rows: int) -> Chip:
    """A chip of small tiles whose buffers and registers hold anything."""
    plain = mapped_chip(columns, rows, 1 << 16)
    assert plain.tile.architecture is not None
    levels = tuple(
        level if level.size_words is None else replace(level, size_words=1 << 12)
        for level in plain.tile.architecture.levels
    )
    return replace(
        plain, tile=replace(plain.tile, architecture=replace(plain.tile.architecture, levels=levels))
    )


def attention() -> LayerGraph:
    """Scores, softmax and values of one head of 4 channels, for 4 queries and 6 keys."""
    rows: dict[str, Any] = {"h": 4, "w": 1}
    layers = (
        layer("queries", c=3, k=4, external_c=3, **rows),
        layer("keys", c=3, k=6, h=4, w=1, external_c=3),
        layer("rows", c=3, k=4, h=6, w=1, external_c=3),
        layer("scores", c=4, k=6, producers=(0,), weight_producers=(1,), **rows),
        layer("softmax", "ptp", c=6, k=6, producers=(3,), **rows),
        layer("values", c=6, k=4, producers=(4,), weight_producers=(2,), **rows),
    )
    return LayerGraph("attention", layers)


def gated() -> LayerGraph:
    """Two products of the same rows, of which one is activated, their product, and what follows."""
    rows: dict[str, Any] = {"h": 4, "w": 2}
    layers = (
        layer("gate", c=3, k=4, external_c=3, **rows),
        layer("up", c=3, k=4, external_c=3, **rows),
        layer("active", "ptp", c=4, k=4, producers=(0,), **rows),
        layer("times", "eltwise", c=8, k=4, operands=2, producers=(1, 2), **rows),
        layer("down", c=4, k=2, producers=(3,), **rows),
    )
    return LayerGraph("gated", layers)


def bottleneck() -> LayerGraph:
    """A 1 x 1 convolution, a depthwise one with windows of 3 and padding, and a 1 x 1 convolution."""
    image: dict[str, Any] = {"h": 6, "w": 4}
    layers = (
        layer("expand", c=2, k=4, external_c=2, **image),
        layer(
            "depthwise", "groupconv", c=4, k=4, groups=4, r=3, s=3, pad_h=1, pad_w=1, producers=(0,), **image
        ),
        layer("project", c=4, k=2, producers=(1,), **image),
    )
    return LayerGraph("bottleneck", layers)


GRAPHS = {
    "chain": (chain(3), (0, 1, 2)),
    "attention": (attention(), (3, 4, 5)),
    "gated": (gated(), (0, 1, 2, 3, 4)),
    "bottleneck": (bottleneck(), (0, 1, 2)),
}
"""Networks by name, each with the numbers of layers that form a group."""


@dataclass(frozen=True)
class Drawn:
    """A fused mapping of a group of a network's layers on a chip, and what it costs."""

    graph: LayerGraph
    on: Chip
    group: ChipGroup
    cut: CutGroup
    mapping: GroupMapping
    cost: FusedGroupCost

    @property
    def names(self) -> list[str]:
        return [self.graph.layers[number].name for number in self.group.numbers]


def drawn(random: Random, name: str, on: Chip, batch: int = BATCH) -> Drawn:
    """A random way to divide the group among tiles, and a random mapping of a part."""
    graph, numbers = GRAPHS[name]
    stack = tile_stack(on)
    assert stack is not None
    group = chip_group(graph, numbers, batch, stack)
    assert group is not None
    while True:
        cut = random.choice(cuts_of(group.group, (on.columns, on.rows), 4))
        mapping = _mapping(random, cut.part)
        # rows around an image count as data where they come from DRAM, and no program has them
        padded = {
            cut.part.layers[each.producer].name
            for each in cut.part.intermediates
            if any(read.windows for read in each.reads)
        }
        kept = padded <= mapping.shared.backing.keys() and works_outside(group, mapping) is None
        if kept and not violations(cut.part, mapping):
            break
    return Drawn(graph, on, group, cut, mapping, fused_group_cost(on, graph, group, cut.cut, mapping))


def _mapping(random: Random, part: LayerGroup) -> GroupMapping:
    windows = any(read.windows for one in part.intermediates for read in one.reads)
    tree = random_groups.window_tree if windows else random_groups.tree
    return random_groups.whole(random, part, tree(random, part))


@dataclass(frozen=True)
class OnlyGroup:
    """One group's cost, for its own batch."""

    names: frozenset[str]
    batch: int
    found: FusedGroupCost

    @property
    def groups(self) -> frozenset[frozenset[str]]:
        return frozenset({self.names})

    def cost(self, names: frozenset[str], batch: int) -> FusedGroupCost | None:
        return self.found if (names, batch) == (self.names, self.batch) else None


class Dear(FormulaCosts):
    """Formulas whose operations take so much that every group is cheaper."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        rows = super().rows(layer, batch, tiles)
        return replace(rows, energy_pj=1e9 * rows.energy_pj, cycles=10**6 * rows.cycles)


def segments(one: Drawn, rounds: int = 1) -> TreeNode:
    """The tree of the whole network, in which the group is a segment and each other layer one of its own."""
    batch = one.group.batch
    turns = Cut("T", batch, 1, tuple(Leaf(name, batch) for name in one.names))
    before = [Leaf(each.name, batch) for each in one.graph.layers if each.name not in one.names]
    return Cut("T", rounds * batch, rounds, (*before, turns))


def evaluated(one: Drawn, rounds: int = 1) -> ChipEvaluation:
    """The network's schedule with the group mapped together."""
    groups = OnlyGroup(frozenset(one.names), one.group.batch, one.cost)
    evaluator = ChipEvaluator(one.graph, one.on, rounds * one.group.batch, Dear(one.graph), groups=groups)
    return evaluator.evaluate(segments(one, rounds))
