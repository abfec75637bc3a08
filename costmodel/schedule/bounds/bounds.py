"""Lower bounds on every schedule of a network, batch and chip: compulsory traffic, work, cuts of the NoC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.schedule.bounds.compulsory import Compulsory, layers_traffic
from costmodel.schedule.bounds.leaves import (
    Corner,
    LayerAsked,
    LeafWays,
    RoundsOf,
    above,
    corners_of_sum,
    hops_to_nearest,
    in_both,
    layers_in_line,
    ways_of,
    whole_chip_way,
)
from costmodel.schedule.bounds.staying import (
    PLAIN,
    Edge,
    SegmentKinds,
    edges_that_can_stay,
    layers_by_themselves,
)
from costmodel.schedule.bounds.through_dram import paid_by_layers
from costmodel.schedule.bounds.waiting import LayerTimes, least_cycles_in_order
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment.node_cost import ENERGY_PARTS
from costmodel.schedule.tile_cost import TileFloor, TileFloors


@dataclass(frozen=True)
class ScheduleBounds:
    """Proven lower bounds on energy and on cycles of a whole batch; both hold at once.

    ``corners``: (energy in pJ, cycles) pairs; empty where only the two bounds are known. For each number of
    rounds that a root T cut may have, they are the corners of a convex region that holds every schedule
    (:attr:`LeastOfRounds.corners`). E^n D^m is quasi-concave, so over that region it is least at a corner.
    """

    energy_pj: float
    cycles: float
    corners: tuple[Corner, ...] = ()

    def product(self, exponents: tuple[float, float]) -> float:
        """A lower bound on E^n D^m: the least of the corners, as neither exponent is negative."""
        pairs = self.corners or ((self.energy_pj, self.cycles),)
        return min(float(energy ** exponents[0] * cycles ** exponents[1]) for energy, cycles in pairs)


@dataclass(frozen=True)
class SegmentFloor:
    """Lower bounds on the cycles of some layers that run as one segment or as several; all hold at once.

    ``work``: all tiles compute all the time. ``dram``: DRAM moves its bits at its rate. ``links``: all links
    carry the hops together. ``ports``: the links next to DRAM's ports carry the bits of DRAM. ``order``: a
    layer runs after those that it reads, and DRAM brings the weights that buffers cannot hold for it
    (:mod:`.waiting`).
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
    """Lower bounds for all schedules of one number of rounds.

    ``parts_pj``: energy by :data:`.node_cost.ENERGY_PARTS` and ``idle``. ``segments``: of each layer that
    runs by itself, and of all others together.

    ``corners``: of the lower left hull of (energy in pJ, cycles) over all ways to cut each layer; no schedule
    is below the hull, so E^n D^m is least at one of them (:class:`ScheduleBounds`). It is tighter than the
    least energy and the least cycles together, which may need different ways: on few tiles a layer has few
    copies of its data, and more tiles wait while pipelines fill.
    """

    rounds: int
    parts_pj: dict[str, float]
    segments: tuple[SegmentFloor, ...]
    corners: tuple[Corner, ...]

    @property
    def energy_pj(self) -> float:
        return sum(self.parts_pj.values())

    @property
    def cycles(self) -> float:
        return sum(one.cycles for one in self.segments)


def lower_bounds(
    graph: LayerGraph, chip: Chip, batch: int, tile_costs: TileFloors, kinds: SegmentKinds = PLAIN
) -> ScheduleBounds:
    """Proven lower bounds on all schedules; ``tile_costs`` bounds the work within tiles of all ``kinds``."""
    found = least_by_rounds(graph, chip, batch, tile_costs, kinds)
    return ScheduleBounds(
        min(one.energy_pj for one in found),
        min(one.cycles for one in found),
        tuple(corner for one in found for corner in one.corners),
    )


