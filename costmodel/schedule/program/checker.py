"""Checks programs. Nothing here knows of schedules: what a program says is all that counts.

A large program has millions of instructions, done tens of millions of times. So the instructions are listed
once as arrays (``listing.py``), what needs no order is counted on these, and a compiled loop runs the program
(``run_kernel.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.widths import in_bytes
from costmodel.schedule.program.listing import (
    COMPUTE,
    FREE,
    HOLD,
    LOAD,
    RECEIVE,
    SEND,
    STORE,
    Listing,
    boxes_of,
    laid_out,
)
from costmodel.schedule.program.part_data import elements
from costmodel.schedule.program.program import Box, LayerNest, Moves, Program, Work, box_at

if TYPE_CHECKING:
    from costmodel.schedule.program.run_kernel import Boxes, RunState, RunTables, Waits

Array = NDArray[Any]

MOST_REASONS = 20
"""How many reasons are given at most."""
OUTPUT_DIMS = ("N", "K", "P", "Q")
"""The dims of a nest that number samples, channels, rows and columns of its outputs."""
TRANSFERS = {LOAD: "load", RECEIVE: "receive", SEND: "send", STORE: "store"}


def violations(program: Program) -> list[str]:
    """Why a program cannot run, or does not compute its network once; empty if it does. At most 20 reasons.

    - Every message is issued by all its sources and targets, equally often, and by nobody else.
    - Data lies within the buffer, and no two messages at the same bytes while both are there.
    - A compute reads what was loaded or received before on its tile and not yet freed.
    - What leaves a tile is of the outputs of the compute before, once for each. What leaves from bytes that
      hold it leaves once, and those bytes are there.
    - The boxes of a layer cover its nest exactly once a batch.
    - Where partial sums are added, only these leave before, for the tile that adds them; outputs leave when
      all of them are added.
    - What is loaded from DRAM of a layer's outputs has been stored.
    - All tiles get to the end: nobody waits for what never comes.
    """
    listing = Listing.of(program)
    reasons = list(_numbers(program, listing))
    if reasons:  # what follows looks up messages and works by number
        return reasons[:MOST_REASONS]
    issued = _Issued(program, listing)
    reasons += issued.reasons()
    reasons += _coverage(program, listing)
    reasons += _gathered(program, listing)
    stored = _Stored(program)
    reasons += stored.reasons()
    if not reasons:
        reasons += _ProgramRun(program, listing, issued, stored).reasons()
    return reasons[:MOST_REASONS]


def _numbers(program: Program, listing: Listing) -> Iterator[str]:
    """Numbers that name nothing."""
    if len(program.tiles) != program.chip.tiles:
        yield f"{len(program.tiles)} tiles have instructions, the chip has {program.chip.tiles}"
    yield from _wrong_instructions(program, listing)
    messages = len(program.messages)
    for number, message in enumerate(program.messages):
        if wrong := [
            tile for tile in (*message.sources, *message.targets) if not 0 <= tile < program.chip.tiles
        ]:
            yield f"message {number}: tile {wrong[0]}, of {program.chip.tiles}"
        elif not message.sources and not message.targets:
            yield f"message {number}: from DRAM to DRAM"
        if wrong := [
            one for one in message.after if not 0 <= one < messages or program.messages[one].targets
        ]:
            yield f"message {number}: waits for message {wrong[0]}, which no tile stores"
        elif message.after and message.sources:
            yield f"message {number}: waits for stores, and does not come from DRAM"
        if elements(message.box) < 1 or message.size_bytes <= 0:
            yield f"message {number}: no elements"
        if message.sources and len(message.box) != len(OUTPUT_DIMS):
            yield f"message {number}: a box of {len(message.box)} axes, outputs have {len(OUTPUT_DIMS)}"
        axes = {len(message.box), *(len(by) for _, by in message.moves)}
        if len(axes | {len(program.messages[one].box) for one in message.after if one < messages}) > 1:
            yield f"message {number}: its box, moves and the stores that it waits for differ in their axes"
    nests = {nest.layer: nest for nest in program.layers}
    for number, work in enumerate(program.works):
        if len({len(work.box), *(len(by) for _, by in work.moves)}) > 1:
            yield f"work {number}: its box and moves differ in their axes"
        if work.layer not in nests:
            yield f"work {number}: of {work.layer}, which is no layer"


def _wrong_instructions(program: Program, listing: Listing) -> Iterator[str]:
    """Instructions that name messages or works that there are not."""
    messages, works = len(program.messages), len(program.works)
    code, number = listing.code, listing.number
    beyond_store = (np.diff(listing.reads_begin) > 1) & (code == STORE)
    for at in np.flatnonzero(beyond_store).tolist():
        yield f"tile {listing.tile[at]}: store of message {number[at]} from the bytes of several messages"
    wrong = (code < COMPUTE) | (code == FREE) | (code == HOLD)
    wrong &= (number < 0) | (number >= messages)
    wrong |= (code == COMPUTE) & ((number < 0) | (number >= works))
    unread = np.flatnonzero((listing.reads < 0) | (listing.reads >= messages))
    wrong[np.searchsorted(listing.reads_begin, unread, side="right") - 1] = True
    for at in np.flatnonzero(wrong).tolist():
        tile, item = listing.tile[at], listing.items[at]
        assert item is not None
        if item.operation != "compute":
            if not 0 <= item.message < messages:
                yield f"tile {tile}: {item.operation} of message {item.message}, of {messages}"
            elif item.reads:
                yield f"tile {tile}: store from the bytes of message {item.reads[0]}, of {messages}"
            continue
        if not 0 <= item.work < works:
            yield f"tile {tile}: compute of work {item.work}, of {works}"
        if beyond := [one for one in item.reads if not 0 <= one < messages]:
            yield f"tile {tile}: compute reads message {beyond[0]}, of {messages}"


class _Issued:
    """How often each tile issues each message, and whether that is what the messages say.

    A *slot* is a message on one of its tiles, where its data comes in or goes out: ``keys`` [slots] are
    numbers for (message, whether it goes out, tile), in their order.
    """

    def __init__(self, program: Program, listing: Listing) -> None:
        self._program, self._tiles = program, program.chip.tiles
        targets, counts = laid_out(message.targets for message in program.messages)
        sources, leaving = laid_out(message.sources for message in program.messages)
        numbers = np.arange(len(program.messages))
        comes = self._key(np.repeat(numbers, np.diff(counts)), 0, targets)
        leaves = self._key(np.repeat(numbers, np.diff(leaving)), 1, sources)
        self.keys, self._twice = np.unique(np.concatenate((comes, leaves)), return_counts=True)
        self.message = self.keys // (2 * self._tiles)
        self.tile = self.keys % self._tiles
        self.leaves = self.keys // self._tiles % 2 == 1
        self._listing = listing

    def _key(self, message: Array, leaves: Array | int, tile: Array) -> Array:
        keys: Array = (message * 2 + leaves) * self._tiles + tile
        return keys

    def slots_of(self, message: Array, leaves: Array | int, tile: Array) -> Array:
        """The slot of each message on each tile, -1 where the tile does not take part in it."""
        keys = self._key(message, leaves, tile)
        if not len(self.keys):
            return np.full(len(keys), -1)
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1)

    @cached_property
    def _rows(self) -> Array:
        """The instructions that issue messages."""
        return np.flatnonzero(self._listing.code < COMPUTE)

    @cached_property
    def slot(self) -> Array:
        """The slot of each of these rows, -1 where there is none."""
        listing, rows = self._listing, self._rows
        code = listing.code[rows]
        slots = self.slots_of(listing.number[rows], code >= SEND, listing.tile[rows])
        # a load is no receive: the other one is of a message with other sources
        from_dram, to_dram = self._ends
        message = listing.number[rows]
        right = np.select(
            [code == LOAD, code == RECEIVE, code == SEND],
            [from_dram[message], ~from_dram[message], ~to_dram[message]],
            to_dram[message],
        )
        return np.where(right, slots, -1)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Whether each message comes from DRAM, and whether it goes there."""
        messages = self._program.messages
        from_dram = np.array([not message.sources for message in messages], bool)
        return from_dram, np.array([not message.targets for message in messages], bool)

    def reasons(self) -> Iterator[str]:
        """Messages that are issued by others than their sources and targets, or not equally often."""
        listing, rows, slot = self._listing, self._rows, self.slot
        times = np.zeros(len(self.keys), np.int64)
        np.add.at(times, slot[slot >= 0], listing.times[rows][slot >= 0])
        expected = np.array(
            [prod(times for times, _ in message.moves) for message in self._program.messages], np.int64
        )
        moves = np.array([bool(message.moves) for message in self._program.messages], bool)
        begin = np.searchsorted(self.message, np.arange(len(self._program.messages) + 1))
        least = np.minimum.reduceat(times, begin[:-1]) if len(times) else times
        most = np.maximum.reduceat(times, begin[:-1]) if len(times) else times
        twice = np.zeros(len(expected), bool)
        twice[self.message[self._twice > 1]] = True
        unequal = twice | (least != most) | (least == 0) | (moves & (least != expected))
        for number in np.flatnonzero(unequal).tolist():
            own = times[begin[number] : begin[number + 1]].tolist()
            if twice[number]:
                yield f"message {number}: a tile twice among its sources or targets"
            elif len(set(own)) > 1 or not own[0]:
                yield f"message {number}: its tiles issue it {own} times, not all equally often"
            else:
                yield f"message {number}: issued {own[0]} times, and its box moves {expected[number]} times"
        foreign = rows[slot < 0]
        columns = (one[foreign].tolist() for one in (listing.tile, listing.code, listing.number))
        for tile, code, number in dict.fromkeys(zip(*columns, strict=True)):
            yield f"tile {tile}: {TRANSFERS[code]} of message {number}, which has other sources and targets"
        holds = np.flatnonzero(listing.code == HOLD)
        slots = self.slots_of(listing.number[holds], 1, listing.tile[holds])
        for at in holds[(slots < 0) | ~self._ends[1][listing.number[holds]]].tolist():
            tile, number = listing.tile[at], listing.number[at]
            yield f"tile {tile}: hold of message {number}, which it does not send to DRAM"


