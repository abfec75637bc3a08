"""All instructions of a program as arrays, for the checker: a large program has millions.

Repetitions are not written out: ``LOOP`` stands before a body and ``END`` behind it, and ``times`` says how
often each instruction is done.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.program.instruction_values import (
    COMPUTE,
    END,
    FREE,
    HOLD,
    LOAD,
    LOOP,
    RECEIVE,
    SEND,
    STORE,
)
from costmodel.schedule.program.program import Instruction, Moves, Program, Repeat

Array = NDArray[Any]

CODES = {
    "load": LOAD,
    "receive": RECEIVE,
    "send": SEND,
    "store": STORE,
    "compute": COMPUTE,
    "free": FREE,
    "hold": HOLD,
}


@dataclass(frozen=True)
class Listing:
    """The instructions of all tiles, one tile after the other.

    Arrays are [instructions] unless said otherwise.
    """

    code: Array
    """What is done: a number of ``instruction_values.py``."""
    number: Array
    """The message of a transfer, hold or free; the work of a compute. For a LOOP, how often its body is done;
    for an END, the first instruction of its body."""
    address: Array
    """Where a load, receive or hold puts data in the buffer, in bits. For LOOP and END, how many loops are
    around them."""
    times: Array
    """How often the instruction is done in all."""
    tile: Array
    """Whose instruction it is."""
    begin: Array
    """[tiles + 1]: the first instruction of each tile."""
    reads: Array
    """[reads]: the messages that computes read, those in whose bytes the outputs of stores lie, and those
    whose data a send passes on."""
    reads_begin: Array
    """[instructions + 1]: where in ``reads`` those of each instruction begin."""
    depth: int
    """The most loops around an instruction."""
    items: list[Instruction | None]
    """The instructions themselves, and None for LOOP and END."""

    @staticmethod
    def of(program: Program) -> Listing:
        writer = _Writer()
        begin = [0]
        for code in program.tiles:
            writer.add(code, 1, 0)
            begin.append(len(writer.items))
        return Listing(
            code=np.array(writer.code, np.int64),
            number=np.array(writer.number, np.int64),
            address=np.array(writer.address, np.int64),
            times=np.array(writer.times, np.int64),
            tile=np.repeat(np.arange(len(program.tiles)), np.diff(begin)),
            begin=np.array(begin, np.int64),
            reads=np.array(writer.reads, np.int64),
            reads_begin=np.array(writer.reads_begin, np.int64),
            depth=writer.depth,
            items=writer.items,
        )


@dataclass
class _Writer:
    """Fills the arrays, instruction by instruction."""

    code: array[int] = field(default_factory=lambda: array("q"))
    number: array[int] = field(default_factory=lambda: array("q"))
    address: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    reads: array[int] = field(default_factory=lambda: array("q"))
    reads_begin: array[int] = field(default_factory=lambda: array("q", [0]))
    items: list[Instruction | None] = field(default_factory=list)
    depth: int = 0

    def add(self, code: Sequence[Instruction | Repeat], times: int, depth: int) -> None:
        """Add instructions that are done ``times`` times, in ``depth`` loops."""
        for item in code:
            if isinstance(item, Repeat):
                if item.times > 0:
                    self._row(LOOP, item.times, depth, times, None)
                    first = len(self.items)
                    self.add(item.body, times * item.times, depth + 1)
                    self._row(END, first, depth, times, None)
                    self.depth = max(self.depth, depth + 1)
                continue
            number = item.work if item.operation == "compute" else item.message
            self.reads.extend(item.reads)
            self._row(CODES[item.operation], number, int(8 * item.address), times, item)

    def _row(self, code: int, number: int, address: int, times: int, item: Instruction | None) -> None:
        self.code.append(code)
        self.number.append(number)
        self.address.append(address)
        self.times.append(times)
        self.items.append(item)
        self.reads_begin.append(len(self.reads))


def boxes_of(box: Sequence[tuple[int, int]], moves: Moves) -> Array:
    """The box each time that it is used: [times, axes, 2]; ``moves`` as of a message or work."""
    found = np.array(box, np.int64).reshape(1, len(box), 2)
    for times, by in reversed(moves):
        shifts = np.arange(times).reshape(-1, 1, 1, 1) * np.array(by, np.int64).reshape(1, 1, -1, 1)
        found = (shifts + found[np.newaxis]).reshape(-1, len(box), 2)
    return found


def laid_out(lists: Iterable[Sequence[int]]) -> tuple[Array, Array]:
    """Lists one after the other, and where each begins [lists + 1]."""
    rows = list(lists)
    begin = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
    return np.fromiter((one for row in rows for one in row), np.int64, int(begin[-1])), begin
