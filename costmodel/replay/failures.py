"""What can be wrong with a program, as errors that name the tile, the instruction and the message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costmodel.errors import InputError
from costmodel.schedule.program.program import Instruction, Program, Repeat

SUSPECT = "Write the program again with the version of archsweep that replays it."


def at(tile: int, path: str, operation: str) -> str:
    """Where an instruction stands, such as ``tiles[3][17] (load)``."""
    return f"tiles[{tile}]{path} ({operation})"


def named(program: Program, number: int) -> str:
    """A message in words: its number, what it carries, and from where to where."""
    message = program.messages[number]
    sources = _tiles(message.sources) or "DRAM"
    targets = _tiles(message.targets) or "DRAM"
    box = " x ".join(f"{first}:{end}" for first, end in message.box)
    return (
        f"message {number} ({message.size_bytes:,} bytes of {message.tensor}[{box}], {sources} to {targets})"
    )


def impossible(where: str, expected: str, found: str, why: str = "") -> InputError:
    """The error of a program that cannot run; ``why`` is a sentence that explains what was found."""
    remedy = f"{why[:1].upper()}{why[1:]}. {SUSPECT}" if why else SUSPECT
    return InputError("program", expected, found, remedy, key=where)


def _tiles(numbers: tuple[int, ...], most: int = 4) -> str:
    if not numbers:
        return ""
    text = ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")
    return f"tile {text}" if len(numbers) == 1 else f"tiles {text}"


def path_of(program: Program, tile: int, wanted: int) -> tuple[str, Instruction]:
    """Where the ``wanted``-th row of a tile's code stands in the program, such as ``[17].body[2]``."""
    row = -1

    def walked(body: Sequence[Instruction | Repeat], path: str) -> Iterator[tuple[int, str, Instruction]]:
        nonlocal row
        for number, item in enumerate(body):
            row += 1
            here = f"{path}[{number}]"
            if isinstance(item, Repeat):
                yield from walked(item.body, f"{here}.body")
                row += 1
            else:
                yield row, here, item

    return next((path, item) for found, path, item in walked(program.tiles[tile], "") if found == wanted)
