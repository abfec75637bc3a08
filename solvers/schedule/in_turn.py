"""Segments that run one after the other, and which of them a search for the best sequence may leave out.

A segment's first fetch may overlap the end of the segment before it
(:mod:`costmodel.schedule.transitions`). So the best sequence need not be made of the segments that are best
by themselves. A segment may be left out only if another one with the same layers is better even when the
other one saves nothing in the sequence and this one saves as much as it ever can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment.node_cost import NodeCost, running_pj
from costmodel.schedule.transitions import MostSaved
from costmodel.schedule.tree.tree import TreeNode


@dataclass(frozen=True, eq=False)
class CountedSegment:
    """A segment, its cost by itself, its energy with that of the idle chip (pJ), and the most it saves."""

    node: TreeNode
    cost: NodeCost
    energy_pj: float
    most: MostSaved

    @staticmethod
    def of(node: TreeNode, evaluator: ChipEvaluator) -> CountedSegment:
        """NotPossibleError where the chip cannot run it."""
        cost = evaluator.segment(node)
        return CountedSegment(node, cost, running_pj(cost, evaluator.chip), evaluator.most_saved(cost))

    @property
    def cycles(self) -> int:
        return self.cost.cycles


def worth_keeping(every: Iterable[CountedSegment], pj_per_cycle: float) -> list[CountedSegment]:
    """The segments of the same layers that may be part of a best sequence; see :func:`keep`."""
    kept: list[CountedSegment] = []
    for new in every:
        keep(new, kept, pj_per_cycle)
    return kept


def keep(new: CountedSegment, kept: list[CountedSegment], pj_per_cycle: float) -> None:
    """Add a segment to those ``kept`` of the same layers, unless one of these beats it.

    One is left out if another one takes no more energy and cycles by itself than this one after all that it
    and its successor can save. In any sequence the other one can then take its position: what it saves there
    is not negative. Of equal ones the first stays. ``pj_per_cycle``: the most energy that a saved cycle of
    any segment saves.
    """
    if not any(_beats(one, new, pj_per_cycle) for one in kept):
        kept[:] = [*(one for one in kept if not _beats(new, one, pj_per_cycle)), new]


def _beats(one: CountedSegment, other: CountedSegment, pj_per_cycle: float) -> bool:
    """Whether ``one`` is no worse than ``other`` in any sequence."""
    most = other.most
    least_cycles = other.cycles - most.itself - most.next_one
    saved_pj = most.itself * most.pj_per_cycle + most.next_one * pj_per_cycle
    return one.cycles <= least_cycles and one.energy_pj <= other.energy_pj - saved_pj
