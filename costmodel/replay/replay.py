"""Replays a program: cycles, bytes on every link, DRAM's bytes, operations, peaks of buffers, and a log.

What is simulated
    Tiles issue their instructions in order, as ``costmodel.schedule.program.program`` says; transfers and
    computation go on by themselves. Every transfer occupies every link of its XY route or multicast tree.
    Links are servers that take packets of a stated size in the order in which they set out; a message has a
    few packets in flight. DRAM serves first what is needed first. Its rate is that of all ports together,
    and every DRAM transfer uses all ports in equal parts. Buffers hold what lies in them by address, from
    the issue of a load or receive to the end of the free; data that would overlap is an error.

What is not
    What happens within a tile: a compute takes the cycles that its work states. Buffers of routers: a packet
    sets out on all links of its way at a time. Banks and pages of DRAM. Energy.

Everything is counted in whole numbers. Bits of links are *port bits*, bits times DRAM ports, as the part
of each port of a DRAM transfer is a fraction of its bits; time is in ticks, a fraction of a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.widths import in_bytes
from costmodel.replay.event_values import DATA, DONE, OUTPUTS, ReplayState
from costmodel.replay.stops import deadlocked, failed
from costmodel.replay.tables import Compiled, ReplayOptions
from costmodel.schedule.program.program import Program

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerTime:
    """When the first tile starts to compute a layer and the last one ends, in cycles, and its operations."""

    layer: str
    first_start: float
    last_end: float
    operations: int


@dataclass(frozen=True)
class ReplayLog:
    """Everything that happened, in ticks, of which a cycle has ``ticks``.

    ``computed`` [n, 4]: work, tile, start, end. ``moved`` [n, 3]: message, start, end.
    """

    ticks: int
    computed: Array
    moved: Array


@dataclass(frozen=True)
class Replay:
    """What a run of a program took.

    ``cycles``: from the start to the end of the last compute or transfer, rounded up. ``link_port_bits``
    [columns, rows, 4]: bits times ``ports`` on the links of every tile to the east, north, west and south.
    ``peak_bits`` [tiles]: the most bits that each buffer held at a time, with those that tiles which
    compute keep for outputs on their way out. ``busy_cycles`` [tiles]: cycles in which each tile computed;
    of all tiles ``computing_tiles`` can;
    ``waited_for_data``, ``waited_for_outputs`` [tiles]: cycles between computes in which it was held up by
    data that had not arrived, or by outputs that had not left. ``transfers``: messages, every time counted.
    ``log`` is there where it was asked for.
    """

    cycles: int
    ports: int
    link_port_bits: Array
    dram_read_bits: int
    dram_write_bits: int
    operations: int
    peak_bits: Array
    busy_cycles: Array
    waited_for_data: Array
    waited_for_outputs: Array
    layers: tuple[LayerTime, ...]
    computes: int
    transfers: int
    computing_tiles: int
    log: ReplayLog | None = None

    @property
    def dram_read_bytes(self) -> int | float:
        return in_bytes(self.dram_read_bits)

    @property
    def dram_write_bytes(self) -> int | float:
        return in_bytes(self.dram_write_bits)

    @property
    def peak_bytes(self) -> list[int | float]:
        return [in_bytes(bits) for bits in self.peak_bits.tolist()]

    @property
    def hop_bytes(self) -> float:
        """Bytes times the links that each crosses."""
        return int(self.link_port_bits.sum()) / 8 / self.ports

    @property
    def busiest_link_bytes(self) -> float:
        return int(self.link_port_bits.max()) / 8 / self.ports

    @property
    def utilization(self) -> float:
        """The part of the cycles of all tiles that can compute in which they do."""
        return float(self.busy_cycles.sum()) / (self.computing_tiles * self.cycles) if self.cycles else 0.0


def replay(program: Program, options: ReplayOptions | None = None, *, log: bool = False) -> Replay:
    """Run a program to its end; with ``log`` every compute and transfer is kept.

    Raises InputError that names tile, instruction and message for a program that cannot run: one that
    deadlocks, reads data that is not there, or puts data where other data lies.
    """
    from costmodel.replay.event_kernel import simulate

    compiled = Compiled(program, options or ReplayOptions())
    planning, run = compiled.new_run(False, planning=True), compiled.new_run(log)
    simulate(compiled.without_transfers, planning)
    simulate(compiled.planned(planning.plan), run)
    if run.failure[0]:
        raise failed(compiled, run)
    if (run.tiles.status != DONE).any() or run.messages.joined.any():
        raise deadlocked(compiled, run)
    return _result(compiled, run, log)


def _result(compiled: Compiled, run: ReplayState, log: bool) -> Replay:
    program, chip = compiled.program, compiled.program.chip
    sizes = compiled.tables.messages.size * run.messages.done
    reads = np.array([not message.sources for message in program.messages], bool)
    writes = np.array([not message.targets for message in program.messages], bool)
    links = np.zeros(4 * chip.columns * chip.rows, np.int64)
    of_route = np.zeros(len(compiled.weights), np.int64)
    np.add.at(of_route, compiled.tables.messages.route, sizes)
    # Messages of one route load the same links: add up their bits first, then go over the links once a
    # route.
    for size, (numbers, load) in zip(of_route.tolist(), compiled.weights, strict=True):
        links[numbers] += size * load
    operations = [work.operations for work in program.works]
    done = [count * times for count, times in zip(operations, compiled.times.tolist(), strict=True)]
    computing = run.tiles.computes > 0
    cycles = [(ticks / compiled.ticks).astype(float) for ticks in (run.tiles.busy, *run.tiles.waited.T)]
    return Replay(
        cycles=-(-int(run.end[0]) // compiled.ticks),
        ports=len(chip.ports),
        link_port_bits=links.reshape(chip.columns, chip.rows, 4),
        dram_read_bits=int(sizes[reads].sum()),
        dram_write_bits=int(sizes[writes].sum()),
        operations=sum(done),
        peak_bits=run.tiles.most_bits + np.where(computing, 8 * program.output_stream_bytes, 0),
        busy_cycles=cycles[0],
        waited_for_data=cycles[1 + DATA],
        waited_for_outputs=cycles[1 + OUTPUTS],
        layers=_layers(compiled, run, done),
        computes=int(compiled.times.sum()),
        transfers=int(compiled.runs.sum()),
        computing_tiles=chip.computing_tiles,
        log=ReplayLog(compiled.ticks, run.computed, run.moved) if log else None,
    )


def _layers(compiled: Compiled, run: ReplayState, done: list[int]) -> tuple[LayerTime, ...]:
    """The layers by their first start; those that no tile computed are left out."""
    # numbers of Python's: the operations of a large network may not fit 64 bits
    operations = np.zeros(len(compiled.layers), object)
    for number, count in zip(compiled.tables.works.layer.tolist(), done, strict=True):
        operations[number] += count
    times = (run.layers / compiled.ticks).tolist()
    found = [
        LayerTime(name, first, last, int(count))
        for name, (first, last), count in zip(compiled.layers, times, operations, strict=True)
        if first >= 0
    ]
    return tuple(sorted(found, key=lambda layer: layer.first_start))
