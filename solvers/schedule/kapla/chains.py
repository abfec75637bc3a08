"""Chains of segments from the first layer to the last, by dynamic programming over where they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.estimate import BatchCost
from solvers.schedule.kapla.segments import Scheme, Segment
from solvers.schedule.objective import Objective

NOTHING = BatchCost(0.0, 0.0)


@dataclass(frozen=True)
class Chain:
    """Schemes one after the other, and their costs together."""

    cost: BatchCost
    last: Scheme | None = None
    before: Chain | None = None

    @property
    def schemes(self) -> list[Scheme]:
        """All of them, the first layers' first."""
        found: list[Scheme] = []
        chain: Chain | None = self
        while chain is not None and chain.last is not None:
            found.append(chain.last)
            chain = chain.before
        return found[::-1]


def likely_schemes(
    costs: Mapping[Segment, Mapping[int, BatchCost]],
    layers: int,
    objective: Objective,
    most: int,
    in_time: InTime = always_in_time,
) -> list[Scheme]:
    """The schemes with which the ``most`` best chains (k_S) to each layer end.

    Section IV-B: for each layer, in topological order, the chains that end with it are those that end before
    one of the segments, followed by that. They are ranked by what they cost together. None when the time is
    up before the last layer is reached: the chains to a middle one say nothing about the whole network.
    """
    ending = _by_end(costs)
    best: list[list[Chain]] = [[Chain(NOTHING)]]
    found: dict[Scheme, None] = {}
    for end in range(1, layers + 1):
        if not in_time():
            return []
        links = _links(ending.get(end, ()), costs, best)
        ranked = nsmallest(most, links, key=lambda link: link.value(objective))
        best.append([link.chain for link in ranked])
        found |= dict.fromkeys(link.scheme for link in ranked)
    return list(found)


def best_chain(
    costs: Mapping[Segment, Mapping[int, BatchCost]], layers: int, objective: Objective
) -> Chain | None:
    """The chain of least objective, of all chains of the segments with each of their sub-batches; exactly.

    E^n D^m has convex upper level sets, so that over all chains' (E, D) it is least at a corner of their
    convex hull. A corner is best for some weighted sum of E and D; the chain up to each layer then is best
    for the same weights. So up to each layer only corners have to be kept. None: no chain reaches the end.
    """
    ending = _by_end(costs)
    corners: list[list[Chain]] = [[Chain(NOTHING)]]
    for end in range(1, layers + 1):
        corners.append(_corners(link.chain for link in _links(ending.get(end, ()), costs, corners)))
    return min(corners[layers], key=lambda chain: _value(objective, chain), default=None)


class Link(NamedTuple):
    """A chain and what follows it: most are only compared, and never become a chain."""

    before: Chain
    scheme: Scheme
    cost: BatchCost

    @property
    def chain(self) -> Chain:
        return Chain(self.before.cost + self.cost, self.scheme, self.before)

    def value(self, objective: Objective) -> float:
        before = self.before.cost
        return objective.value(before.energy_pj + self.cost.energy_pj, before.cycles + self.cost.cycles)


def _links(
    segments: Iterable[Segment],
    costs: Mapping[Segment, Mapping[int, BatchCost]],
    before: Sequence[Sequence[Chain]],
) -> Iterator[Link]:
    """The chains ``before`` each of the segments, and it with each of its sub-batches."""
    for segment in segments:
        for subbatches, cost in costs[segment].items():
            scheme = Scheme(segment, subbatches)
            yield from (Link(chain, scheme, cost) for chain in before[segment.first])


def _corners(chains: Iterable[Chain]) -> list[Chain]:
    """The lower left corners of the convex hull of costs, fewest cycles first."""
    hull: list[Chain] = []
    for chain in sorted(chains, key=lambda chain: (chain.cost.cycles, chain.cost.energy_pj)):
        if hull and chain.cost.energy_pj >= hull[-1].cost.energy_pj:
            continue
        while len(hull) > 1 and not _turns(hull[-2].cost, hull[-1].cost, chain.cost):
            hull.pop()
        hull.append(chain)
    return hull


def _turns(one: BatchCost, middle: BatchCost, other: BatchCost) -> bool:
    """Whether ``middle`` is below the line from ``one`` to ``other``."""
    across = (middle.cycles - one.cycles) * (other.energy_pj - one.energy_pj)
    down = (middle.energy_pj - one.energy_pj) * (other.cycles - one.cycles)
    return down < across


def _by_end(segments: Iterable[Segment]) -> dict[int, list[Segment]]:
    found: dict[int, list[Segment]] = {}
    for segment in segments:
        found.setdefault(segment.end, []).append(segment)
    return found


def _value(objective: Objective, chain: Chain) -> float:
    return objective.value(chain.cost.energy_pj, chain.cost.cycles)