def _coverage(program: Program, listing: Listing) -> Iterator[str]:
    """Layers whose works do not cover their nest once."""
    rows = np.flatnonzero(listing.code == COMPUTE)
    times = np.zeros(len(program.works), np.int64)
    np.add.at(times, listing.number[rows], listing.times[rows])
    works: dict[str, list[int]] = defaultdict(list)
    for number in np.flatnonzero(times).tolist():
        if not program.works[number].adds:
            works[program.works[number].layer].append(number)
    for nest in program.layers:
        yield from _covered(program, nest, works[nest.layer], times)


def _covered(program: Program, nest: LayerNest, works: list[int], times: Array) -> Iterator[str]:
    """Whether ``works`` cover a nest once; ``times``: how often each work is done.

    The nest is divided at all indices where a box begins or ends; then every box is a number of whole cells.
    """
    sizes = np.array([size for _, size in nest.dims])
    found: list[Array] = []
    for number in works:
        work = program.works[number]
        if times[number] != prod(count for count, _ in work.moves):
            often = f"is done {times[number]} times, its box moves another number of times"
            yield f"{nest.layer}: work {number} {often}"
            return
        boxes = boxes_of(work.box, work.moves)
        beyond: Array = np.ones(len(boxes), bool)
        if boxes.shape[1] == len(sizes):
            first, end = boxes[:, :, 0], boxes[:, :, 1]
            beyond = np.logical_not(((first >= 0) & (first < end) & (end <= sizes)).all(axis=1))
        if beyond.any():
            box = _plain(boxes[int(np.argmax(beyond))])
            yield f"{nest.layer}: {box} is not within its nest of {dict(nest.dims)}"
            return
        found.append(boxes)
    every = np.concatenate(found) if found else np.zeros((0, len(sizes), 2), np.int64)
    edges = [np.unique(np.append(every[:, axis].ravel(), (0, size))) for axis, size in enumerate(sizes)]
    cells = np.stack([np.searchsorted(axis, every[:, i]) for i, axis in enumerate(edges)], axis=1)
    done = np.zeros([len(axis) - 1 for axis in edges], np.int32)
    # most boxes are one cell: those are counted together
    single = (np.diff(cells, axis=2) == 1).all(axis=(1, 2))
    np.add.at(done, tuple(cells[single, :, 0].T), 1)
    for box in cells[~single].tolist():
        done[tuple(slice(first, end) for first, end in box)] += 1
    if (done != 1).any():
        cell = np.argwhere(done != 1)[0]
        where = tuple((int(axis[i]), int(axis[i + 1])) for axis, i in zip(edges, cell, strict=True))
        yield f"{nest.layer}: {where} of its nest is computed {int(done[tuple(cell)])} times"


