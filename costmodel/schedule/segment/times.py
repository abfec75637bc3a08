"""How long the nodes of a segment run, which is known when all of its leaves are.

A leaf runs until all that it sends has left, also for leaves that come after it in the tree. What these get
depends on their own partitions and placements, so times are the last thing that is counted of a segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.segment.known_nodes import KnownNodes
from costmodel.schedule.segment.node_cost import NodeCost, runs_on_tiles
from costmodel.schedule.starts import pipelined, turns
from costmodel.schedule.tree.tree import Cut, Leaf

Array = NDArray[Any]


def timed(
    cost: NodeCost, chip: Chip, makers: Mapping[str, Sequence[str | None]], known: KnownNodes
) -> NodeCost:
    """A segment on tiles with ``runs`` and ``cycles`` of its nodes.

    ``makers``: for each stream of a layer's data the layer that makes it; None: it is no layer's. ``known``
    remembers nodes.
    """
    # the whole of a segment has nobody to send to, so nothing else decides its times
    found = known.timed(cost, ())
    if found is None:
        found = known.add_timed(cost, (), _timed(cost, chip, _sent(cost, makers), known))
    return found


def _sent(cost: NodeCost, makers: Mapping[str, Sequence[str | None]]) -> Mapping[str, Sequence[Array]]:
    """What links carry of each layer's outputs for each leaf of a segment that gets some of them."""
    sent: dict[str, list[Array]] = defaultdict(list)
    for leaf in _leaves(cost):
        assert isinstance(leaf.node, Leaf)
        assert leaf.leaf is not None
        if leaf.leaf.received:
            producers = makers[leaf.node.layer]
            for stream, links in leaf.leaf.received:
                sent[producers[stream] or ""].append(links)
    return sent


def _timed(cost: NodeCost, chip: Chip, sent: Mapping[str, Sequence[Array]], known: KnownNodes) -> NodeCost:
    """The same for any node; ``sent``: as :func:`_sent` has found it."""
    leaf, node = cost.leaf, cost.node
    if leaf is not None:
        assert isinstance(node, Leaf)
        arrays = sent.get(node.layer, ())
        found = known.timed(cost, arrays)
        if found is None:
            found = known.add_timed(cost, arrays, cost.but(runs=leaf.runs.sending(chip, arrays)))
        return found
    children = tuple([_timed(child, chip, sent, known) for child in cost.children])
    found = known.timed(cost, children)
    if found is None:
        assert isinstance(node, Cut)
        each, times = [runs_on_tiles(child) for child in children], node.child_runs
        in_turn = node.kind == "T"
        runs = turns(each, times, chip) if in_turn else pipelined(each, cost.stages, times, chip)
        counted = cost.but(children=children, runs=runs, cycles=runs.later.running)
        found = known.add_timed(cost, children, counted)
    return found


def _leaves(cost: NodeCost) -> Iterator[NodeCost]:
    if not cost.children:
        yield cost
    for child in cost.children:
        yield from _leaves(child)
