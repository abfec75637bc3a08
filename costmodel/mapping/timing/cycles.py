"""Timed cycles: what the steps of a walk take, and which part of the machine they wait for.

Each component of the machine (array, load port, store port, memory, host) is first counted by itself, over
all steps. As components work side by side, the slowest one sets the pace of the steps; what no other work
hides is added at the beginning and the end. All numbers are in cycles.
"""

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


@dataclass(frozen=True)
class PortCycles:
    """What all transfers of one direction take, by cause; the causes add up.

    ``beats``, ``requests`` and ``rows`` are what the bus takes for each of these, ``misses`` the waiting for
    lines that caches do not hold, ``clearing`` the time to set outputs to zero.
    """

    beats: float = 0.0
    requests: float = 0.0
    rows: float = 0.0
    buffer: float = 0.0
    """What the buffer needs beyond beats, requests and rows, where it is slower than the bus."""
    misses: float = 0.0
    clearing: float = 0.0
    buffer_without_requests: float = 0.0
    """What ``buffer`` would be if requests took nothing: more, as they hide a part of the buffer's time."""

    @property
    def cycles(self) -> float:
        """Of all causes together."""
        return self.beats + self.requests + self.rows + self.buffer + self.misses + self.clearing

    @property
    def without_requests(self) -> PortCycles:
        """What the same transfers would take if requests took nothing."""
        return replace(self, requests=0.0, buffer=self.buffer_without_requests)


