"""Blocked loops over processing passes: what the buffers hold, how often it is fetched, cycles and energy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from costmodel.errors import InputError
from costmodel.published.nn_dataflow.hardware import NnDataflowHardware
from costmodel.published.nn_dataflow.layers import LEVELS, LOOPS, TENSORS, Counts, Words, check_size
from costmodel.published.nn_dataflow.row_stationary import ProcessingPass

DRAM, GBUF, ITCN, REGF = range(len(LEVELS))
AT_DRAM, AT_GBUF, IN_PE = range(3)
"""The blocks of loops, from the outside in: those at DRAM step over the buffers' tiles, those at the buffer
over the registers' tiles, those in a PE over passes. Fields below are indexed by it as ``block``."""
OFM = TENSORS.index("OFM")


class NotFittingError(ValueError):
    """The tiles of a scheme exceed the buffer or the registers; the text says which, and by which words."""


@dataclass(frozen=True)
class Blocking:
    """The loops around a pass.

    ``factors[block][loop]``: the trips of each loop. ``orders[block][loop]``: its position among the loops of
    the block, 0 for the innermost; there is one for AT_DRAM and one for AT_GBUF. ``may_bypass[tensor]``:
    whether the tensor bypasses the buffer where the buffer saves no access of DRAM.
    """

    factors: tuple[Counts, ...]
    orders: tuple[Counts, ...]
    may_bypass: tuple[bool, ...] = (False, False, False)

    def __post_init__(self) -> None:
        for factors in self.factors:
            if len(factors) != len(LOOPS):
                raise InputError("blocking", f"a factor per {LOOPS}", factors, key="factors")
            for factor in factors:
                check_size(factor, "blocking", "factors")
        for order in self.orders:
            if sorted(order) != list(range(len(LOOPS))):
                raise InputError("blocking", "0, 1 and 2 in some order", order, key="orders")

    @cached_property
    def totals(self) -> Counts:
        """For each loop the product of all its factors."""
        return tuple(prod(factors[loop] for factors in self.factors) for loop in range(len(LOOPS)))

    def inside(self, block: int) -> Counts:
        """For each loop the product of its factors inside ``block``."""
        return tuple(
            prod(factors[loop] for factors in self.factors[block + 1 :]) for loop in range(len(LOOPS))
        )


@dataclass(frozen=True)
class DeliveryCosts:
    """How words get from DRAM to the nodes' buffers; the defaults are those of a single node.

    ``unit_hops[tensor]``: word-hops to bring a tensor to its nodes once (hops.py). ``shared[tensor]``: how
    many nodes get a word with one access of DRAM, where nodes pass words on. ``parts[tensor]``: how many
    nodes hold a tile together, one part each; ``rotation_hops``: word-hops of passing these parts around
    (sharing.py).
    """

    unit_hops: Words = (0, 0, 0)
    shared: Counts = (1, 1, 1)
    parts: Counts = (1, 1, 1)
    rotation_hops: float = 0

    def hops(self, fetches: Counts) -> float:
        """Word-hops of a scheme that fetches each tensor ``fetches[tensor]`` times from DRAM."""
        brought = sum(unit * times for unit, times in zip(self.unit_hops, fetches, strict=True))
        return brought + self.rotation_hops


@dataclass(frozen=True)
class SchemeCost:
    """What a scheme costs: accesses, cycles, and energy by part.

    ``accesses[level][tensor]``: words on all nodes. ``fetches[block][tensor]``: how often the whole tensor
    comes from DRAM (AT_DRAM) and from the buffer (AT_GBUF). ``held_words[block][tensor]``: words in a node's
    buffer and in the registers of a PE. Energies are in the unit of the hardware's costs.
    """

    operations: float
    accesses: tuple[Words, ...]
    fetches: tuple[Counts, ...]
    held_words: tuple[Counts, ...]
    processing_cycles: int
    bus_cycles: int
    dram_cycles: int
    operation_energy: float
    access_energy: float
    noc_energy: float
    static_energy: float

    @property
    def cycles(self) -> int:
        """Cycles of the slowest of processing, bus and DRAM, which overlap completely."""
        return max(self.processing_cycles, self.bus_cycles, self.dram_cycles)

    @property
    def energy(self) -> float:
        return self.operation_energy + self.access_energy + self.noc_energy + self.static_energy


