"""Why a run stopped before its end: what the event loop found to be impossible, and deadlocks."""

from __future__ import annotations

import numpy as np

from costmodel.errors import InputError
from costmodel.hardware.widths import in_bytes
from costmodel.replay.event_values import (
    ABSENT,
    COMING,
    DONE,
    HELD_TWICE,
    MOST_EVENTS,
    NO_COMPUTE,
    NOT_HELD,
    OVERLAP,
    SENT_TWICE,
    TOO_LONG,
    TOO_MANY,
    ReplayState,
)
from costmodel.replay.failures import at, impossible, named, path_of
from costmodel.replay.routes import whole_numbers
from costmodel.replay.tables import Compiled


def failed(compiled: Compiled, run: ReplayState) -> InputError:
    """What the event loop found to be impossible, in words."""
    what, tile, row, copy = run.failure.tolist()
    program = compiled.program
    if what == TOO_LONG:
        return InputError("program", "a run whose ticks fit 61 bits", "a longer one")
    if what == TOO_MANY:
        return InputError("program", f"a run of at most {MOST_EVENTS:,} events", "a longer one")
    path, item = path_of(program, tile, row - int(compiled.tables.code.begin[tile]))
    where = at(tile, path, item.operation)
    other = "" if copy < 0 else named(program, _message_of(compiled, copy))
    mine = "" if item.message < 0 else named(program, item.message)
    if what == NOT_HELD:
        before = "was freed before" if run.messages.filled[copy] else "was never loaded or received"
        return impossible(where, f"data that is in tile {tile}'s buffer", f"{other}, which {before}")
    if what == HELD_TWICE:
        return impossible(where, f"a free of {mine} before it comes again", "it is still in the buffer")
    if what == OVERLAP:
        begin = in_bytes(int(run.messages.address[copy]))
        found = f"{other} from byte {begin:,} on"
        return impossible(where, f"{mine} at bytes {item.address:,} and following that are free", found)
    assert what in (NO_COMPUTE, SENT_TWICE)
    found = "no compute before it" if what == NO_COMPUTE else "the same message for the same compute twice"
    return impossible(where, f"outputs of tile {tile}'s last compute for {mine}", found)


def deadlocked(compiled: Compiled, run: ReplayState) -> InputError:
    """The first tile that is blocked, what it waits for, and why that does not come."""
    program, tiles = compiled.program, run.tiles
    blocked = np.nonzero(tiles.status != DONE)[0].tolist()
    if not blocked:
        number = int(np.nonzero(run.messages.joined)[0][0])
        why = _why_not(compiled, run, number)
        expected = f"{named(program, number)} to be transferred"
        return impossible(f"messages[{number}]", expected, "all tiles at their ends before that", why)
    tile = blocked[0]
    where, number = _waiting_for(compiled, run, tile)
    found = f"a deadlock in which {len(blocked)} of {program.chip.tiles} tiles wait"
    return impossible(where, f"{named(program, number)} to arrive", found, _why_not(compiled, run, number))


def _waiting_for(compiled: Compiled, run: ReplayState, tile: int) -> tuple[str, int]:
    """Where a blocked tile stands, and the first message that it waits for."""
    row = int(run.tiles.next[tile])
    path, item = path_of(compiled.program, tile, row - int(compiled.tables.code.begin[tile]))
    code, state = compiled.tables.code, run.messages
    for copy in code.reads[code.reads_begin[row] : code.reads_begin[row + 1]].tolist():
        if state.copy[copy] == COMING:
            return at(tile, path, item.operation), _message_of(compiled, copy)
    outputs = np.nonzero((whole_numbers(compiled.numbers.output_tile) == tile) & (state.out == 1))[0]
    message = int(np.searchsorted(compiled.tables.messages.outputs, outputs[0], "right")) - 1
    return at(tile, path, item.operation), message


def _why_not(compiled: Compiled, run: ReplayState, number: int) -> str:
    """Why a message is not transferred: a tile that does not take part yet, or a store that it waits for."""
    program, numbers, state = compiled.program, compiled.numbers, run.messages
    message = program.messages[number]
    for tile in message.sources:
        if not state.out[numbers.output[number, tile]]:
            issued = "sent" if message.targets else "stored"
            return f"tile {tile} has not {issued} it{_stands(compiled, run, tile)}"
    for tile in message.targets:
        if state.copy[numbers.copy[number, tile]] == ABSENT:
            issued = "received" if message.sources else "loaded"
            return f"tile {tile} has not {issued} it{_stands(compiled, run, tile)}"
    for position, store in enumerate(message.after):
        pair = int(compiled.tables.messages.pairs[number]) + position
        needs = compiled.tables.messages.needs[
            compiled.tables.messages.needs_begin[pair] + state.done[number]
        ]
        if state.done[store] < needs:
            return f"it waits for the store of {named(program, store)}: {_why_not(compiled, run, store)}"
    raise AssertionError(f"message {number} can be transferred")


def _stands(compiled: Compiled, run: ReplayState, tile: int) -> str:
    """Where a tile stands that others wait for."""
    if run.tiles.status[tile] == DONE:
        return " and is at its end"
    where, number = _waiting_for(compiled, run, tile)
    return f", for at {where} it waits for message {number}"


def _message_of(compiled: Compiled, copy: int) -> int:
    return compiled.numbers.copy_message[copy]
