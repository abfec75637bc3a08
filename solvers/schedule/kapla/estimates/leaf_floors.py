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
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.tiles.layer_parts import factorization_array
from solvers.schedule.tiles.partition_ranking import held_weights, least_inputs

Array = NDArray[Any]


class LeafWay(NamedTuple):
    """``batch`` samples of a layer, run ``runs`` times.

    ``streamed``: with weights that come slice by slice for every run; else with weights that stay. ``bands``:
    of rows, one after the other in each run. ``shared``: weights that stay may be shared by the tiles.
    """

    batch: int
    runs: int
    streamed: bool = False
    bands: int = 1
    shared: bool = False


class LeafLeast(NamedTuple):
    """The least that a layer takes in each of n ways. Numbers are the least over all partitions that fit the
    buffers, whichever that is, and mean nothing where none does.

    ``fits`` [n]: whether some partition does. ``energy_pj`` [n]: of all runs together, without NoC and DRAM.
    ``filled_bits`` [n]: into the buffers of all tiles, of all runs together. ``cycles`` [n]: of one run.
    """

    fits: Array
    energy_pj: Array
    filled_bits: Array
    cycles: Array


@dataclass(frozen=True)
class LeafFloors:
    """The least of leaves of ``graph`` on ``chip``; ``layers``: the least of one sample of every layer.

    ``alike``: for every layer the number of the first one whose leaves take as much.
    """

    graph: LayerGraph
    chip: Chip
    layers: Sequence[LayerFloor]
    alike: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        first: dict[tuple[int, LayerFloor], int] = {}
        floors = [floor.without_producers() for floor in self.layers]
        shaped = zip(same_shapes(self.graph), floors, strict=True)
        object.__setattr__(
            self, "alike", [first.setdefault(one, number) for number, one in enumerate(shaped)]
        )

    def of(self, number: int, tiles: int, ways: Sequence[LeafWay]) -> LeafLeast:
        """The least of a layer on ``tiles`` tiles, over all partitions: parts of K, samples, rows, columns.

        Parts are as equal as they can be. A dim that is smaller than its number of parts leaves tiles idle.
        Bits into buffers leave out halos, which would only add to them. With bands every
        tile has all rows of a band, and holds at least the mean of all bands.
        """
        layer, floor, buffer = self.graph.layers[number], self.layers[number], self.chip.tile.buffer
        batch, runs, streamed, bands, shared = np.array(ways).T
        # Arrays are [ways, partitions], some with four numbers of each.
        sizes, parts = np.array([layer.sizes(one) for one in batch.tolist()]), factorization_array(tiles)
        largest = -(-sizes[:, None] // parts)
        fits = self._held_bits(number, largest, bands, streamed | shared) <= self.chip.tile.free_bits
        fits = fits & ((bands == 1)[:, None] | (parts[:, 2] == 1))
        inputs, weights = self._filled(
            floor, runs * batch, runs * streamed, np.minimum(parts, sizes[:, None])
        )
        # ``once``: the energy if every bit came into one buffer only. ``again``: the bits that come into
        # further buffers, because the partition repeats them.
        once = runs * batch * floor.energy_pj + floor.weights_pj
        again = inputs + weights - (runs * batch * floor.input_bits + floor.weights)[:, None]
        # the largest part's outputs, as a fraction of a sample's, times what a sample takes on one tile
        outputs = _least(largest.prod(axis=2), fits)
        return LeafLeast(
            fits.any(axis=1),
            once + _least(again, fits) * buffer.write_pj_per_bit,
            _least(inputs + weights, fits),
            outputs * floor.tile_cycles / (layer.k * layer.h * layer.w),
        )

    def _held_bits(self, number: int, largest: Array, bands: Array, sliced: Array) -> Array:
        """The least that the largest parts may hold, so that no partition is refused wrongly.

        ``sliced``: whether weights come in slices; the smallest one has one output channel.
        """
        layer, shape = self.graph.layers[number], largest.shape[:2]
        bits = ElementBits.of(layer, self.chip.tile.widths)
        together = largest.copy()
        together[sliced > 0, :, 0] = np.minimum(together[sliced > 0, :, 0], 1)
        inputs = bits.inputs * least_inputs(layer, largest.reshape(-1, 4)).reshape(shape) // bands[:, None]
        weights = bits.weights * held_weights(layer, together.reshape(-1, 4)).reshape(shape)
        held: Array = inputs + weights
        return held

    def _filled(self, floor: LayerFloor, samples: Array, again: Array, used: Array) -> tuple[Array, Array]:
        """Bits of inputs and of parameters that all tiles together take in over all runs.

        ``samples``: of all runs. ``again``: how many runs bring weights, where more than the first one do.
        ``used``: into how many parts each partition really cuts K, samples, rows and columns. Parts of K
        repeat the inputs, all other parts the weights (:meth:`LayerFloor.held_bits`).
        """
        shape = used.shape[:2]
        inputs = np.broadcast_to((samples * floor.input_bits)[:, None], shape)
        weights = np.broadcast_to((floor.weights * np.maximum(again, 1))[:, None], shape)
        if floor.repeats:
            inputs, weights = inputs * used[..., 0], weights * used[..., 1:].prod(axis=2)
        return inputs, weights


def _least(numbers: Array, which: Array) -> Array:
    """The least of each row of ``numbers`` [n, m], of those ``which`` counts; any number where none does."""
    least: Array = np.where(which, numbers, np.iinfo(np.int64).max).min(axis=1).astype(np.float64)
    return least
