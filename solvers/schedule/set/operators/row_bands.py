"""Bands of rows in annealed trees: operators that change their number, and rules that keep trees valid.

SET's trees have no bands, so its operators do not respect them: they move layers into a segment that has
bands, put a new cut around it, or give a cut below it several sub-batches. So after each operator the tree is
*settled*: a segment keeps as many of its bands as its layers can have, and cuts below it get one sub-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.row_bands import segment_band_violations
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, has_bands, leaves, rounds_of_segments
from solvers.divisors import divisors

BAND_OPERATORS = ("more_bands", "fewer_bands")
"""Operators that SET does not have: raise, or lower, the number of bands of the segment of a random leaf.
Each is drawn half as often as SET's most frequent operator."""


@dataclass(frozen=True)
class BandRules:
    """Segments of ``graph`` may have up to ``most`` bands, in numbers that divide the last layer's rows."""

    graph: LayerGraph
    most: int

    def changed(self, segment: Cut, more: bool, random: Random) -> Cut | None:
        """The segment with more bands, or with fewer.

        The number of bands goes one step up or down among the possible ones, and another step with
        probability 1/2 each time. The cuts below the segment get one sub-batch. None where it can have no
        such bands.
        """
        every = self._numbers(segment)
        lower = [one for one in every if one < segment.bands][::-1]
        numbers = [one for one in every if one > segment.bands] if more else lower
        at = 0
        while at + 1 < len(numbers) and random.random() < 0.5:
            at += 1
        if not numbers:
            return None
        found = replace(_whole_below(segment), bands=numbers[at])
        return None if self._violations(found) else found

    def settled(self, tree: TreeNode, before: TreeNode) -> TreeNode:
        """The ``tree`` with bands only where they may be; segments that ``before`` has stay as they are."""
        _, known = rounds_of_segments(before)
        rounds, segments = rounds_of_segments(tree)
        same = {id(one) for one in known}
        settled = tuple(one if id(one) in same else self._settled(one) for one in segments)
        if all(new is old for new, old in zip(settled, segments, strict=True)):
            return tree
        if isinstance(tree, Cut) and tree.kind == "T":
            return Cut("T", tree.batch, rounds, settled)
        return settled[0]

    def _settled(self, segment: TreeNode) -> TreeNode:
        """The segment with the most bands, up to its own number, that its layers can have."""
        if not has_bands(segment):
            return segment
        assert isinstance(segment, Cut)
        own = replace(segment, children=tuple(map(_without, segment.children)))
        if own.bands == 1:
            return own
        own = _whole_below(own)
        for bands in [one for one in self._numbers(own) if one <= own.bands][::-1]:
            found = replace(own, bands=bands)
            if not self._violations(found):
                return found
        return replace(own, bands=1)

    def _numbers(self, segment: Cut) -> Sequence[int]:
        """All numbers of bands of a segment, 1 among them."""
        last = self.graph.layers[self.graph.index[list(leaves(segment))[-1].layer]]
        return [one for one in divisors(last.h) if one <= self.most]

    def _violations(self, segment: Cut) -> list[str]:
        # An operator makes a valid tree except for the bands, so nothing else is checked.
        return segment_band_violations(segment, self.graph)


def _without(node: TreeNode) -> TreeNode:
    """The node and all below it without bands."""
    if isinstance(node, Leaf) or not has_bands(node):
        return node
    return replace(node, bands=1, children=tuple(map(_without, node.children)))


def _whole_below(segment: Cut) -> Cut:
    """The segment with one sub-batch for every cut below it."""
    samples = segment.batch // segment.subbatches
    return replace(segment, children=tuple(_in_one(child, samples) for child in segment.children))


def _in_one(node: TreeNode, batch: int) -> TreeNode:
    if isinstance(node, Leaf):
        return node if node.batch == batch else Leaf(node.layer, batch)
    children = tuple(_in_one(child, batch) for child in node.children)
    same = all(new is old for new, old in zip(children, node.children, strict=True))
    same = same and node.subbatches == 1 and node.batch == batch
    return node if same else Cut(node.kind, batch, 1, children)
