"""The least that a leaf takes, some samples of a layer on some tiles, over all its partitions among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import same_shapes
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.tiles.layer_parts import factorization_array
from solvers.schedule.tiles.partition_ranking import held_weights, least_inputs

Array = NDArray[Any]


class LeafFloor(NamedTuple):
    """The least that a leaf takes. Each number is the least over all partitions, whichever that is.

    ``energy_pj``: of all runs together, without NoC and DRAM. ``filled_bits``: into the buffers of all
    tiles, of all runs together. ``cycles``: of one run.
    """

    energy_pj: float
    filled_bits: float
    cycles: float


class PlacedLeaf(NamedTuple):
    """``batch`` samples of a layer (number) on ``tiles`` tiles, run ``runs`` times.

    ``streamed``: with weights that come slice by slice for every run; else with weights that stay. ``bands``:
    of rows, one after the other in each run. ``shared``: weights that stay may be shared by the tiles.
    """

    layer: int
    batch: int
    tiles: int
    runs: int
    streamed: bool = False
    bands: int = 1
    shared: bool = False


@dataclass(frozen=True)
class LeafFloors:
    """The least of leaves of ``graph`` on ``chip``, each computed once.

    ``layers``: the least of one sample of every layer. Layers of equal shape have equal leaves, which are
    computed for the first of them only.
    """

    graph: LayerGraph
    chip: Chip
    layers: Sequence[LayerFloor]
    _same: list[int] = field(init=False)
    _known: dict[PlacedLeaf, LeafFloor | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", same_shapes(self.graph))

    def of(self, leaf: PlacedLeaf) -> LeafFloor | None:
        """The least of a leaf; None if no partition of it fits the buffers."""
        if leaf not in self._known:
            same = leaf._replace(layer=self._same[leaf.layer])
            self._known[leaf] = self._least(leaf) if same == leaf else self.of(same)
        return self._known[leaf]

    def _least(self, leaf: PlacedLeaf) -> LeafFloor | None:
        """The least of each number over all partitions [n, 4]: parts of K, samples, rows and columns.

        Parts are as equal as they can be. A dim that is smaller than its number of parts leaves tiles idle.
        Bits into buffers leave out halos, which would only add to them. With bands every
        tile has all rows of a band, and holds at least the mean of all bands.
        """
        layer, floor, buffer = self.graph.layers[leaf.layer], self.layers[leaf.layer], self.chip.tile.buffer
        sizes, parts = np.array(layer.sizes(leaf.batch)), factorization_array(leaf.tiles)
        if leaf.bands > 1:
            parts = parts[parts[:, 2] == 1]
        largest = -(-sizes // parts)
        # the least that the largest part may hold, so that no partition is refused wrongly
        bits = ElementBits.of(layer, self.chip.tile.widths)
        together = largest
        if leaf.streamed or leaf.shared:  # the smallest slice has one output channel
            together = np.concatenate([np.minimum(largest[:, :1], 1), largest[:, 1:]], axis=1)
        inputs_held = bits.inputs * least_inputs(layer, largest) // leaf.bands
        held = inputs_held + bits.weights * held_weights(layer, together)
        fits = held <= self.chip.tile.free_bits
        if not fits.any():
            return None
        used, largest = np.minimum(parts, sizes)[fits], largest[fits]
        inputs, weights = self._filled(leaf, used)
        # ``once``: the energy if every bit came into one buffer only. ``again``: the bits that come into
        # further buffers, because the partition repeats them.
        once = leaf.runs * leaf.batch * floor.energy_pj + floor.weights_pj
        again = inputs + weights - leaf.runs * leaf.batch * floor.input_bits - floor.weights
        return LeafFloor(
            once + float(again.min()) * buffer.write_pj_per_bit,
            float((inputs + weights).min()),
            # the largest part's outputs, as a fraction of a sample's, times what a sample takes on one tile
            float(largest.prod(axis=1).min()) * floor.tile_cycles / (layer.k * layer.h * layer.w),
        )

    def _filled(self, leaf: PlacedLeaf, used: Array) -> tuple[Array, Array]:
        """Bits of inputs [n] and of parameters [n] that all tiles together take in over all runs.

        ``used`` [n, 4]: into how many parts each partition really cuts K, samples, rows and columns. Parts of
        K repeat the inputs, all other parts the weights (:meth:`LayerFloor.held_bits`).
        """
        floor = self.layers[leaf.layer]
        inputs = np.full(len(used), leaf.runs * leaf.batch * floor.input_bits)
        weights = np.full(len(used), floor.weights * (leaf.runs if leaf.streamed else 1))
        if floor.repeats:
            inputs, weights = inputs * used[:, 0], weights * used[:, 1:].prod(axis=1)
        return inputs, weights
