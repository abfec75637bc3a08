"""The least that a leaf takes, a layer's samples on some tiles, over all ways to cut it among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import same_shapes
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.tiles.layer_parts import factorization_array
from solvers.schedule.tiles.partition_ranking import held_weights, least_inputs

Array = NDArray[Any]


class LeafFloor(NamedTuple):
    """Each the least over all partitions: pJ without NoC and DRAM and bytes into buffers, over all runs;
    cycles of one run."""

    energy_pj: float
    filled_bytes: float
    cycles: float


class PlacedLeaf(NamedTuple):
    """``batch`` samples of a layer (number) on ``tiles`` tiles, ``runs`` times with the same weights."""

    layer: int
    batch: int
    tiles: int
    runs: int


@dataclass(frozen=True)
class LeafFloors:
    """Floors of the leaves of ``graph`` on ``chip``, from the ``layers``' for a sample."""

    graph: LayerGraph
    chip: Chip
    layers: Sequence[LayerFloor]
    _same: list[int] = field(init=False)
    _known: dict[PlacedLeaf, LeafFloor | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", same_shapes(self.graph))

    def of(self, leaf: PlacedLeaf) -> LeafFloor | None:
        """None if no partition fits the buffers."""
        if leaf not in self._known:
            same = leaf._replace(layer=self._same[leaf.layer])
            self._known[leaf] = self._least(leaf) if same == leaf else self.of(same)
        return self._known[leaf]

    def _least(self, leaf: PlacedLeaf) -> LeafFloor | None:
        """Parts are as equal as they can be; where a dim has fewer parts than asked for, tiles stay idle.

        Cutting K brings inputs to more tiles, cutting anything else weights; halos only add to that.
        """
        layer, floor, buffer = self.graph.layers[leaf.layer], self.layers[leaf.layer], self.chip.tile.buffer
        sizes, parts = np.array(layer.sizes(leaf.batch)), factorization_array(leaf.tiles)
        largest = -(-sizes // parts)
        held = least_inputs(layer, largest) + held_weights(layer, largest)
        fits = held <= buffer.size_bytes - self.chip.tile.output_stream_bytes
        if not fits.any():
            return None
        used, largest = np.minimum(parts, sizes)[fits], largest[fits]
        inputs, weights = self._filled(leaf, used)
        once = leaf.runs * leaf.batch * floor.energy_pj + floor.weights_pj
        again = inputs + weights - leaf.runs * leaf.batch * floor.input_bytes - floor.weights
        return LeafFloor(
            once + float(again.min()) * buffer.write_pj_per_byte,
            float((inputs + weights).min()),
            float(largest.prod(axis=1).min()) * floor.tile_cycles / (layer.k * layer.h * layer.w),
        )

    def _filled(self, leaf: PlacedLeaf, used: Array) -> tuple[Array, Array]:
        """Bytes of inputs and of pinned weights [n] that all tiles take in over all runs."""
        floor = self.layers[leaf.layer]
        inputs = np.full(len(used), leaf.runs * leaf.batch * floor.input_bytes)
        weights = np.full(len(used), floor.weights)
        if floor.repeats:
            inputs, weights = inputs * used[:, 0], weights * used[:, 1:].prod(axis=1)
        return inputs, weights
