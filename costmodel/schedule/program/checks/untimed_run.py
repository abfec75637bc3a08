"""Whether a program gets to its end: it is run without a clock, by ``run_kernel.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.widths import in_bytes
from costmodel.schedule.program.checks.issued import IssuedMessages
from costmodel.schedule.program.checks.stores import StoredOutputs
from costmodel.schedule.program.instruction_values import COMPUTE, FREE, HOLD, SEND
from costmodel.schedule.program.listing import Listing, laid_out
from costmodel.schedule.program.program import OUTPUT_DIMS, Box, Moves, Program, box_at

if TYPE_CHECKING:
    from costmodel.schedule.program.run_kernel import Boxes, Passes, RunState, RunTables, Waits

Array = NDArray[Any]


@dataclass
class UntimedRun:
    """Runs a program without a clock, and says where it cannot go on."""

    program: Program
    listing: Listing
    issued: IssuedMessages
    stored: StoredOutputs

    def reasons(self) -> list[str]:
        """What goes wrong. An instruction that goes wrong ends the run and is the only reason."""
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
            self._passes(slot, reads),
            np.array([8 * one.size_bytes for one in program.messages], np.int64),
            8 * program.output_stream_bytes,
            program.chip.tile.buffer.size_bits,
        )

    def _buffered(self, message: Array, tile: Array) -> Array:
        """The slots by which messages [n] lie in the buffers of tiles [n].

        A message lies where it comes in, or, held for DRAM, where it goes out.
        """
        held = self.issued.slots_of(message, 1, tile)
        coming = self.issued.slots_of(message, 0, tile)
        return np.where(coming >= 0, coming, held)

    def _passes(self, slot: Array, reads: Array) -> Passes:
        """Which slots pass on data of each slot; ``slot`` [instructions] and ``reads`` as in the tables."""
        from costmodel.schedule.program.run_kernel import Passes

        listing = self.listing
        first = listing.reads_begin[:-1]
        sends = np.flatnonzero((listing.code == SEND) & (listing.reads_begin[1:] > first))
        pairs = np.unique(np.stack([reads[first[sends]], slot[sends]], axis=1), axis=0)
        return Passes(
            np.searchsorted(pairs[:, 0], np.arange(len(self.issued.keys) + 1)),
            np.ascontiguousarray(pairs[:, 1]),
        )

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
        """The reason for ``run.failure`` in words."""
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
"""A layer by its number, a box, its moves, and which of the box's axes are those of OUTPUT_DIMS."""


def _outputs(rows: Sequence[_OutputBox]) -> Boxes:
    """The rows as arrays; a box whose output axes are None stays zero and gets no moves."""
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
