"""Timed cycles: what the steps of a walk take, and which part of the machine they wait for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import ArrayTiming, Timing, TransferTiming
from costmodel.mapping.counts.processing import ProcessingCycles
from costmodel.mapping.timing.counts import ArrayCounts, StepCounts, StoringSteps, TransferCounts, step_counts
from costmodel.mapping.timing.walk import timed_part, walk_of
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
    buffer_without_requests: float = 0.0
    """What ``buffer`` would be if requests took nothing: it works beside them."""

    @property
    def cycles(self) -> float:
        """Of all causes together."""
        return self.beats + self.requests + self.rows + self.buffer + self.misses + self.clearing

    @property
    def without_requests(self) -> PortCycles:
        """The same transfers with requests that take nothing."""
        return replace(self, requests=0.0, buffer=self.buffer_without_requests)


@dataclass(frozen=True)
class TimedCycles:
    """The cycles of a layer on a machine with timing.

    ``array``, ``load``, ``store`` and ``issue`` are what each would take by itself over all ``steps``. A
    layer that is run in parts has these numbers of one part, and takes ``times`` as long.
    """

    steps: int
    steps_in_flight: int
    array: float
    load: PortCycles
    store: PortCycles
    issue: float
    processing: ProcessingCycles | None = None
    """Of an array of PEs, by cause; it is part of ``array``."""
    whole: StoringSteps | None = None
    """Where steps hold their place until they have stored: those that store."""
    ahead: float = 0.0
    """Cycles by which loading, computing and storing of a whole step may overlap, two and two."""
    times: int = 1
    """How many equal parts run one after the other: see :class:`.walk.TimedPart`."""

    @property
    def components(self) -> dict[str, float]:
        """Cycles of each of ``COMPONENTS``, of one part."""
        return {
            "array": self.array,
            "load": self.load.cycles,
            "store": self.store.cycles,
            "memory": self.load.misses + self.store.misses,
            "issue": self.issue,
        }

    @property
    def without(self) -> dict[str, int]:
        """Cycles that would be left if one cause took no time, by the name of the cause."""
        load, store = self.load, self.store
        left = {
            "array": replace(self, array=0.0),
            "load bandwidth": replace(self, load=replace(load, beats=0.0, rows=0.0, buffer=0.0)),
            "store bandwidth": replace(self, store=replace(store, beats=0.0, rows=0.0, buffer=0.0)),
            "requests": replace(self, load=load.without_requests, store=store.without_requests),
            "cache misses": replace(self, load=replace(load, misses=0.0), store=replace(store, misses=0.0)),
            "clearing": replace(self, load=replace(load, clearing=0.0)),
            "issue": replace(self, issue=0.0),
            "places of steps": replace(self, whole=None, ahead=0.0),
        }
        found = {cause: one.cycles for cause, one in left.items() if one != self}
        return found | {"first fill and last drain": self.times * ceil(self._slowest)}

    @property
    def cycles(self) -> int:
        """Those of the layer: the slowest component of all steps but one, and what overlaps with nothing."""
        if self.steps_in_flight == 1:
            return self.times * ceil(self.fill_drain)
        return self.times * ceil((self.steps - 1) / self.steps * self._slowest + self.fill_drain)

    @property
    def fill_drain(self) -> float:
        """What overlaps with nothing: the first step's load and issue, the last one's computation and store.

        With one step in flight that is everything. Of a layer in parts it is that of one part.
        """
        alone = self.array + self.load.cycles + self.store.cycles + self.issue
        return alone if self.steps_in_flight == 1 else alone / self.steps

    @property
    def _slowest(self) -> float:
        # memory is one of them: it serves both ports, so their misses come one after the other
        slowest = max(self.components.values())
        return slowest if self.whole is None else max(slowest, self._in_whole_steps(self.whole))

    def _in_whole_steps(self, storing: StoringSteps) -> float:
        """Cycles of all steps where each loads, computes and stores, one after the other, two at a time.

        L, E and S are what one step takes. Steps that store, and follow each other, are ``(L + E + S) / 2``
        apart: two hold their places, so the third loads when the first has stored. One that stores alone
        keeps the next but one waiting by as much as S does not fit beside what its neighbours do,
        ``S - |L - E|``. Others are ``max(L, E)`` apart.
        """
        load, array = self.load.cycles / self.steps, self.array / self.steps
        store = self.store.cycles / storing.count
        apart = max(load, array)
        if storing.alone:
            wait = max(0.0, store - abs(load - array) - self.ahead)
            return self.steps * apart + storing.count * wait
        both = max(max(apart, store), (load + array + store - self.ahead) / 2)
        return (self.steps - storing.count) * apart + storing.count * both

    @property
    def binding(self) -> str:
        """The component that the steps wait for, one of ``COMPONENTS``."""
        return max(self.components.items(), key=lambda item: item[1])[0]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, the name of the component that binds, and :attr:`without`."""
        counted = {"cycles": self.cycles, "fill_drain": self.fill_drain}
        fields = asdict(self)
        if self.times == 1:
            del fields["times"]
        return counted | fields | {"binding": self.binding, "cycles_without": self.without}


def timed_cycles(
    architecture: Architecture, timing: Timing, layer: Layer, mapping: AnyMapping, inner_cycles: float
) -> TimedCycles:
    """What a mapping takes; ``inner_cycles`` are those of its MACs and inner levels, from the counts.

    They are shared out evenly to the parts of a layer that is run in parts.
    """
    part = timed_part(architecture, layer, mapping)
    counts = step_counts(architecture, timing, walk_of(timing, part.layer, part.mapping))
    return replace(cycles_of(timing, counts, inner_cycles / part.times), times=part.times)


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
    whole = counts.stores_of_steps if timing.has_whole_steps(product=counts.product) else None
    return TimedCycles(
        counts.steps,
        timing.steps_in_flight,
        array,
        load,
        store,
        issue,
        whole=whole,
        ahead=timing.ahead_cycles if whole else 0.0,
    )


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
    without_requests = sum(
        max(0.0, one.buffer_cycles - one.beats - port.cycles_per_row * one.rows) for one in counts
    )
    return PortCycles(beats, requests, rows, buffer, misses, clearing, without_requests)
