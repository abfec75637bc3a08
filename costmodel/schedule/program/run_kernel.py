"""Runs a program without a clock, compiled: a tile goes on as far as it can, then the next tile does.

A tile waits for transfers that have ended, and a transfer that has ended stays so. So whether the program
gets to its end does not depend on the order in which tiles take turns.

A *slot* is a message on one of its tiles: where its data comes in, or where it leaves. Every tile of a
message issues it equally often, and the n-th transfer begins when all of them have issued it n times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.schedule.program.instruction_values import (
    COMPUTE,
    END,
    FREE,
    HOLD,
    LOAD,
    LOOP,
    RECEIVE,
    SEND,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""

(
    RIGHT,
    NOT_READABLE,
    HELD_TWICE,
    OUTSIDE,
    OVERLAP,
    NO_COMPUTE,
    LEFT_TWICE,
    OTHER_LAYER,
    NOT_MADE,
    NOT_HELD,
    NOT_THERE,
    TOO_SMALL,
) = range(12)
"""What may go wrong with an instruction."""


class CheckedCode(NamedTuple):
    """The instructions as in :class:`.listing.Listing`; ``slot`` of transfers, holds and frees, else -1."""

    begin: Array
    code: Array
    number: Array
    address: Array
    slot: Array
    reads: Array
    reads_begin: Array


class Slots(NamedTuple):
    """``message`` [slots] of each slot; the slots of message m are ``of_message[begin[m]:begin[m + 1]]``."""

    message: Array
    of_message: Array
    begin: Array


class Boxes(NamedTuple):
    """Boxes of outputs, a row for each of n messages or works.

    ``layer`` [n]: whose outputs they are; -1 for data that is no outputs. ``box`` [n, 4, 2]: the box the
    first time. The moves of row r are entries ``begin[r]`` to ``begin[r + 1] - 1`` of ``times`` and ``by``
    [.., 4], the outermost first.
    """

    layer: Array
    box: Array
    times: Array
    by: Array
    begin: Array


class Waits(NamedTuple):
    """Which stores each load waits for. A load and one of its stores are a pair.

    The pairs of load m are ``begin[m]`` to ``begin[m + 1] - 1``, and ``store`` [pairs] is the store of each.
    The load's n-th time, counted from 0, needs ``needs[needs_begin[pair] + n]`` ended transfers of that
    store. The loads that wait for store m are ``loads[loads_begin[m]:loads_begin[m + 1]]``.
    """

    begin: Array
    store: Array
    needs_begin: Array
    needs: Array
    loads_begin: Array
    loads: Array


class Passes(NamedTuple):
    """The slots that pass on data which lies in slot s are ``slot[begin[s]:begin[s + 1]]``."""

    begin: Array
    slot: Array


class RunTables(NamedTuple):
    """What a run does not change.

    ``checked`` [works]: whether the outputs of a work are a box, so that what leaves can be compared with it.
    ``size`` [messages]: in bits. Data lies in the buffer from bit ``first`` to before bit ``end``.
    """

    code: CheckedCode
    slots: Slots
    messages: Boxes
    works: Boxes
    checked: Array
    waits: Waits
    passes: Passes
    size: Array
    first: int
    end: int


class RunState(NamedTuple):
    """What a run changes."""

    next: Array
    """[tiles]: the next instruction."""
    loops: Array
    """[tiles, depth]: how often the body of each loop around it is still to be done."""
    work: Array
    """[tiles]: the work of the last compute; -1 before the first one."""
    time: Array
    """[tiles]: how often that work had been done before."""
    held: Array
    """[tiles]: how many slots the buffer holds."""
    held_begin: Array
    """[tiles + 1]: where these begin in ``held_slot``."""
    held_slot: Array
    """The slots that the buffers hold, in no order."""
    left: Array
    """[tiles]: through how many slots outputs of the last compute leave."""
    left_begin: Array
    """[tiles + 1]: where these begin in ``left_slot``."""
    left_slot: Array
    """The slots through which outputs of the last computes leave."""
    issued: Array
    """[slots]: how often the slot's tile has issued its message."""
    position: Array
    """[slots]: its position among the slots that the tile's buffer holds; -1 where it is not there."""
    address: Array
    """[slots]: the first bit of its data."""
    gone: Array
    """[slots]: whether its outputs have left since the last compute."""
    stored: Array
    """[slots]: the slot that was stored from its bytes; -1 where none was."""
    called: Array
    """[messages]: how often all tiles of the message have issued it."""
    lacking: Array
    """[messages]: how many tiles have yet to issue it for the next time."""
    ended: Array
    """[messages]: how many transfers have ended."""
    done: Array
    """[works]: how often it has been done."""
    failure: Array
    """[4]: what went wrong, on which tile, at which instruction, and the other message, work or size."""


