"""How long the nodes of a segment run, which is known when all of its leaves are.

A leaf runs until all that it sends has left, also for leaves that come after it in the tree. What these get
depends on their own partitions and placements, so times are the last thing that is counted of a segment.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.segment.known_nodes import KnownNodes
from costmodel.schedule.segment.node_cost import NodeCost, Sent, runs_on_tiles
from costmodel.schedule.segment.planned_nodes import PlannedNode
from costmodel.schedule.starts import pipelined, turns
from costmodel.schedule.tree.tree import Cut

Array = NDArray[Any]


def timed(cost: NodeCost, planned: PlannedNode, sent: Sent, chip: Chip, known: KnownNodes) -> NodeCost:
    """A node on tiles with ``runs`` and ``cycles`` of all nodes below it.

    ``sent``: what its layers send to leaves outside of it, which for a whole segment is nothing. ``known``
    remembers nodes.
    """
    return known.timed(cost, sent, lambda: _counted(cost, planned, sent, chip, known))


def _counted(cost: NodeCost, planned: PlannedNode, sent: Sent, chip: Chip, known: KnownNodes) -> NodeCost:
    """The same for a node that is not known."""
    node, leaf = cost.node, cost.leaf
    if leaf is not None:
        return cost.but(runs=leaf.runs.sending(chip, [links for _, links in sent]))
    assert isinstance(node, Cut)
    of_children = zip(cost.children, planned.children, _sent_by_children(cost, planned, sent), strict=True)
    children = tuple([timed(child, plan, own, chip, known) for child, plan, own in of_children])
    each, times = [runs_on_tiles(child) for child in children], node.child_runs
    if node.kind == "T":
        runs = turns(each, times, chip)
    else:
        in_turn = [isinstance(one.node, Cut) and one.node.kind == "T" for one in children]
        runs = pipelined(each, cost.stages, times, chip, in_turn)
    return cost.but(children=children, runs=runs, cycles=runs.later.running)


def _sent_by_children(cost: NodeCost, planned: PlannedNode, sent: Sent) -> list[Sent]:
    """[children]: what each child of a cut sends to its siblings, and its share of what the cut ``sent``."""
    found: list[list[tuple[int, Array]]] = [[] for _ in cost.children]
    for one in (*[one for child in cost.children for one in child.received], *sent):
        child = planned.child_of.get(one[0])
        if child is not None:
            found[child].append(one)
    return [tuple(one) for one in found]
