"""Programs for tests of the replay: short ways to write them, and random ones that cannot deadlock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from costmodel.hardware.chip import Chip
from costmodel.schedule.program.program import Instruction, Message, Program, Repeat, Work
from tests.costmodel.schedule.chip_cases import chip

Body = list[Instruction | Repeat]


def load(message: int, address: int = 0) -> Instruction:
    return Instruction("load", message, address)


def receive(message: int, address: int = 0) -> Instruction:
    return Instruction("receive", message, address)


def compute(work: int, *reads: int) -> Instruction:
    return Instruction("compute", work=work, reads=reads)


def send(message: int) -> Instruction:
    return Instruction("send", message)


def store(message: int) -> Instruction:
    return Instruction("store", message)


def free(message: int) -> Instruction:
    return Instruction("free", message)


def repeat(times: int, *body: Instruction | Repeat) -> Repeat:
    return Repeat(times, body)


def message(
    size: int, sources: tuple[int, ...], targets: tuple[int, ...], after: tuple[int, ...] = ()
) -> Message:
    return Message("data", ((0, size),), size, sources, targets, after=after)


def work(cycles: int, operations: int = 0, layer: str = "layer") -> Work:
    return Work(layer, ((0, 1),), cycles, operations)


def program(
    on: Chip,
    messages: list[Message],
    works: list[Work],
    *tiles: Sequence[Instruction | Repeat],
    stream: int = 0,
) -> Program:
    """A program; tiles without a list do nothing."""
    bodies = [tuple(body) for body in tiles] + [()] * (on.tiles - len(tiles))
    return Program("test", 1, on, tuple(messages), tuple(works), tuple(bodies), stream)


@dataclass
class _Tile:
    """A tile of a random program: its instructions, and the bytes of the messages in its buffer."""

    body: Body = field(default_factory=list)
    held: dict[int, tuple[int, int]] = field(default_factory=dict)

    def place(self, number: int, size: int, most: int) -> int | None:
        """The lowest address with so many free bytes, which the message takes; None if there is none."""
        address = 0
        for first, end in sorted(self.held.values()):
            if first - address >= size:
                break
            address = max(address, end)
        if address + size > most:
            return None
        self.held[number] = address, address + size
        return address


def random_program(random: Random) -> Program:
    """A random program of some dozens of actions on a small mesh.

    Every action is written to all tiles that take part in it before the next one. So of all instructions that
    wait, the earliest waits for nothing that comes later: such a program cannot deadlock.
    """
    on = chip(
        random.randint(1, 4),
        random.randint(1, 4),
        buffer=random.choice((64, 4096)),
        link=random.randint(1, 9),
        dram=random.randint(1, 9),
        stripe=random.randint(1, 3),
    )
    most = on.tile.buffer.size_bytes
    tiles = [_Tile() for _ in range(on.tiles)]
    messages: list[Message] = []
    works: list[Work] = []
    computed: set[int] = set()

    def to_tiles(sources: tuple[int, ...], operation: str) -> None:
        size, number = random.randint(1, 40), len(messages)
        wanted = random.sample(range(on.tiles), random.randint(1, on.tiles))
        placed = {tile: tiles[tile].place(number, size, most) for tile in wanted}
        targets = tuple(tile for tile, address in placed.items() if address is not None)
        if not targets:
            return
        messages.append(message(size, sources, targets))
        for tile in targets:
            address = placed[tile]
            assert address is not None
            tiles[tile].body.append(
                load(number, address) if operation == "load" else receive(number, address)
            )
        for tile in sources:
            tiles[tile].body.append(send(number))

    for _ in range(random.randint(1, 60)):
        tile = random.randrange(on.tiles)
        action = random.random()
        if action < 0.3:
            to_tiles((), "load")
        elif action < 0.45 and tiles[tile].held:
            gone = random.choice(list(tiles[tile].held))
            del tiles[tile].held[gone]
            tiles[tile].body.append(free(gone))
        else:
            reads = random.sample(list(tiles[tile].held), random.randint(0, len(tiles[tile].held)))
            works.append(work(random.randint(0, 30), random.randint(0, 99), f"layer{random.randint(0, 3)}"))
            tiles[tile].body.append(compute(len(works) - 1, *reads))
            computed.add(tile)
            for _ in range(random.randint(0, 2)):
                to_tiles((tile,), "receive")
            if random.random() < 0.5:
                others = random.sample(sorted(computed - {tile}), random.randint(0, len(computed) - 1))
                sources = (tile, *(other for other in others if _last_is_compute(tiles[other].body)))
                messages.append(message(random.randint(1, 40), sources, ()))
                for source in sources:
                    tiles[source].body.append(store(len(messages) - 1))
    return program(on, messages, works, *(one.body for one in tiles))


def _last_is_compute(body: Body) -> bool:
    last = body[-1]
    return isinstance(last, Instruction) and last.operation == "compute"
