"""Tangram's dynamic program over chains: for each layer only a few of the best chains up to it are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from costmodel.schedule.tree.tree import TreeNode
from solvers.schedule.in_turn import CountedSegment
from solvers.schedule.objective import Objective
from solvers.schedule.segment_chain.chains import Cost, SegmentOption


@dataclass(frozen=True)
class _Chain:
    cost: Cost
    segments: tuple[CountedSegment, ...] = ()


def best_of_kept(
    ending: Sequence[Sequence[SegmentOption]],
    saved: Callable[[CountedSegment, CountedSegment], Cost],
    objective: Objective,
    kept: int,
) -> tuple[TreeNode, ...]:
    """The segments of the best chain that is found if ``kept`` chains are kept for each layer.

    ``ending[i]``: the segments that end before layer i. ``saved``: what the second of two segments saves by
    following the first. A chain up to a layer is ranked by its own E^n D^m, as if the network ended there.
    That is no sum, so the best chain of the whole network may be among those that are dropped.
    """
    chains: list[list[_Chain]] = [[_Chain(Cost(0.0, 0.0))]]
    for options in ending[1:]:
        longer = [
            _followed(before, option.segment, saved) for option in options for before in chains[option.first]
        ]
        chains.append(nsmallest(kept, longer, key=lambda chain: objective.value(*chain.cost)))
    return tuple(segment.node for segment in chains[-1][0].segments)


def _followed(
    before: _Chain, segment: CountedSegment, saved: Callable[[CountedSegment, CountedSegment], Cost]
) -> _Chain:
    less = saved(before.segments[-1], segment) if before.segments else Cost(0.0, 0.0)
    energy_pj = before.cost.energy_pj + segment.energy_pj - less.energy_pj
    cycles = before.cost.cycles + segment.cycles - less.cycles
    return _Chain(Cost(energy_pj, cycles), (*before.segments, segment))
