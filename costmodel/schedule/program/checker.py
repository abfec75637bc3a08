"""Checks programs. Nothing here knows of schedules: what a program says is all that counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from costmodel.schedule.program.part_data import common, elements
from costmodel.schedule.program.program import (
    Box,
    Instruction,
    LayerNest,
    Message,
    Program,
    Repeat,
    Work,
    box_at,
    counted,
    times_before,
)

MOST_REASONS = 20
"""How many reasons are given at most."""
OUTPUT_DIMS = ("N", "K", "P", "Q")
"""The dims of a nest that number samples, channels, rows and columns of its outputs."""


def violations(program: Program) -> list[str]:
    """Why a program cannot run, or does not compute its network once; empty if it does. At most 20 reasons.

    - Every message is issued by all its sources and targets, equally often, and by nobody else.
    - Data lies within the buffer, and no two messages at the same bytes while both are there.
    - A compute reads what was loaded or received before on its tile and not yet freed.
    - What leaves a tile is of the outputs of the compute before, once for each.
    - The boxes of a layer cover its nest exactly once a batch.
    - What is loaded from DRAM of a layer's outputs has been stored.
    - All tiles get to the end: nobody waits for what never comes.
    """
    reasons = list(_numbers(program))
    if reasons:  # what follows looks up messages and works by number
        return reasons[:MOST_REASONS]
    reasons += _participants(program)
    for nest in program.layers:
        reasons += _coverage(program, nest)
    reasons += _unstored(program)
    if not reasons:
        reasons += _Run(program).reasons()
    return reasons[:MOST_REASONS]


def unrolled(code: Sequence[Instruction | Repeat]) -> Iterator[Instruction]:
    """All instructions in the order in which they are done."""
    for item in code:
        if isinstance(item, Repeat):
            for _ in range(item.times):
                yield from unrolled(item.body)
        else:
            yield item


def _numbers(program: Program) -> Iterator[str]:
    """Numbers that name nothing."""
    messages, works = len(program.messages), len(program.works)
    if len(program.tiles) != program.chip.tiles:
        yield f"{len(program.tiles)} tiles have instructions, the chip has {program.chip.tiles}"
    for tile, code in enumerate(program.tiles):
        for item, _ in counted(code):
            if item.operation == "compute":
                if not 0 <= item.work < works:
                    yield f"tile {tile}: compute of work {item.work}, of {works}"
                if wrong := [number for number in item.reads if not 0 <= number < messages]:
                    yield f"tile {tile}: compute reads message {wrong[0]}, of {messages}"
            elif not 0 <= item.message < messages:
                yield f"tile {tile}: {item.operation} of message {item.message}, of {messages}"
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
        if elements(message.box) < 1 or message.size_bytes < 1:
            yield f"message {number}: no elements"
        axes = {len(message.box), *(len(by) for _, by in message.moves)}
        if len(axes | {len(program.messages[one].box) for one in message.after if one < messages}) > 1:
            yield f"message {number}: its box, moves and the stores that it waits for differ in their axes"
    for number, work in enumerate(program.works):
        if len({len(work.box), *(len(by) for _, by in work.moves)}) > 1:
            yield f"work {number}: its box and moves differ in their axes"


def _participants(program: Program) -> Iterator[str]:
    """Messages that are issued by others than their sources and targets, or not equally often."""
    issued: Counter[tuple[int, str, int]] = Counter()
    for tile, code in enumerate(program.tiles):
        for item, times in counted(code):
            if item.operation in ("load", "receive", "send", "store"):
                issued[item.message, item.operation, tile] += times
    expected = {}
    for number, message in enumerate(program.messages):
        times = prod(times for times, _ in message.moves)
        came = "receive" if message.sources else "load"
        left = "send" if message.targets else "store"
        takes_part = [(came, tile) for tile in message.targets] + [(left, tile) for tile in message.sources]
        own = [issued.get((number, operation, tile), 0) for operation, tile in takes_part]
        if len(takes_part) != len(set(takes_part)):
            yield f"message {number}: a tile twice among its sources or targets"
        elif len(set(own)) > 1 or not own[0]:
            yield f"message {number}: its tiles issue it {own} times, not all equally often"
        elif message.moves and own[0] != times:
            yield f"message {number}: issued {own[0]} times, and its box moves {times} times"
        expected.update({(number, operation, tile): True for operation, tile in takes_part})
    for number, operation, tile in issued:
        if (number, operation, tile) not in expected:
            yield f"tile {tile}: {operation} of message {number}, which has other sources and targets"


def _coverage(program: Program, nest: LayerNest) -> Iterator[str]:
    """Whether the works of a layer cover its nest once.

    The nest is divided at all indices where a box begins or ends; then every box is a number of whole cells.
    """
    times: Counter[int] = Counter()
    for code in program.tiles:
        for item, often in counted(code):
            if item.operation == "compute" and program.works[item.work].layer == nest.layer:
                times[item.work] += often
    boxes: list[Box] = []
    sizes = [size for _, size in nest.dims]
    for number, often in times.items():
        work = program.works[number]
        if often != prod(count for count, _ in work.moves):
            yield f"{nest.layer}: work {number} is done {often} times, its box moves another number of times"
            return
        boxes += [box_at(work.box, work.moves, time) for time in range(often)]
    for box in boxes:
        if len(box) != len(sizes) or any(
            not 0 <= first < end <= size for (first, end), size in zip(box, sizes, strict=True)
        ):
            yield f"{nest.layer}: {box} is not within its nest of {dict(nest.dims)}"
            return
    edges = [
        sorted({0, size, *(end for box in boxes for end in box[axis])}) for axis, size in enumerate(sizes)
    ]
    positions = [{edge: index for index, edge in enumerate(axis)} for axis in edges]
    done = np.zeros([len(axis) - 1 for axis in edges], np.int32)
    for box in boxes:
        done[tuple(slice(at[a], at[b]) for at, (a, b) in zip(positions, box, strict=True))] += 1
    if (done != 1).any():
        cell = np.argwhere(done != 1)[0]
        where = tuple((axis[i], axis[i + 1]) for axis, i in zip(edges, cell, strict=True))
        yield f"{nest.layer}: {where} of its nest is computed {int(done[tuple(cell)])} times"


def _unstored(program: Program) -> Iterator[str]:
    """Loads of a layer's outputs that no stores make complete.

    The stores of a layer's outputs have no element in common, so their common elements with a load add up.
    """
    layers = {nest.layer for nest in program.layers}
    for number, message in enumerate(program.messages):
        if message.sources or message.tensor not in layers:
            continue
        if any(program.messages[one].tensor != message.tensor for one in message.after):
            yield f"message {number}: waits for a store of another tensor than {message.tensor}"
            continue
        for time in range(prod(times for times, _ in message.moves)):
            wanted = box_at(message.box, message.moves, time)
            stored = 0
            for one in message.after:
                store = program.messages[one]
                stored += sum(elements(both) for both in _in_common(wanted, store))
            if stored != elements(wanted):
                all_of = elements(wanted)
                yield f"message {number}: {all_of} elements of {message.tensor}, {stored} are stored"
                break


def _in_common(wanted: Box, store: Message) -> Iterator[Box]:
    if common(wanted[1:], store.box[1:]) is None and all(not any(by[1:]) for _, by in store.moves):
        return
    for time in range(prod(times for times, _ in store.moves)):
        both = common(wanted, box_at(store.box, store.moves, time))
        if both is not None:
            yield both


@dataclass
class _Tile:
    """The state of a tile: what comes next, and what its buffer holds.

    ``live``: address and bytes of each message; ``arrived``: how often each has arrived. ``issued``: how
    often each was loaded or received. ``work``: the last compute with the time that it was done, and the
    messages that ``left`` it.
    """

    code: Iterator[Instruction]
    next: Instruction | None = None
    live: dict[int, tuple[int, int]] = field(default_factory=dict)
    issued: Counter[int] = field(default_factory=Counter)
    arrived: Counter[int] = field(default_factory=Counter)
    work: tuple[Work, int] | None = None
    left: set[int] = field(default_factory=set)


class _Run:
    """Runs a program without a clock: a tile goes on as far as it can, then the next one does.

    Whether a program ends does not depend on the order, as what a tile waits for is never taken away again.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tiles = [_Tile(unrolled(code)) for code in program.tiles]
        self._ready: Counter[tuple[int, int]] = Counter()  # (message, time): tiles that have issued it
        self._ended: Counter[int] = Counter()  # how often each message was transferred
        self._works: Counter[int] = Counter()
        self._sent: Counter[tuple[int, int]] = Counter()  # (message, tile): how often it left
        self._waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)  # loads that wait for a store
        self._found: list[str] = []

    def reasons(self) -> list[str]:
        """What goes wrong; the run ends with the first tile that has gone wrong."""
        for tile in self._tiles:
            tile.next = next(tile.code, None)
        moved = True
        while moved and not self._found:
            moved = False
            for number in range(len(self._tiles)):
                while not self._found and self._step(number):
                    moved = True
        if not self._found:
            for number, tile in enumerate(self._tiles):
                if tile.next is not None:
                    self._found.append(f"tile {number}: waits for ever at {tile.next}")
                elif tile.live:
                    self._found.append(f"tile {number}: messages {sorted(tile.live)[:5]} are never freed")
        return self._found

    def _step(self, number: int) -> bool:
        """Does the next instruction of a tile; False if it has to wait."""
        tile, program = self._tiles[number], self._program
        at = tile.next
        if at is None:
            return False
        where = f"tile {number}: {at.operation}"
        if at.operation == "compute":
            if missing := [one for one in at.reads if one not in tile.live]:
                self._found.append(f"{where} reads message {missing[0]}, which is not in the buffer")
                return False
            if not self._all_there(tile, at.reads) or any(
                self._sent[one, number] > self._ended[one] for one in tile.left
            ):
                return False
            tile.work, tile.left = (program.works[at.work], self._works[at.work]), set()
            self._works[at.work] += 1
        elif at.operation in ("load", "receive"):
            if reason := self._misplaced(tile, at):
                self._found.append(f"{where} of message {at.message} {reason}")
                return False
            tile.live[at.message] = at.address, program.messages[at.message].size_bytes
            self._issue(at.message, tile.issued[at.message])
            tile.issued[at.message] += 1
        elif at.operation in ("send", "store"):
            if reason := self._not_made(tile, number, at.message):
                self._found.append(f"{where} of message {at.message} {reason}")
                return False
            tile.left.add(at.message)
            self._issue(at.message, self._sent[at.message, number])
            self._sent[at.message, number] += 1
        else:
            if at.message not in tile.live:
                self._found.append(f"{where} of message {at.message}, which is not in the buffer")
                return False
            if not self._all_there(tile, (at.message,)):
                return False
            del tile.live[at.message]
        tile.next = next(tile.code, None)
        return True

    def _all_there(self, tile: _Tile, messages: Iterable[int]) -> bool:
        return all(self._ended[one] >= tile.issued[one] for one in messages)

    def _misplaced(self, tile: _Tile, at: Instruction) -> str | None:
        """Why data cannot lie where an instruction says."""
        program, size = self._program, self._program.messages[at.message].size_bytes
        if at.message in tile.live:
            return "which is in the buffer already"
        if not program.output_stream_bytes <= at.address <= program.chip.tile.buffer.size_bytes - size:
            return f"at address {at.address}: {size} bytes are not within the buffer, behind the outputs"
        for other, (address, length) in tile.live.items():
            if at.address < address + length and address < at.address + size:
                return f"at address {at.address}, where message {other} is"
        return None

    def _not_made(self, tile: _Tile, number: int, message: int) -> str | None:
        """Why a message is not of the outputs of the compute before."""
        if tile.work is None:
            return "before any compute"
        if message in tile.left:
            return "a second time after one compute"
        it, (work, time) = self._program.messages[message], tile.work
        if it.tensor != work.layer:
            return f"is of {it.tensor}, and the compute before is of {work.layer}"
        dims = next(nest.dims for nest in self._program.layers if nest.layer == work.layer)
        names = [dim for dim, _ in dims]
        if "G" in names:  # channels are those of two dims, so the outputs are no box
            return None
        made = box_at(work.box, work.moves, time)
        outputs = tuple(made[names.index(dim)] for dim in OUTPUT_DIMS)
        box = box_at(it.box, it.moves, self._sent[message, number])
        if common(box, outputs) != box:
            return f"is {box} of {it.tensor}, and the compute before makes {outputs}"
        return None

    def _issue(self, message: int, time: int) -> None:
        """A tile has issued a message for a time; once all have, and its stores have ended, it is done."""
        it = self._program.messages[message]
        self._ready[message, time] += 1
        if self._ready[message, time] == len(it.sources) + len(it.targets):
            del self._ready[message, time]
            self._transfer(message, time)

    def _transfer(self, message: int, time: int) -> None:
        it = self._program.messages[message]
        for store in it.after:
            if self._ended[store] < times_before(it, time, self._program.messages[store]):
                self._waiting[store].append((message, time))
                return
        self._ended[message] += 1
        for waiting in self._waiting.pop(message, ()):
            self._transfer(*waiting)