def scheme_cost(
    unit: ProcessingPass,
    blocking: Blocking,
    hardware: NnDataflowHardware,
    delivery: DeliveryCosts | None = None,
) -> SchemeCost:
    """The cost of running ``unit`` under blocked loops on every node.

    Raises NotFittingError where the buffer or the registers are too small, InputError for factors that do not
    cover the pass's trips.
    """
    delivery = delivery or DeliveryCosts()
    if any(total < trips for total, trips in zip(blocking.totals, unit.loop_counts, strict=True)):
        raise InputError("blocking", f"factors that multiply to {unit.loop_counts}", blocking.totals)
    fetches = (fetched(blocking, unit, AT_DRAM), fetched(blocking, unit, AT_GBUF))
    kept = _kept(blocking, fetches)
    held = _held_words(unit, blocking, kept, delivery.parts)
    _check_fits("buffer", held[AT_DRAM], hardware.buffer_words)
    _check_fits("registers", held[AT_GBUF], hardware.register_words)
    nodes, passes, costs = hardware.node_count, prod(blocking.totals), hardware.costs
    accesses = _accesses(unit, fetches, kept, passes, delivery.shared)
    accesses = tuple(tuple(words * nodes for words in level) for level in accesses)
    cycles = (
        unit.cycles * passes,
        # The largest of the three tensors, not their sum: each has a bus of its own. Rounded as the tool
        # does.
        ceil(ceil(max(accesses[GBUF]) / nodes) / hardware.bus_words_per_cycle),
        ceil(sum(accesses[DRAM]) / hardware.dram_words_per_cycle),
    )
    operations = unit.operations * passes * nodes
    return SchemeCost(
        operations,
        accesses,
        fetches,
        held,
        *cycles,
        operation_energy=operations * costs.operation,
        access_energy=sum(cost * sum(words) for cost, words in zip(costs.levels, accesses, strict=True)),
        noc_energy=delivery.hops(fetches[AT_DRAM]) * costs.hop,
        static_energy=max(cycles) * costs.idle_cycle,
    )


def fetched(blocking: Blocking, unit: ProcessingPass, block: int) -> Counts:
    """How often each whole tensor enters the level inside ``block``.

    A loop that indexes the tensor changes its tile. Take the innermost such loop of ``block``. Every loop
    outside of it that does not index the tensor brings all tiles again, so the count is the product of the
    factors of these loops, in this block and in all outside of it. If no loop of ``block`` changes the tile,
    the tile stays for all of them, and it comes as often as to the level outside. Outputs are written each
    time and read each time but the first: 2 n - 1 for n times.
    """
    order, factors = blocking.orders[block], blocking.factors[block]
    counts = []
    for tensor, related in enumerate(unit.related):
        changing = [order[loop] for loop in related if factors[loop] > 1]
        if not changing:
            counts.append(fetched(blocking, unit, block - 1)[tensor] if block else 1)
            continue
        times = 1
        for loop in set(range(len(LOOPS))) - set(related):
            blocks = block + 1 if order[loop] > min(changing) else block
            # ``blocks`` is how many blocks count: those outside, and this one too if its loop stands outside
            # the innermost loop that changes the tile.
            times *= prod(outer[loop] for outer in blocking.factors[:blocks])
        counts.append(2 * times - 1 if tensor == OFM else times)
    return tuple(counts)


def _kept(blocking: Blocking, fetches: tuple[Counts, ...]) -> tuple[bool, ...]:
    """For each tensor whether the buffer keeps it: it must not bypass, or that saves accesses of DRAM."""
    return tuple(
        not may_bypass or from_dram < from_buffer
        for may_bypass, from_dram, from_buffer in zip(blocking.may_bypass, *fetches, strict=True)
    )


def _held_words(
    unit: ProcessingPass, blocking: Blocking, kept: tuple[bool, ...], parts: Counts
) -> tuple[Counts, Counts]:
    """Words of each tensor in a node's buffer (its part of the tile, if kept), and in a PE's registers."""
    tiles = [
        [prod(blocking.inside(block)[loop] for loop in related) for related in unit.related]
        for block in (AT_DRAM, AT_GBUF)
    ]
    buffer = zip(unit.buffer_words, tiles[AT_DRAM], kept, parts, strict=True)
    registers = zip(unit.register_words, tiles[AT_GBUF], strict=True)
    return (
        tuple(-(-words * tile // part) * keep for words, tile, keep, part in buffer),
        tuple(words * tile for words, tile in registers),
    )


def _check_fits(name: str, words: Counts, size_words: int) -> None:
    if sum(words) > size_words:
        parts = ", ".join(f"{tensor} {count}" for tensor, count in zip(TENSORS, words, strict=True))
        raise NotFittingError(f"{name}: tiles need {sum(words)} words ({parts}), there are {size_words}")


def _accesses(
    unit: ProcessingPass, fetches: tuple[Counts, ...], kept: tuple[bool, ...], passes: int, shared: Counts
) -> tuple[Words, ...]:
    """Words of a node by level and tensor.

    A tensor that bypasses the buffer is read from DRAM in the words that the buffer would have supplied.
    Every operation reads a filter and an input word from registers, and reads and writes an output word.
    """
    dram, buffer, bus = [], [], []
    for t, (from_dram, from_buffer) in enumerate(zip(*fetches, strict=True)):
        dram.append(unit.words_once(DRAM if kept[t] else GBUF, t) * from_dram / shared[t])
        buffer.append(unit.words_once(GBUF, t) * from_buffer * kept[t])
        bus.append(unit.words_once(ITCN, t) * from_buffer)
    filters, inputs, outputs = unit.accesses[REGF]
    # Twice: every operation reads its partial sum and writes it back.
    return tuple(dram), tuple(buffer), tuple(bus), (filters * passes, inputs * passes, outputs * passes * 2)
