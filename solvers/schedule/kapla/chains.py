"""Chains of schemes from the first layer to the last, by dynamic programming over the layer where they end.

A chain up to layer ``end`` is a chain up to some earlier layer, followed by one scheme from there to ``end``.
Numbers such as ``end`` count layers: index i of a list of chains has the chains that cover layers 0 to i - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.estimate import BatchCost
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment
from solvers.schedule.objective import Objective

NOTHING = BatchCost(0.0, 0.0)


@dataclass(frozen=True)
class Chain:
    """Schemes one after the other, and the sum of their costs.

    It is a linked list from its ``last`` scheme back to the empty chain, so that chains with the same
    beginning share it.
    """

    cost: BatchCost
    last: Scheme | None = None
    before: Chain | None = None

    @property
    def schemes(self) -> list[Scheme]:
        """All schemes, in the order of their layers."""
        found: list[Scheme] = []
        chain: Chain | None = self
        while chain is not None and chain.last is not None:
            found.append(chain.last)
            chain = chain.before
        return found[::-1]


def likely_schemes(
    costs: Mapping[Segment, Mapping[BatchDivision, BatchCost]],
    layers: int,
    objective: Objective,
    most: int,
    in_time: InTime = always_in_time,
) -> list[Scheme]:
    """The last schemes of the ``most`` best chains (k_S of section IV-B) up to each of the ``layers``.

    Up to each layer, in topological order, only the ``most`` chains of least objective are kept and extended.
    Unless the objective is a sum, such as energy, that may miss the best chain; :func:`best_chain` does not.
    Nor does the ranking know what a scheme saves by the one before it, for most costs are estimates here.
    The result is empty when the time is up before the last layer: chains up to a layer in the middle say
    nothing about the whole network.
    """
    ending = _by_end(costs)
    best: list[list[Chain]] = [[Chain(NOTHING)]]
    found: dict[Scheme, None] = {}
    for end in range(1, layers + 1):
        if not in_time():
            return []
        links = _links(ending.get(end, ()), costs, best)
        # Links are ranked before chains are made of the few that stay: there are thousands of links up to a
        # layer.
        ranked = nsmallest(most, links, key=lambda link: link.value(objective))
        best.append([link.chain for link in ranked])
        # A dict as an ordered set: schemes are costed in the order of their layers, the same in every run.
        found |= dict.fromkeys(link.scheme for link in ranked)
    return list(found)


def best_chain(
    costs: Mapping[Segment, Mapping[BatchDivision, BatchCost]],
    layers: int,
    objective: Objective,
    saved: Callable[[Scheme, Scheme], BatchCost] = lambda before, after: NOTHING,
) -> Chain | None:
    """The chain of least objective among all chains of these schemes, exactly; None if none reaches the end.

    ``saved``: what a scheme saves by the one before it.

    A chain that ends with a scheme is a point (D, E), the sum of its schemes' points less what they save. The
    objective E^n D^m of a sum is no sum of objectives, so keeping only the best chain up to each scheme would
    not be exact. Keeping the corners of the points' convex hull, on the side of small D and E, is exact:

    - The points where E^n D^m is at least some value form a convex set. If all corners of a hull are in it,
      so is every other point. So the objective is least at a corner.
    - A corner at the last layer has the least a E + b D for some weights a, b > 0. That is a sum over its
      schemes and their predecessors, so its beginning up to any scheme has the least a E + b D of all chains
      up to this scheme, and a corner there has as little.
    """
    ending = _by_end(costs)
    corners: list[dict[Scheme, list[Chain]]] = [{}]
    for end in range(1, layers + 1):
        found = {}
        for segment in ending.get(end, ()):
            for division, cost in costs[segment].items():
                scheme = Scheme(segment, division)
                chains = _corners(_followed(corners[segment.first], scheme, cost, saved))
                if chains:
                    found[scheme] = chains
        corners.append(found)
    every = (chain for chains in corners[layers].values() for chain in chains)
    return min(every, key=lambda chain: _value(objective, chain), default=None)


def _followed(
    before: Mapping[Scheme, Sequence[Chain]],
    scheme: Scheme,
    cost: BatchCost,
    saved: Callable[[Scheme, Scheme], BatchCost],
) -> Iterator[Chain]:
    """Every chain of ``before``, by its last scheme, with one more ``scheme``."""
    if scheme.segment.first == 0:
        yield Chain(cost, scheme, Chain(NOTHING))
    for last, chains in before.items():
        less = saved(last, scheme)
        more = BatchCost(cost.energy_pj - less.energy_pj, cost.cycles - less.cycles)
        yield from (Chain(chain.cost + more, scheme, chain) for chain in chains)


class Link(NamedTuple):
    """A chain and one scheme that may follow it. Most links are only compared and never become a chain."""

    before: Chain
    scheme: Scheme
    cost: BatchCost

    @property
    def chain(self) -> Chain:
        return Chain(self.before.cost + self.cost, self.scheme, self.before)

    def value(self, objective: Objective) -> float:
        """The objective of the chain with the scheme."""
        before = self.before.cost
        return objective.value(before.energy_pj + self.cost.energy_pj, before.cycles + self.cost.cycles)


def _links(
    segments: Iterable[Segment],
    costs: Mapping[Segment, Mapping[BatchDivision, BatchCost]],
    before: Sequence[Sequence[Chain]],
) -> Iterator[Link]:
    """Every way to extend a chain by one of ``segments``, with each division that has a cost.

    ``before[i]`` are the chains that cover the first i layers.
    """
    for segment in segments:
        for division, cost in costs[segment].items():
            scheme = Scheme(segment, division)
            yield from (Link(chain, scheme, cost) for chain in before[segment.first])


def _corners(chains: Iterable[Chain]) -> list[Chain]:
    """The chains at the lower left corners of the convex hull of (cycles, energy), fewest cycles first.

    Chains come by rising cycles (Andrew's monotone chain). One that takes no less energy than the last
    corner is dominated. Any other becomes a corner; the corners just before it are removed while they are not
    below the line from their own predecessor to it.
    """
    hull: list[Chain] = []
    for chain in sorted(chains, key=lambda chain: (chain.cost.cycles, chain.cost.energy_pj)):
        if hull and chain.cost.energy_pj >= hull[-1].cost.energy_pj:
            continue
        # The first corner stays whatever comes: nothing has fewer cycles.
        while len(hull) > 1 and not _turns(hull[-2].cost, hull[-1].cost, chain.cost):
            hull.pop()
        hull.append(chain)
    return hull


def _turns(one: BatchCost, middle: BatchCost, other: BatchCost) -> bool:
    """Whether ``middle`` is below the line from ``one`` to ``other``, where cycles rise and energy falls.

    It is the comparison of two slopes, multiplied out so that nothing is divided.
    """
    across = (middle.cycles - one.cycles) * (other.energy_pj - one.energy_pj)
    down = (middle.energy_pj - one.energy_pj) * (other.cycles - one.cycles)
    return down < across


def _by_end(segments: Iterable[Segment]) -> dict[int, list[Segment]]:
    """The segments by the layer before which they end."""
    found: dict[int, list[Segment]] = {}
    for segment in segments:
        found.setdefault(segment.end, []).append(segment)
    return found


def _value(objective: Objective, chain: Chain) -> float:
    return objective.value(chain.cost.energy_pj, chain.cost.cycles)
