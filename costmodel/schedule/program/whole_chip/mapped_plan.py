"""Plans what every tile does, step by step, where a layer is mapped on the whole chip.

All tiles go through the same steps, each with its own part of the data. So the plan is made once, in terms of
*pieces*: boxes of a tensor whose positions count from the first element of the tile.

A *step* is one iteration of DRAM's temporal loops. The data fetched in it is the data that the cost model
counts (:mod:`costmodel.schedule.whole_chip.steps`). A buffer has to hold the mapping's tiles and no more, so
there may be no bytes for the next step's data beside them. That data can still come during this step, in the
bytes of data that is no longer needed. For that a step is cut into *parts*, the iterations of the outermost
loops inside the tile. A piece is the data that is first needed in one part and last needed in another one;
after that its bytes are free.

    step                 | 0                 | 1                 |
    part                 | 0    1    2    3  | 0    1    2    3  |
    weights, cut by K    | k0   k1   k2   k3 | k0'  k1'  k2'  k3'|    k0 leaves after part 0, and k0' comes
    inputs               | i    i    i    i  | i'   i'   i'   i' |

Each tensor has a region of the buffer to itself. The region has bytes for the tensor's tile, and up to as
many again as the tiles leave free (:func:`costmodel.schedule.whole_chip.steps.regions`). Pieces come as early
as their region has bytes for them, but at most one step ahead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.counts.traffic import StridedLoop, nest_of
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.program.addresses import Occupancy, addresses
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.steps import FetchedBoxes, fetched_boxes, regions, starts
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]
PARTS = 8
"""The least number of parts of a step where the buffer cannot hold the data of two steps; fewer if the loops
allow no more."""
MOST_STEPS = 200_000
"""The most parts of all steps together that are planned, which bounds the time: some seconds of work."""


class Piece(NamedTuple):
    """A box of a tensor that is in the buffer from one part to another; parts of all steps are counted on."""

    tensor: int
    begin: tuple[int, ...]
    """Its first element along each axis, counted from the tile's first one."""
    end: tuple[int, ...]
    """The element behind its last one."""
    first: int
    """The part that needs it first; outputs are begun there."""
    last: int
    """The part that needs it last."""
    size: int = 0
    """Bits."""
    before: int = -1
    """For outputs that were stored and have to be loaded again, the piece that was stored; else -1."""
    offset: int = -1
    """The first bit in its tensor's region, if that follows from the box (:class:`_Ring`); else -1."""


class PlannedPart(NamedTuple):
    """What a tile does around the compute of one part, by numbers of pieces and in this order.

    It frees ``freed_before`` and takes in ``needed``. It computes, reading ``reads``, and stores ``stores``.
    It takes in ``ahead``, which later parts need and for which there are bytes already. It frees ``freed``
    and takes in ``later``, for which there are bytes then.
    """

    freed_before: tuple[int, ...]
    needed: tuple[int, ...]
    reads: tuple[int, ...]
    stores: tuple[int, ...]
    ahead: tuple[int, ...]
    freed: tuple[int, ...]
    later: tuple[int, ...]


@dataclass(frozen=True)
class MappedPlan:
    """The plan of a mapping.

    The steps of the inner loops are done again in every iteration of the loops ``around`` them, with boxes
    that lie further on. A *time* is one such iteration.
    """

    pieces: tuple[Piece, ...]
    """All pieces of all times. ``parts`` name the pieces of the first time, which stand for those of the
    later ones, and pieces that come once."""
    once: frozenset[int]
    """The pieces that come in a single time only."""
    around: tuple[StridedLoop, ...]
    """The loops around, innermost first."""
    address: dict[int, int | float]
    """By piece: its first bit in the buffer."""
    parts: tuple[PlannedPart, ...]
    """The parts of all times, one time after the other."""
    begin: Array
    """[parts of one time, dims]: the first point that each part computes, counted from the tile's first."""
    extent: Array
    """[dims]: how many points each part computes along each dim."""


