"""Estimates of schemes before their layers are mapped: whether their data may fit, and their least cost.

Both are one-sided. A scheme that the chip can run on its tiles is never refused, and it costs no less than
estimated as long as the least that its layers take (:class:`.floors.LayerFloor`) is right. So schemes
that look bad are bad, and those that look good are worth a full count. Mappings of a single layer on the
whole chip are not estimated; schemes that allow them are always costed (``candidates.py``).

A network has thousands of segments, and each asks for all divisions of its batch. What a layer takes on so
many tiles is the same in many of them, so that stands in tables; compiled code
(:mod:`.estimate_kernel`) puts the rows of a segment's layers together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.remembered import Remembered
from costmodel.schedule.tree.wiring import Wiring
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.estimates.leaf_floors import LeafFloors
from solvers.schedule.kapla.estimates.leaf_tables import LeafTables
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing

if TYPE_CHECKING:
    from solvers.schedule.kapla.estimates.estimate_kernel import (
        KernelNetwork,
        KernelPrices,
        KernelScratch,
        KernelSegment,
    )

Array = NDArray[Any]


class BatchCost(NamedTuple):
    """Energy (pJ) and cycles of a scheme or chain for the samples of one pass (``Slicing.passes``)."""

    energy_pj: float
    cycles: float

    def and_then(self, other: BatchCost) -> BatchCost:
        """The cost of both, one after the other."""
        return BatchCost(self.energy_pj + other.energy_pj, self.cycles + other.cycles)

    def less(self, saved: BatchCost) -> BatchCost:
        """The cost without what is ``saved``."""
        return BatchCost(self.energy_pj - saved.energy_pj, self.cycles - saved.cycles)


class SegmentAccesses(NamedTuple):
    """The bits that a scheme moves at least, for the batch of one pass.

    ``read``, ``written``: of each layer, from and to DRAM. ``filled``: of each layer, into the buffers of its
    tiles. ``sent``: of all layers, over the NoC between tiles.
    """

    read: tuple[float, ...]
    written: tuple[float, ...]
    filled: tuple[float, ...]
    sent: float


class SchemeEstimate(NamedTuple):
    """The least that a scheme may cost, and the accesses behind it."""

    cost: BatchCost
    accesses: SegmentAccesses


@dataclass(frozen=True, eq=False)
class SegmentEstimates:
    """The least that a segment may cost with each of its ``divisions``, and the accesses behind it.

    ``energy_pj``, ``cycles`` [divisions]. ``accesses`` [divisions, 3 layers + 1]: the numbers of
    :class:`SegmentAccesses` in their order, as Pareto pruning compares them.
    """

    divisions: tuple[BatchDivision, ...]
    energy_pj: Array
    cycles: Array
    accesses: Array

    def __len__(self) -> int:
        return len(self.divisions)

    def __iter__(self) -> Iterator[tuple[BatchDivision, SchemeEstimate]]:
        """Each division with its estimate."""
        for (division, cost), counts in zip(self.costs, self.accesses.tolist(), strict=True):
            third = len(counts) // 3
            read, written = tuple(counts[:third]), tuple(counts[third : 2 * third])
            accesses = SegmentAccesses(read, written, tuple(counts[2 * third : -1]), counts[-1])
            yield division, SchemeEstimate(cost, accesses)

    @property
    def costs(self) -> Iterator[tuple[BatchDivision, BatchCost]]:
        """Each division with the cost alone."""
        pairs = map(BatchCost, self.energy_pj.tolist(), self.cycles.tolist())
        return zip(self.divisions, pairs, strict=True)

    def kept(self, which: Sequence[int]) -> SegmentEstimates:
        """Those of the divisions number ``which``."""
        if len(which) == len(self):
            return self
        numbers = np.array(which, np.int64)
        return SegmentEstimates(
            tuple(self.divisions[number] for number in which),
            self.energy_pj[numbers],
            self.cycles[numbers],
            self.accesses[numbers],
        )


@dataclass(frozen=True)
class Estimates:
    """Conservative validity and optimistic costs (section IV-B) of the schemes of ``slicing`` on ``chip``.

    ``floors``: the least of every layer, by its number. ``regions``: how many tiles each layer has.
    ``share_weights``: tiles may share weights. Then weights that stay may lie on the tiles of a region once
    altogether, and a tile needs a slice of one output channel at a time.
    """

    slicing: Slicing
    chip: Chip
    floors: Sequence[LayerFloor]
    regions: Regions
    share_weights: bool = False

    def may_fit(self, scheme: Scheme) -> bool:
        """Whether the chip may be able to run the scheme on its tiles; False is certain, True is not."""
        return bool(self.fitting(scheme.segment, (scheme.division,)))

    def fitting(self, segment: Segment, divisions: tuple[BatchDivision, ...]) -> tuple[BatchDivision, ...]:
        """Those of the ``divisions`` with which the chip may be able to run the segment on its tiles.

        With all others it certainly cannot. Two conditions, each of which every valid scheme meets, with
        streamed weights, too: each layer has a partition of which one part fits one buffer; and the least
        data but weights that a region holds at a time fits its buffers together. The chip model says what is
        held at a time (``costmodel.schedule.segment.buffers``):

        - One layer: its weights, and the inputs of a sub-batch; with more than one sub-batch also the inputs
          of the next, which arrive meanwhile.
        - Layers in turn that are the whole segment: weights and inputs of the current layer and of the next,
          which arrive meanwhile.
        - Layers in turn that are one region of a pipeline: weights and inputs of the current layer. Those of
          the next may arrive meanwhile, too, but leaving that out is safe.

        With more than one sub-batch, layers come back, so the weights of all of them stay throughout. Weights
        that are streamed count nothing: their slices may be small.

        The second condition takes no account of uneven parts and halos, which only need more. With bands the
        inputs are those of one band, which stay or arrive for it. Then no weights are streamed, so they
        count, too, once where tiles share them.
        """
        _, fits = self._held(segment, divisions, streams=True)
        return tuple(division for division, fit in zip(divisions, fits.tolist(), strict=True) if fit)

    def fullness(self, scheme: Scheme) -> float:
        """What the fullest region holds at least with all of its weights, as a fraction of its buffers.

        Above 1 some weights have to be streamed; with bands the scheme is then not possible.
        """
        held, _ = self._held(scheme.segment, (scheme.division,), streams=False)
        return float((held[:, 0] / self._kernel_segment(scheme.segment, (scheme.division,)).size_bits).max())

    def _held(
        self, segment: Segment, divisions: tuple[BatchDivision, ...], streams: bool
    ) -> tuple[Array, Array]:
        """Bits that the tiles of each region hold at least [regions, divisions], when they hold the most, and
        whether all regions may fit [divisions].

        ``streams``: all weights stream where there is one band; else all stay.
        """
        from solvers.schedule.kapla.estimates.estimate_kernel import hold

        one = self._kernel_segment(segment, divisions)
        tables = self._tables(divisions)
        held, fits = np.zeros((len(one.size_bits), len(divisions)), np.int64), np.zeros(len(divisions), bool)
        hold(self._network, tables.table, tables.divisions, one, streams, held, fits)
        return held, fits

    def least(self, segment: Segment, divisions: Sequence[BatchDivision]) -> SegmentEstimates:
        """The least that the segment costs with each of the ``divisions``.

        It assumes the best of everything at once: DRAM and NoC move each bit once, buffers take in what the
        best partition of each layer needs, and the most even partition keeps all PEs busy. These may be
        different partitions, so the scheme costs no less if the floors of its layers are right.

        At least these weights come again for each sub-batch but the first: of a region that does not fit with
        pinned weights, those of one layer, and as many bits as its buffers lack beside the inputs (what is
        pinned is there at the same time, and streamed is what is left). Where each region fits but not the
        whole segment, those of one of all layers. With bands none come again.
        """
        from solvers.schedule.kapla.estimates.estimate_kernel import FoundLeast, estimate

        every = self.slicing.divisions(segment)
        known = every if set(divisions) <= set(every) else tuple(divisions)
        chosen = np.array([known.index(division) for division in divisions], np.int64)
        one, tables = self._kernel_segment(segment, known), self._tables(known)
        shape = len(divisions), 3 * len(segment) + 1
        found = FoundLeast(np.zeros(shape[0]), np.zeros(shape[0]), np.zeros(shape))
        rows = self._first_rows(segment, known, chosen)
        estimate(
            self._network,
            tables.table,
            tables.divisions,
            one,
            rows,
            self._prices,
            self._scratch,
            chosen,
            found,
        )
        return SegmentEstimates(tuple(divisions), *found)

    def _kernel_segment(self, segment: Segment, divisions: tuple[BatchDivision, ...]) -> KernelSegment:
        """A segment with the rows of its layers in the table for these divisions."""
        from solvers.schedule.kapla.estimates.estimate_kernel import KernelSegment

        key = segment, divisions
        found = self._asked.get(key)
        if found is None:
            regions = self.regions.of(segment)
            sizes = [len(region.layers) for region in regions]
            tiles = np.array([region.tiles for region in regions], np.int64)
            one = KernelSegment(
                segment.first,
                segment.kind == "turns",
                self._tables(divisions).rows(regions),
                np.repeat(np.arange(len(regions)), sizes),
                np.array([0, *accumulate(sizes)], np.int64),
                tiles * self.chip.tile.buffer.size_bits,
            )
            found = self._asked.add(key, one)
        return found

    @cached_property
    def _asked(self) -> Remembered[tuple[Segment, tuple[BatchDivision, ...]], KernelSegment]:
        """A segment is asked about twice in a row: whether it fits, and what it takes."""
        return Remembered(2)

    def _tables(self, divisions: tuple[BatchDivision, ...]) -> LeafTables:
        if divisions not in self._known_tables:
            batch = self.slicing.batch
            self._known_tables[divisions] = LeafTables(self._floors, batch, divisions, self.share_weights)
        return self._known_tables[divisions]

    @cached_property
    def _known_tables(self) -> dict[tuple[BatchDivision, ...], LeafTables]:
        return {}

    @cached_property
    def _floors(self) -> LeafFloors:
        return LeafFloors(self.slicing.problem.graph, self.chip, self.floors)

    def _first_rows(self, segment: Segment, known: Sequence[BatchDivision], chosen: Array) -> Array:
        """Rows of each layer in the first band [layers, divisions], where there are several."""
        if all(division.bands == 1 for division in known):
            return np.zeros((0, 0), np.int64)
        rows = np.zeros((len(segment), len(known)), np.int64)
        for number in chosen.tolist():
            if known[number].bands > 1:
                heights = self.slicing.heights(Scheme(segment, known[number]))
                rows[:, number] = [heights[layer][0] for layer in range(segment.first, segment.end)]
        return rows

    @cached_property
    def _network(self) -> KernelNetwork:
        from solvers.schedule.kapla.estimates.estimate_kernel import KernelNetwork

        floors, readers = self.floors, Wiring.of(self.slicing.problem.graph.producers).consumers
        inputs = [one for floor in floors for one in floor.inputs]
        return KernelNetwork(
            np.array([floor.weights for floor in floors]),
            np.array([floor.outputs for floor in floors]),
            np.array([layer.h for layer in self.slicing.problem.graph.layers]),
            np.array([0, *accumulate(len(floor.inputs) for floor in floors)]),
            np.array([-1 if producer is None else producer for producer, _ in inputs], np.int64),
            np.array([bits for _, bits in inputs], np.int64),
            np.array([0, *accumulate(map(len, readers))]),
            np.array([number for some in readers for number in sorted(some)], np.int64),
        )

    @cached_property
    def _prices(self) -> KernelPrices:
        """What transfers cost: a bit between DRAM and a tile crosses as many links as to the nearest tile."""
        from solvers.schedule.kapla.estimates.estimate_kernel import KernelPrices

        chip, hop_pj = self.chip, self.chip.noc.hop_pj_per_bit
        away_pj = self._hops_to_dram * hop_pj
        return KernelPrices(
            float(chip.dram.read_pj_per_bit + away_pj),
            float(chip.dram.write_pj_per_bit + away_pj),
            float(hop_pj),
            float(chip.idle_pj_per_cycle),
            float(chip.dram.bits_per_cycle),
            chip.tiles * chip.tile.buffer.size_bits,
        )

    @cached_property
    def _scratch(self) -> KernelScratch:
        from solvers.schedule.kapla.estimates.estimate_kernel import KernelScratch

        layers = len(self.floors)
        whole = (np.zeros(layers, np.int64) for _ in range(4))
        return KernelScratch(*whole, *(np.zeros(layers) for _ in range(3)))

    @cached_property
    def _hops_to_dram(self) -> float:
        """The mean number of hops from all DRAM ports to a tile, for the tile where it is least.

        The chip model divides every transfer evenly among the ports, and so the mean is over all of them.
        """
        ports = self.chip.ports
        return min(
            sum(abs(column - port_column) + abs(row - port_row) for port_column, port_row in ports)
            / len(ports)
            for column, row in self.chip.positions
        )
