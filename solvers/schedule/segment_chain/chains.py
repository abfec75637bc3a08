"""The best chain of counted segments, exactly: shortest paths over segments, for several weights.

E^n D^m of a chain is quasi-concave in its (E, D). So of all chains the best is a corner of their lower left
hull, and a corner is the chain of least ``a E + b D`` for some weights a, b. For given weights that is a
shortest path over segments, as the cost of a segment depends on the one before it and on no other. The
corners are found from the outside in, each between two that are known.

With several rounds the first segment follows the last one of the round before. Then there is one such search
for each segment that may be the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from costmodel.limits import limit_reached
from costmodel.schedule.tree.tree import TreeNode
from solvers.schedule.in_turn import CountedSegment
from solvers.schedule.objective import Objective

MOST_CORNERS = 200
"""The most corners of the hull that are looked for; beyond, the best of those found is the answer."""


class Cost(NamedTuple):
    """Energy in pJ, including the power of the idle chip, and cycles; of one round."""

    energy_pj: float
    cycles: float


@dataclass(frozen=True, eq=False)
class SegmentOption:
    """A counted segment; ``first`` is the number of its first layer."""

    first: int
    segment: CountedSegment


class SegmentChain(NamedTuple):
    """Segments of all layers, and the sum of their costs less what each saves by the one before it."""

    cost: Cost
    segments: tuple[TreeNode, ...]


@dataclass(frozen=True)
class Chains:
    """All chains of some segments, which run in ``rounds`` rounds.

    ``ending[i]``: the segments that end before layer i. ``saved``: the energy and cycles that the second of
    two segments saves by following the first.
    """

    ending: Sequence[Sequence[SegmentOption]]
    saved: Callable[[CountedSegment, CountedSegment], Cost]
    rounds: int

    def best(self, objective: Objective) -> SegmentChain:
        """The chain of least E^n D^m over all rounds; each of them is taken to cost the mean of all."""

        def value(chain: SegmentChain) -> float:
            energy_pj, cycles = chain.cost
            return objective.value(self.rounds * energy_pj, round(self.rounds * cycles))

        return min(self.corners(), key=value)

    def corners(self) -> Iterator[SegmentChain]:
        """The corners of the lower left hull of all chains, and perhaps points on its sides.

        With several rounds there is a hull for each segment that may be the first.
        """
        if self.rounds == 1:
            yield from self._corners(None)
            return
        for options in self.ending:
            for option in options:
                if option.first == 0:
                    yield from self._corners(option.segment)

    def _corners(self, first: CountedSegment | None) -> list[SegmentChain]:
        """The corners of chains that begin with ``first``; None: with any segment, in a single round."""
        found = [
            chain for chain in (self._shortest(first, *one) for one in ((1.0, 0.0), (0.0, 1.0))) if chain
        ]
        sides = [(found[0].cost, found[1].cost)] if found else []
        while sides and len(found) < MOST_CORNERS:
            left, right = sides.pop()
            # With these weights both ends of the side cost the same, so a chain that costs less lies beyond
            # it.
            by_energy, by_cycles = left.cycles - right.cycles, right.energy_pj - left.energy_pj
            if by_energy <= 0 or by_cycles <= 0:
                continue
            chain = self._shortest(first, by_energy, by_cycles)
            assert chain is not None
            side = by_energy * left.energy_pj + by_cycles * left.cycles
            # The factor allows for sums of floats: a point on the side must not look like one beyond it.
            if by_energy * chain.cost.energy_pj + by_cycles * chain.cost.cycles < side * (1 - 1e-12):
                found.append(chain)
                sides += [(left, chain.cost), (chain.cost, right)]
        if sides:
            limit_reached("corners of the hull of chains", MOST_CORNERS, "a better chain may be between them")
        return found

    def _shortest(
        self, first: CountedSegment | None, by_energy: float, by_cycles: float
    ) -> SegmentChain | None:
        """The chain of least ``by_energy`` E + ``by_cycles`` D; of equal ones least energy, then cycles.

        A dynamic program over segments, by the layer after their last one. There is a path for each last
        segment, as the segment after it saves by this one. The paths up to a layer are tried from the
        shortest on, and only as long as one could still win if the next segment saved all that it can; so
        few pairs of segments are counted.
        """
        weights = (by_energy, by_cycles)
        paths: list[list[_Path]] = [[]]
        for options in self.ending[1:]:
            ways = []
            for option in options:
                if option.first == 0:
                    if first is None or option.segment is first:
                        own = option.segment
                        ways.append(_Path.of(Cost(own.energy_pj, own.cycles), weights, own, None))
                elif way := self._extended(paths[option.first], option.segment, weights):
                    ways.append(way)
            paths.append(sorted(ways, key=lambda one: one.key))
        if first is not None:
            paths[-1] = [self._in_rounds(path, first, weights) for path in paths[-1]]
        return min(paths[-1], key=lambda one: one.key).chain if paths[-1] else None

    def _extended(
        self, paths: Sequence[_Path], segment: CountedSegment, weights: tuple[float, float]
    ) -> _Path | None:
        """The shortest path that goes on with ``segment``; ``paths`` end where it begins, shortest first."""
        best: _Path | None = None
        own, of_cycle = Cost(segment.energy_pj, segment.cycles), _weighed(segment, weights)
        for path in paths:
            reached = path.with_cost(own, weights, segment)
            # No later path can win: all are at least as long, and the segment saves no more anywhere.
            if best is not None and reached.key[0] - segment.most.itself * of_cycle > best.key[0]:
                break
            # This path cannot win: the pair saves no more than either of the two bounds.
            most = min(segment.most.itself, path.segment.most.next_one)
            if best is not None and reached.key[0] - most * of_cycle > best.key[0]:
                continue
            if most:
                saved = self.saved(path.segment, segment)
                less = Cost(own.energy_pj - saved.energy_pj, own.cycles - saved.cycles)
                reached = path.with_cost(less, weights, segment)
            if best is None or reached.key < best.key:
                best = reached
        return best

    def _in_rounds(self, path: _Path, first: CountedSegment, weights: tuple[float, float]) -> _Path:
        """The path less what its first segment saves by following its last one, in the mean of all rounds.

        That happens between rounds, one time less often than there are rounds.
        """
        part, saved = (self.rounds - 1) / self.rounds, self.saved(path.segment, first)
        _, energy, cycles = path.key
        less = Cost(energy - part * saved.energy_pj, cycles - part * saved.cycles)
        return _Path.of(less, weights, path.segment, path.before)


def _weighed(segment: CountedSegment, weights: tuple[float, float]) -> float:
    """By how much a saved cycle of a segment lowers the weighted sum of energy and cycles."""
    return weights[0] * segment.most.pj_per_cycle + weights[1]


class _Path(NamedTuple):
    """Segments from the first layer on, as the last one and the path ``before`` it.

    ``key``: the weighted sum that is to be least, energy and cycles.
    """

    key: tuple[float, float, float]
    segment: CountedSegment
    before: _Path | None

    @staticmethod
    def of(cost: Cost, weights: tuple[float, float], segment: CountedSegment, before: _Path | None) -> _Path:
        return _Path((weights[0] * cost.energy_pj + weights[1] * cost.cycles, *cost), segment, before)

    def with_cost(self, more: Cost, weights: tuple[float, float], segment: CountedSegment) -> _Path:
        """The path with one more segment, which costs ``more``."""
        _, energy, cycles = self.key
        return _Path.of(Cost(energy + more.energy_pj, cycles + more.cycles), weights, segment, self)

    @property
    def chain(self) -> SegmentChain:
        segments: list[TreeNode] = []
        at: _Path | None = self
        while at is not None:
            segments.append(at.segment.node)
            at = at.before
        return SegmentChain(Cost(*self.key[1:]), tuple(segments[::-1]))
