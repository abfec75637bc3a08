"""Bytes that every plan moves, however the graph is cut: what barriers and frontiers prove together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costmodel.scratchpad.cut import may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.cutting.barriers import barrier_proofs
from solvers.scratchpad.cutting.frontiers import Live, LiveWindow, Rows, always_made, thinned
from solvers.scratchpad.cutting.proofs import Proof, added_up, moved_bytes
from solvers.scratchpad.cutting.recomputed import Recomputable, least_live
from solvers.scratchpad.cutting.strips import strips

MOST_EDGES = 24
"""Positions of the order at which windows begin and end."""
STRIPS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Strips into which rows are divided."""
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


class _Part:
    """A graph or a strip of it, and what it proves.

    Which tensors may be recomputed, and of which every row is made, is as in the whole graph.
    """

    def __init__(self, divisible: DivisibleGraph, recomputed: frozenset[int], made: frozenset[int]) -> None:
        self.divisible = divisible
        self.rows, self.recomputable = Rows(divisible, made), Recomputable(divisible, recomputed)

    def proven(
        self, span: tuple[int, int], capacity: int, in_time: InTime
    ) -> tuple[LiveWindow, dict[bool, int]]:
        """A window of the order, and bytes of its tensors that plans move: of all plans (True), and of those
        that make nothing twice (False)."""
        window = LiveWindow(self.rows, *span)
        every = self.recomputable.always_kept | self.recomputable.tensors
        once = window.live(every, Live(8 * capacity), in_time)
        always = least_live(window, self.recomputable, once, 8 * capacity, in_time)
        excess = {False: -(-once.bits // 8) - capacity, True: -(-always // 8) - capacity}
        return window, {
            of_all: moved_bytes(self.divisible, window.tensors, e) for of_all, e in excess.items()
        }


def _frontiers(divisible: DivisibleGraph, capacity: int, in_time: InTime) -> Iterator[tuple[Proof, bool]]:
    """What windows of the order prove, and whether that holds for plans that recompute, too.

    Windows within those that prove nothing are left out. Strips are tried where the whole proves anything.
    """
    recomputed = frozenset(t for t in range(len(divisible.extents)) if may_recompute(divisible, t))
    made = always_made(divisible)
    whole, edges = _Part(divisible, recomputed, made), _edges(divisible)
    count = len(edges) - 1
    waiting, seen = [(0, count)], set[tuple[int, int]]()
    if len(divisible.divisions) > FEW_OPERATORS:
        # cuts of the whole take seconds each round: first windows of a quarter and of a half
        eighths = [count * part // 8 for part in range(9)]
        waiting = [
            (eighths[n], eighths[n + span]) for span in (2, 4, 8) for n in range(0, 9 - span, span // 2)
        ]
    proving = list[tuple[tuple[int, int], frozenset[int], dict[bool, int]]]()
    while waiting and in_time():
        first, end = waiting.pop(0)
        if (first, end) in seen or end <= first:
            continue
        seen.add((first, end))
        span = (edges[first], edges[end])
        window, moved = whole.proven(span, capacity, in_time)
        tensors = frozenset(window.tensors)
        yield from ((Proof(own, tensors), of_all) for of_all, own in moved.items() if own)
        if moved[False]:
            proving.append((span, tensors, moved))
            half, third = -(-(end - first) // 2), -(-2 * (end - first) // 3)
            middle = first + (end - first - half) // 2
            waiting += [(first, first + third), (end - third, end)]
            waiting += [(first, first + half), (middle, middle + half), (end - half, end)]
    yield from _of_strips(whole, capacity, proving, in_time)


def _of_strips(
    whole: _Part,
    capacity: int,
    proving: Sequence[tuple[tuple[int, int], frozenset[int], dict[bool, int]]],
    in_time: InTime,
) -> Iterator[tuple[Proof, bool]]:
    """What the windows prove in strips, with more and more of them as long as they prove more."""
    left = list(proving)
    for parts in STRIPS:
        if not left or not in_time():
            return
        known = dict[DivisibleGraph, _Part]()
        sets = whole.recomputable.tensors, whole.rows.always_made
        own = [known.setdefault(strip, _Part(strip, *sets)) for strip in strips(whole.divisible, parts)]
        further = []
        for span, tensors, before in left:
            added, results = {False: 0, True: 0}, dict[_Part, dict[bool, int]]()
            for part in own:
                # strips are often the same graph
                if part not in results:
                    _, results[part] = part.proven(span, capacity, in_time)
                added = {of_all: moved + results[part][of_all] for of_all, moved in added.items()}
            yield from ((Proof(moved, tensors), of_all) for of_all, moved in added.items() if moved)
            if any(added[of_all] > before[of_all] for of_all in added):
                further.append((span, tensors, added))
        left = further


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
