"""Mistakes of a program that show before it runs: numbers of nothing, and instructions no tile can do."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.errors import InputError
from costmodel.hardware.pe_mesh import PeMesh
from costmodel.replay.event_values import COMPUTE, FREE, HOLD, LOAD, RECEIVE, SEND, STORE
from costmodel.replay.failures import at, impossible, named
from costmodel.schedule.program.program import Instruction, Program, Repeat

OPERATIONS = {
    "load": LOAD,
    "receive": RECEIVE,
    "compute": COMPUTE,
    "send": SEND,
    "store": STORE,
    "hold": HOLD,
    "free": FREE,
}
"""The operations of instructions, and their numbers in the event loop."""


def check_values(program: Program) -> None:
    """InputError for numbers that refer to nothing, sizes below 1, and instructions that do not fit them."""
    tiles = program.chip.tiles
    if len(program.tiles) != tiles:
        raise InputError(
            "program", f"instructions for the chip's {tiles} tiles", len(program.tiles), key="tiles"
        )
    # units of a mesh may add up partial sums on their way to one of them, as tiles do on the way to DRAM
    most = 1 if isinstance(program.chip, PeMesh) else 0
    for number, message in enumerate(program.messages):
        ends = (*message.sources, *message.targets)
        fine = message.size_bytes > 0 and bool(ends) and all(0 <= tile < tiles for tile in ends)
        distinct = all(len(set(one)) == len(one) for one in (message.sources, message.targets))
        if not fine or not distinct or (len(message.sources) > 1 and len(message.targets) > most):
            expected = "at least a bit, from DRAM or one tile to tiles, or from tiles to DRAM"
            raise impossible(f"messages[{number}]", expected, named(program, number))
        for store in message.after:
            if not 0 <= store < len(program.messages) or program.messages[store].targets:
                raise impossible(f"messages[{number}].after", "numbers of messages to DRAM", str(store))
    for number, work in enumerate(program.works):
        if work.cycles < 0 or work.operations < 0:
            found = f"{work.cycles:,} cycles, {work.operations:,} operations"
            raise impossible(f"works[{number}]", "numbers of at least 0", found)
    for tile, body in enumerate(program.tiles):
        _check_body(program, tile, body, "")


def _check_body(program: Program, tile: int, body: Iterable[Instruction | Repeat], path: str) -> None:
    for number, item in enumerate(body):
        here = f"{path}[{number}]"
        if isinstance(item, Repeat):
            if item.times < 1:
                raise impossible(f"tiles[{tile}]{here}", "at least 1 time", str(item.times))
            _check_body(program, tile, item.body, f"{here}.body")
        elif wrong := _wrong(program, tile, item):
            raise impossible(at(tile, here, item.operation), *wrong)


def _wrong(program: Program, tile: int, item: Instruction) -> tuple[str, str] | None:
    """What is expected of an instruction and what is found instead; None for one that can be done."""
    if item.operation not in OPERATIONS:
        return f"one of {', '.join(OPERATIONS)}", str(item.operation)
    if item.operation == "compute":
        if not 0 <= item.work < len(program.works):
            return f"a work from 0 to {len(program.works) - 1}", str(item.work)
        for number in item.reads:
            if not 0 <= number < len(program.messages) or tile not in program.messages[number].targets:
                return f"to read messages to tile {tile}", f"message {number}"
        return None
    if not 0 <= item.message < len(program.messages):
        return f"a message from 0 to {len(program.messages) - 1}", str(item.message)
    message = program.messages[item.message]
    fits = {
        "load": tile in message.targets and not message.sources,
        "receive": tile in message.targets and bool(message.sources),
        "free": tile in (message.targets or message.sources),
        "hold": tile in message.sources and not message.targets,
        "send": tile in message.sources and bool(message.targets),
        "store": tile in message.sources and not message.targets,
    }
    if not fits[item.operation]:
        return f"a message that tile {tile} can {item.operation}", named(program, item.message)
    if item.reads and item.operation not in ("send", "store"):
        return f"a {item.operation} that reads nothing", f"one that reads {list(item.reads)}"
    if item.reads and item.operation == "send":
        return _wrongly_passed(program, tile, item)
    if item.reads:
        (held, *others) = item.reads
        known = 0 <= held < len(program.messages)
        bytes_of = program.messages[held] if known else message
        if others or not known or (held != item.message and tile not in bytes_of.targets):
            return f"bytes of message {item.message}, or of one to tile {tile}", str(list(item.reads))
        if bytes_of.size_bytes < message.size_bytes:
            return f"{message.size_bytes:,} bytes that hold {named(program, item.message)}", named(
                program, held
            )
    if item.operation in ("load", "receive", "hold"):
        first, end = program.output_stream_bytes, program.chip.tile.buffer.size_bytes
        if not first <= item.address <= end - message.size_bytes:
            span = f"{item.address:,} to {item.address + message.size_bytes:,}"
            return f"{named(program, item.message)} within bytes {first:,} to {end:,} of the buffer", span
    return None


def _wrongly_passed(program: Program, tile: int, item: Instruction) -> tuple[str, str] | None:
    """The same of a send that passes on data which the tile has."""
    (held, *others) = item.reads
    if others or not 0 <= held < len(program.messages) or tile not in program.messages[held].targets:
        return f"bytes of one message to tile {tile}", str(list(item.reads))
    message, bytes_of = program.messages[item.message], program.messages[held]
    inside = len(message.box) == len(bytes_of.box) and all(
        begin <= first and end <= stop
        for (first, end), (begin, stop) in zip(message.box, bytes_of.box, strict=True)
    )
    if message.tensor != bytes_of.tensor or not inside or message.moves or bytes_of.moves:
        return f"elements that {named(program, item.message)} has each time", named(program, held)
    return None
