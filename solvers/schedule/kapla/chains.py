"""The best chain of schemes from the first layer to the last, by dynamic programming over where chains end.

A chain up to layer ``end`` is a chain up to some earlier layer, followed by one scheme from there to ``end``.
Numbers such as ``end`` count layers: index i of a list of chains has the chains that cover layers 0 to i - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from solvers.schedule.kapla.estimates.estimate import BatchCost
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment
from solvers.schedule.objective import Objective

NOTHING = BatchCost(0.0, 0.0)


class Chain(NamedTuple):
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


SchemeCosts = Mapping[Segment, Mapping[BatchDivision, BatchCost]]


class Savings(NamedTuple):
    """What schemes save by others: ``between`` two in a row the second one, and ``most`` one by any other."""

    between: Callable[[Scheme, Scheme], BatchCost]
    most: Callable[[Scheme], BatchCost]


def best_chain(
    costs: SchemeCosts, layers: int, objective: Objective, savings: Savings | None = None
) -> Chain | None:
    """The chain of least objective among all chains of these schemes, exactly; None if none reaches the end.

    ``savings``: what schemes save by the ones before them; None: nothing.

    A chain that ends with a scheme is a point (D, E), the sum of its schemes' points less what they save. The
    objective E^n D^m of a sum is no sum of objectives, so keeping only the best chain up to each scheme would
    not be exact. Keeping the corners of the points' convex hull, on the side of small D and E, is exact:

    - The points where E^n D^m is at least some value form a convex set. If all corners of a hull are in it,
      so is every other point. So the objective is least at a corner.
    - A corner at the last layer has the least a E + b D for some weights a, b > 0. That is a sum over its
      schemes and their predecessors, so its beginning up to any scheme has the least a E + b D of all chains
      up to this scheme, and a corner there has as little.

    Savings are of pairs, of which there are many. So schemes go first that are in no chain as good as the
    best one without savings, even if all schemes of the chain save the most that they can.
    """
    between: Callable[[Scheme, Scheme], BatchCost] = _nothing
    if savings is not None:
        without = best_chain(costs, layers, objective)
        if without is None:
            return None
        costs = _promising(costs, layers, objective, savings.most, _value(objective, without))
        between = savings.between
    ending = _by_end(costs)
    corners: list[dict[Scheme, list[Chain]]] = [{}]
    for end in range(1, layers + 1):
        found = {}
        for segment in ending.get(end, ()):
            for division, cost in costs[segment].items():
                scheme = Scheme(segment, division)
                chains = _corners(_followed(corners[segment.first], scheme, cost, between))
                if chains:
                    found[scheme] = chains
        if savings is None and found:
            # Whatever follows costs the same after each of them, so the corners of all together are enough.
            together = _corners(chain for chains in found.values() for chain in chains)
            found = {next(iter(found)): together}
        corners.append(found)
    every = (chain for chains in corners[layers].values() for chain in chains)
    return min(every, key=lambda chain: _value(objective, chain), default=None)


def _nothing(before: Scheme, after: Scheme) -> BatchCost:
    return NOTHING


def _promising(
    costs: SchemeCosts,
    layers: int,
    objective: Objective,
    most: Callable[[Scheme], BatchCost],
    value: float,
) -> SchemeCosts:
    """The schemes that a chain of at most this ``value`` may have, if each saves the ``most`` that it can.

    The least energy and the least cycles of all chains up to a scheme, and of all from there on, are found
    one by the other: no chain with the scheme takes less of either.
    """
    least = [
        (segment, division, cost.less(most(Scheme(segment, division))))
        for segment, found in costs.items()
        for division, cost in found.items()
    ]
    none = BatchCost(inf, inf)
    until, after = [NOTHING] + [none] * layers, [none] * layers + [NOTHING]
    for segment, _, cost in sorted(least, key=lambda one: one[0].end):
        until[segment.end] = _less(until[segment.end], until[segment.first].and_then(cost))
    for segment, _, cost in sorted(least, key=lambda one: -one[0].first):
        after[segment.first] = _less(after[segment.first], cost.and_then(after[segment.end]))
    # sums in another order may differ in their last digits
    enough, kept = value * (1 + 1e-9), dict[Segment, dict[BatchDivision, BatchCost]]()
    for segment, division, cost in least:
        whole = until[segment.first].and_then(cost).and_then(after[segment.end])
        if objective.value(*whole) <= enough:
            kept.setdefault(segment, {})[division] = costs[segment][division]
    return kept


def _less(one: BatchCost, other: BatchCost) -> BatchCost:
    """The smaller of each number."""
    return BatchCost(min(one.energy_pj, other.energy_pj), min(one.cycles, other.cycles))


def _followed(
    before: Mapping[Scheme, Sequence[Chain]],
    scheme: Scheme,
    cost: BatchCost,
    between: Callable[[Scheme, Scheme], BatchCost],
) -> Iterator[Chain]:
    """Every chain of ``before``, by its last scheme, with one more ``scheme``."""
    if scheme.segment.first == 0:
        yield Chain(cost, scheme, Chain(NOTHING))
    for last, chains in before.items():
        more = cost.less(between(last, scheme))
        yield from (Chain(chain.cost.and_then(more), scheme, chain) for chain in chains)


def _corners(chains: Iterable[Chain]) -> list[Chain]:
    """The chains at the lower left corners of the convex hull of (cycles, energy), fewest cycles first.

    Chains come by rising cycles (Andrew's monotone chain). One that takes no less energy than the last
    corner is dominated. Any other becomes a corner; the corners just before it are removed while they are not
    below the line from their own predecessor to it.
    """
    hull: list[Chain] = []
    for chain in sorted(chains, key=lambda chain: chain.cost[::-1]):
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
    return objective.value(*chain.cost)
