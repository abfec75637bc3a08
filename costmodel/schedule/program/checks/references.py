"""Numbers of a program that name no message, work, tile or layer, and boxes whose axes do not agree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.schedule.program.instruction_values import COMPUTE, FREE, HOLD, SEND, STORE
from costmodel.schedule.program.listing import Listing
from costmodel.schedule.program.part_data import elements
from costmodel.schedule.program.program import OUTPUT_DIMS, Program


def reference_reasons(program: Program, listing: Listing) -> Iterator[str]:
    """Why numbers name nothing, or boxes cannot be compared; later checks look things up by these numbers."""
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
    """Instructions with numbers of messages or works that do not exist."""
    messages, works = len(program.messages), len(program.works)
    code, number = listing.code, listing.number
    beyond_one = (np.diff(listing.reads_begin) > 1) & ((code == STORE) | (code == SEND))
    for at in np.flatnonzero(beyond_one).tolist():
        what = f"{'store' if code[at] == STORE else 'send'} of message {number[at]}"
        yield f"tile {listing.tile[at]}: {what} from the bytes of several messages"
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
                read = f"from the bytes of message {item.reads[0]}, of {messages}"
                yield f"tile {tile}: {item.operation} {read}"
            continue
        if not 0 <= item.work < works:
            yield f"tile {tile}: compute of work {item.work}, of {works}"
        if beyond := [one for one in item.reads if not 0 <= one < messages]:
            yield f"tile {tile}: compute reads message {beyond[0]}, of {messages}"