@entry
def run_all(tables: RunTables, run: RunState) -> None:
    """Run until no tile goes on, or until one has gone wrong."""
    moved = True
    while moved:
        moved = False
        for tile in range(tables.code.begin.shape[0] - 1):
            while run.next[tile] < tables.code.begin[tile + 1] and _step(tables, run, tile):
                moved = True
            if run.failure[0] != RIGHT:
                return


@called
def _step(tables: RunTables, run: RunState, tile: Int) -> Truth:
    """Do the next instruction of a tile; False if it has to wait or goes wrong."""
    code = tables.code
    at = run.next[tile]
    operation, slot = code.code[at], code.slot[at]
    if operation == LOOP:
        run.loops[tile, code.address[at]] = code.number[at]
    elif operation == END:
        run.loops[tile, code.address[at]] -= 1
        if run.loops[tile, code.address[at]] > 0:
            run.next[tile] = code.number[at]
            return True
    elif operation == COMPUTE:
        # All that it reads is in the buffer, has arrived, and the outputs of the compute before have left.
        for number in range(code.reads_begin[at], code.reads_begin[at + 1]):
            read = code.reads[number]
            if read < 0 or run.position[read] < 0:
                return _fail(run, NOT_READABLE, tile, at, number)
        for number in range(code.reads_begin[at], code.reads_begin[at + 1]):
            if not _all_there(tables, run, code.reads[number]):
                return False
        first = run.left_begin[tile]
        for number in range(first, first + run.left[tile]):
            if not _all_there(tables, run, run.left_slot[number]):
                return False
        for number in range(first, first + run.left[tile]):
            run.gone[run.left_slot[number]] = 0
        run.left[tile] = 0
        work = code.number[at]
        run.work[tile], run.time[tile] = work, run.done[work]
        run.done[work] += 1
    elif operation in (LOAD, RECEIVE):
        if not _placed(tables, run, tile, at, slot):
            return False
        _issue(tables, run, slot)
    elif operation == FREE:
        if slot < 0 or run.position[slot] < 0:
            return _fail(run, NOT_HELD, tile, at, 0)
        if not _all_there(tables, run, slot):
            return False
        if run.stored[slot] >= 0 and not _all_there(tables, run, run.stored[slot]):
            return False
        for number in range(tables.passes.begin[slot], tables.passes.begin[slot + 1]):
            if not _all_there(tables, run, tables.passes.slot[number]):
                return False
        # The last of the tile's list moves to the position that becomes free, so the list stays dense.
        run.held[tile] -= 1
        last = run.held_slot[run.held_begin[tile] + run.held[tile]]
        run.held_slot[run.held_begin[tile] + run.position[slot]] = last
        run.position[last] = run.position[slot]
        run.position[slot] = -1
    elif operation == HOLD:
        if not _placed(tables, run, tile, at, slot):
            return False
    elif operation == SEND and code.reads_begin[at + 1] > code.reads_begin[at]:
        held = code.reads[code.reads_begin[at]]
        if held < 0 or run.position[held] < 0:
            return _fail(run, NOT_THERE, tile, at, code.reads_begin[at])
        # What it passes on has arrived, and so has what it passed on by this message before.
        if not _all_there(tables, run, held) or not _all_there(tables, run, slot):
            return False
        _issue(tables, run, slot)
    elif code.reads_begin[at + 1] > code.reads_begin[at]:
        if not _made(tables, run, tile, at, slot) or not _stored(tables, run, tile, at, slot):
            return False
        _issue(tables, run, slot)
    else:
        if not _made(tables, run, tile, at, slot):
            return False
        run.gone[slot] = 1
        run.left_slot[run.left_begin[tile] + run.left[tile]] = slot
        run.left[tile] += 1
        _issue(tables, run, slot)
    run.next[tile] = at + 1
    return True


@inlined
def _fail(run: RunState, what: Int, tile: Int, at: Int, other: Int) -> Truth:
    run.failure[0], run.failure[1], run.failure[2], run.failure[3] = what, tile, at, other
    return False


@inlined
def _all_there(tables: RunTables, run: RunState, slot: Int) -> Truth:
    """Whether all transfers that the slot's tile has issued have ended."""
    return run.ended[tables.slots.message[slot]] >= run.issued[slot]


