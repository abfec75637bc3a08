"""Timed cycles: what the steps of a walk take, and which part of the machine they wait for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import ArrayTiming, Timing, TransferTiming
from costmodel.mapping.counts.processing import ProcessingCycles
from costmodel.mapping.timing.counts import ArrayCounts, StepCounts, TransferCounts, step_counts
from costmodel.mapping.timing.walk import walk_of
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer

COMPONENTS = ("array", "load", "store", "memory", "issue")
"""What steps can wait for: the array, a port, the memory behind both ports, the host."""


@dataclass(frozen=True)
class PortCycles:
    """What one direction of transfers takes, by cause; caches and memory behind the port are ``misses``."""

    beats: float = 0.0
    requests: float = 0.0
    rows: float = 0.0
    buffer: float = 0.0
    """What the buffer needs beyond beats, requests and rows, where it is slower than the bus."""
    misses: float = 0.0
    clearing: float = 0.0

    @property
    def cycles(self) -> float:
        """Of all causes together."""
        return self.beats + self.requests + self.rows + self.buffer + self.misses + self.clearing


@dataclass(frozen=True)
class TimedCycles:
    """The cycles of a layer on a machine with timing.

    ``array``, ``load``, ``store`` and ``issue`` are what each would take by itself over all ``steps``.
    ``fill_drain`` is what overlaps with nothing: the first step's load and issue, the last one's computation
    and store.
    """

    cycles: int
    steps: int
    array: float
    load: PortCycles
    store: PortCycles
    issue: float
    fill_drain: float
    processing: ProcessingCycles | None = None
    """Of an array of PEs, by cause; it is part of ``array``."""

    @property
    def components(self) -> dict[str, float]:
        """Cycles of each of ``COMPONENTS``."""
        return {
            "array": self.array,
            "load": self.load.cycles,
            "store": self.store.cycles,
            "memory": self.load.misses + self.store.misses,
            "issue": self.issue,
        }

    @property
    def binding(self) -> str:
        """The component that the steps wait for, one of ``COMPONENTS``."""
        return max(self.components.items(), key=lambda item: item[1])[0]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, and the name of the component that binds."""
        return asdict(self) | {"binding": self.binding}


def timed_cycles(
    architecture: Architecture, timing: Timing, layer: Layer, mapping: AnyMapping, inner_cycles: float
) -> TimedCycles:
    """What a mapping takes; ``inner_cycles`` are those of its MACs and inner levels, from the counts."""
    return cycles_of(timing, step_counts(architecture, timing, walk_of(timing, layer, mapping)), inner_cycles)


def cycles_of(timing: Timing, counts: StepCounts, inner_cycles: float = 0.0) -> TimedCycles:
    """The cycles of what the steps ask for; every component grows with every count."""
    array = _array_cycles(timing.array, counts.array) if timing.array and counts.array else 0.0
    array = max(array, inner_cycles)
    read = sum(
        cache.cycles_per_miss * lines for cache, lines in zip(timing.caches, counts.read_misses, strict=True)
    )
    written = sum(
        cache.cycles_per_miss * cache.lines_per_write_miss * lines
        for cache, lines in zip(timing.caches, counts.write_misses, strict=True)
    )
    load = _port_cycles(timing.load, counts.loads, timing.clear_cycles_per_row * counts.cleared_rows, read)
    store = _port_cycles(timing.store, counts.stores, 0.0, written)
    issue = counts.steps * timing.issue_of(product=counts.product)
    alone = array + load.cycles + store.cycles + issue
    if timing.steps_in_flight == 1:
        return TimedCycles(ceil(alone), counts.steps, array, load, store, issue, alone)
    # both ports are served by one memory, so their misses come one after the other
    slowest = max(array, load.cycles, store.cycles, load.misses + store.misses, issue)
    fill_drain = alone / counts.steps
    cycles = ceil((counts.steps - 1) / counts.steps * slowest + fill_drain)
    return TimedCycles(cycles, counts.steps, array, load, store, issue, fill_drain)


def _array_cycles(array: ArrayTiming, counts: ArrayCounts) -> float:
    shortest = array.shortest_pass_cycles
    through = sum(count * max(points, shortest) for points, count in counts.passes)
    waiting = sum(
        count * max(array.least_last_pass_cycles - max(points, shortest), 0.0)
        for points, count in counts.last
    )
    return through + waiting


def _port_cycles(
    port: TransferTiming | None, counts: tuple[TransferCounts, ...], clearing: float, misses: float
) -> PortCycles:
    if port is None:
        return PortCycles(misses=misses, clearing=clearing)
    beats = sum(one.beats for one in counts)
    requests = port.cycles_per_request * sum(one.requests for one in counts)
    rows = port.cycles_per_row * sum(one.rows for one in counts)
    # of each tensor, the slower of bus and buffer, which work side by side
    slower = sum(
        max(
            one.buffer_cycles,
            one.beats + port.cycles_per_request * one.requests + port.cycles_per_row * one.rows,
        )
        for one in counts
    )
    buffer = max(0.0, slower - beats - requests - rows)
    return PortCycles(beats, requests, rows, buffer, misses, clearing)
