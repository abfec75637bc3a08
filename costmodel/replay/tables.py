"""A program as the arrays that the event loop runs on, and the state of a run before its first event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.replay.event_values import (
    BETWEEN_TILES,
    COMPUTE,
    END,
    FREE,
    FROM_DRAM,
    HOLD,
    LOAD,
    LONGEST,
    LOOP,
    RECEIVE,
    SEND,
    STORE,
    TO_DRAM,
    Code,
    DramPlan,
    Messages,
    MessageState,
    ProgramTables,
    Queue,
    Rates,
    Repeats,
    ReplayState,
    TileState,
    Works,
)
from costmodel.replay.failures import impossible, named
from costmodel.replay.mistakes import OPERATIONS, check_values
from costmodel.replay.routes import begins, routes_of, whole_numbers
from costmodel.schedule.program.program import Instruction, Message, Program, Repeat, times_before

Array = NDArray[Any]
MOST_STEPS = 1_000_000_000
"""The most instructions, repetitions counted, that are replayed turn by turn: some minutes of work."""
LONGEST_STATE = 1 << 16
"""The most numbers of a state that is compared turn by turn: comparing takes no longer than the turns do."""


@dataclass(frozen=True)
class ReplayOptions:
    """What a program does not say.

    ``dram_latency``: cycles before the first byte of a load. ``hop_latency``: cycles that a message takes
    longer for each router on its longest way. ``packet_bytes``: the size of packets, in which messages take
    turns on a link; of each message ``packets_in_flight`` are under way at a time.
    ``skip_repeats``: where a loop repeats itself exactly, its turns are added up and not run one by one,
    which changes no number. Programs whose loads wait for stores, and runs with a log, go turn by turn.
    """

    dram_latency: int = 0
    hop_latency: int = 0
    packet_bytes: int = 4096
    packets_in_flight: int = 8
    skip_repeats: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("dram_latency", 0),
            ("hop_latency", 0),
            ("packet_bytes", 1),
            ("packets_in_flight", 1),
        ):
            value = getattr(self, name)
            if not least <= value <= 1 << 30:
                raise InputError("replay", f"a whole number from {least} to {1 << 30:,}", value, key=name)


@dataclass
class _Listing:
    """Columns of instructions as they are found; see :class:`.event_values.Code`."""

    rows: list[tuple[int, int, int, int, int, int, int, int]] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    steps: int = 0
    most_loops: int = 1


class _Numbers:
    """The numbers of copies and outputs: one of a message for each of its targets, and for each source.

    ``held``: the copies of bytes that hold outputs.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.copies = begins(len(message.targets) for message in messages)
        self.outputs = begins(len(message.sources) for message in messages)
        self.copy_tile = [tile for message in messages for tile in message.targets]
        self.output_tile = [tile for message in messages for tile in message.sources]
        self.copy = {
            (number, tile): self.copies[number] + position
            for number, message in enumerate(messages)
            for position, tile in enumerate(message.targets)
        }
        self.output = {
            (number, tile): self.outputs[number] + position
            for number, message in enumerate(messages)
            for position, tile in enumerate(message.sources)
        }
        self.held = {key: len(self.copy_tile) + output for key, output in self.output.items()}

    def in_buffer(self, message: int, tile: int) -> int:
        """The copy of a message that a tile has: of its data, or of the bytes that hold its outputs."""
        found = self.copy.get((message, tile))
        return self.held[message, tile] if found is None else found

    @property
    def copy_message(self) -> list[int]:
        """The message of each copy, those of held outputs included."""
        coming = np.repeat(np.arange(len(self.copies) - 1), np.diff(self.copies))
        leaving = np.repeat(np.arange(len(self.outputs) - 1), np.diff(self.outputs))
        return [*coming.tolist(), *leaving.tolist()]