@called
def _placed(tables: RunTables, run: RunState, tile: Int, at: Int, slot: Int) -> Truth:
    """Puts data into the buffer, where it lies within it and no other data does."""
    address, size = tables.code.address[at], tables.size[tables.slots.message[slot]]
    if run.position[slot] >= 0:
        return _fail(run, HELD_TWICE, tile, at, 0)
    if address < tables.first or address > tables.end - size:
        return _fail(run, OUTSIDE, tile, at, size)
    first = run.held_begin[tile]
    for number in range(first, first + run.held[tile]):
        other = run.held_slot[number]
        length = tables.size[tables.slots.message[other]]
        if address < run.address[other] + length and run.address[other] < address + size:
            return _fail(run, OVERLAP, tile, at, tables.slots.message[other])
    run.address[slot], run.position[slot], run.stored[slot] = address, run.held[tile], -1
    run.held_slot[first + run.held[tile]] = slot
    run.held[tile] += 1
    return True


@called
def _stored(tables: RunTables, run: RunState, tile: Int, at: Int, slot: Int) -> Truth:
    """Notes that the outputs of a store leave from the bytes of another slot, or of its own."""
    number = tables.code.reads_begin[at]
    bytes_of = tables.code.reads[number]
    if bytes_of < 0 or run.position[bytes_of] < 0:
        return _fail(run, NOT_THERE, tile, at, number)
    if run.stored[bytes_of] >= 0:
        return _fail(run, LEFT_TWICE, tile, at, 0)
    if tables.size[tables.slots.message[bytes_of]] < tables.size[tables.slots.message[slot]]:
        return _fail(run, TOO_SMALL, tile, at, number)
    run.stored[bytes_of] = slot
    return True


@called
def _made(tables: RunTables, run: RunState, tile: Int, at: Int, slot: Int) -> Truth:
    """Whether a message is of the outputs of the compute before, and leaves the first time since then."""
    work, message = run.work[tile], tables.slots.message[slot]
    if work < 0:
        return _fail(run, NO_COMPUTE, tile, at, 0)
    if run.gone[slot]:
        return _fail(run, LEFT_TWICE, tile, at, 0)
    if tables.messages.layer[message] != tables.works.layer[work]:
        return _fail(run, OTHER_LAYER, tile, at, work)
    if not tables.checked[work]:
        return True
    for axis in range(4):
        sent = _moved(tables.messages, message, run.issued[slot], axis)
        made = _moved(tables.works, work, run.time[tile], axis)
        begin, end = (
            tables.messages.box[message, axis, 0] + sent,
            tables.messages.box[message, axis, 1] + sent,
        )
        if begin < tables.works.box[work, axis, 0] + made or end > tables.works.box[work, axis, 1] + made:
            return _fail(run, NOT_MADE, tile, at, work)
    return True


@called
def _moved(boxes: Boxes, row: Int, time: Int, axis: Int) -> Int:
    """How far a box has moved along an axis at a time: the digits of the time, the innermost loop's first."""
    moved: Int = 0
    for number in range(boxes.begin[row + 1] - 1, boxes.begin[row] - 1, -1):
        moved += (time % boxes.times[number]) * boxes.by[number, axis]
        time //= boxes.times[number]
    return moved


@called
def _issue(tables: RunTables, run: RunState, slot: Int) -> None:
    """A tile has issued a message once more; once all its tiles have, it is transferred."""
    message = tables.slots.message[slot]
    if run.issued[slot] == run.called[message]:
        run.lacking[message] -= 1
    run.issued[slot] += 1
    while run.lacking[message] == 0:
        run.called[message] += 1
        for number in range(tables.slots.begin[message], tables.slots.begin[message + 1]):
            if run.issued[tables.slots.of_message[number]] == run.called[message]:
                run.lacking[message] += 1
    _transfer(tables, run, message)
    for number in range(tables.waits.loads_begin[message], tables.waits.loads_begin[message + 1]):
        _transfer(tables, run, tables.waits.loads[number])


@called
def _transfer(tables: RunTables, run: RunState, message: Int) -> None:
    """End the transfers that all tiles have called for, up to one that waits for a store."""
    waits = tables.waits
    while run.ended[message] < run.called[message]:
        for pair in range(waits.begin[message], waits.begin[message + 1]):
            if run.ended[waits.store[pair]] < waits.needs[waits.needs_begin[pair] + run.ended[message]]:
                return
        run.ended[message] += 1
