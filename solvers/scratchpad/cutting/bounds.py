"""Bytes that every plan moves, however the graph is cut: what barriers and frontiers prove together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costmodel.scratchpad.divisions import DivisibleGraph
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.cutting.barriers import barrier_proofs
from solvers.scratchpad.cutting.frontiers import Live, LiveWindow, Rows, thinned
from solvers.scratchpad.cutting.proofs import Proof, added_up, moved_bytes
from solvers.scratchpad.cutting.recomputed import Recomputable, least_live

MOST_EDGES = 24
"""Positions of the order at which windows begin and end."""
FEW_OPERATORS = 200
"""Up to so many the whole order is looked at before parts of it."""


class CutBounds(NamedTuple):
    """Bytes that every plan of every cut moves, and every plan of a cut that makes nothing twice."""

    all_cuts: int
    made_once: int


def bounds_of_cuts(divisible: DivisibleGraph, capacity: int, in_time: InTime = always_in_time) -> CutBounds:
    """What plans move in so many bytes of scratchpad.

    What is not proven when the time is up is left out, which makes a bound lower, never wrong.
    """
    barriers = barrier_proofs(divisible, capacity)
    in_all, once = list[Proof](), list[Proof]()
    for proof, of_all in _frontiers(divisible, capacity, in_time):
        (in_all if of_all else once).append(proof)
    return CutBounds(*(_together(divisible, barriers, own) for own in (in_all, [*in_all, *once])))


def _together(divisible: DivisibleGraph, barriers: Sequence[Proof], frontiers: Sequence[Proof]) -> int:
    together = added_up(divisible.whole, [*barriers, *frontiers])
    # the barriers' tensors may lie between one another's in the order, where adding up spans leaves some out
    return max(together, sum(proof.moved for proof in barriers))


def _frontiers(divisible: DivisibleGraph, capacity: int, in_time: InTime) -> Iterator[tuple[Proof, bool]]:
    """What windows of the order prove, and whether that holds for plans that recompute, too.

    Windows within those that prove nothing are left out.
    """
    rows, recomputable, edges = Rows(divisible), Recomputable(divisible), _edges(divisible)
    every = recomputable.always_kept | recomputable.tensors
    count = len(edges) - 1
    waiting, seen = [(0, count)], set[tuple[int, int]]()
    if len(divisible.divisions) > FEW_OPERATORS:
        # cuts of the whole take seconds each round: first windows of a quarter and of a half
        eighths = [count * part // 8 for part in range(9)]
        waiting = [
            (eighths[n], eighths[n + span]) for span in (2, 4, 8) for n in range(0, 9 - span, span // 2)
        ]
    while waiting and in_time():
        first, end = waiting.pop(0)
        if (first, end) in seen or end <= first:
            continue
        seen.add((first, end))
        window = LiveWindow(rows, edges[first], edges[end])
        once = window.live(every, Live(8 * capacity), in_time)
        always = least_live(window, recomputable, once, 8 * capacity, in_time)
        for bits, of_all in ((once.bits, False), (always, True)):
            if moved := moved_bytes(divisible, window.tensors, -(-bits // 8) - capacity):
                yield Proof(moved, frozenset(window.tensors)), of_all
        if once.bits > 8 * capacity:
            half, third = -(-(end - first) // 2), -(-2 * (end - first) // 3)
            middle = first + (end - first - half) // 2
            waiting += [(first, first + third), (end - third, end)]
            waiting += [(first, first + half), (middle, middle + half), (end - half, end)]


def _edges(divisible: DivisibleGraph) -> list[int]:
    """Where windows may begin and end: behind operators whose output several others read, or anywhere."""
    graph = divisible.whole
    count = len(graph.operators)
    found = [
        n + 1
        for n, own in enumerate(graph.operators)
        if any(len(graph.consumers[t]) > 1 for t in own.outputs)
    ]
    if len(found) < MOST_EDGES // 4:
        found = list(range(1, count))
    return sorted({0, count, *thinned(found, MOST_EDGES)})
