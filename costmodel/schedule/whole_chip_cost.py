"""A layer mapped on the whole chip, its data in DRAM: KAPLA's segments of one layer (section IV-B).

The chip is taken as one stack of levels, the tiles' levels and buffers below DRAM, and the layer's loop nest
is mapped on it. Unlike a leaf of SET's trees such a layer pins nothing: its weights and inputs are fetched in
pieces, and again where the mapping says so. Hence it needs no capacity for all of its weights.
:func:`costmodel.mapping.evaluate.evaluate` counts words and energy within tiles; links are counted one by
one, as for all schedules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.evaluate import TensorTraffic
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.schedule.image import EVERYTHING, Fetched, Image, fetched
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.mesh.deliveries import Delivery, link_loads
from costmodel.schedule.mesh.tile_groups import deliveries_of, placements
from costmodel.schedule.tile_count import TileCount, counted_on_stack
from costmodel.workload.network import Layer

Array = NDArray[Any]


@dataclass(frozen=True)
class WholeChipCost:
    """What one batch of a layer costs on the whole chip, with all data from DRAM and back to it.

    ``parts_pj`` [4]: energy within tiles, between their buffers and the NoC, on links, in DRAM. ``cycles``:
    the layer's time. ``tile_cycles``: tiles times cycles in which they compute. ``hop_bytes``: bytes times
    the links that they cross.
    """

    parts_pj: tuple[float, float, float, float]
    cycles: int
    tile_cycles: int
    dram_read_bytes: int
    dram_write_bytes: int
    hop_bytes: float

    def __post_init__(self) -> None:
        if len(self.parts_pj) != 4 or not all(0 <= part < inf for part in self.parts_pj):
            raise InputError(
                "layer on the whole chip", "four energies of at least 0", self.parts_pj, key="parts_pj"
            )
        least = min(self.cycles - 1, self.tile_cycles, self.dram_read_bytes, self.dram_write_bytes)
        if least < 0 or not 0 <= self.hop_bytes < inf:
            raise InputError("layer on the whole chip", "at least a cycle, and counts of at least 0", self)

    @property
    def energy_pj(self) -> float:
        return sum(self.parts_pj)


def whole_chip_cost(
    chip: Chip, nest: Layer, mapping: AnyMapping, image: Image | None = None
) -> WholeChipCost:
    """What a mapping of ``nest`` on the whole chip's architecture costs; a word is a byte.

    ``image``: what of its inputs is no padding; None where all is. Padding is neither fetched nor written to
    buffers; nor do the cycles of DRAM and links count it.

    DRAM's spatial loops spread data over the tiles; of the ways to place these loops on the mesh, the one
    with the fewest hops counts. All else is what :func:`costmodel.mapping.evaluate.evaluate` counts for the
    stack of levels; where links are slower than DRAM and tiles, all leak for longer. Raises InputError for a
    mapping that does not fit this chip and layer, and for tiles without an architecture.
    """
    architecture = counted_architecture(chip)
    if architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    within, counted = counted_on_stack(architecture, nest, mapping)
    moved = {name: (one.reads, one.updates) for name, one in counted.levels[-1].tensors.items()}
    unpadded = fetched(nest, mapping, image)
    if unpadded != EVERYTHING:
        (inputs,) = (tensor.name for tensor in nest.tensors if tensor.role == "inputs")
        moved[inputs] = unpadded.of(moved[inputs][0]), 0
        within = _unpadded(within, architecture.levels[-2], counted.levels[-2].tensors[inputs], unpadded)
    loops, mesh = as_parts(mapping).nest, (chip.columns, chip.rows)
    # The mapping says which loops go over the tiles, not which tile is where: the mesh decides that, and it
    # changes nothing but hops.
    placed = [deliveries_of(nest, sides, moved) for sides in placements(loops, mesh)]
    return _cost(
        chip,
        within,
        placed[0][0].group.size,
        (sum(reads for reads, _ in moved.values()), sum(updates for _, updates in moved.values())),
        min((link_loads(chip, deliveries) for deliveries in placed), key=lambda loads: int(loads.sum())),
    )


def _unpadded(within: TileCount, buffer: StorageLevel, inputs: TensorTraffic, unpadded: Fetched) -> TileCount:
    """The count without the padding that is not written to buffers; the rest comes in whole blocks."""
    # Fills are words of one instance, and each instance begins a block of its own. What is no padding is
    # known for all instances together only, so its blocks are those of the total.
    filled, padded = unpadded.of(inputs.instances * inputs.fills), -(-inputs.fills // buffer.block_size)
    saved = inputs.instances * padded - -(-filled // buffer.block_size)
    return replace(within, filling_pj=within.filling_pj - max(saved, 0) * buffer.write_energy_pj)


def streamed_layer_cost(chip: Chip, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
    """What a layer without products costs when it is streamed through the tiles.

    Planes (one channel of one sample) are dealt out evenly to all tiles, and each tile goes through its
    planes row by row, holding only the rows under a window. So every input is read once and every output
    written once. None where a buffer cannot hold the rows under a window.
    """
    window = layer.operands * layer.r * max(layer.input_w, layer.w) + layer.w
    if window + chip.tile.output_stream_bytes > chip.tile.buffer.size_bytes:
        return None
    # Planes are dealt out by rounding t * planes / tiles: no tile has more than one plane more than another.
    ends = -(-np.arange(chip.tiles + 1) * layer.k * batch // chip.tiles)
    planes, numbers = np.diff(ends), np.zeros((chip.columns, chip.rows), np.int64)
    for tile, position in enumerate(chip.positions):
        numbers[position] = tile
    inputs, outputs = -(-layer.compulsory_bytes(1).inputs // layer.k), layer.h * layer.w
    cycles = -(-int(planes.max()) * layer.operations // (layer.k * chip.tile.vector_units))
    total, buffer = layer.k * batch, chip.tile.buffer
    transfers = total * (inputs * buffer.write_pj_per_byte + outputs * buffer.read_pj_per_byte)
    return _cost(
        chip,
        TileCount(batch * layer.operations * chip.tile.vector_operation_pj, transfers, 0.0, cycles),
        int(np.count_nonzero(planes)),
        (total * inputs, total * outputs),
        link_loads(
            chip, [Delivery(numbers, planes * size, out) for size, out in ((inputs, False), (outputs, True))]
        ),
    )


def _cost(
    chip: Chip, within: TileCount, tiles: int, dram_bytes: tuple[int, int], loads: Array
) -> WholeChipCost:
    """A WholeChipCost from its parts.

    ``within``: the count within tiles, and of transfers. ``tiles``: how many compute. ``dram_bytes``: read
    and written. ``loads`` [X, Y, 4]: bytes times ports on links; the layer takes no less time than DRAM and
    the busiest link.
    """
    read, written = dram_bytes
    hop_bytes = int(loads.sum()) / len(chip.ports)
    dram_pj = read * chip.dram.read_pj_per_byte + written * chip.dram.write_pj_per_byte
    cycles = max(within.cycles, chip.least_cycles(read + written, int(loads.max())))
    # With the cycles of the slower of tiles, DRAM and links, for tiles leak while they wait.
    tiles_pj = within.energy_pj + within.leakage_pj_per_cycle * cycles
    return WholeChipCost(
        parts_pj=(tiles_pj, within.filling_pj, hop_bytes * chip.noc.hop_pj_per_byte, dram_pj),
        cycles=cycles,
        tile_cycles=within.cycles * tiles,
        dram_read_bytes=read,
        dram_write_bytes=written,
        hop_bytes=hop_bytes,
    )
