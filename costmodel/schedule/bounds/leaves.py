"""Lower bounds on a leaf on tiles: copies of data that several tiles get, and waiting as pipelines fill.

**Copies.** A partition with k parts of the output channels and n parts of samples, rows and columns has the
weights on n tiles, and on k tiles all inputs of each part where every output channel reads all input
channels. Each copy is written into a buffer. Data that goes to m tiles crosses at least m - 1 links, as each
tile but one is reached over a link of its own. From the DRAM ports it crosses at least as many links as to
the tile that is nearest to all of them. So a leaf on few tiles may have one copy of everything and take
little energy; a leaf on many tiles may not. Where tiles share weights, each takes in all of them slice by
slice, from others or, of its share, from DRAM, so the same holds.

**Fill and drain.** Only an S cut gives a leaf fewer than all tiles. Take an S cut on u tiles with n
sub-batches, whose children i have t_i tiles and take x_i cycles a sub-batch::

    cycles >= (n - 1) max x_i + the sum over stages of their slowest x_i
    u cycles - the sum over i of n t_i x_i >= the sum over stages with one child of (u - t_i) x_i

for the t_i add up to no more than u. So because of a child that is the only one of its stage, tiles wait for
at least (u - t_i) x_i tile-cycles. Its own tiles compute for n t_i x_i. Together the child takes
n t_i x_i (1 + (u / t_i - 1) / n) tile-cycles. Of S cuts within S cuts such factors multiply, and the product
is no less than the factor of one cut with as many tiles, and as many sub-batches, as all of them. T cuts add
up their children.

Now take a leaf on t of all T tiles of the chip, which computes b samples in x cycles a run. It runs s / b
times in a round of s samples, at least as often as these sub-batches. So it takes at least
x (t + (T - t) b / s) tile-cycles a run.

A child is the only one of its stage where it holds a layer that every other layer of the network follows, or
comes before, directly or through others: between the two are only layers of the same cut, and each that
another child reads begins a later stage. All other layers count without waiting. The waiting need not be over
when the layer has ended, so the bound of :mod:`.waiting`, which looks at the ends of layers, does not use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.mapping.bounds.refills import least_operand_pj
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.schedule.bounds.compulsory import Compulsory, touched_inputs
from costmodel.schedule.bounds.through_dram import Paid
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tile_cost import FloorRows, TileFloor
from costmodel.schedule.whole_chip.cost import WholeChipCost

Array = NDArray[Any]


@dataclass(frozen=True)
class RoundsOf:
    """A ``batch`` that a root T cut runs in ``rounds`` equal rounds."""

    batch: int
    rounds: int

    @property
    def samples(self) -> int:
        """The samples of a round."""
        return self.batch // self.rounds


@dataclass(frozen=True)
class LeafWays:
    """The n ways to run a layer, with lower bounds on each for a whole batch; all arrays are [n].

    ``tiles_pj``, ``transfers_pj``, ``noc_pj``, ``dram_pj``: energy within tiles, of their buffers' transfers,
    of links, and of DRAM. ``tile_cycles``: of computing, and of waiting while pipelines fill and drain.
    ``dram_bits``: that DRAM moves. Where the layer is mapped on the whole chip and its cost is known, neither
    counts, but ``apart_cycles``, in which no other layer runs.
    """

    tiles_pj: Array
    transfers_pj: Array
    noc_pj: Array
    dram_pj: Array
    tile_cycles: Array
    dram_bits: Array
    apart_cycles: Array

    @property
    def energy_pj(self) -> Array:
        """All four parts of the energy."""
        return self.tiles_pj + self.transfers_pj + self.noc_pj + self.dram_pj

    def cycles_of_work(self, tiles: int) -> Array:
        """Cycles in which ``tiles`` tiles compute and nothing else counts, with those of the layer apart."""
        cycles: Array = (self.tile_cycles + tiles * self.apart_cycles) / tiles
        return cycles

    def cycles_of_dram(self, rate: int) -> Array:
        """Cycles in which DRAM moves the bits at its ``rate``, with those of the layer apart."""
        cycles: Array = (self.dram_bits + rate * self.apart_cycles) / rate
        return cycles

    def kept(self, way: Any) -> LeafWays:
        """The ways that an index array chooses; of one number the fields are single numbers and no arrays."""
        return LeafWays(*(getattr(self, one.name)[way] for one in fields(self)))

    def and_also(self, others: LeafWays) -> LeafWays:
        """These ways and others."""
        return LeafWays(
            *(np.concatenate([getattr(self, one.name), getattr(others, one.name)]) for one in fields(self))
        )

    @staticmethod
    def of_one(
        parts_pj: tuple[float, float, float, float],
        tile_cycles: float,
        dram_bits: float,
        apart_cycles: float = 0.0,
    ) -> LeafWays:
        """A single way; ``parts_pj``: the four energies, infinite where the layer cannot run so."""
        return LeafWays(*np.array([[*parts_pj, tile_cycles, dram_bits, apart_cycles]], np.float64).T)


@dataclass(frozen=True)
class LayerAsked:
    """A layer whose ways are asked for.

    ``moved``: bits that every schedule moves for it. ``whole_chip_only``: no tiles can hold its parts.
    ``in_line``: while a pipeline fills tiles wait for this layer and no other (:func:`layers_in_line`).
    """

    layer: NetworkLayer
    floor: TileFloor
    moved: Compulsory
    whole_chip_only: bool
    in_line: bool
    grouped: bool = False
    """Whether it may be mapped together with others (:func:`group_way`)."""


def ways_of(asked: LayerAsked, chip: Chip, run: RoundsOf) -> LeafWays:
    """The ways to run a layer on tiles and in a group; of infinite energy if there is none.

    Where it is not known what the layer costs mapped on the whole chip, that is one of the ways, too.
    """
    found = _outside_groups(asked, chip, run)
    return found.and_also(group_way(asked, chip, run)) if asked.grouped else found


def whole_chip_way(cost: WholeChipCost, paid: Paid, chip: Chip, run: RoundsOf) -> LeafWays:
    """The layer mapped on the whole chip at this ``cost`` of a round; ``paid``: see :mod:`.through_dram`."""
    tiles_pj, transfers_pj, noc_pj, dram_pj = (run.rounds * part * ROUNDING for part in cost.parts_pj)
    dram_pj += paid.read * chip.dram.read_pj_per_bit + paid.written * chip.dram.write_pj_per_bit
    bits = paid.read + paid.written
    return LeafWays.of_one((tiles_pj, transfers_pj, noc_pj, dram_pj), 0.0, bits, run.rounds * cost.cycles)


def group_way(asked: LayerAsked, chip: Chip, run: RoundsOf) -> LeafWays:
    """The least that a layer takes in a group that is mapped together, whatever the mapping.

    Every operation takes its unit for a cycle and its own energy. A MAC also takes that of its operands where
    it gets them; a vector operation has only its own.
    What comes from DRAM crosses links. What passes between the layers of a group is brought into no buffer
    from outside, so no transfer counts, nor does what refills levels.
    """
    layer, tile = asked.layer, chip.tile
    units, pj = (
        (tile.macs, tile.mac_pj) if layer.has_weights else (tile.vector_units, tile.vector_operation_pj)
    )
    if layer.has_weights and tile.architecture is not None:
        pj += least_operand_pj(tile.architecture, layer.nest(1))
    operations = run.batch * layer.operations
    fetched_pj, written_pj, dram_pj = _moved_pj(asked.moved, chip)
    parts = operations * pj, 0.0, fetched_pj + written_pj, dram_pj
    return LeafWays.of_one(parts, operations / units, asked.moved.dram_bits)


def _moved_pj(moved: Compulsory, chip: Chip) -> tuple[float, float, float]:
    """The energy of links for what is read and for what is written, each bit to or from the nearest tile, and
    that of DRAM."""
    hops_pj, dram = hops_to_nearest(chip) * chip.noc.hop_pj_per_bit, chip.dram
    dram_pj = moved.dram_read * dram.read_pj_per_bit + moved.dram_write * dram.write_pj_per_bit
    return moved.dram_read * hops_pj, moved.dram_write * hops_pj, dram_pj


def _outside_groups(asked: LayerAsked, chip: Chip, run: RoundsOf) -> LeafWays:
    """The ways to run a layer on tiles, and mapped on the whole chip if its cost there is not known."""
    layer, floor, moved = asked.layer, asked.floor, asked.moved
    hop_pj, buffer = chip.noc.hop_pj_per_bit, chip.tile.buffer
    fetched_pj, written_pj, dram_pj = _moved_pj(moved, chip)
    known = isfinite(floor.whole_chip_tile_cycles)
    least_cycles = floor.whole_chip_tile_cycles if known else floor.tile_cycles
    # A known cost on the whole chip is a way of its own (:func:`whole_chip_way`).
    whole_chip_pj = inf if run.samples in floor.on_whole_chip else run.batch * floor.whole_chip_pj
    parts = whole_chip_pj, 0.0, fetched_pj + written_pj, dram_pj
    on_chip = LeafWays.of_one(parts, run.batch * least_cycles, moved.dram_bits)
    if asked.whole_chip_only or layer.needs_whole_chip:
        return on_chip
    emptied_pj = 0.0 if layer.has_weights else moved.emptied * buffer.read_pj_per_bit
    if floor.rows is None:
        filled_pj = moved.filled * buffer.write_pj_per_bit
        parts = run.batch * floor.energy_pj, filled_pj + emptied_pj, fetched_pj + written_pj, dram_pj
        on_tiles = LeafWays.of_one(parts, run.batch * floor.tile_cycles, moved.dram_bits)
        return on_tiles.and_also(on_chip)
    rows = floor.rows.kept(run.samples % floor.rows.batch == 0)
    filled, crossed = _filled_and_crossed(layer, chip, run, rows, moved)
    waiting = (chip.tiles - rows.tiles) * rows.batch / run.samples if asked.in_line else 0.0
    same = np.ones(len(rows.batch))
    on_tiles = LeafWays(
        run.batch * (rows.energy_pj / rows.batch),
        filled * buffer.write_pj_per_bit + emptied_pj,
        crossed * hop_pj + written_pj,
        dram_pj * same,
        run.batch * (rows.cycles * (rows.tiles + waiting) / rows.batch),
        moved.dram_bits * same,
        0.0 * same,
    )
    return on_tiles.and_also(on_chip) if isfinite(whole_chip_pj) or not len(rows.batch) else on_tiles


Corner = tuple[float, float]
"""Energy and time, in any units."""


def corners_of_sum(layers: Sequence[tuple[Array, Array]]) -> list[Corner]:
    """The corners of the lower left hull of (energy, time) of all layers together.

    ``layers``: the energies and the times of the ways of each, of which it takes any. Corners come from the
    least energy on; a single infinite one says that some layer cannot run. The hull of a sum of sets (their
    Minkowski sum) has the sides of all their hulls, in the order of their slopes, from the steepest on.
    """
    hulls = [_hull(*one) for one in layers]
    if not all(map(len, hulls)):
        return [(inf, inf)]
    sides = [(right - left) for hull in hulls for left, right in pairwise(hull)]
    sides.sort(key=lambda side: side[1] / side[0])
    start = sum((hull[0] for hull in hulls), np.zeros(2))
    found = list(accumulate(sides, np.add, initial=start))
    return [(float(energy), float(cycles)) for energy, cycles in found]


def _hull(energy: Array, cycles: Array) -> Array:
    """The corners [n, 2] of the lower left hull, energy ascending; points with infinite values are none."""
    found: list[Array] = []
    points = np.stack([energy, cycles], axis=1)[np.lexsort((cycles, energy))]
    for point in points[np.isfinite(points).all(axis=1)]:
        if found and point[1] >= found[-1][1]:
            continue
        while len(found) > 1 and _is_above(found[-1], found[-2], point):
            found.pop()
        found.append(point)
    return np.array(found)


def _is_above(point: Array, left: Array, right: Array) -> bool:
    """Whether a point is on the line from ``left`` to ``right`` or above it."""
    rise, run = right - left, point - left
    return bool(run[1] * rise[0] >= rise[1] * run[0])


def above(corners: Sequence[Corner], least: float) -> list[Corner]:
    """The corners of the part of a hull whose times are at least ``least``.

    Where the hull goes below that time, the point on its side at ``least`` is the last corner. Where all of
    the hull is below, its least energy at the time ``least`` is the only corner.
    """
    found = [one for one in corners if one[1] >= least]
    below = [one for one in corners if one[1] < least]
    if not below:
        return found
    if not found:
        return [(below[0][0], least)]
    (energy, cycles), (further, fewer) = found[-1], below[0]
    part = (cycles - least) / (cycles - fewer)
    return [*found, (energy + part * (further - energy), least)]


def in_both(one: Sequence[Corner], other: Sequence[Corner]) -> list[Corner]:
    """The corners, and perhaps points on sides, of what is in both of two regions with these corners.

    A region is all that has no less energy and no less time than some point of its lower left hull, so for
    each energy from its first corner's on it has a least time; both have the larger of two such times.
    """
    start = max(one[0][0], other[0][0])
    if start == inf:
        return [(inf, inf)]
    energies = sorted({start, *(energy for energy, _ in (*one, *other) if energy > start)})
    times = [(_least_time(one, energy), _least_time(other, energy)) for energy in energies]
    points = [(energy, max(both)) for energy, both in zip(energies, times, strict=True)]
    for (left, right), (before, after) in zip(pairwise(energies), pairwise(times), strict=True):
        ahead, behind = before[0] - before[1], after[0] - after[1]
        if ahead * behind < 0:  # between two energies both times are straight lines, which cross here
            part = ahead / (ahead - behind)
            points.append((left + part * (right - left), before[0] + part * (after[0] - before[0])))
    found: list[Corner] = []
    for point in sorted(points):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


def _least_time(corners: Sequence[Corner], energy: float) -> float:
    """The least time of a region at an ``energy`` that is no less than its first corner's."""
    return float(np.interp(energy, [one for one, _ in corners], [time for _, time in corners]))