def least_by_rounds(
    graph: LayerGraph, chip: Chip, batch: int, tile_costs: TileFloors, kinds: SegmentKinds = PLAIN
) -> tuple[LeastOfRounds, ...]:
    """Proven lower bounds for each number of rounds, with their parts.

    Each number of rounds in which a root T cut may run the batch has bounds of its own. With more rounds
    weights are loaded more often. With fewer rounds there are more samples at a time, and less of their data
    stays on the chip (``staying.py``).

    **Energy** adds up four parts that no schedule avoids:

    - for each layer its work within tiles, its transfers into and out of buffers and the links that bring its
      data, all three for the same way to cut the layer (:mod:`.leaves`);
    - the compulsory reads and writes of DRAM;
    - for each bit that is written, the links between the ports and the tile that is nearest to them;
    - the power of the idle chip, for the fewest cycles.

    **Cycles** add up over segments, which run one after the other. A layer that only fits mapped on the whole
    chip is a segment of its own and overlaps no other. All other layers are bounded as if they were one
    segment. That is valid for several segments, too: no two of them compute at the same time, and the fetch
    that overlaps the end of the segment before (``transitions.py``) takes DRAM and links as long as any.
    Every leaf, and so every cut above it, waits for each of four things, so the largest counts:

    - the work of all tiles, and their waiting while pipelines fill, divided by the number of tiles;
    - the bits of DRAM divided by its rate;
    - all hops divided by the rate of all links;
    - the bits that pass the links next to the ports, divided by the rate of these links.

    The layers that are bounded together also take the time for which their order makes DRAM and tiles wait
    (:mod:`.waiting`).
    """
    batches = [size for size in range(1, batch + 1) if batch % size == 0]
    floors = [tile_costs.floor(layer, batches, chip.tiles) for layer in range(len(graph.layers))]
    return tuple(_of_rounds(graph, chip, (batch, batch // samples), floors, kinds) for samples in batches)


def _of_rounds(
    graph: LayerGraph,
    chip: Chip,
    batch_and_rounds: tuple[int, int],
    floors: Sequence[TileFloor],
    kinds: SegmentKinds,
) -> LeastOfRounds:
    """Lower bounds for all schedules of a batch in so many rounds."""
    batch, rounds = batch_and_rounds
    run = RoundsOf(batch, rounds)
    staying = edges_that_can_stay(graph, chip, run.samples, kinds)
    traffic = layers_traffic(graph, batch, chip.tile.widths, rounds, staying)
    single, in_line = layers_by_themselves(graph, chip, run.samples, kinds), layers_in_line(graph)
    elsewhere = [
        ways_of(
            LayerAsked(
                layer,
                floors[number],
                traffic[number],
                number in single,
                number in in_line,
                number in kinds.grouped,
            ),
            chip,
            run,
        )
        for number, layer in enumerate(graph.layers)
    ]
    ways = _with_whole_chip(graph, chip, run, (floors, traffic, elsewhere), staying)
    together = [number for number in range(len(graph.layers)) if number not in single]
    segments = [
        _segment_floor(
            chip,
            [ways[number] for number in numbers],
            sum((traffic[number] for number in numbers), Compulsory(0, 0, 0, 0)),
        )
        for numbers in (*([number] for number in sorted(single)), together)
    ]
    # The last segment stands for all layers that are bounded together; only these wait for their order.
    times = _layer_times(
        graph, chip, run.samples, together, floors, [one.dram_read / rounds for one in traffic], kinds.grouped
    )
    filled = chip.tiles * chip.tile.buffer.size_bits / chip.dram.bits_per_cycle
    segments[-1] = replace(segments[-1], order=least_cycles_in_order(graph, times, filled, rounds))
    least = [one.kept(int(np.argmin(one.energy_pj))) for one in ways]
    parts_pj = {part: sum(float(getattr(one, f"{part}_pj")) for one in least) for part in ENERGY_PARTS} | {
        "idle": chip.idle_pj_per_cycle * sum(one.cycles for one in segments)
    }
    single_pj = sum(float(least[number].energy_pj) for number in single)
    corners = _corners(chip, [ways[number] for number in together], segments, single_pj)
    return LeastOfRounds(rounds, parts_pj, tuple(segments), corners)


def _with_whole_chip(
    graph: LayerGraph,
    chip: Chip,
    run: RoundsOf,
    known: tuple[Sequence[TileFloor], Sequence[Compulsory], Sequence[LeafWays]],
    staying: frozenset[Edge],
) -> list[LeafWays]:
    """All ways of each layer: those that are ``known``, and mapped on the whole chip where that cost is.

    ``known``: the floors of each layer, what every schedule moves for it, and its other ways.
    """
    floors, traffic, elsewhere = known
    costs = [floor.on_whole_chip.get(run.samples) for floor in floors]
    # how much more energy each layer takes elsewhere, but for that of DRAM, which is what is to be divided
    dearness = [
        None
        if cost is None
        else float((one.energy_pj - one.dram_pj).min()) - run.rounds * (cost.energy_pj - cost.parts_pj[3])
        for one, cost in zip(elsewhere, costs, strict=True)
    ]
    paid = paid_by_layers(graph, chip, run.batch, staying, traffic, dearness)
    return [
        one if cost is None else one.and_also(whole_chip_way(cost, pays, chip, run))
        for one, cost, pays in zip(elsewhere, costs, paid, strict=True)
    ]


def _corners(
    chip: Chip, together: Sequence[LeafWays], segments: Sequence[SegmentFloor], single_pj: float
) -> tuple[Corner, ...]:
    """Corners of (energy in pJ, cycles) of the whole chip.

    ``together``: the ways of the layers that are bounded together, which are the last of ``segments``.
    ``single_pj``: the energy of all others, but for that of the idle chip.
    """
    before = sum(one.cycles for one in segments[:-1])
    # The largest of all bounds on cycles counts. That of work and that of DRAM depend on which layers are
    # mapped on the whole chip, whose cycles are in both.
    work, dram = (
        corners_of_sum([(one.energy_pj, cycles) for one, cycles in zip(together, each, strict=True)])
        for each in (
            [one.cycles_of_work(chip.tiles) for one in together],
            [one.cycles_of_dram(chip.dram.bits_per_cycle) for one in together],
        )
    )
    # ROUNDING takes off what sums of floats may have gained, so the bound stays proven.
    proven = [(energy * ROUNDING, cycles * ROUNDING) for energy, cycles in in_both(work, dram)]
    return tuple(
        (energy + single_pj + chip.idle_pj_per_cycle * (cycles + before), cycles + before)
        for energy, cycles in above(proven, replace(segments[-1], work=0.0).cycles)
    )


def _layer_times(
    graph: LayerGraph,
    chip: Chip,
    samples: int,
    together: Sequence[int],
    floors: Sequence[TileFloor],
    read_bits: Sequence[float],
    grouped: frozenset[int],
) -> LayerTimes:
    """The least times of the layers ``together`` in a round of ``samples``.

    ``read_bits`` [layers]: what DRAM sends for each layer in a round. ``grouped``: layers that may be mapped
    together with others. What is left of them when a layer before them has ended may need few of their
    weights, so these do not count as coming later.
    """
    times = LayerTimes(*(np.zeros(len(graph.layers)) for _ in fields(LayerTimes)))
    for number in together:
        layer, rate = graph.layers[number], chip.dram.bits_per_cycle
        tile_cycles = floors[number].tile_cycles
        if number in grouped:
            units = chip.tile.macs if layer.has_weights else chip.tile.vector_units
            tile_cycles = min(tile_cycles, layer.operations / units)
        times.work[number] = samples * tile_cycles / chip.tiles
        times.reads[number] = read_bits[number] / rate
        if number in grouped:
            continue
        if layer.has_weights and not layer.weight_producers and layer.part != "update":
            bits = ElementBits.of(layer, chip.tile.widths)
            times.weights[number] = bits.weights * layer.compulsory_elements(1).weights / rate
    return times


def _segment_floor(chip: Chip, layers: Sequence[LeafWays], moved: Compulsory) -> SegmentFloor:
    """Lower bounds on the cycles of ``layers`` that move the bits ``moved``."""
    return SegmentFloor(
        work=sum(float(one.cycles_of_work(chip.tiles).min()) for one in layers),
        dram=sum(float(one.cycles_of_dram(chip.dram.bits_per_cycle).min()) for one in layers),
        links=moved.dram_bits * hops_to_nearest(chip) / (max(chip.links, 1) * chip.noc.link_bits_per_cycle),
        ports=_past_ports(chip, max(moved.dram_read, moved.dram_write)),
    )


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
