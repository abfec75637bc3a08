"""Runs of operators that are cut alike: a search for which runs, and how each is cut.

The operators stand in one order. A run of neighbours in it is cut in one way (:class:`Way`): by rows that are
kept, by rows that are recomputed, or by channels, into bands of at most so many bytes. The pieces of a run
go depth first, and the next run begins when all of them are done::

    order   conv1 pool1 | conv2 conv3 conv4 add1 | conv5 ...
    run      rows       |  recomputed            |  channels

Every run is played through from what the runs before it left in the scratchpad: where a piece does not fit,
the band that is used again the latest leaves. For each end of a run the cheapest way there is kept, so that
cuts, sizes and runs are decided together, after what they cost. What comes out is a cut and an order; the
solver of the cut graph looks for better orders and replacements itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Literal, NamedTuple

import numpy as np

from costmodel.limits import limit_reached
from costmodel.scratchpad.cut import TensorCut, may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, Extent
from solvers.budget import InTime
from solvers.scratchpad.cutting.run_tables import PLAYED, TOO_SMALL, division_tables, run_cuts, run_work

Axis = Literal["rows", "channels"]

LEAST_WORK = 1 << 15
"""Bands, pieces and entries that the workspace has room for at first."""
MOST_WORK = 1 << 20
"""A run that needs more is not tried."""
MOST_PIECES = 40_000
"""Pieces of all runs together, of which the cut graph is made and planned in the end."""
NO_LIMIT = 1 << 60
"""More bytes than any plan moves."""


class Way(NamedTuple):
    """Bands of at most ``most_bytes`` along ``axis``, and along the other one, too, where a single row or
    channel has more than ``most_single`` bytes; channels also so that parts of the parameters have at most
    twice as many.

    ``recomputed``: tensors that one operator of the run reads have rows for each band of its output; along
    channels in so many bands each, of which one is made, read and left before the next.
    """

    axis: Axis
    most_bytes: int
    most_single: int
    recomputed: bool = False

    def cut(self, extent: Extent, size_bytes: int, parameters: int = 0) -> TensorCut:
        """The bands of a tensor; ``parameters``: bytes of those that make it, which its channels divide."""
        wanted = max(1, -(-size_bytes // max(self.most_bytes, 1)))
        single = max(self.most_single, 1)
        weighed = min(extent.channels, max(1, -(-parameters // (2 * single))))
        if self.axis == "rows":
            rows = min(wanted, extent.rows)
            further = -(-size_bytes // extent.rows // single) if wanted > extent.rows else 1
            return TensorCut(rows, max(min(further, extent.channels), weighed))
        channels = min(max(wanted, weighed), extent.channels)
        further = -(-size_bytes // extent.channels // single) if wanted > extent.channels else 1
        return TensorCut(min(max(1, further), extent.rows), channels)


class Left(NamedTuple):
    """What the runs so far left: bytes moved, multiply-accumulates, pieces, the cuts of the tensors that are
    still to be read, and of their bands, one tensor after the other, which are in the scratchpad and which
    have a copy with the host (bits of :mod:`.run_tables`)."""

    moved: int
    macs: int
    pieces: int
    cuts: dict[int, TensorCut]
    flags: bytes

    @property
    def cost(self) -> tuple[int, int, int]:
        """What is compared: bytes first, then work, then pieces."""
        return self.moved, self.macs, self.pieces

    def leaves_as(self, other: Left) -> bool:
        """Whether what comes costs the same behind both."""
        return self.flags == other.flags and self.cuts == other.cuts

    def dearer(self, before: Left, after: Left) -> Left:
        """The same by a way that costs as much more as ``after`` costs more than ``before``."""
        own = zip(self.cost, after.cost, before.cost, strict=True)
        moved, macs, pieces = (mine + now - then for mine, now, then in own)
        return self._replace(moved=moved, macs=macs, pieces=pieces)


NOTHING = Left(0, 0, 0, {}, b"")


@dataclass(frozen=True)
class CutRun:
    """Operators ``order[first:end]`` cut in one way."""

    first: int
    end: int
    way: Way


class Cutting(NamedTuple):
    """A cut of a graph in the order of its runs: by tensors' names, each operator's run, and the cost."""

    divisible: DivisibleGraph
    cuts: dict[str, TensorCut]
    stages: tuple[int, ...]
    moved: int
    macs: int


class RunSearch:
    """The search over the runs of a graph in the order of its operators.

    :meth:`grow` finds runs from nothing, :meth:`improve` cuts some of their operators in another way.
    """

    def __init__(self, divisible: DivisibleGraph, capacity: int, in_time: InTime) -> None:
        self.divisible, self.capacity, self.in_time = divisible, capacity, in_time
        self.graph = divisible.whole
        self.count = len(self.graph.operators)
        self._may_recompute = [may_recompute(divisible, t) for t in range(len(self.graph.tensors))]
        self._macs = [0, *accumulate(division.macs for division in divisible.divisions)]
        """By position the multiply-accumulates of the operators before it, where none is recomputed."""
        self._tables = division_tables(divisible)
        self._work = run_work(len(self.graph.tensors), LEAST_WORK)
        from solvers.scratchpad.cutting.run_kernel import play  # imports numba, which takes a while

        self._play = play
        self._cut_by: dict[tuple[Way, int], TensorCut] = {}
        self.runs: list[CutRun] = []
        self.reached: list[Left] = []
        """What is left before each of the runs, and after the last."""

    @property
    def cost(self) -> tuple[float, float, float]:
        """Bytes moved, multiply-accumulates and pieces of the best runs so far."""
        return self.reached[-1].cost if self.reached else (inf, inf, inf)

    def try_runs(self, runs: Sequence[CutRun]) -> bool:
        """Take these runs if they cost less than the best so far; whether they do."""
        same = 0
        while same < min(len(runs), len(self.runs)) and runs[same] == self.runs[same]:
            same += 1
        alike = 0
        while alike < min(len(runs), len(self.runs)) - same and runs[-1 - alike] == self.runs[-1 - alike]:
            alike += 1
        reached = self.reached[: same + 1] if self.reached else [NOTHING]
        for number, run in enumerate(runs[same:], start=same + 1):
            # what came late is no better than what is there, but without anything a first answer is due
            after = self._through(reached[-1], run, self.cost[0])
            if after is None or (self.reached and not self.in_time()):
                return False
            reached.append(after)
            if 0 < len(runs) - number <= alike:
                before = self.reached[len(self.runs) - len(runs) + number]
                if after.moved - before.moved >= 2 * self.capacity:
                    return False  # the scratchpad holds nothing that could make up for it
                if after.leaves_as(before):
                    # from here on all is as in the best runs
                    reached += [
                        left.dearer(before, after) for left in self.reached[-1 - len(runs) + number :][1:]
                    ]
                    break
        if reached[-1].cost >= self.cost or reached[-1].pieces > MOST_PIECES:
            return False
        self.runs, self.reached = list(runs), reached
        return True

    def grow(
        self, ways: Sequence[Way], edges: Sequence[int], lengths: Sequence[int], in_time: InTime
    ) -> None:
        """Find the cheapest way to the end of each run from those to its beginning; take what is found.

        Runs begin and end at ``edges``, positions of the order from its beginning to its end, and go over
        ``lengths`` of them. Nothing is found where an operator fits in none of the ways. Where the time is up
        before the end, the best runs so far follow what was found.
        """
        count = len(edges) - 1
        found: list[tuple[Left, list[CutRun]] | None] = [(NOTHING, []), *[None] * count]
        for first in range(count):
            if (begun := found[first]) is None:
                continue
            left, runs = begun
            for last in (first + length for length in lengths if first + length <= count):
                for way in ways:
                    known, run = found[last], CutRun(edges[first], edges[last], way)
                    if known is not None and known[0].cost <= (left.moved, self._macs[run.end], 0):
                        continue
                    if not in_time():
                        self.try_runs([*runs, *_behind(self.runs, run.first)])
                        return
                    most = self.cost[0] if known is None else known[0].moved
                    after = self._through(left, run, most)
                    if after is not None and (known is None or after.cost < known[0].cost):
                        found[last] = (after, [*runs, run])
            found[first] = None
        if (reached := found[-1]) is not None:
            self.try_runs(reached[1])

    def improve(self, ways: Sequence[Way], lengths: Sequence[int], target: float) -> None:
        """Cut windows of the order in other ways, as long as that gains and there is time.

        ``target``: bytes with which the search ends, a proven bound.
        """
        gained = True
        while gained and self.runs and self.cost[0] > target:
            gained = False
            for length in lengths:
                for first in range(0, self.count - length + 1, max(1, length // 2)):
                    for way in ways:
                        if not self.in_time() or self.cost[0] <= target:
                            return
                        gained |= self.try_runs(_with_window(self.runs, CutRun(first, first + length, way)))

    def cutting(self) -> Cutting | None:
        """The cut and the order of the best runs; None where there are none."""
        if not self.runs:
            return None
        cuts: dict[int, TensorCut] = {}
        stages = [0] * self.count
        for number, run in enumerate(self.runs):
            cuts |= self._cuts(run, cuts)
            for position in range(run.first, run.end):
                stages[position] = number
        named = {self.graph.tensors[t].name: cut for t, cut in cuts.items() if cut != TensorCut()}
        left = self.reached[-1]
        return Cutting(self.divisible, named, tuple(stages), left.moved, left.macs)

    def _cuts(self, run: CutRun, before: dict[int, TensorCut]) -> dict[int, TensorCut]:
        """The cuts of the tensors that the run makes, and of inputs of the network that it reads first."""
        found: dict[int, TensorCut] = {}
        for position in range(run.first, run.end):
            operator = self.graph.operators[position]
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor in before or tensor in found:
                    continue
                cut = self._cut_by.get((run.way, tensor)) or self._cut(run.way, tensor)
                if run.way.recomputed and self._may_recompute[tensor] and self._inside(tensor, run):
                    channels = cut.channels if run.way.axis == "channels" else 1
                    cut = TensorCut(channels=channels, recomputed=True)
                found[tensor] = cut
        return found

    def _inside(self, tensor: int, run: CutRun) -> bool:
        """Whether the run makes a tensor that one operator of it reads, and no other one."""
        maker, readers = self.graph.producers[tensor], self.graph.consumers[tensor]
        return maker is not None and maker >= run.first and len(readers) == 1 and readers[0] < run.end

    def _cut(self, way: Way, tensor: int) -> TensorCut:
        """The bands of a tensor that is not recomputed; the same are asked for again and again."""
        maker = self.graph.producers[tensor]
        held = 0 if maker is None else self.graph.operators[maker].parameter_bytes
        size = self.graph.tensors[tensor].traffic_bytes
        found = self._cut_by[way, tensor] = way.cut(self.divisible.extents[tensor], size, held)
        return found

    def _through(self, left: Left, run: CutRun, most: float) -> Left | None:
        """What is left after the run; None where it does not fit, or moves more than ``most``."""
        cuts = left.cuts | self._cuts(run, left.cuts)
        own = run_cuts(cuts, np.frombuffer(left.flags, dtype=np.uint8))
        limit = int(min(most, NO_LIMIT))
        span = (run.first, run.end)
        while True:
            played = self._play(self._tables, own, self._work, *span, self.capacity, left.moved, limit)
            if played != TOO_SMALL or len(self._work.tensor) > MOST_WORK:
                break
            self._work = run_work(len(self.graph.tensors), 2 * len(self._work.tensor))
        if played != PLAYED:
            return None
        moved, macs, flags, pieces = map(int, self._work.result)
        if left.pieces + pieces > MOST_PIECES:
            limit_reached("pieces of a cut", MOST_PIECES, "finer cuts were not tried")
            return None
        readers = self.graph.consumers
        later = {t: cut for t, cut in cuts.items() if readers[t] and readers[t][-1] >= run.end}
        return Left(moved, left.macs + macs, left.pieces + pieces, later, self._work.flags[:flags].tobytes())


def _with_window(runs: Sequence[CutRun], window: CutRun) -> list[CutRun]:
    """The runs with another one in their midst; of the runs that it cuts into the rest stays as it is."""
    before = [replace(run, end=min(run.end, window.first)) for run in runs if run.first < window.first]
    return [*before, window, *_behind(runs, window.end)]


def _behind(runs: Sequence[CutRun], position: int) -> list[CutRun]:
    """What of some runs is behind a position."""
    return [replace(run, first=max(run.first, position)) for run in runs if run.end > position]