class Compiled:
    """The tables of a program, and what is needed to run it and to say what went wrong.

    ``ticks``: of a cycle. ``runs`` [messages]: how often each is transferred; ``times`` [works]: how often
    each is computed. ``weights``: for each route the links (numbers) and the port bits a bit on each.

    Raises InputError for an instruction that no tile can do, or a transfer in which not all tiles take part.
    """

    def __init__(self, program: Program, options: ReplayOptions) -> None:
        self.program, self.options = program, options
        chip = program.chip
        check_values(program)
        ports, link = len(chip.ports), chip.noc.link_bits_per_cycle
        read, write = chip.dram.bits_per_cycle, chip.dram_write_bits_per_cycle
        self.ticks = lcm(ports * link, read, write or read)
        longest = max([work.cycles for work in program.works] + [options.dram_latency, options.hop_latency])
        sizes = max((int(8 * message.size_bytes) for message in program.messages), default=0)
        if max(longest + 1, sizes) * self.ticks * 4 > LONGEST:
            expected = f"works and messages of less than {LONGEST // self.ticks // 4:,} cycles and bits"
            raise InputError("program", expected, f"{longest:,} cycles, {sizes:,} bits")
        self.numbers = _Numbers(program.messages)
        self.taken = Counter[tuple[int, int, bool]]()
        self.times = np.zeros(len(program.works), np.int64)
        self.layers = tuple(dict.fromkeys(work.layer for work in program.works))
        code, self._steps, self._most_loops = self._code()
        self.runs = self._runs()
        routes, route, self.weights = routes_of(chip, program.messages, self.ticks)
        number = {name: position for position, name in enumerate(self.layers)}
        cycles = [work.cycles for work in program.works]
        self.tables = ProgramTables(
            code,
            self._messages(route),
            routes,
            Rates(
                self.ticks,
                self.ticks // read,
                self.ticks // (write or read),
                0 if write is None else 1,
                options.dram_latency * self.ticks,
                options.hop_latency * self.ticks,
                8 * options.packet_bytes,
                options.packets_in_flight,
            ),
            Works(whole_numbers(cycles), whole_numbers([number[work.layer] for work in program.works])),
        )

    @property
    def without_transfers(self) -> ProgramTables:
        """The tables of a machine on which nothing but computing takes time."""
        tables, rates = self.tables, self.tables.rates
        free = rates._replace(
            dram_read_bit=0, dram_write_bit=0, dram_latency=0, hop_latency=0, packet_bits=LONGEST
        )
        routes = tables.routes._replace(ticks=np.zeros_like(tables.routes.ticks))
        return tables._replace(rates=free, routes=routes)

    def planned(self, plan: DramPlan) -> ProgramTables:
        """The tables with what a run :attr:`without_transfers` has found.

        Data that nobody read there is needed when it is asked for.
        """
        found = np.where(plan.found < LONGEST, plan.found, 0)
        return self.tables._replace(code=self.tables.code._replace(planned=found))

    def new_run(self, logged: bool, planning: bool = False) -> ReplayState:
        """The state before the first event; with ``logged`` there are rows for every compute and transfer.

        ``planning``: the run makes a plan.

        InputError for a program of too many instructions, unless turns that repeat are skipped.
        """
        tiles, count = self.program.chip.tiles, len(self.program.messages)
        outputs, links = len(self.numbers.output_tile), 4 * self.program.chip.columns * self.program.chip.rows
        tile_of = [*self.numbers.copy_tile, *self.numbers.output_tile]
        copies, of_tile = len(tile_of), np.bincount(whole_numbers(tile_of), minlength=tiles)
        packets = self.options.packets_in_flight * count
        events = tiles + packets + 3
        computes, transfers = (int(self.times.sum()), int(self.runs.sum())) if logged else (0, 0)
        instructions = len(self.tables.code.operation)
        plan = _zeros((instructions if planning else 0, 2))
        plan[np.isin(self.tables.code.operation[: len(plan)], (LOAD, RECEIVE)), 0] = LONGEST
        # as `repeats_kernel.py` describes them
        numbers = 7 * tiles + 6 * count + 5 * copies + 3 * outputs + links + 7 + 2 * events + 4 * packets
        depth = self._most_loops
        skips = (
            self.options.skip_repeats
            and not logged
            and numbers <= LONGEST_STATE
            and not len(self.tables.messages.pair_load)
        )
        if not skips:
            depth = numbers = 0
            if self._steps > MOST_STEPS:
                raise InputError("program", f"at most {MOST_STEPS:,} instructions", f"{self._steps:,}")
        return ReplayState(
            _empty_queue(events),
            TileState(
                next=self.tables.code.begin[:-1].copy(),
                status=_zeros(tiles),
                compute_end=_zeros(tiles),
                missing=_zeros(tiles),
                leaving=_zeros(tiles),
                computes=_zeros(tiles),
                loops=_zeros((tiles, self._most_loops)),
                reason=_zeros(tiles),
                held=_zeros(tiles),
                held_begin=whole_numbers(begins(of_tile.tolist())),
                held_copy=_zeros(copies + 1),
                bits=_zeros(tiles),
                most_bits=_zeros(tiles),
                busy=_zeros(tiles),
                waited=_zeros((tiles, 3)),
                planned_end=_zeros(tiles),
                begun=_zeros(tiles),
            ),
            MessageState(
                _zeros(count),
                np.full(count, LONGEST, np.int64),
                *(_zeros(count) for _ in range(7)),
                *(_zeros(copies) for _ in range(5)),
                *(_zeros(outputs) for _ in range(3)),
            ),
            link_free=_zeros(links),
            dram_free=_zeros(2),
            serving=_zeros(2),
            waiting=(_empty_queue(packets + 1), _empty_queue(packets + 1)),
            layers=np.full((len(self.layers), 2), -1, np.int64),
            failure=_zeros(4),
            end=_zeros(1),
            computed=_zeros((computes, 4)),
            moved=_zeros((transfers, 3)),
            logged=_zeros(2),
            begun=_zeros(instructions),
            plan=DramPlan(
                found=plan,
                asked_by=np.full(copies if planning else 0, -1, np.int64),
                asked_after=_zeros(copies if planning else 0),
            ),
            repeats=Repeats(
                tile=np.full(1, self._deepest if skips else -1, np.int64),
                turned=_zeros(1),
                current=_zeros(numbers),
                order=_zeros(max(events, packets + 1)),
                skipped=_zeros(1),
                turns=_zeros(depth),
                next_kept=_zeros(depth),
                moment=_zeros(depth),
                length=_zeros(depth),
                state=_zeros((depth, numbers)),
                loops=_zeros((depth, tiles, self._most_loops)),
                computes=_zeros((depth, tiles)),
                busy=_zeros((depth, tiles)),
                compute_end=_zeros((depth, tiles)),
                waited=_zeros((depth, tiles, 3)),
                planned_end=_zeros((depth, tiles)),
                needed=_zeros((depth, count)),
                done=_zeros((depth, count)),
            ),
        )

    def _code(self) -> tuple[Code, int, int]:
        """The instructions of all tiles, the steps with all repetitions, and the most nested loops."""
        listing, begin, steps = _Listing(), [0], [0]
        for tile, body in enumerate(self.program.tiles):
            self._list(listing, tile, body, 1, 0)
            begin.append(len(listing.rows))
            steps.append(listing.steps)
        rows = np.array(listing.rows, np.int64).reshape(-1, 8)
        operation, message, copy_or_output, address, work, times, body_at, depth = (
            np.ascontiguousarray(column) for column in rows.T
        )
        # the tile whose loops tell the turns of inner loops from those of outer ones best
        self._deepest = max(
            range(len(steps) - 1),
            key=lambda tile: (depth[begin[tile] : begin[tile + 1]].max(initial=0), np.diff(steps)[tile]),
        )
        # of these the column `times` counts what they read, in the order of the list of reads
        reading = np.isin(operation, (COMPUTE, FREE, SEND, STORE))
        reads_begin = np.concatenate([[0], np.cumsum(np.where(reading, times, 0))])
        code = Code(
            whole_numbers(begin),
            operation,
            message,
            copy_or_output,
            address,
            work,
            reads_begin,
            whole_numbers(listing.reads),
            _zeros((len(operation), 2)),
            times,
            body_at,
            depth,
        )
        return code, listing.steps, listing.most_loops

    def _list(
        self, listing: _Listing, tile: int, body: Sequence[Instruction | Repeat], times: int, depth: int
    ) -> None:
        """List the instructions of a body that is done ``times`` times in all, inside ``depth`` loops."""
        listing.most_loops = max(listing.most_loops, depth + 1)
        for item in body:
            listing.steps += times
            if isinstance(item, Repeat):
                listing.rows.append((LOOP, -1, -1, -1, -1, item.times, -1, depth))
                first = len(listing.rows)
                self._list(listing, tile, item.body, times * item.times, depth + 1)
                listing.rows.append((END, -1, -1, -1, -1, 0, first, depth))
                continue
            operation = OPERATIONS[item.operation]
            copy_or_output = -1
            reads: tuple[int, ...] = ()
            if operation == COMPUTE:
                self.times[item.work] += times
                reads = tuple(self.numbers.copy[number, tile] for number in item.reads)
            elif operation in (SEND, STORE):
                copy_or_output = self.numbers.output[item.message, tile]
                self.taken[item.message, tile, False] += times
                reads = tuple(self.numbers.in_buffer(number, tile) for number in item.reads)
            else:
                copy_or_output = self.numbers.in_buffer(item.message, tile)
                if operation == FREE:
                    reads = (copy_or_output,)
                elif operation != HOLD:
                    self.taken[item.message, tile, True] += times
            listing.reads += reads
            address = int(8 * item.address)  # of no address, which is -1, something below 0 as well
            row = (operation, item.message, copy_or_output, address, item.work, len(reads), -1, depth)
            listing.rows.append(row)

    def _runs(self) -> Array:
        """How often each message is transferred; InputError where its tiles do not agree."""
        runs = np.zeros(len(self.program.messages), np.int64)
        for number, message in enumerate(self.program.messages):
            takes = [(tile, False) for tile in message.sources] + [(tile, True) for tile in message.targets]
            counts = [self.taken[number, tile, coming] for tile, coming in takes]
            if len(set(counts)) > 1:
                low, high = takes[counts.index(min(counts))], takes[counts.index(max(counts))]
                verb = {False: "sends" if message.targets else "stores"}
                verb[True] = "receives" if message.sources else "loads"
                raise impossible(
                    f"tiles[{low[0]}]",
                    f"to take part in {named(self.program, number)} as often as all its tiles: "
                    f"tile {high[0]} {verb[high[1]]} it {max(counts):,} times",
                    f"tile {low[0]}, which {verb[low[1]]} it {min(counts):,} times",
                )
            runs[number] = counts[0] if counts else 0
        return runs

    def _messages(self, route: Array) -> Messages:
        messages = self.program.messages
        kinds = [
            TO_DRAM if not one.targets else BETWEEN_TILES if one.sources else FROM_DRAM for one in messages
        ]
        pairs = [(number, store) for number, one in enumerate(messages) for store in one.after]
        needs: list[int] = []
        needs_begin: list[int] = []
        for load, store in pairs:
            needs_begin.append(len(needs))
            needs += self._needs(load, store)
        by_store: list[list[int]] = [[] for _ in messages]
        for number, (_, store) in enumerate(pairs):
            by_store[store].append(number)
        return Messages(
            size=whole_numbers([8 * message.size_bytes for message in messages]),
            kind=whole_numbers(kinds),
            route=route,
            copies=whole_numbers(self.numbers.copies),
            copy_tile=whole_numbers(self.numbers.copy_tile),
            copy_size=whole_numbers(
                [8 * messages[number].size_bytes for number in self.numbers.copy_message]
            ),
            outputs=whole_numbers(self.numbers.outputs),
            output_tile=whole_numbers(self.numbers.output_tile),
            pairs=whole_numbers(begins(len(message.after) for message in messages)),
            pair_load=whole_numbers([load for load, _ in pairs]),
            pair_store=whole_numbers([store for _, store in pairs]),
            needs_begin=whole_numbers(needs_begin),
            needs=whole_numbers(needs),
            waiters_begin=whole_numbers(begins(map(len, by_store))),
            waiters=whole_numbers([number for waiting in by_store for number in waiting]),
        )

    def _needs(self, load: int, store: int) -> list[int]:
        """How often the store has to have ended before each time of the load."""
        late, early = self.program.messages[load], self.program.messages[store]
        needs = [times_before(late, time, early) for time in range(int(self.runs[load]))]
        if needs and max(needs) > self.runs[store]:
            raise impossible(
                f"messages[{load}]",
                f"{max(needs):,} stores of {named(self.program, store)} for {named(self.program, load)}",
                f"{int(self.runs[store]):,} stores",
            )
        return needs


def _zeros(shape: int | tuple[int, ...]) -> Array:
    return np.zeros(shape, np.int64)


def _empty_queue(most: int) -> Queue:
    return Queue(_zeros(most), _zeros(most), _zeros(most), _zeros(2))