def _gathered(program: Program, listing: Listing) -> Iterator[str]:
    """Partial sums that are not added up, or not all of them, and outputs that leave before that.

    Only layers that have a compute which adds are looked at: those mapped on the whole chip may send partial
    sums to DRAM, where they are added on the way.
    """
    nests = {nest.layer: [dim for dim, _ in nest.dims] for nest in program.layers}
    adding = {work.layer for work in program.works if work.adds}
    lost = {one.tensor for one in program.messages if one.partial} - adding
    yield from (f"{layer}: partial sums that no compute adds up" for layer in sorted(lost))
    if not adding:
        return

    def outputs(work: Work) -> Box:
        return tuple(work.box[nests[work.layer].index(dim)] for dim in OUTPUT_DIMS)

    def points(work: Work) -> int:
        """Points of the dims that are summed over."""
        return prod(
            end - first
            for dim, (first, end) in zip(nests[work.layer], work.box, strict=True)
            if dim not in OUTPUT_DIMS
        )

    rows = np.arange(len(listing.code))
    before = np.maximum.accumulate(np.where(listing.code == COMPUTE, rows, -1))
    made: dict[int, set[int]] = defaultdict(set)
    for at in np.flatnonzero((listing.code == SEND) | (listing.code == STORE)).tolist():
        message = program.messages[number := int(listing.number[at])]
        if message.tensor not in adding:
            continue
        if before[at] < listing.begin[listing.tile[at]]:
            yield f"tile {listing.tile[at]}: message {number} leaves before any compute"
            continue
        work = program.works[by := int(listing.number[before[at]])]
        if message.partial == work.adds:
            what = "partial sums, and leave" if message.partial else "not partial sums, but leave"
            how = "adds them up" if work.adds else "makes partial sums"
            yield f"message {number}: {what} after a compute that {how}"
        elif message.partial:
            made[number].add(by)
    added: set[int] = set()
    for at in np.flatnonzero(listing.code == COMPUTE).tolist():
        work = program.works[int(listing.number[at])]
        if not work.adds:
            continue
        read = listing.reads[listing.reads_begin[at] : listing.reads_begin[at + 1]].tolist()
        added |= set(read)
        other = [
            one
            for one in read
            if not program.messages[one].partial or program.messages[one].box != outputs(work)
        ]
        if other:
            what = f"message {other[0]}, which is no partial sums of {outputs(work)}"
            yield f"tile {listing.tile[at]}: adds {what}"
            continue
        makers = [by for one in read for by in made[one]]
        if len(set(makers)) < len(makers) or sum(points(program.works[by]) for by in makers) != points(work):
            yield f"tile {listing.tile[at]}: adds {read}, which are not all partial sums of {outputs(work)}"
    for number, message in enumerate(program.messages):
        if message.partial and message.tensor in adding and number not in added:
            yield f"message {number}: partial sums of {message.tensor} that no compute adds up"


