"""What happens within tiles, as :func:`costmodel.mapping.evaluate.evaluate` counts it for a mapping.

A part of a layer on one tile and a layer on the whole chip are the same to it: a stack of levels with DRAM
outermost. What passes between DRAM or another tile and the tiles' buffers is counted by the chip model, which
knows where data lie; so it is left out here, but for the time and the energy of writing it to the buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.counts.energy import access_energy_pj
from costmodel.mapping.counts.latency import bandwidth_cycles
from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.evaluate import Evaluation, TensorTraffic, evaluate
from costmodel.mapping.mapping import LevelMapping
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, as_parts
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class TileCount:
    """Of all tiles that a mapping uses, from their buffers inwards.

    ``energy_pj``: of MACs and of all accesses but those that fill the tiles' buffers, which are
    ``filling_pj``. ``leakage_pj_per_cycle``: of all instances in use; a chip leaks for as long as its tiles
    belong to the layer, whether they compute or wait. ``cycles``: without waiting for DRAM and links.
    """

    energy_pj: float
    filling_pj: float
    leakage_pj_per_cycle: float
    cycles: int


def counted_on_stack(stack: Architecture, layer: Layer, mapping: AnyMapping) -> tuple[TileCount, Evaluation]:
    """The count within tiles of a mapping on a ``stack`` with DRAM outermost, and all that was counted."""
    counted, parts = evaluate(stack, layer, mapping), as_parts(mapping)
    energy_pj, leakage, filling_pj = counted.mac_energy_pj, 0.0, 0.0
    for index, (hardware, level) in enumerate(zip(stack.levels[:-1], counted.levels[:-1], strict=True)):
        instances = parts.nest.utilized_instances[parts.part_levels.index(index)]
        leakage += hardware.leakage_pj_per_cycle * instances
        for traffic in level.tensors.values():
            if index == len(stack.levels) - 2:
                energy_pj += _energy_pj(hardware, traffic, 0)
                filling_pj += _energy_pj(hardware, replace(traffic, reads=0, updates=0), traffic.fills)
            else:
                energy_pj += traffic.energy_pj
    return TileCount(energy_pj, filling_pj, leakage, _cycles(stack, counted)), counted


def _cycles(stack: Architecture, counted: Evaluation) -> int:
    """Cycles of all but the outermost level.

    With timing they are those of the steps, and the buffer's own bandwidth, which serves the outside as well.
    """
    if counted.timed is None:
        return max(counted.compute_cycles, *(level.cycles for level in counted.levels[:-1]))
    moved = counted.levels[-2].tensors.values()
    return max(counted.timed.cycles, ceil(bandwidth_cycles(stack.levels[-2], moved)))


def counted_on_tile(tile: Architecture, layer: Layer, mapping: AnyMapping) -> TileCount:
    """The count of a mapping on one ``tile``, whose outermost level is its buffer.

    The buffer is filled with inputs and weights and passes outputs on, all of which its bandwidths serve.
    """
    everything = LevelMapping((), (), (), frozenset(tensor.name for tensor in layer.tensors))
    outside: AnyMapping
    if isinstance(mapping, UnevenMapping):
        nest = replace(mapping.nest, levels=(*mapping.nest.levels, everything))
        outside = UnevenMapping(nest, (*mapping.part_levels, mapping.part_levels[-1] + 1))
    else:
        outside = replace(mapping, levels=(*mapping.levels, everything))
    return counted_on_stack(_with_source(tile), layer, outside)[0]


@lru_cache(maxsize=64)
def _with_source(tile: Architecture) -> Architecture:
    """The tile below a level that costs nothing and is never waited for: whatever fills its buffer."""
    buffer = tile.levels[-1]
    source = StorageLevel("source", None, buffer.word_bits, 0.0, 0.0, 0.0)
    timing = tile.timing and replace(tile.timing, level=buffer.name)
    return replace(tile, levels=(*tile.levels, source), timing=timing)


def _energy_pj(hardware: StorageLevel, traffic: TensorTraffic, fills: int) -> float:
    """The energy of a tensor's accesses with another number of ``fills`` than it has."""
    counts = Counts(traffic.reads, fills, traffic.updates, traffic.tile_words, traffic.partition_words)
    return access_energy_pj(hardware, counts, traffic.instances)
