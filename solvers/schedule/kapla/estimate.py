"""Estimates of schemes before their layers are mapped: whether their data may fit, and their least cost.

Both are one-sided. A scheme that the chip can run on its tiles is never refused, and it costs no less than
estimated as long as the least that its layers take (:class:`.floors.LayerFloor`) is right. So schemes
that look bad are bad, and those that look good are worth a full count. Mappings of a single layer on the
whole chip are not estimated; schemes that allow them are always costed (``candidates.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.starts import slowest_by_stage
from costmodel.schedule.tree.segment_flow import SegmentFlow, Wiring
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.leaf_floors import LeafFloor, LeafFloors, PlacedLeaf
from solvers.schedule.kapla.regions import Region, Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing

Array = NDArray[Any]


@dataclass(frozen=True)
class BatchCost:
    """Energy (pJ) and cycles of a scheme or chain for the samples of one pass (``Slicing.passes``)."""

    energy_pj: float
    cycles: float

    def __add__(self, other: BatchCost) -> BatchCost:
        return BatchCost(self.energy_pj + other.energy_pj, self.cycles + other.cycles)


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Computed(dict[KeyT, ValueT]):
    """Values by the number of a layer, or by another key, each computed when it is first asked for.

    Thousands of segments ask for the values of the same layers and regions, so look-ups count.
    """

    def __init__(self, compute: Callable[[KeyT], ValueT]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: KeyT) -> ValueT:
        self[key] = value = self._compute(key)
        return value


class SegmentAccesses(NamedTuple):
    """The bits that a scheme moves at least, for the batch of one pass.

    ``read``, ``written``: of each layer, from and to DRAM. ``filled``: of each layer, into the buffers of its
    tiles. ``sent``: of all layers, over the NoC between tiles.
    """

    read: tuple[int, ...]
    written: tuple[int, ...]
    filled: tuple[float, ...]
    sent: int

    @property
    def counts(self) -> tuple[float, ...]:
        """All numbers in one row, as Pareto pruning compares them: 3 for each layer, and 1."""
        return (*self.read, *self.written, *self.filled, self.sent)


class SchemeEstimate(NamedTuple):
    """The least that a scheme may cost, and the accesses behind it."""

    cost: BatchCost
    accesses: SegmentAccesses


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

    @cached_property
    def _wiring(self) -> Wiring:
        return Wiring.of(self.slicing.problem.graph.producers)

    @cached_property
    def _floors(self) -> LeafFloors:
        return LeafFloors(self.slicing.problem.graph, self.chip, self.floors)

    def may_fit(self, scheme: Scheme) -> bool:
        """Whether the chip may be able to run the scheme on its tiles; False is certain, True is not."""
        return any(self.fitting(scheme.segment, (scheme.division,)))

    def fitting(self, segment: Segment, divisions: tuple[BatchDivision, ...]) -> Iterator[BatchDivision]:
        """Those of the ``divisions`` with which the chip may be able to run the segment on its tiles.

        With all others it certainly cannot. Two conditions, each of which every valid scheme meets, with
        streamed weights, too: each layer has a partition of which one part fits one buffer; and the least
        data but weights that a region holds at a time fits its buffers together. The chip model says what is
        held at a time (``costmodel.schedule.segment.buffers``). The second takes no account of uneven parts
        and halos, which only need more. With bands no weights are streamed, so they count, too, once where
        tiles share them.

        With streamed weights, turns hold the most of all pairs of layers in a row. So where they do not fit,
        longer ones with these layers do not either; they are asked later (:meth:`.Slicing.segments`).
        """
        regions = self.regions.of(segment)
        if segment.kind != "turns":
            known, left = self._fitting_pipelined[divisions], (1 << len(divisions)) - 1
            for region in regions:
                left &= known[region]
                if not left:
                    return
            yield from (one for number, one in enumerate(divisions) if left >> number & 1)
            return
        (region,) = regions
        for division in divisions:
            streamed = division.bands == 1
            shorter = segment.first + 1, segment.end, division.subbatches
            fits = not (streamed and len(segment) > 2 and shorter in self._too_large)
            fits = fits and self._fits[region, True, streamed][division]
            if fits:
                yield division
            elif streamed:
                self._too_large.add((segment.first, segment.end, division.subbatches))

    @cached_property
    def _fitting_pipelined(self) -> Computed[tuple[BatchDivision, ...], Computed[Region, int]]:
        """By divisions, and by region of a pipeline: a bit for each division with which the region may fit.

        Pipelines have many regions, most of which many of them share, and few fit.
        """

        def of_divisions(divisions: tuple[BatchDivision, ...]) -> Computed[Region, int]:
            def fitting(region: Region) -> int:
                return sum(
                    1 << number
                    for number, division in enumerate(divisions)
                    if self._fits[region, False, division.bands == 1][division]
                )

            return Computed(fitting)

        return Computed(of_divisions)

    @cached_property
    def _too_large(self) -> set[tuple[int, int, int]]:
        """Turns that do not fit even with streamed weights: their first layer, their end, sub-batches."""
        return set()

    @cached_property
    def _fits(self) -> Computed[tuple[Region, bool, bool], Computed[BatchDivision, bool]]:
        """Whether a region may fit, by division: see :meth:`fitting`.

        By the region, whether it is the whole of a segment in turns, and whether its weights all stream; else
        they are pinned.
        """

        def of_region(key: tuple[Region, bool, bool]) -> Computed[BatchDivision, bool]:
            region, together, streamed = key
            size = region.tiles * self.chip.tile.buffer.size_bits

            def fits(division: BatchDivision) -> bool:
                leaves = self._leaves(region.tiles, division, streamed)
                return (
                    all(map(leaves.__getitem__, region.layers))
                    and self._held(region, division, together, streamed) <= size
                )

            return Computed(fits)

        return Computed(of_region)

    def fullness(self, scheme: Scheme) -> float:
        """What the fullest region holds at least with all of its weights, as a fraction of its buffers.

        Above 1 some weights have to be streamed; with bands the scheme is then not possible.
        """
        size, together = self.chip.tile.buffer.size_bits, scheme.segment.kind == "turns"
        return max(
            self._held(region, scheme.division, together, streamed=False) / (region.tiles * size)
            for region in self.regions.of(scheme.segment)
        )

    def _weights_again(self, segment: Segment, division: BatchDivision) -> list[tuple[int, int]]:
        """At least these bits of weights come again after the first sub-batch, each of some layer.

        Where a region does not fit with pinned weights, some of its layers stream: those whose weights its
        buffers have no bits for (:attr:`_streamed`). Where each region fits but not the whole segment, one of
        all layers does. With bands none come again.
        """
        if division.bands > 1:
            return []
        regions, in_turn = self.regions.of(segment), segment.kind == "turns"
        found = [streamed for region in regions if (streamed := self._streamed[region, in_turn][division])]
        if not found and not self._weights_fit(segment, division):
            least = self._fewest_weights(range(segment.first, segment.end))
            found = [(least, self.floors[least].weights)]
        again = division.subbatches - 1
        return [(number, again * bits) for number, bits in found]

    @cached_property
    def _streamed(
        self,
    ) -> Computed[tuple[Region, bool], Computed[BatchDivision, tuple[int, int] | None]]:
        """Of a region, which may be the whole of a segment in turns: a layer, and the bits that stream there
        at least. None where the region fits with pinned weights.

        They are the weights of one layer at least. What is pinned is in the buffers at the same time, beside
        the inputs, and streamed is what is left.
        """

        def of_region(key: tuple[Region, bool]) -> Computed[BatchDivision, tuple[int, int] | None]:
            region, in_turn = key
            least = self._fewest_weights(region.layers)
            weights = self._weights_before[region.layers[-1] + 1] - self._weights_before[region.layers[0]]

            def streamed(division: BatchDivision) -> tuple[int, int] | None:
                if self._fits[region, in_turn, False][division]:
                    return None
                inputs = self._held(region, division, in_turn, streamed=True)
                pinned = region.tiles * self.chip.tile.buffer.size_bits - inputs
                return least, max(self.floors[least].weights, weights - pinned)

            return Computed(streamed)

        return Computed(of_region)

    def _fewest_weights(self, layers: Sequence[int]) -> int:
        """The layer with the fewest bits of weights, of those with any."""
        weighted = [number for number in layers if self.floors[number].weights] or list(layers)
        return min(weighted, key=lambda number: self.floors[number].weights)

    def _weights_fit(self, segment: Segment, division: BatchDivision) -> bool:
        """Whether the weights of all layers, which stay on the chip, fit all buffers together.

        With turns in one sub-batch each layer runs once, so its weights come and go with it.
        """
        if segment.kind == "turns" and division.subbatches == 1:
            return True
        weights = self._weights_before[segment.end] - self._weights_before[segment.first]
        return weights <= self.chip.tiles * self.chip.tile.buffer.size_bits

    @cached_property
    def _weights_before(self) -> list[int]:
        """Bits of weights of the first 0, 1, 2 ... layers: a prefix sum, one longer than the layers."""
        sums = [0]
        for floor in self.floors:
            sums.append(sums[-1] + floor.weights)
        return sums

    def _leaves(self, tiles: int, division: BatchDivision, streamed: bool) -> Computed[int, LeafFloor | None]:
        """By layer the least that it takes in a scheme, on ``tiles`` tiles; None if no partition fits."""
        key = tiles, division, streamed
        if key not in self._known_leaves:
            batch, runs = self.slicing.batch // division.subbatches, division.subbatches
            shared = self.share_weights and not streamed
            self._known_leaves[key] = Computed(
                lambda number: self._floors.of(
                    PlacedLeaf(number, batch, tiles, runs, streamed, division.bands, shared)
                )
            )
        return self._known_leaves[key]

    @cached_property
    def _known_leaves(self) -> dict[tuple[int, BatchDivision, bool], Computed[int, LeafFloor | None]]:
        return {}

    def _held(self, region: Region, division: BatchDivision, together: bool, streamed: bool) -> int:
        """Bits that the tiles of a region hold at least at the time when they hold the most.

        - One layer: its weights, and the inputs of a sub-batch; with more than one sub-batch also the inputs
          of the next, which arrive meanwhile.
        - Layers in turn that are the whole segment (``together``): weights and inputs of the current layer
          and of the next, which arrive meanwhile.
        - Layers in turn that are one region of a pipeline: weights and inputs of the current layer. Those of
          the next may arrive meanwhile, too, but leaving that out is safe.

        With more than one sub-batch, layers come back, so the weights of all of them stay throughout. Weights
        that are ``streamed`` count nothing: their slices may be small.

        With bands the inputs are those of one band, which stay or arrive for it. Of a single layer those of
        the next band are left out: they may be few.
        """
        subbatches, bands = division
        batch, numbers = self.slicing.batch // subbatches, region.layers
        if len(numbers) == 1:
            at_once = 2 if subbatches > 1 and bands == 1 else 1
            return self._held_by(batch * at_once, region.tiles, bands, streamed)[numbers[0]]
        held = list(map(self._held_by(batch, region.tiles, bands, streamed).__getitem__, numbers))
        stay = subbatches * bands > 1 and not streamed
        pinned = [self.floors[number].weights if stay else 0 for number in numbers]
        # what a layer holds only in its turn; the pinned weights of all layers come on top
        free = [one - own for one, own in zip(held, pinned, strict=True)]
        return sum(pinned) + max(map(sum, pairwise(free)) if together else free)

    def _held_by(self, samples: int, tiles: int, bands: int, streamed: bool) -> Computed[int, int]:
        """By layer what it holds at least (:meth:`LayerFloor.held_bits`)."""

        def held(number: int) -> int:
            floor = self.floors[number]
            if streamed:
                floor = replace(floor, weights=0)
            if self.share_weights:
                floor = replace(floor, repeats=False)
            return floor.held_bits(samples, tiles, bands)

        return self._known_held.setdefault((samples, tiles, bands, streamed), Computed(held))

    @cached_property
    def _known_held(self) -> dict[tuple[int, int, int, bool], Computed[int, int]]:
        return {}

    def least(
        self, segment: Segment, divisions: Sequence[BatchDivision]
    ) -> Iterator[tuple[BatchDivision, SchemeEstimate]]:
        """Pairs of one of the ``divisions`` and the least that the segment costs with it.

        It assumes the best of everything at once: DRAM and NoC move each bit once, buffers take in what the
        best partition of each layer needs, and the most even partition keeps all PEs busy. These may be
        different partitions, so the scheme costs no less if the floors of its layers are right.
        """
        if not divisions:
            return
        flow, regions = self.slicing.flow(segment, self._wiring), self.regions.of(segment)
        once, written, sent = self._moved(segment, flow)
        # Arrays are [layers, divisions], with the layers in the order of ``regions``.
        leaves = [
            [self._least_leaf[number, region.tiles][division] for division in divisions]
            for region in regions
            for number in region.layers
        ]
        energy, filled, cycles = np.array(leaves).transpose(2, 0, 1)
        read = self._read(segment, divisions, once)
        to_dram = tuple(written.values())
        # cycles in which DRAM does nothing but serve a layer, for the whole batch
        busy = (read + np.array(to_dram, np.int64)[:, None]) / self.chip.dram.bits_per_cycle
        taken = self._cycles(segment, divisions, cycles, busy, flow.stages)
        energy_pj = self._transfers_pj(read.sum(axis=0), sum(to_dram), sent) + _sum(energy)
        energy_pj += self.chip.idle_pj_per_cycle * taken
        columns = (one.tolist() for one in (energy_pj, taken, read.T, filled.T))
        for division, spent, time, from_dram, into_buffers in zip(divisions, *columns, strict=True):
            accesses = SegmentAccesses(tuple(from_dram), to_dram, tuple(into_buffers), sent)
            yield division, SchemeEstimate(BatchCost(spent, time), accesses)

    def _read(self, segment: Segment, divisions: Sequence[BatchDivision], once: Mapping[int, int]) -> Array:
        """Bits that each layer reads from DRAM [layers, divisions]; ``once``: by layer, each bit once."""
        read = np.repeat(np.array(list(once.values()), np.int64)[:, None], len(divisions), axis=1)
        rows = {number: row for row, number in enumerate(once)}
        for column, division in enumerate(divisions):
            for number, bits in self._weights_again(segment, division):
                read[rows[number], column] += bits
        return read

    def _cycles(
        self,
        segment: Segment,
        divisions: Sequence[BatchDivision],
        leaves: Array,
        busy: Array,
        stages: Sequence[Sequence[int]],
    ) -> Array:
        """The least cycles of a segment [divisions]; arrays are [layers, divisions].

        ``leaves``: those of a run of each layer. ``busy``: those in which DRAM serves it. ``stages``: of the
        segment's flow.
        """
        regions = self.regions.of(segment)
        computing = np.array([division.subbatches for division in divisions]) * leaves
        # DRAM brings the data of a layer while the one before it computes, so only their sums overlap.
        of_regions = np.maximum(_sums(computing, regions), _sums(busy, regions))
        if segment.kind == "turns":
            only: Array = of_regions[0]
            return only
        columns = zip(divisions, of_regions.T.tolist(), leaves.T.tolist(), strict=True)
        pipelined = [
            self._pipelined_cycles(Scheme(segment, division), taken, runs, stages[0])
            for division, taken, runs in columns
        ]
        # The layers of a pipeline use DRAM at the same time, so it takes no less than the sum of their cycles
        # there.
        slowest: Array = np.maximum(pipelined, _sum(busy))
        return slowest

    def _pipelined_cycles(
        self,
        scheme: Scheme,
        regions: Sequence[float],
        leaves: Sequence[float],
        stages: Sequence[int],
    ) -> float:
        """The least cycles of a pipeline whose ``regions`` take so many over all sub-batches.

        It runs for a period of the slowest region for each sub-batch but one, which goes through all stages
        (fill and drain). Bands are not equal: the first one goes through all stages, and then the slowest
        region has the rest of its own work. ``leaves``: the cycles of a run of each layer.
        """
        parts = scheme.subbatches
        if scheme.bands == 1:
            passing = sum(slowest_by_stage(regions, stages))
            return ((parts - 1) * max(regions) + passing) / parts
        layers, heights = self.slicing.problem.graph.layers, self.slicing.heights(scheme)
        firsts, rests = [], []
        cycles = iter(leaves)
        for region in self.regions.of(scheme.segment):
            of_layers = [(number, next(cycles)) for number in region.layers]
            first = sum(taken * heights[number][0] / layers[number].h for number, taken in of_layers)
            firsts.append(first)
            rests.append(sum(parts * taken for _, taken in of_layers) - first)
        return sum(slowest_by_stage(firsts, stages)) + max(rests)

    @cached_property
    def _least_leaf(self) -> Computed[tuple[int, int], Computed[BatchDivision, LeafFloor]]:
        """By layer and tiles the least that it takes with pinned weights or with streamed ones.

        Where no partition of a layer fits, which only happens without pruning, it is that of :meth:`_unfit`.
        """

        def of_leaf(key: tuple[int, int]) -> Computed[BatchDivision, LeafFloor]:
            number, tiles = key

            def least(division: BatchDivision) -> LeafFloor:
                ways = (False, True) if division.bands == 1 else (False,)
                found = [leaf for way in ways if (leaf := self._leaves(tiles, division, way)[number])]
                leaves = found or [self._unfit(number, tiles, division.subbatches)]
                return LeafFloor(*map(min, zip(*leaves, strict=True)))

            return Computed(least)

        return Computed(of_leaf)

    def _unfit(self, number: int, tiles: int, subbatches: int) -> LeafFloor:
        """The least of a layer of which no partition fits: that of a partition without repeated data."""
        floor, batch = self.floors[number], self.slicing.batch
        energy_pj = batch * floor.energy_pj + floor.weights_pj
        filled, cycles = batch * floor.input_bits + floor.weights, batch * floor.tile_cycles / tiles
        return LeafFloor(energy_pj, filled, cycles / subbatches)

    def _moved(self, segment: Segment, flow: SegmentFlow) -> tuple[dict[int, int], dict[int, int], int]:
        """Bits of each layer read from DRAM, of each written to it, and of all sent between tiles.

        An input comes from DRAM, from the tiles of another region, or from those of its own region. Only the
        second must cross a link: a tile of the same region may hold what it needs already.
        """
        batch, sent = self.slicing.batch, 0
        read: dict[int, int] = {}
        written: dict[int, int] = {}
        for region in self.slicing.regions(segment):
            for number in region:
                layer, near = self.floors[number], flow.sources.get(number, ())
                far = sum(count for producer, count in layer.inputs if producer not in near)
                here = sum(count for producer, count in layer.inputs if producer in region)
                read[number] = layer.weights + batch * far
                written[number] = batch * layer.outputs if number in flow.written else 0
                sent += batch * max(0, layer.input_bits - far - here)  # a hop at least
        return read, written, sent

    def _transfers_pj(self, read: Array, written: int, sent: int) -> Array:
        """The energy (pJ) of these bits in DRAM and on links; ``sent`` bits cross one link at least.

        ``read`` [n]: of n schemes that are else alike.
        """
        dram, hop_pj = self.chip.dram, self.chip.noc.hop_pj_per_bit
        away_pj = self._hops_to_dram * hop_pj
        energy_pj = read * (dram.read_pj_per_bit + away_pj) + written * (dram.write_pj_per_bit + away_pj)
        found: Array = energy_pj + sent * hop_pj
        return found

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


def _sum(numbers: Array) -> Array:
    """The sums [n] of the rows of ``numbers`` [m, n], one row after the other, whatever n is."""
    found: Array = np.add.accumulate(numbers)[-1]
    return found


def _sums(numbers: Array, regions: Sequence[Region]) -> Array:
    """The same for each region's rows, in the order of their layers: [regions, n]."""
    if len(regions) == len(numbers):
        return numbers
    ends = list(accumulate((len(region.layers) for region in regions), initial=0))
    return np.stack([_sum(numbers[first:end]) for first, end in pairwise(ends)])