@dataclass(frozen=True)
class LoopsAroundBuffer:
    """The loops of an even mapping of ``nest``: those around a tile's buffer, and those that may cut steps.

    ``bits``: of an element of each tensor. ``fixed``: dims along which iterations need boxes of different
    shapes, or data from different sources. A loop over such a dim is never repeated.
    """

    nest: Layer
    mapping: Mapping
    bits: tuple[int, ...]
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for tensor in self.nest.tensors:
            if tensor.name not in self.mapping.levels[-2].keep:
                raise NotPossibleError(
                    f"{self.nest.name}: no program for a mapping whose buffers do not keep the {tensor.name}"
                )
            if tensor.is_output and tensor.slides:
                raise NotPossibleError(f"{self.nest.name}: no program for outputs that overlap")

    @property
    def outer(self) -> list[StridedLoop]:
        """The loops over steps, innermost first."""
        return nest_of(self.mapping).temporal[-1]

    @property
    def tile(self) -> dict[str, int]:
        """Points of each dim in one step of a tile."""
        return {dim: self.mapping.tiles[-2].get(dim, 1) for dim in self.nest.sizes}

    def divided(self) -> tuple[list[StridedLoop], list[StridedLoop]]:
        """The loops over steps that are written out, and the loops around them, which repeat these steps.

        In all iterations of the loops around, boxes have the same sizes, and no outputs of an earlier
        iteration come again. At least two steps are written out: the data of one comes while that of the
        other is in use, so they lie at different addresses.
        """
        inner = self.outer
        around: list[StridedLoop] = []
        for loop in reversed(self.outer):
            if not self._repeats(loop.dim):
                break
            inner.pop()
            if inner:
                around.insert(0, loop)
                continue
            turns = next(one for one in range(2, loop.bound + 1) if loop.bound % one == 0)
            inner = [StridedLoop(loop.dim, turns, loop.inner)]
            if turns < loop.bound:
                around.insert(0, StridedLoop(loop.dim, loop.bound // turns, loop.inner * turns))
        return inner, around

    def _repeats(self, dim: str) -> bool:
        """Whether a loop over ``dim`` may repeat the steps inside of it.

        It may not where outputs do not move with the dim, as they would come again, nor where windows slide
        along an axis, of which one box keeps some elements of the one before.
        """
        if dim in self.fixed:
            return False
        for tensor in self.nest.tensors:
            if tensor.is_output and dim not in tensor.dims:
                return False
            if any(dim in dict(axis) and len(axis) > 1 for axis in tensor.terms):
                return False
        return True

    def cutting(self, least: int) -> list[StridedLoop]:
        """Loops that cut a step into at least ``least`` parts, innermost first; fewer parts if there are
        none.

        They are the outermost temporal loops below the buffer. A loop over a dim that a fan-out outside of it
        spreads ends the search: an iteration of it is not one box, but a box for each instance of the
        fan-out.
        """
        found: list[StridedLoop] = []
        spread: set[str] = set()
        rest = self.tile
        for level in reversed(self.mapping.levels[:-1]):
            for dim, bound in reversed(level.temporal):
                parts = prod(loop.bound for loop in found)
                if parts >= least or dim in spread:
                    return found
                factor = _factor(bound, -(-least // parts))
                rest[dim] //= factor
                found.insert(0, StridedLoop(dim, factor, rest[dim]))
                if factor < bound:
                    return found
            spread |= {dim for dim, _ in level.spatial}
        return found


def _factor(bound: int, least: int) -> int:
    """The smallest divisor of ``bound`` that is at least ``least``; ``bound`` itself if it is less."""
    return next((one for one in range(1, bound + 1) if bound % one == 0 and one >= least), bound)


def planned(stack: LoopsAroundBuffer, capacity: int) -> MappedPlan:
    """The plan of a mapping in a buffer of ``capacity`` bits; NotPossibleError where none was found."""
    outer = stack.outer
    held = sum(regions(stack.nest, stack.mapping, stack.bits, 0))
    twice = sum(regions(stack.nest, stack.mapping, stack.bits, 2 * held))
    if held > capacity:
        raise NotPossibleError(
            f"{stack.nest.name}: its tiles take {held // 8:,} bytes, and {capacity // 8:,} of a buffer are "
            "beside the outputs on their way out"
        )
    cuts = stack.cutting(PARTS) if twice > capacity else []
    steps, parts = prod(loop.bound for loop in outer), prod(loop.bound for loop in cuts)
    if steps * parts > MOST_STEPS:
        raise NotPossibleError(
            f"{stack.nest.name}: {steps * parts:,} steps on a tile, at most {MOST_STEPS:,}"
        )
    inner, around = stack.divided()
    # The more data comes ahead, the harder it is to find addresses for it. So less comes ahead where none are
    # found: first all that fits, then half of it, then nothing.
    for ahead in (1.0, 0.5, 0.0):
        sizes = regions(stack.nest, stack.mapping, stack.bits, capacity, ahead)
        walk = _StepWalk(stack, inner, around, cuts, sizes)
        if not walk.alike:
            walk = _StepWalk(stack, outer, [], cuts, sizes)
        found = walk.plan()
        if found is not None:
            return found
    raise NotPossibleError(f"{stack.nest.name}: no addresses were found for its tiles of {held // 8:,} bytes")


class _StepWalk:
    """Goes through the steps of a mapping: ``inner`` loops are written out, those ``around`` repeat them.

    ``sizes``: bits of each tensor's region of the buffer.

    ``pieces``: of all steps of all times. ``alias``: for each piece, the piece of the first time that it
    repeats, or itself. ``alike``: whether each piece of the first time comes in every time or only once; if
    not, the plan has to write out all steps.
    """

    def __init__(
        self,
        stack: LoopsAroundBuffer,
        inner: Sequence[StridedLoop],
        around: Sequence[StridedLoop],
        cuts: Sequence[StridedLoop],
        sizes: Sequence[int],
    ) -> None:
        self.stack, self.around, self.cuts, self.sizes = stack, tuple(around), cuts, sizes
        self.outer = [*inner, *around]
        self.parts = prod(loop.bound for loop in cuts)
        self.inner_steps = prod(loop.bound for loop in inner)
        self.steps = prod(loop.bound for loop in self.outer)
        self.inside = stack.tile
        for loop in cuts:
            self.inside[loop.dim] //= loop.bound
        self.pieces: list[Piece] = []
        self.alias: list[int] = []
        self.reads: dict[int, list[int]] = defaultdict(list)
        for number, tensor in enumerate(stack.nest.tensors):
            self._cut(number, tensor)
        times = Counter(self.alias)
        repeats = prod(loop.bound for loop in around)
        self.once = frozenset(alias for alias, count in times.items() if count == 1 and repeats > 1)
        self.alike = all(count in (1, repeats) for count in times.values())

    def _cut(self, number: int, tensor: Tensor) -> None:
        """The pieces of one tensor, in the order in which they come."""
        extents = np.array(tensor.extents(self.stack.tile), np.int64)
        needed = np.array(tensor.extents(self.inside), np.int64)
        fetched, offsets = fetched_boxes(tensor, extents.tolist(), self.outer), starts(tensor, self.cuts)
        shifts = starts(tensor, self.around)
        until = [*fetched.step[1:].tolist(), self.steps]
        stored: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        first_time: dict[tuple[Any, ...], int] = {}
        bits = self.stack.bits[number]
        ring = _Ring.of(fetched, extents, self.sizes[number] // bits)
        for index, step in enumerate(fetched.step.tolist()):
            if ring is not None and fetched.whole[index]:
                ring.begin(fetched.start[step])
            for cell in product(*self._grid(fetched, index, offsets, ring)):
                begin, end = tuple(a for a, _ in cell), tuple(b for _, b in cell)
                low, high = np.array(begin), np.array(end)
                # The piece is kept for as long as the boxes of later steps move on and still contain it.
                last = index
                while last + 1 < len(until) and not fetched.whole[last + 1]:
                    if (low < fetched.start[fetched.step[last + 1]]).any():
                        break
                    last += 1
                uses = [
                    at * self.parts + part
                    for at in range(step, until[last])
                    for part in _needing(low, high, fetched.start[at] + offsets, needed)
                ]
                uses = uses or [step * self.parts]
                own, time = len(self.pieces), step // self.inner_steps
                before = -1
                if tensor.is_output:
                    before = stored.get((begin, end), -1)
                    stored[begin, end] = own
                key = (
                    tuple((low - shifts[time]).tolist()),
                    tuple((high - shifts[time]).tolist()),
                    uses[0] - time * self.inner_steps * self.parts,
                    len(uses),
                )
                self.alias.append(first_time.setdefault(key, own))
                before = before if before < 0 else self.alias[before]
                offset = -1 if ring is None else ring.offset(low, high) * bits
                size = int((high - low).prod()) * bits
                self.pieces.append(Piece(number, begin, end, uses[0], uses[-1], size, before, offset))
                for part in uses:
                    self.reads[part].append(own)

    @staticmethod
    def _grid(
        fetched: FetchedBoxes, index: int, offsets: Array, ring: _Ring | None
    ) -> list[list[tuple[int, int]]]:
        """The intervals along each axis into which a fetched box is cut.

        It is cut where the boxes of parts and of later steps begin, so that every piece is needed, or not
        needed, as a whole; and where a ring begins anew, so that every piece has its bytes in one run.
        """
        first, end = fetched.first[index], fetched.end[index]
        points = [fetched.start[fetched.step[index]] + offsets]
        for later in range(index + 1, len(fetched.step)):
            begin = fetched.start[fetched.step[later]]
            if fetched.whole[later] or (begin >= end).any():
                break
            points.append(begin + offsets)
        found = []
        for axis, own in enumerate(np.concatenate(points).T):
            if ring is not None and axis == ring.axis:
                own = np.append(own, ring.ends(int(end[axis])))
            inside = np.unique(own[(own > first[axis]) & (own < end[axis])]).tolist()
            edges = [int(first[axis]), *inside, int(end[axis])]
            found.append(list(pairwise(edges)))
        return found

    def plan(self) -> MappedPlan | None:
        """The plan; None where no addresses were found."""
        outputs = [self.stack.nest.tensors[piece.tensor].is_output for piece in self.pieces]
        ends: dict[int, list[int]] = defaultdict(list)
        for number, piece in enumerate(self.pieces):
            ends[piece.last].append(number)
        buffer = [_Region(self, tensor, size) for tensor, size in enumerate(self.sizes)]
        parts: list[PlannedPart] = []
        for part in range(self.steps * self.parts):
            own = [region.need(part + 1) for region in buffer]
            freed_before, needed = (list(chain(*(one[which] for one in own))) for which in range(2))
            # One step ahead and no further: what comes later would take DRAM's time from what is needed
            # first, as transfers that are issued together take turns.
            horizon = part + 1 + self.parts
            ahead = self._taken(buffer, horizon)
            done = [self.alias[number] for number in ends[part] if not outputs[number]]
            stores = [self.alias[number] for number in ends[part] if outputs[number]]
            for alias in done:
                buffer[self.pieces[alias].tensor].occupancy.leave([alias])
            for alias in stores:
                buffer[self.pieces[alias].tensor].stored.append(alias)
            later = self._taken(buffer, horizon)
            reads = [
                self.alias[number]
                for number in self.reads[part]
                if not outputs[number] or self.pieces[number].before >= 0
            ]
            parts.append(PlannedPart(*map(tuple, (freed_before, needed, reads, stores, ahead, done, later))))
        stored = [alias for one in buffer for alias in one.stored]
        parts[-1] = parts[-1]._replace(freed=(*parts[-1].freed, *stored))
        address: dict[int, int | float] = {}
        first = 0
        for region in buffer:
            found, size = region.addresses(first), region.size
            if found is None:
                return None
            address, first = address | found, first + size
        return MappedPlan(
            tuple(self.pieces),
            self.once,
            self.around,
            address,
            tuple(parts),
            self._begins(),
            np.array(list(self.inside.values()), np.int64),
        )

    def _taken(self, buffer: Sequence[_Region], end: int) -> list[int]:
        """The pieces for which regions have bytes already, in the order in which parts need them.

        ``end``: the part before which a piece has to be needed first.
        """
        taken = [number for region in buffer for number in region.take(end)]
        return [self.alias[number] for number in sorted(taken, key=lambda one: (self.pieces[one].first, one))]

    def _begins(self) -> Array:
        """The first point of each part of one time: [parts, dims]."""
        dims = list(self.stack.nest.sizes)
        found = np.zeros((1, len(dims)), np.int64)
        for loop in [*self.cuts, *self.outer[: len(self.outer) - len(self.around)]]:
            step = np.array([loop.inner * (dim == loop.dim) for dim in dims], np.int64)
            found = (np.arange(loop.bound)[:, None, None] * step + found[None]).reshape(-1, len(dims))
        return found


class _Region:
    """The region of one tensor in a tile's buffer, while a plan is made.

    Pieces come in the order in which they are needed. ``head``: how many have come. ``stored``: outputs that
    are leaving; they keep their bytes until other pieces need these.
    """

    def __init__(self, walk: _StepWalk, tensor: int, size: int) -> None:
        self.walk, self.size = walk, size
        own = [number for number, piece in enumerate(walk.pieces) if piece.tensor == tensor]
        self.order = sorted(own, key=lambda number: (walk.pieces[number].first, number))
        self.occupancy = Occupancy({walk.alias[number]: walk.pieces[number].size for number in own})
        self.head, self.stored = 0, list[int]()

    def need(self, end: int) -> tuple[list[int], list[int]]:
        """Take in all pieces whose first part is before ``end``: the pieces freed for them, then these."""
        freed: list[int] = []
        taken: list[int] = []
        while (number := self._next(end)) is not None:
            if self.walk.pieces[number].offset >= 0 and not self._fits(number):
                raise RuntimeError(f"piece {number} has no free bytes at its offset")
            while self.stored and not self._fits(number):
                first = next(iter(self._in_the_way(number)), self.stored[0])
                self.stored.remove(first)
                self.occupancy.leave([first])
                freed.append(first)
            taken.append(self.walk.alias[number])
            self.occupancy.arrive(self.walk.alias[number])
            self.head += 1
        return freed, taken

    def take(self, end: int) -> Iterator[int]:
        """Take in pieces whose first part is before ``end`` for as long as they fit; their own numbers."""
        while (number := self._next(end)) is not None and self._fits(number):
            self.occupancy.arrive(self.walk.alias[number])
            yield number
            self.head += 1

    def _next(self, end: int) -> int | None:
        """The next piece to come, if its first part is before ``end``."""
        if self.head == len(self.order) or self.walk.pieces[self.order[self.head]].first >= end:
            return None
        return self.order[self.head]

    def _fits(self, number: int) -> bool:
        """Whether there are bytes for a piece now: those at its offset, or any where it has none."""
        if self.walk.pieces[number].offset >= 0:
            return not any(self._overlap(number, other) for other in self.occupancy.live)
        free = self.size - self.occupancy.live_bytes
        if self.walk.pieces[number].size > free or self._in_the_way(number):
            return False
        return self.walk.alias[number] not in self.occupancy.live

    def addresses(self, first: int) -> dict[int, int | float] | None:
        """The address of each piece in the region, which begins at ``first``; None where none were found."""
        if self.order and self.walk.pieces[self.order[0]].offset >= 0:
            return {alias: first + self.walk.pieces[alias].offset for alias in self.occupancy.messages}
        return addresses(self.occupancy, first, first + self.size)

    def _overlap(self, number: int, other: int) -> bool:
        one, two = self.walk.pieces[number], self.walk.pieces[other]
        return one.offset < two.offset + two.size and two.offset < one.offset + one.size

    def _in_the_way(self, number: int) -> list[int]:
        """The stored outputs that have to be freed before a piece comes: its own ones of an earlier step."""
        gone = self.walk.pieces[number].before, self.walk.alias[number]
        return [one for one in self.stored if one in gone]


@dataclass
class _Ring:
    """The addresses of a tensor whose boxes move along one axis and keep the elements that they share.

    A *row* is all elements of a box with one index along ``axis``; it has ``width`` elements. The region has
    ``length`` slots, each for a row. The first row of a box that comes whole goes to slot 0, and every row
    after it to the next slot; after the last slot comes slot 0 again, which holds the oldest row::

        slot    0   1   2   3
        rows    0   1   2   3      the box has rows 0 to 2, row 3 comes ahead
                4   1   2   3      the box has rows 2 to 4

    A tensor that is cut along other axes, too, has such slots for each interval along these.
    """

    axis: int
    length: int
    width: int
    extents: Array
    start: Array

    @staticmethod
    def of(fetched: FetchedBoxes, extents: Array, size: int) -> _Ring | None:
        """The ring of a tensor in a region of ``size`` elements; None where boxes come whole each time."""
        if fetched.whole.all():
            return None
        some = int(np.argmin(fetched.whole))
        at = fetched.start[fetched.step[some]]
        (axis,) = np.flatnonzero(at - fetched.start[fetched.step[some] - 1])
        width = int(extents.prod() // extents[axis])
        return _Ring(int(axis), size // width, width, extents, at)

    def begin(self, start: Array) -> None:
        """Note that a box comes whole whose first element is ``start``."""
        self.start = start

    def ends(self, end: int) -> Array:
        """The rows before ``end`` that go to slot 0."""
        return np.arange(self.start[self.axis], end, self.length)

    def offset(self, begin: Array, end: Array) -> int:
        """The first element of a piece in the region: behind the intervals before it, by its first row."""
        behind, inside = 0, self.width
        for axis in range(len(begin)):
            if axis == self.axis:
                continue
            # Intervals that come before this one along this axis, with its own intervals along earlier axes.
            inside //= int(self.extents[axis])
            before = inside * int(begin[axis] - self.start[axis])
            for later in range(axis):
                if later != self.axis:
                    before *= int(end[later] - begin[later])
            behind += before
        row = prod(int(end[axis] - begin[axis]) for axis in range(len(begin)) if axis != self.axis)
        return behind * self.length + int(begin[self.axis] - self.start[self.axis]) % self.length * row


def _needing(begin: Array, end: Array, at: Array, size: Array) -> list[int]:
    """The parts of a step that need some of a piece; their boxes begin ``at`` [parts, axes]."""
    common = ((at < end) & (at + size > begin)).all(axis=1)
    found: list[int] = np.flatnonzero(common).tolist()
    return found
