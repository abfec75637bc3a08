"""A layer mapped on the whole chip, its data in DRAM: KAPLA's segments of one layer (section IV-B).

The chip is taken as one stack of levels, the tiles' levels and buffers below DRAM, and the layer's loop nest
is mapped on it. Unlike a leaf of SET's trees such a layer pins nothing: its weights and inputs are fetched in
pieces, and again where the mapping says so. Hence it needs no capacity for all of its weights.
:func:`costmodel.mapping.evaluate.evaluate` counts words and energy within tiles; links are counted one by
one, as for all schedules. On a chip of one tile the layer takes the cycles of ``evaluate``, too, whose first
words arrive without a wait; with more tiles the fill before the first step and the drain after the last one
count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.counts.traffic import nest_of
from costmodel.mapping.evaluate import TensorTraffic
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import nest_text
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.layer import STATING_WORK, NetworkLayer
from costmodel.schedule.mesh.deliveries import Delivery, link_loads
from costmodel.schedule.mesh.tile_groups import Moved, Sides, deliveries_of, placements, tile_groups
from costmodel.schedule.tile_counts.tile_count import TileCount, counted_on_stack
from costmodel.schedule.whole_chip.padding import first_image_words, image_words
from costmodel.schedule.whole_chip.steps import regions
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]


TURNS = 8
"""In how many turns at least a tile goes through the planes of a streamed layer, if it has so many."""


@dataclass(frozen=True)
class WholeChipCost:
    """What one batch of a layer costs on the whole chip, with all data from DRAM and back to it.

    ``parts_pj`` [4]: energy within tiles, between their buffers and the NoC, on links, in DRAM. ``cycles``:
    the layer's time. ``tile_cycles``: tiles times cycles in which they compute. ``hop_bits``: bits times
    the links that they cross. ``mapping``: as text (:mod:`costmodel.mapping.nest_text`), whose factors may
    pad dims; empty for a layer that is streamed. ``placement``: which way it is of those to place its loops
    on the mesh (:func:`costmodel.schedule.mesh.tile_groups.placements`). ``held_bits``: the most that
    a tile's buffer has of it, with what comes for the next step and the outputs on their way out.
    """

    parts_pj: tuple[float, float, float, float]
    cycles: int
    tile_cycles: int
    dram_read_bits: int
    dram_write_bits: int
    hop_bits: float
    mapping: str = ""
    placement: int = 0
    held_bits: int = 0

    def __post_init__(self) -> None:
        if len(self.parts_pj) != 4 or not all(0 <= part < inf for part in self.parts_pj):
            raise InputError(
                "layer on the whole chip", "four energies of at least 0", self.parts_pj, key="parts_pj"
            )
        least = min(self.cycles - 1, self.tile_cycles, self.dram_read_bits, self.dram_write_bits)
        if least < 0 or not 0 <= self.hop_bits < inf:
            raise InputError("layer on the whole chip", "at least a cycle, and counts of at least 0", self)

    @property
    def energy_pj(self) -> float:
        return sum(self.parts_pj)


def whole_chip_cost(
    chip: Chip,
    nest: Layer,
    mapping: AnyMapping,
    padded: Tensor | None = None,
    bits: ElementBits | None = None,
) -> WholeChipCost:
    """What a mapping of ``nest`` on the whole chip's architecture costs.

    ``padded``: the :func:`.padded_inputs` of its layer; None where nothing is padding. Padding is neither
    fetched nor written to buffers; nor do the cycles of DRAM and links count it. ``bits``: of the elements of
    its tensors; None: of parameters and activations, as the chip has them.

    Within tiles an element is a word of each level, as for every mapping. What DRAM, links and fills of
    buffers move are its bits: of an output that is brought back, and of the one that this replaces, those of
    a partial sum.

    DRAM's spatial loops spread data over the tiles; of the ways to place these loops on the mesh, the one
    with the fewest hops counts. All else is what :func:`costmodel.mapping.evaluate.evaluate` counts for the
    stack of levels; where links are slower than DRAM and tiles, all leak for longer. Raises InputError for a
    mapping that does not fit this chip and layer, and for tiles without an architecture.
    """
    architecture = counted_architecture(chip)
    if architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    within, counted = counted_on_stack(architecture, nest, mapping)
    bits = bits or ElementBits.of_parameters(chip.tile.widths)
    loops, mesh = as_parts(mapping).nest, (chip.columns, chip.rows)
    # The mapping says which loops go over the tiles, not which tile is where: the mesh decides that, and it
    # changes nothing but hops.
    ways = list(placements(loops, mesh))
    counts: dict[str, Moved] = {}
    filling_pj, buffer = 0.0, architecture.levels[-2]
    for tensor in nest.tensors:
        traffic = counted.levels[-1].tensors[tensor.name]
        counts[tensor.name] = Moved.of(tensor.role, traffic.reads, traffic.updates, bits)
        if (filled := counted.levels[-2].tensors.get(tensor.name)) is not None:
            width = bits.partial_sums if tensor.role == "outputs" else getattr(bits, tensor.role)
            filling_pj += filled.instances * (_blocks(buffer, filled.fills, width) * buffer.write_energy_pj)
    moved = [dict(counts) for _ in ways]
    (inputs,) = (tensor for tensor in nest.tensors if tensor.role == "inputs")
    # padding is data where buffers do not keep the inputs
    at_buffer = counted.levels[-2].tensors.get(inputs.name)
    if padded is not None and at_buffer is not None:
        extents, temporal = inputs.extents(loops.tiles[-2]), nest_of(loops).temporal[-1]
        unwritten = 0
        for of_way, sides in zip(moved, ways, strict=True):
            groups = tile_groups(inputs, sides)
            words = image_words(inputs, extents, temporal, groups.origins, padded, at_buffer.fills)
            if words is None:
                break
            of_way[inputs.name] = Moved.of(inputs.role, int(words.sum()), 0, bits)._replace(of_group=words)
            counts[inputs.name] = of_way[inputs.name]
            image = int(words[groups.of_tile].sum())
            unwritten = _padded_blocks(buffer, at_buffer, bits.inputs, image)
        filling_pj -= unwritten * buffer.write_energy_pj
    within = replace(within, filling_pj=filling_pj)
    placed = [deliveries_of(nest, sides, of_way) for sides, of_way in zip(ways, moved, strict=True)]
    loads = [link_loads(chip, deliveries) for deliveries in placed]
    best = min(range(len(ways)), key=lambda way: int(loads[way].sum()))
    dram_bits = (
        sum(one.read_bits for one in counts.values()),
        sum(one.written_bits for one in counts.values()),
    )
    ends = None
    if chip.tiles > 1:
        reading = _cycles_of(chip, dram_bits[0], [one for one in placed[best] if not one.to_dram])
        ends = _ends_of_mapping(chip, nest, loops, ways[best], bits, padded, reading)
    cost = _cost(chip, within, placed[0][0].group.size, dram_bits, loads[best], ends)
    kept = loops.levels[-2].keep
    widths = [getattr(bits, tensor.role) if tensor.name in kept else 0 for tensor in nest.tensors]
    held = sum(regions(nest, loops, widths, chip.tile.free_bits)) + chip.tile.output_stream_bits
    return replace(cost, mapping=nest_text(mapping), placement=best, held_bits=held)


class _Ends(NamedTuple):
    """How a layer begins and ends where its data first has to come: cycles of DRAM and the busiest link.

    A tile computes step after step, and DRAM and links bring the data of the next step meanwhile, and take
    the outputs::

        tiles | (wait)     | step 0 | step 1 | ... | last step        |
        DRAM  | of step 0  | of 1   | of 2   | ... | its outputs          |

    ``fill``: of the first step's data. ``reading``: of all data that is read. ``drain``: of the last step's
    outputs, which leave while they are computed. ``steps``: how many there are, all with equal work.
    """

    fill: int
    reading: int
    drain: int
    steps: int

    def least_cycles(self, computing: int) -> int:
        """The least cycles of a layer that computes for ``computing`` cycles.

        The first step waits for its data, the last one for all data, and what follows the last step's begin
        is its computation or its outputs.
        """
        step = -(-computing // self.steps)
        return max(self.fill + computing - step, self.reading) + max(step, self.drain)


def _cycles_of(chip: Chip, dram_bits: int, deliveries: Sequence[Delivery]) -> int:
    """The cycles that DRAM and the busiest link need for ``deliveries`` of ``dram_bits`` in all."""
    return chip.least_cycles(dram_bits, int(link_loads(chip, deliveries).max()))


def _ends_of_mapping(
    chip: Chip,
    nest: Layer,
    loops: Mapping,
    sides: Sides,
    bits: ElementBits,
    padded: Tensor | None,
    reading: int,
) -> _Ends:
    """How a mapped nest begins and ends whose loops lie on the mesh as ``sides`` say.

    A step is an iteration of DRAM's temporal loops. Each tile needs its box of every tensor for it; what its
    buffer does not keep is used as it comes, and is not waited for.
    """
    first: list[Delivery] = []
    last: list[Delivery] = []
    first_bits = last_bits = 0
    for tensor in nest.tensors:
        if tensor.name not in loops.levels[-2].keep:
            continue
        groups, extents = tile_groups(tensor, sides), tensor.extents(loops.tiles[-2])
        elements = np.full(len(groups.origins), prod(extents))
        if tensor.role == "inputs" and padded is not None:
            elements = first_image_words(tensor, extents, groups.origins, padded)
        if not tensor.is_output:
            size = elements * getattr(bits, tensor.role)
            first.append(Delivery(groups.of_tile, size, to_dram=False))
            first_bits += int(size.sum())
            continue
        # what several tiles send of the same outputs is added on the way
        on_links = bits.outputs if len(groups.origins) == groups.of_tile.size else bits.partial_sums
        last.append(Delivery(groups.of_tile, elements * on_links, to_dram=True))
        last_bits += int(elements.sum()) * bits.outputs
    steps = prod(bound for _, bound in loops.levels[-1].temporal)
    return _Ends(_cycles_of(chip, first_bits, first), reading, _cycles_of(chip, last_bits, last), steps)


def _blocks(buffer: StorageLevel, elements: int, bits: int) -> int:
    """Blocks of the buffer that so many elements of ``bits`` fill, the last one perhaps in part."""
    return -(-elements * bits // (buffer.block_size * buffer.word_bits))


def _padded_blocks(buffer: StorageLevel, inputs: TensorTraffic, bits: int, filled: int) -> int:
    """Blocks of padding, which is not written to buffers: ``filled`` elements are, in whole blocks."""
    # Fills are elements of one instance, and each instance begins a block of its own. What is no padding is
    # known for all instances together only, so its blocks are those of the total.
    return max(inputs.instances * _blocks(buffer, inputs.fills, bits) - _blocks(buffer, filled, bits), 0)


def planes_of_tiles(chip: Chip, layer: NetworkLayer, batch: int) -> Array:
    """Where the planes of each tile begin, and the last one's end: [tiles + 1].

    They are dealt out by rounding t * planes / tiles up: no tile has more than one plane more than another.
    """
    ends: Array = -(-np.arange(chip.tiles + 1) * layer.k * batch // chip.tiles)
    return ends


def turns_of(chip: Chip, planes: int, plane_bits: int) -> int:
    """In how many turns a tile goes through its ``planes``, each with ``plane_bits`` of inputs.

    In a few at least, as data comes meanwhile; and as many as two turns fit the buffer.
    """
    return max(min(TURNS, planes), -(-2 * planes * plane_bits // chip.tile.free_bits))


def streamed_layer_cost(chip: Chip, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
    """What a layer without products costs when it is streamed through the tiles.

    Planes (one channel of one sample) are dealt out evenly to all tiles, and each tile goes through its
    planes row by row, holding only the rows under a window. So every input is read once and every output
    written once. None where a buffer cannot hold the rows under a window, and for a layer of which one plane
    of outputs does not follow from one plane of each input.
    """
    if layer.kind in STATING_WORK:
        return None
    bits = ElementBits.of(layer, chip.tile.widths)
    window = layer.operands * layer.r * max(layer.input_w, layer.w) * bits.inputs + layer.w * bits.outputs
    if window > chip.tile.free_bits:
        return None
    planes, numbers = (
        np.diff(planes_of_tiles(chip, layer, batch)),
        np.zeros((chip.columns, chip.rows), np.int64),
    )
    for tile, position in enumerate(chip.positions):
        numbers[position] = tile
    inputs = layer.touched_elements // layer.k * bits.inputs
    outputs = layer.h * layer.w * bits.outputs
    cycles = -(-int(planes.max()) * layer.operations // (layer.k * chip.tile.vector_units))
    total, buffer = layer.k * batch, chip.tile.buffer
    transfers = total * (inputs * buffer.write_pj_per_bit + outputs * buffer.read_pj_per_bit)
    incoming, outgoing = (
        Delivery(numbers, planes * size, out) for size, out in ((inputs, False), (outputs, True))
    )
    ends = None
    if chip.tiles > 1:
        turns = turns_of(chip, int(planes.max()), inputs)
        reading, writing = (
            _cycles_of(chip, total * size, [one]) for size, one in ((inputs, incoming), (outputs, outgoing))
        )
        ends = _Ends(-(-reading // turns), reading, -(-writing // turns), turns)
    cost = _cost(
        chip,
        TileCount(batch * layer.operations * chip.tile.vector_operation_pj, transfers, 0.0, cycles),
        int(np.count_nonzero(planes)),
        (total * inputs, total * outputs),
        link_loads(chip, [incoming, outgoing]),
        ends,
    )
    # the program of such a layer brings as many planes at a time as the buffer holds twice
    return replace(cost, held_bits=chip.tile.buffer.size_bits)


def _cost(
    chip: Chip, within: TileCount, tiles: int, dram_bits: tuple[int, int], loads: Array, ends: _Ends | None
) -> WholeChipCost:
    """A WholeChipCost from its parts.

    ``within``: the count within tiles, and of transfers. ``tiles``: how many compute. ``dram_bits``: read
    and written. ``loads`` [X, Y, 4]: bits times ports on links; the layer takes no less time than DRAM and
    the busiest link.
    """
    read, written = dram_bits
    hop_bits = int(loads.sum()) / len(chip.ports)
    dram_pj = read * chip.dram.read_pj_per_bit + written * chip.dram.write_pj_per_bit
    cycles = max(within.cycles, chip.least_cycles(read + written, int(loads.max())))
    if ends is not None:
        cycles = max(cycles, ends.least_cycles(within.cycles))
    # With the cycles of the slower of tiles, DRAM and links, for tiles leak while they wait.
    tiles_pj = within.energy_pj + within.leakage_pj_per_cycle * cycles
    return WholeChipCost(
        parts_pj=(tiles_pj, within.filling_pj, hop_bits * chip.noc.hop_pj_per_bit, dram_pj),
        cycles=cycles,
        tile_cycles=within.cycles * tiles,
        dram_read_bits=read,
        dram_write_bits=written,
        hop_bits=hop_bits,
    )
