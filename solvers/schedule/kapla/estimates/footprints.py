"""Whether the buffers can hold a scheme in the partitions that tile costs offer, before any part is mapped.

``Estimates.may_fit`` lets a leaf be cut in any way, and takes the fewest bits of each kind of data. Here a
leaf is cut in one of the partitions that the chip model will choose from, so uneven parts, halos and slices
count. Neither knows which partition the chip model will choose, for that depends on what mappings cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import ranges_of, same_shapes
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.tile_cost import TileCosts
from solvers.divisors import divisors
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment
from solvers.schedule.tiles.cost_table import offered_partitions

Array = NDArray[Any]


class LeafFootprint(NamedTuple):
    """Bits that a leaf holds at least. Each number is the least over its partitions, whichever that is.

    ``repeated``: on the fullest tile while it runs, where the data of its next run arrives meanwhile.
    The rest is of the mean tile, as one leaf may be fullest where another one is not. ``running``: while it
    runs. ``ahead``: what is there before it starts. ``inputs``: the part of that which is no weights.
    """

    repeated: float
    running: float
    ahead: float
    inputs: float


class _FootprintTable:
    """Footprints by layer and tiles, and by samples; ``numbers`` [rows, columns, 4] are NaN until known."""

    def __init__(self, columns: int) -> None:
        self.numbers = np.full((64, columns, len(LeafFootprint._fields)), np.nan)
        self._rows: dict[tuple[int, int], int] = {}

    def row(self, number: int, tiles: int) -> int:
        """The row of a layer on so many tiles, a new one if it has none."""
        found = self._rows.get((number, tiles))
        if found is None:
            found = self._rows[number, tiles] = len(self._rows)
            if found == len(self.numbers):
                self.numbers = np.concatenate([self.numbers, np.full_like(self.numbers, np.nan)])
        return found


@dataclass(frozen=True)
class Footprints:
    """The footprints of leaves of ``graph`` on ``chip``, each computed once, and what follows for schemes.

    ``regions``: how many tiles each layer of a segment has.
    """

    graph: LayerGraph
    chip: Chip
    tile_costs: TileCosts
    regions: Regions
    _same: list[int] = field(init=False)
    _ranges: Any = field(init=False)
    _layers: dict[int, LeafLayer] = field(default_factory=dict)
    _table: _FootprintTable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", same_shapes(self.graph))
        object.__setattr__(self, "_ranges", ranges_of(self.chip.tiles))
        object.__setattr__(self, "_table", _FootprintTable(len(divisors(self.regions.slicing.batch))))

    def may_fit(self, scheme: Scheme) -> bool:
        """Whether the chip may be able to run the scheme on its tiles; False is certain, True is not."""
        return bool(self.fitting(scheme.segment, (scheme.division,)))

    def fitting(self, segment: Segment, divisions: tuple[BatchDivision, ...]) -> tuple[BatchDivision, ...]:
        """Those of the ``divisions`` with which the chip may be able to run the segment on its tiles.

        Each leaf has a partition that fits, and the data that is there with it does. Nothing is said of
        divisions whose leaves have other partitions to choose from: with bands, or with weights that tiles
        share. Nor of a layer with the whole batch, which may be mapped on the whole chip.
        """
        if self.tile_costs.shares_weights:
            return divisions
        asked = [one for one in divisions if one.bands == 1 and (len(segment) > 1 or one.subbatches > 1)]
        if not asked:
            return divisions
        left = dict(zip(asked, self._fits(segment, [one.subbatches for one in asked]), strict=True))
        return tuple(one for one in divisions if left.get(one, True))

    def _fits(self, segment: Segment, subbatches: list[int]) -> list[bool]:
        """Whether a segment may fit in each of these numbers of sub-batches."""
        from solvers.schedule.kapla.estimates.footprint_kernel import FootprintQuestion, segment_fits

        regions, table, batch = self.regions.of(segment), self._table, self.regions.slicing.batch
        numbers = [(number, region.tiles) for region in regions for number in region.layers]
        rows = [table.row(self._same[number], tiles) for number, tiles in numbers]
        columns, tile = [divisors(batch).index(batch // count) for count in subbatches], self.chip.tile
        asked = FootprintQuestion(
            np.array(rows, np.int64),
            np.array([0, *accumulate(len(region.layers) for region in regions)], np.int64),
            segment.kind == "turns",
            np.array(columns, np.int64),
            np.array(subbatches, np.int64),
            tile.free_bits,
            tile.buffer.size_bits,
        )
        fits = np.zeros(len(subbatches), np.bool_)
        missing = segment_fits(table.numbers, asked, 0, fits)
        while missing >= 0:
            layer, at = divmod(missing, len(subbatches))
            samples, (number, tiles) = batch // subbatches[at], numbers[layer]
            table.numbers[rows[layer], columns[at]] = self.of(number, samples, tiles) or inf
            missing = segment_fits(table.numbers, asked, at, fits)
        found: list[bool] = fits.tolist()
        return found

    def of(self, number: int, samples: int, tiles: int) -> LeafFootprint | None:
        """The footprint of ``samples`` of a layer on ``tiles`` tiles; None if no partition fits.

        Partitions are those with pinned weights, then those with streamed ones. A tile that streams holds two
        slices, as one arrives while the other is used, and with the inputs of the next run its first slice
        comes, too. A single slice is all weights, which may as well be pinned. Weights that another layer
        makes arrive as inputs do.
        """
        number = self._same[number]
        if number not in self._layers:
            self._layers[number] = LeafLayer(self.graph, number, self.chip)
        leaf, free = self._layers[number], self.chip.tile.free_bits
        pinned, _ = offered_partitions(self.tile_costs, number, samples, tiles, False)
        cut, slices = offered_partitions(self.tile_costs, number, samples, tiles, True)
        cut, slices = cut[slices > 1], slices[slices > 1]
        parts = np.concatenate([pinned, cut])
        if not len(parts):
            return None
        volumes = leaf.volumes(samples, parts, self._ranges)
        # each [n, 2]: on the fullest tile and on the mean tile
        share = np.array([1, 1 / tiles])
        inputs = volumes[:, :2] * (leaf.layer.input_tensors * leaf.bits.inputs) * share
        first = volumes[:, 2:] * leaf.bits.weights * share
        again = first[:, 0].copy() if leaf.layer.weight_producers else np.zeros(len(parts))
        at_once, streamed = np.ones((len(parts), 1)), slice(len(pinned), None)
        if len(slices):
            of_tile = volumes[streamed, 2] * leaf.bits.weights
            first[streamed, 0], first[streamed, 1] = (
                leaf.slice_bits(of_tile, slices),
                first[streamed, 1] / slices,
            )
            again[streamed], at_once[streamed] = first[streamed, 0], 2
        held = inputs + first * at_once
        fits = held[:, 0] <= free
        if not fits.any():
            return None
        numbers = (
            held[:, 0] + inputs[:, 0] + again,
            held[:, 1],
            inputs[:, 1] + first[:, 1],
            inputs[:, 1],
        )
        return LeafFootprint(*np.stack(numbers)[:, fits].min(axis=1).tolist())
