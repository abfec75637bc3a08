"""A layer mapped on the whole chip, its data in DRAM: KAPLA's segments of one layer (section IV-B).

The chip is taken as one stack of levels, the tiles' levels and buffers below DRAM, and the layer's loop nest
is mapped on it. Unlike a leaf of SET's trees such a layer pins nothing: its weights and inputs are fetched in
pieces, and again where the mapping says so. Hence it needs no capacity for all of its weights.
:func:`costmodel.mapping.evaluate.evaluate` counts words and energy within tiles; links are counted one by
one, as for all schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.mesh.deliveries import Delivery, link_loads
from costmodel.schedule.mesh.tile_groups import deliveries_of, placements
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


def whole_chip_cost(chip: Chip, nest: Layer, mapping: AnyMapping) -> WholeChipCost:
    """What a mapping of ``nest`` on the whole chip's architecture costs; a word is a byte.

    DRAM's spatial loops spread data over the tiles; of the ways to place these loops on the mesh, the one
    with the fewest hops counts. Two things are counted here and not by the stack of levels: writing to every
    buffer what arrives over the NoC, and reading outputs from a buffer on their way out. Raises InputError
    for a mapping that does not fit this chip and layer, and for tiles without an architecture.
    """
    architecture = counted_architecture(chip)
    if architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    counted = evaluate(architecture, nest, mapping)
    moved = {name: (one.reads, one.updates) for name, one in counted.levels[-1].tensors.items()}
    loops, mesh = as_parts(mapping).nest, (chip.columns, chip.rows)
    placed = [deliveries_of(nest, sides, moved) for sides in placements(loops, mesh)]
    filling = _filling_pj(architecture.levels[-2], counted)
    emptying = _emptied(nest, counted, placed[0]) * chip.tile.buffer.read_pj_per_byte
    tiles_pj = counted.mac_energy_pj + sum(level.energy_pj for level in counted.levels[:-1]) - filling
    return _cost(
        chip,
        # tiles_pj is a difference of sums: where it should be 0, rounding may leave it just below
        (max(tiles_pj, 0.0), filling + emptying),
        (counted.cycles, _computing(counted) * placed[0][0].group.size),
        (sum(reads for reads, _ in moved.values()), sum(updates for _, updates in moved.values())),
        min((link_loads(chip, deliveries) for deliveries in placed), key=lambda loads: int(loads.sum())),
    )


def streamed_layer_cost(chip: Chip, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
    """What a layer without products costs when it is streamed through the tiles.

    Planes (one channel of one sample) are dealt out evenly to all tiles, and each tile goes through its
    planes row by row, holding only the rows under a window. So every input is read once and every output
    written once. None where a buffer cannot hold the rows under a window.
    """
    window = layer.operands * layer.r * max(layer.input_w, layer.w) + layer.w
    if window + chip.tile.output_stream_bytes > chip.tile.buffer.size_bytes:
        return None
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
        (batch * layer.operations * chip.tile.vector_operation_pj, transfers),
        (cycles, cycles * int(np.count_nonzero(planes))),
        (total * inputs, total * outputs),
        link_loads(
            chip, [Delivery(numbers, planes * size, out) for size, out in ((inputs, False), (outputs, True))]
        ),
    )


def _cost(
    chip: Chip,
    in_tiles_pj: tuple[float, float],
    cycles: tuple[int, int],
    dram_bytes: tuple[int, int],
    loads: Array,
) -> WholeChipCost:
    """A WholeChipCost from its parts.

    ``in_tiles_pj``: within tiles, and of transfers. ``cycles``: of the computation, and tiles times cycles.
    ``dram_bytes``: read and written. ``loads`` [X, Y, 4]: bytes times ports on links; the layer takes no less
    time than DRAM and the busiest link.
    """
    read, written = dram_bytes
    hop_bytes = int(loads.sum()) / len(chip.ports)
    dram_pj = read * chip.dram.read_pj_per_byte + written * chip.dram.write_pj_per_byte
    return WholeChipCost(
        parts_pj=(*in_tiles_pj, hop_bytes * chip.noc.hop_pj_per_byte, dram_pj),
        cycles=max(cycles[0], chip.least_cycles(read + written, int(loads.max()))),
        tile_cycles=cycles[1],
        dram_read_bytes=read,
        dram_write_bytes=written,
        hop_bytes=hop_bytes,
    )


def _filling_pj(buffer: StorageLevel, counted: Evaluation) -> float:
    """Energy (pJ) of writing what arrives over the NoC to all buffers that keep it, in whole blocks."""
    blocks = (
        traffic.instances * -(-traffic.fills // buffer.block_size)
        for traffic in counted.levels[-2].tensors.values()
    )
    return sum(blocks) * buffer.write_energy_pj


def _emptied(nest: Layer, counted: Evaluation, deliveries: list[Delivery]) -> int:
    """Bytes of outputs that leave the tiles' buffers for DRAM; none where outputs pass the buffers by."""
    if nest.output.name not in counted.levels[-2].tensors:
        return 0
    out = (delivery for delivery in deliveries if delivery.to_dram)
    return sum(delivery.group.size * int(delivery.size[0]) for delivery in out)


def _computing(counted: Evaluation) -> int:
    """Cycles in which a tile computes, without waiting for DRAM."""
    return max(level.cycles for level in counted.levels[:-1])