def _plain(box: Array) -> Box:
    return tuple((first, end) for first, end in box.tolist())


class _Stored:
    """Whether the loads of a layer's outputs are made complete by the stores that they wait for, and when.

    The stores of a layer's outputs have no element in common, so their common elements with a load add up.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._boxes: dict[tuple[int, ...], tuple[Array, Array]] = {}

    def reasons(self) -> Iterator[str]:
        """Loads of a layer's outputs that no stores make complete."""
        layers = {nest.layer for nest in self._program.layers}
        for number, message in enumerate(self._program.messages):
            if message.sources or message.tensor not in layers:
                continue
            if any(self._program.messages[one].tensor != message.tensor for one in message.after):
                yield f"message {number}: waits for a store of another tensor than {message.tensor}"
                continue
            all_of, stored = elements(message.box), self._common(number)[0].sum(axis=1)
            if (missing := stored != all_of).any():
                least = int(stored[np.argmax(missing)])
                yield f"message {number}: {all_of} elements of {message.tensor}, {least} are stored"

    def needs(self, number: int) -> Array:
        """How often each store has to have ended before a load's n-th time: [stores, times].

        That is one more than the last time at which both have an element in common; 0 if there is none.
        """
        both, begin = self._common(number)
        own = np.arange(both.shape[1]) - np.repeat(begin[:-1], np.diff(begin)) + 1
        return np.maximum.reduceat(np.where(both > 0, own, 0), begin[:-1], axis=1).T

    def _common(self, number: int) -> tuple[Array, Array]:
        """Elements that a load has in common with its stores [times, times of all stores].

        Second: where the times of each store begin.
        """
        message = self._program.messages[number]
        mine = boxes_of(message.box, message.moves)
        if message.after not in self._boxes:
            boxes = [
                boxes_of(one.box, one.moves) for one in map(self._program.messages.__getitem__, message.after)
            ]
            begin = np.concatenate(([0], np.cumsum([len(one) for one in boxes], dtype=np.int64)))
            stores = np.concatenate(boxes) if boxes else np.zeros((0, *mine.shape[1:]), np.int64)
            self._boxes[message.after] = stores, begin
        stores, begin = self._boxes[message.after]
        both = np.ones((len(mine), len(stores)), np.int64)
        for axis in range(mine.shape[1]):
            first = np.maximum(mine[:, axis, 0, np.newaxis], stores[np.newaxis, :, axis, 0])
            end = np.minimum(mine[:, axis, 1, np.newaxis], stores[np.newaxis, :, axis, 1])
            both *= np.maximum(end - first, 0)
        return both, begin