@dataclass(frozen=True)
class TimedCycles:
    """The cycles of a layer on a machine with timing.

    ``array``, ``load``, ``store`` and ``issue`` are what each would take by itself over all ``steps``.
    ``array`` is the larger of the array's passes, if the machine has an array, and of what all else inside
    the steps takes: MACs, bandwidths of inner levels, PEs with links. ``steps_in_flight``: 2 if a step loads
    while the one before it computes, 1 if nothing overlaps. Of a layer that runs in equal parts these are
    the numbers of one part, and the layer takes ``times`` as long.
    """

    steps: int
    steps_in_flight: int
    array: float
    load: PortCycles
    store: PortCycles
    issue: float
    processing: ProcessingCycles | None = None
    """The cycles of an array of PEs by cause; ``array`` includes them."""
    whole: StoringSteps | None = None
    """The steps that store outputs, on a machine with ``whole_steps``: there a step keeps its half of the
    buffers from its load to the end of its store. None on other machines."""
    ahead: float = 0.0
    """Cycles by which a part of such a step (load, compute, store) may overlap with the part before it."""
    times: int = 1
    """How many equal parts run one after the other: see :class:`.walk.TimedPart`."""

    @property
    def components(self) -> dict[str, float]:
        """The cycles of each component that steps can wait for, of one part.

        ``load`` and ``store`` are the ports; ``memory`` serves the misses of both; ``issue`` is the host that
        starts each step.
        """
        return {
            "array": self.array,
            "load": self.load.cycles,
            "store": self.store.cycles,
            "memory": self.load.misses + self.store.misses,
            "issue": self.issue,
        }

    @property
    def without(self) -> dict[str, int]:
        """By cause, the layer's cycles if this one took no time; causes that take none are left out.

        As causes hide behind each other, what each of them costs by this count does not add up to the whole.

        * array: passes, MACs and all else that computes
        * load bandwidth, store bandwidth: beats, rows and the buffer, without requests and misses
        * requests, cache misses: of both ports
        * clearing: outputs set to zero
        * issue: the host starts each step
        * buffers kept until stored: steps wait for a free half of the buffers
        * first fill and last drain: what no other step hides; always there. With one step in flight that is
          all but the slowest component.
        """
        load, store = self.load, self.store
        left = {
            "array": replace(self, array=0.0),
            "load bandwidth": replace(self, load=replace(load, beats=0.0, rows=0.0, buffer=0.0)),
            "store bandwidth": replace(self, store=replace(store, beats=0.0, rows=0.0, buffer=0.0)),
            "requests": replace(self, load=load.without_requests, store=store.without_requests),
            "cache misses": replace(self, load=replace(load, misses=0.0), store=replace(store, misses=0.0)),
            "clearing": replace(self, load=replace(load, clearing=0.0)),
            "issue": replace(self, issue=0.0),
            "buffers kept until stored": replace(self, whole=None, ahead=0.0),
        }
        found = {cause: one.cycles for cause, one in left.items() if one != self}
        return found | {"first fill and last drain": self.times * ceil(self._slowest)}

    @property
    def cycles(self) -> int:
        """The layer's cycles.

        With two steps in flight the slowest component sets the pace of all steps but one. That one is what
        overlaps with nothing: a first step is loaded before anything is computed, a last one computed and
        stored after everything is loaded.
        """
        if self.steps_in_flight == 1:
            return self.times * ceil(self.fill_drain)
        return self.times * ceil((self.steps - 1) / self.steps * self._slowest + self.fill_drain)

    @property
    def fill_drain(self) -> float:
        """What overlaps with nothing: the first step's load and issue, the last one's computation and store.

        Together they are one mean step. With one step in flight nothing overlaps, and this is all steps. Of a
        layer in parts it is that of one part.
        """
        in_sequence = self.array + self.load.cycles + self.store.cycles + self.issue
        return in_sequence if self.steps_in_flight == 1 else in_sequence / self.steps

    @property
    def _slowest(self) -> float:
        """What all steps take at the pace of what is slowest: a component, or waiting for a free buffer."""
        # Memory is a component of its own although misses are in both ports' cycles: it serves both ports, so
        # their misses come one after the other while the rest of their work overlaps.
        slowest = max(self.components.values())
        return slowest if self.whole is None else max(slowest, self._in_whole_steps(self.whole))

    def _in_whole_steps(self, storing: StoringSteps) -> float:
        """Cycles of all steps where each keeps its half of the buffers until it has stored.

        A step loads, computes and stores in L, E and S cycles. Steps 1 and 3 use the same half, so step 3
        loads when step 1 has stored. If all steps store, two of them take L + E + S::

            half 1   | load 1 | compute 1 | store 1 | load 3 | compute 3 | store 3 |
            half 2            | load 2 | ....... compute 2 | store 2 | load 4 | ...

        Steps that store and follow each other are therefore ``(L + E + S) / 2`` apart, or as far as the
        slowest of the three takes. Steps that do not store are ``max(L, E)`` apart. If steps that store never
        follow each other, each makes the next step of its half wait for as much of S as does not fit
        into the time by which loading and computing differ anyway: ``S - |L - E|``. From both
        formulas ``ahead`` is subtracted, as parts of a step may overlap by so much.
        """
        load, array = self.load.cycles / self.steps, self.array / self.steps
        store = self.store.cycles / storing.count
        apart = max(load, array)
        if storing.alone:
            wait = max(0.0, store - abs(load - array) - self.ahead)
            return self.steps * apart + storing.count * wait
        apart_storing = max(max(apart, store), (load + array + store - self.ahead) / 2)
        return (self.steps - storing.count) * apart + storing.count * apart_storing

    @property
    def binding(self) -> str:
        """The component that takes most over all steps: one of :attr:`components`.

        With two steps in flight the others wait for it, unless what they wait for is a free half of the
        buffers, which no component takes: :attr:`without` says what that costs.
        """
        return max(self.components.items(), key=lambda item: item[1])[0]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, :attr:`cycles`, :attr:`fill_drain`, and the name of what binds.

        :attr:`without` is the entry ``cycles_without``. There is no entry ``times`` where it is 1.
        """
        counted = {"cycles": self.cycles, "fill_drain": self.fill_drain}
        fields = asdict(self)
        if self.times == 1:
            del fields["times"]
        return counted | fields | {"binding": self.binding, "cycles_without": self.without}


def timed_cycles(
    architecture: Architecture, timing: Timing, layer: Layer, mapping: AnyMapping, inner_cycles: float
) -> TimedCycles:
    """What a mapping takes on a machine with timing.

    ``inner_cycles``: what its MACs and the levels inside take over the whole layer, by their own bandwidths.
    The array cannot be faster. A layer that runs in equal parts spends an equal part of them in each.
    """
    part = timed_part(architecture, layer, mapping)
    counts = step_counts(architecture, timing, walk_of(timing, part.layer, part.mapping))
    return replace(cycles_of(timing, counts, inner_cycles / part.times), times=part.times)


def cycles_of(timing: Timing, counts: StepCounts, inner_cycles: float = 0.0) -> TimedCycles:
    """The cycles of what the steps of one part ask for.

    No component falls when a count rises, so lower bounds of the counts give lower bounds of the components.
    ``cycles`` of the result can fall when only the number of steps rises, as the one step that overlaps with
    nothing is shorter then, or the number of steps that store, which share the cycles of the stores.
    """
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
    """The passes one after the other, and what the last one through each block waits for the next block."""
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
    """The cycles of a direction's transfers; ``clearing`` and ``misses`` are cycles already."""
    # without a description of transfers the levels' bandwidths count, which are among the inner cycles
    if port is None:
        return PortCycles(misses=misses, clearing=clearing)
    beats = sum(one.beats for one in counts)
    requests = port.cycles_per_request * sum(one.requests for one in counts)
    rows = port.cycles_per_row * sum(one.rows for one in counts)
    # Of each tensor the slower of bus and buffer, which work side by side: what the buffer adds to the bus is
    # counted per tensor, since a tensor with a fast bus does not make up for another one.
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
