"""Bytes on links counted a second time: every message is walked to its targets, link by link."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from costmodel.hardware.chip import Chip
from costmodel.schedule.program.program import Instruction, Message, Program, Repeat

Link = tuple[tuple[int, int], tuple[int, int]]
"""From a position (column, row) to the next."""


def way(start: tuple[int, int], end: tuple[int, int]) -> list[Link]:
    """Link by link: first along the row, then along the column."""
    links = []
    here = start
    while here != end:
        x, y = here
        step = (_towards(x, end[0]), 0) if x != end[0] else (0, _towards(y, end[1]))
        there = (x + step[0], y + step[1])
        links.append((here, there))
        here = there
    return links


def _towards(start: int, end: int) -> int:
    return 1 if end > start else -1


def trees(chip: Chip, message: Message) -> list[tuple[set[Link], Fraction]]:
    """Each tree of a message: its links, and the part of the bytes that each of them carries."""
    at = chip.positions
    if not message.sources:
        part = Fraction(1, len(chip.ports))
        return [
            ({link for tile in message.targets for link in way(port, at[tile])}, part) for port in chip.ports
        ]
    if not message.targets:
        part = Fraction(1, len(chip.ports))
        return [
            ({link for tile in message.sources for link in way(at[tile], port)}, part) for port in chip.ports
        ]
    (source,) = message.sources
    return [({link for tile in message.targets for link in way(at[source], at[tile])}, Fraction(1))]


def instructions(body: tuple[Instruction | Repeat, ...]) -> list[Instruction]:
    """All instructions in order, those of repeats as often as they are done."""
    found: list[Instruction] = []
    for item in body:
        if isinstance(item, Repeat):
            found += instructions(item.body) * item.times
        else:
            found.append(item)
    return found


def link_bytes(program: Program) -> dict[Link, Fraction]:
    """Bytes on every link of all messages, counted at their first source or target."""
    found: dict[Link, Fraction] = defaultdict(Fraction)
    for tile, body in enumerate(program.tiles):
        for one in instructions(body):
            if one.operation in ("load", "send", "store"):
                message = program.messages[one.message]
                if tile != (message.sources or message.targets)[0]:
                    continue
                for links, part in trees(program.chip, message):
                    for link in links:
                        found[link] += Fraction(message.size_bytes) * part
    return found


def peak(program: Program, tile: int) -> float:
    """The most bytes in a tile's buffer, without those for outputs."""
    held = most = 0.0
    for one in instructions(program.tiles[tile]):
        if one.operation in ("load", "receive"):
            held += program.messages[one.message].size_bytes
        if one.operation == "free":
            held -= program.messages[one.message].size_bytes
        most = max(most, held)
    return most
