"""Lower bounds on every schedule of a network, batch and chip: compulsory traffic, work, cuts of the NoC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.compulsory import Compulsory, layers_traffic
from costmodel.schedule.bounds.staying import edges_that_can_stay, layers_by_themselves
from costmodel.schedule.bounds.waiting import LayerTimes, least_cycles_in_order
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tile_cost import TileFloor, TileFloors


@dataclass(frozen=True)
class ScheduleBounds:
    """Proven lower bounds on energy and on cycles of a whole batch; both hold at once.

    ``by_rounds``: both for every number of rounds that a root T cut may have, (energy in pJ, cycles). A
    schedule has one of these numbers, so its E^n D^m is at least the least of these products. Empty: only
    the two bounds are known.
    """

    energy_pj: float
    cycles: float
    by_rounds: tuple[tuple[float, float], ...] = ()

    def product(self, exponents: tuple[float, float]) -> float:
        """A lower bound on E^n D^m: a product of the bounds, as neither exponent is negative."""
        pairs = self.by_rounds or ((self.energy_pj, self.cycles),)
        return min(float(energy ** exponents[0] * cycles ** exponents[1]) for energy, cycles in pairs)


@dataclass(frozen=True)
class SegmentFloor:
    """The least cycles of some layers that run as a segment, or as several, by what they wait for.

    ``work``: all tiles compute. ``dram``: its bits at its rate. ``links``: all hops over all links.
    ``ports``: the bits that pass the links next to DRAM's ports. ``order``: layers run after those that they
    read, and buffers hold few of the weights that come later (:mod:`.waiting`).
    """

    work: float
    dram: float
    links: float
    ports: float
    order: float = 0.0

    @property
    def cycles(self) -> float:
        return max(self.work, self.dram, self.links, self.ports, self.order)


@dataclass(frozen=True)
class LeastOfRounds:
    """The least that all schedules of one number of rounds take.

    ``parts_pj``: energy by :data:`.segment.ENERGY_PARTS` and ``idle``. ``segments``: of each layer that runs
    by itself, and of all others together.
    """

    rounds: int
    parts_pj: dict[str, float]
    segments: tuple[SegmentFloor, ...]

    @property
    def energy_pj(self) -> float:
        return sum(self.parts_pj.values())

    @property
    def cycles(self) -> float:
        return sum(one.cycles for one in self.segments)


def lower_bounds(
    graph: LayerGraph, chip: Chip, batch: int, tile_costs: TileFloors, bands: bool = False
) -> ScheduleBounds:
    """Proven lower bounds; ``tile_costs`` bounds the work within tiles.

    ``bands``: of schedules with bands of rows, too; then ``tile_costs`` has to bound the work of bands.
    """
    found = least_by_rounds(graph, chip, batch, tile_costs, bands)
    return ScheduleBounds(
        min(one.energy_pj for one in found),
        min(one.cycles for one in found),
        tuple((one.energy_pj, one.cycles) for one in found),
    )


def least_by_rounds(
    graph: LayerGraph, chip: Chip, batch: int, tile_costs: TileFloors, bands: bool = False
) -> tuple[LeastOfRounds, ...]:
    """Proven lower bounds for each number of rounds, with their parts.

    Each number of rounds in which a root T cut may run the batch has bounds of its own: with more rounds
    weights are loaded more often, with fewer there are more samples at a time, of which less stays on the
    chip (``staying.py``).
    Energy adds up four parts that no schedule avoids: each layer's work within tiles and its transfers into
    and out of buffers; DRAM's compulsory reads and writes; for each of these bits the links between the
    ports and the tile that is nearest to them; and what the chip takes when idle, in the fewest cycles.
    Cycles add up over segments, which run one after the other. A layer that only fits mapped on the whole
    chip is a segment of its own, which overlaps no other. All other layers are taken together, as the
    segments that they make take at least what one would: no two compute at a time, and what one fetches while
    another ends (``transitions.py``) takes DRAM and links as long as it does otherwise. Either takes at least
    the largest of four, because every leaf, and so every cut above it, waits for each of them: the work of
    all tiles together divided by the tiles, DRAM's bits divided by its rate, all hops divided by the rate of
    all links, and the bits that pass the links next to the ports. Those taken together also take what their
    order makes DRAM and tiles wait (:mod:`.waiting`).
    """
    batches = [size for size in range(1, batch + 1) if batch % size == 0]
    floors = [tile_costs.floor(layer, batches, chip.tiles) for layer in range(len(graph.layers))]
    return tuple(_of_rounds(graph, chip, (batch, batch // samples), floors, bands) for samples in batches)


def _of_rounds(
    graph: LayerGraph,
    chip: Chip,
    batch_and_rounds: tuple[int, int],
    floors: Sequence[TileFloor],
    bands: bool,
) -> LeastOfRounds:
    """Lower bounds for all schedules of a batch in so many rounds."""
    batch, rounds = batch_and_rounds
    samples = batch // rounds
    traffic = layers_traffic(
        graph, batch, chip.tile.widths, rounds, edges_that_can_stay(graph, chip, samples, bands)
    )
    single = layers_by_themselves(graph, chip, samples, bands)
    in_tiles = [
        _in_tiles_pj(layer, chip, (batch * floor.energy_pj, batch * floor.whole_chip_pj), moved)
        if number not in single
        else (batch * floor.whole_chip_pj, 0.0)
        for number, (layer, floor, moved) in enumerate(zip(graph.layers, floors, traffic, strict=True))
    ]
    together = [number for number in range(len(graph.layers)) if number not in single]
    segments = [
        _segment_floor(
            chip,
            batch * sum(floors[number].tile_cycles for number in numbers),
            sum((traffic[number] for number in numbers), Compulsory(0, 0, 0, 0)),
        )
        for numbers in (*([number] for number in sorted(single)), together)
    ]
    # the last of them is that of all layers together
    times = _layer_times(graph, chip, samples, together, floors, [one.dram_read / rounds for one in traffic])
    filled = chip.tiles * chip.tile.buffer.size_bits / chip.dram.bits_per_cycle
    segments[-1] = replace(segments[-1], order=least_cycles_in_order(graph, times, filled, rounds))
    read, written = sum(one.dram_read for one in traffic), sum(one.dram_write for one in traffic)
    parts_pj = {
        "tiles": sum(tiles for tiles, _ in in_tiles),
        "transfers": sum(transfers for _, transfers in in_tiles),
        "noc": _hop_bits(chip, read + written) * chip.noc.hop_pj_per_bit,
        "dram": read * chip.dram.read_pj_per_bit + written * chip.dram.write_pj_per_bit,
        "idle": chip.idle_pj_per_cycle * sum(one.cycles for one in segments),
    }
    return LeastOfRounds(rounds, parts_pj, tuple(segments))


def _layer_times(
    graph: LayerGraph,
    chip: Chip,
    samples: int,
    together: Sequence[int],
    floors: Sequence[TileFloor],
    read_bits: Sequence[float],
) -> LayerTimes:
    """The least times in a round of ``samples`` of the layers ``together``; ``read_bits``: from DRAM."""
    times = LayerTimes(*(np.zeros(len(graph.layers)) for _ in fields(LayerTimes)))
    for number in together:
        layer, rate = graph.layers[number], chip.dram.bits_per_cycle
        times.work[number] = samples * floors[number].tile_cycles / chip.tiles
        times.reads[number] = read_bits[number] / rate
        if layer.has_weights and not layer.weight_producers and layer.part != "update":
            bits = ElementBits.of(layer, chip.tile.widths)
            times.weights[number] = bits.weights * layer.compulsory_elements(1).weights / rate
    return times


def _segment_floor(chip: Chip, tile_cycles: float, moved: Compulsory) -> SegmentFloor:
    """The least cycles of layers that need so many cycles of tiles, and move so much."""
    dram = moved.dram_read + moved.dram_write
    return SegmentFloor(
        work=tile_cycles / chip.tiles,
        dram=dram / chip.dram.bits_per_cycle,
        links=_hop_bits(chip, dram) / (max(chip.links, 1) * chip.noc.link_bits_per_cycle),
        ports=_past_ports(chip, max(moved.dram_read, moved.dram_write)),
    )


def _hop_bits(chip: Chip, dram_bits: int) -> float:
    """Bits times links that ``dram_bits`` cross at least, each between the ports and some tile."""
    return dram_bits * _nearest(chip) / len(chip.ports)


def _in_tiles_pj(
    layer: NetworkLayer, chip: Chip, least_pj: tuple[float, float], moved: Compulsory
) -> tuple[float, float]:
    """The least energy (pJ) of a layer within tiles, and of transfers into and out of their buffers.

    ``least_pj``: that within tiles when the layer is cut among tiles, and that of both when it is mapped on
    the whole chip. A schedule chooses, so the smaller counts.
    """
    buffer, (on_tiles, on_whole_chip) = chip.tile.buffer, least_pj
    moved_pj = moved.filled * buffer.write_pj_per_bit
    if not layer.has_weights:
        moved_pj += moved.emptied * buffer.read_pj_per_bit
    if layer.needs_whole_chip or on_whole_chip < on_tiles + moved_pj:
        return on_whole_chip, 0.0
    return on_tiles, moved_pj


def _nearest(chip: Chip) -> int:
    """Links from all DRAM ports together to the tile that is nearest to all of them."""
    return min(sum(abs(x - px) + abs(y - py) for px, py in chip.ports) for x, y in chip.positions)


def _past_ports(chip: Chip, dram_bits: int) -> float:
    """Cycles that the links next to the DRAM ports need for ``dram_bits`` in one direction.

    Every port sends the same fraction of a transfer. A tile is at one port's position at most, so of p ports
    at least p - 1 send their fraction over a link that leaves their own position. As many links come in, for
    bits that are written.
    """
    ends = ((x + dx, y + dy) for x, y in chip.ports for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    links = sum(0 <= x < chip.columns and 0 <= y < chip.rows for x, y in ends)
    passing = dram_bits * (len(chip.ports) - 1) / len(chip.ports)
    return passing / (links * chip.noc.link_bits_per_cycle) if links else 0.0