@dataclass
class _ProgramRun:
    """Runs a program without a clock."""

    program: Program
    listing: Listing
    issued: _Issued
    stored: _Stored

    def reasons(self) -> list[str]:
        """What goes wrong; the run ends with the first tile that has gone wrong."""
        from costmodel.schedule.program.run_kernel import run_all

        tables, run = self._tables(), self._state()
        run_all(tables, run)
        if run.failure[0]:
            return [self._failed(run)]
        found, begin = [], self.listing.begin
        for tile in range(len(begin) - 1):
            held = run.held_slot[run.held_begin[tile] : run.held_begin[tile] + run.held[tile]]
            if run.next[tile] < begin[tile + 1]:
                found.append(f"tile {tile}: waits for ever at {self.listing.items[run.next[tile]]}")
            elif len(held):
                messages = sorted(self.issued.message[held].tolist())[:5]
                found.append(f"tile {tile}: messages {messages} are never freed")
        return found

    def _tables(self) -> RunTables:
        from costmodel.schedule.program.run_kernel import CheckedCode, RunTables, Slots

        program, listing, issued = self.program, self.listing, self.issued
        slot = np.full(len(listing.code), -1)
        slot[listing.code < COMPUTE] = issued.slot
        given = (listing.code == FREE) | (listing.code == HOLD)
        slot[given] = self._buffered(listing.number[given], listing.tile[given])
        reads = self._buffered(listing.reads, np.repeat(listing.tile, np.diff(listing.reads_begin)))
        messages, slots = len(program.messages), np.arange(len(issued.keys))
        names = {nest.layer: number for number, nest in enumerate(program.layers)}
        dims = [[dim for dim, _ in nest.dims] for nest in program.layers]
        axes = [
            [dims[names[work.layer]].index(dim) for dim in OUTPUT_DIMS]
            if "G" not in dims[names[work.layer]]  # channels are those of two dims, so the outputs are no box
            else None
            for work in program.works
        ]
        sent: list[_OutputBox] = [
            (names.get(one.tensor, -1), one.box, one.moves, (0, 1, 2, 3))
            if one.sources
            else (-1, (), (), None)
            for one in program.messages
        ]
        made: list[_OutputBox] = [
            (names[one.layer], one.box, one.moves, own) for one, own in zip(program.works, axes, strict=True)
        ]
        return RunTables(
            CheckedCode(
                listing.begin, listing.code, listing.number, listing.address, slot, reads, listing.reads_begin
            ),
            Slots(issued.message, slots, np.searchsorted(issued.message, np.arange(messages + 1))),
            _outputs(sent),
            _outputs(made),
            np.array([own is not None for own in axes], np.int64),
            self._waits(),
            np.array([8 * one.size_bytes for one in program.messages], np.int64),
            8 * program.output_stream_bytes,
            program.chip.tile.buffer.size_bits,
        )

    def _buffered(self, message: Array, tile: Array) -> Array:
        """The slots in a tile's buffer: where a message comes in, or of one to DRAM where its outputs lie."""
        held = self.issued.slots_of(message, 1, tile)
        coming = self.issued.slots_of(message, 0, tile)
        return np.where(coming >= 0, coming, held)

    def _waits(self) -> Waits:
        from costmodel.schedule.program.run_kernel import Waits

        after = [message.after for message in self.program.messages]
        store, begin = laid_out(after)
        needs = [self.stored.needs(number) for number, stores in enumerate(after) if stores]
        flat = np.concatenate([one.ravel() for one in needs]) if needs else np.zeros(0, np.int64)
        lengths = [one.shape[1] for one in needs for _ in one]
        needs_begin = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        order = np.argsort(store, kind="stable")
        loads = np.repeat(np.arange(len(after)), np.diff(begin))[order]
        loads_begin = np.searchsorted(store[order], np.arange(len(after) + 1))
        return Waits(begin, store, needs_begin, flat, loads_begin, loads)

    def _state(self) -> RunState:
        from costmodel.schedule.program.run_kernel import RunState

        issued, listing = self.issued, self.listing
        tiles, slots = len(listing.begin) - 1, len(issued.keys)
        messages, works = len(self.program.messages), len(self.program.works)
        held = np.bincount(issued.tile, minlength=tiles)
        leave = np.bincount(issued.tile[issued.leaves], minlength=tiles)
        nothing = np.zeros
        return RunState(
            next=listing.begin[:-1].copy(),
            loops=nothing((tiles, max(listing.depth, 1)), np.int64),
            work=np.full(tiles, -1),
            time=nothing(tiles, np.int64),
            held=nothing(tiles, np.int64),
            held_begin=np.concatenate(([0], np.cumsum(held))),
            held_slot=nothing(int(held.sum()), np.int64),
            left=nothing(tiles, np.int64),
            left_begin=np.concatenate(([0], np.cumsum(leave))),
            left_slot=nothing(int(leave.sum()), np.int64),
            issued=nothing(slots, np.int64),
            position=np.full(slots, -1),
            address=nothing(slots, np.int64),
            gone=nothing(slots, np.int64),
            stored=np.full(slots, -1),
            called=nothing(messages, np.int64),
            lacking=np.bincount(issued.message, minlength=messages),
            ended=nothing(messages, np.int64),
            done=nothing(works, np.int64),
            failure=nothing(4, np.int64),
        )

    def _failed(self, run: RunState) -> str:
        """What went wrong with an instruction."""
        from costmodel.schedule.program import run_kernel as kernel

        what, tile, at, other = run.failure.tolist()
        item = self.listing.items[at]
        assert item is not None
        if what == kernel.NOT_READABLE:
            message = self.listing.reads[other]
            return f"tile {tile}: compute reads message {message}, which is not in the buffer"
        it = self.program.messages[item.message]
        of = f"tile {tile}: {item.operation} of message {item.message}"
        if what in (kernel.OTHER_LAYER, kernel.NOT_MADE):
            work, time = self.program.works[other], int(run.time[tile])
            if what == kernel.OTHER_LAYER:
                return f"{of} is of {it.tensor}, and the compute before is of {work.layer}"
            names = [dim for nest in self.program.layers if nest.layer == work.layer for dim, _ in nest.dims]
            made = box_at(work.box, work.moves, time)
            outputs = tuple(made[names.index(dim)] for dim in OUTPUT_DIMS)
            slot = self.issued.slots_of(np.array([item.message]), 1, np.array([tile]))
            box = box_at(it.box, it.moves, int(run.issued[slot[0]]))
            return f"{of} is {box} of {it.tensor}, and the compute before makes {outputs}"
        reasons = {
            kernel.HELD_TWICE: "which is in the buffer already",
            kernel.OUTSIDE: f"at address {item.address}: {in_bytes(other)} bytes are not within the buffer, "
            "behind the outputs",
            kernel.OVERLAP: f"at address {item.address}, where message {other} is",
            kernel.NO_COMPUTE: "before any compute",
            kernel.LEFT_TWICE: "a second time after one compute",
        }
        if what in (kernel.NOT_THERE, kernel.TOO_SMALL):
            why = "are not in the buffer" if what == kernel.NOT_THERE else "are fewer"
            return f"{of} from the bytes of message {self.listing.reads[other]}, which {why}"
        if what == kernel.NOT_HELD:
            return f"{of}, which is not in the buffer"
        return f"{of} {reasons[what]}"


_OutputBox = tuple[int, Box, Moves, Sequence[int] | None]
"""A layer by its number, a box with its moves, and which of its axes are those of OUTPUT_DIMS."""


def _outputs(rows: Sequence[_OutputBox]) -> Boxes:
    """Boxes of outputs as arrays; one without such axes, and its moves, are left out."""
    from costmodel.schedule.program.run_kernel import Boxes

    boxes = np.zeros((len(rows), 4, 2), np.int64)
    times: list[int] = []
    by: list[list[int]] = []
    begin = [0]
    for number, (_, box, moves, axes) in enumerate(rows):
        if axes is not None:
            boxes[number] = [box[axis] for axis in axes]
            times += [count for count, _ in moves]
            by += [[step[axis] for axis in axes] for _, step in moves]
        begin.append(len(times))
    return Boxes(
        np.array([layer for layer, *_ in rows], np.int64),
        boxes,
        np.array(times, np.int64),
        np.array(by, np.int64).reshape(-1, 4),
        np.array(begin, np.int64),
    )