def layers_in_line(graph: LayerGraph) -> frozenset[int]:
    """The layers that every other layer follows or comes before, directly or through other layers."""
    count = len(graph.layers)
    before = np.eye(count, dtype=bool)
    for number, layer in enumerate(graph.layers):
        for producer in (*layer.producers, *layer.weight_producers):
            before[number] |= before[producer]
    return frozenset(np.flatnonzero((before | before.T).all(axis=1)).tolist())


def hops_to_nearest(chip: Chip) -> float:
    """Links between all DRAM ports and the tile that is nearest to them, in the mean of the ports."""
    return _hops_to_nearest(chip.ports, chip.positions)


@lru_cache(maxsize=64)
def _hops_to_nearest(ports: tuple[tuple[int, int], ...], tiles: tuple[tuple[int, int], ...]) -> float:
    """The same by positions; each layer of each bound asks for it, and 256 tiles take a while."""
    nearest = min(sum(abs(x - px) + abs(y - py) for px, py in ports) for x, y in tiles)
    return nearest / len(ports)


def _filled_and_crossed(
    layer: NetworkLayer, chip: Chip, run: RoundsOf, rows: FloorRows, moved: Compulsory
) -> tuple[Array, Array]:
    """Bits [n] that enter buffers, and bits times links that bring them, of the whole batch.

    Weights that are parameters come in every round at least; other data comes once.
    """
    bits = ElementBits.of(layer, chip.tile.widths)
    parameters = layer.has_weights and not layer.weight_producers and layer.part != "update"
    weights = run.rounds * bits.weights * layer.compulsory_elements(1).weights if parameters else 0
    inputs = run.batch * bits.inputs * touched_inputs(layer, layer.c)
    others = moved.filled - weights - inputs  # weights that are activations, each in one tile
    of_weights = rows.other_parts if parameters else np.ones_like(rows.tiles)
    of_inputs = rows.k_parts if parameters and layer.groups == 1 else np.ones_like(rows.tiles)
    near = hops_to_nearest(chip)
    crossed = np.maximum(weights * near, weights * (of_weights - 1))
    crossed = crossed + np.maximum((moved.dram_read - weights) * near, inputs * (of_inputs - 1))
    return weights * of_weights + inputs * of_inputs + others, crossed
