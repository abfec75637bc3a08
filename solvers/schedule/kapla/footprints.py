"""Whether the buffers can hold a scheme in the partitions that tile costs offer, before any part is mapped.

``Estimates.may_fit`` lets a leaf be cut in any way, and takes the fewest bits of each kind of data. Here a
leaf is cut in one of the partitions that the chip model will choose from, so uneven parts, halos and slices
count. Neither knows which partition the chip model will choose, for that depends on what mappings cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import ranges_of, same_shapes
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.tile_cost import TileCosts
from solvers.schedule.kapla.estimate import Computed
from solvers.schedule.kapla.regions import Region, Regions
from solvers.schedule.kapla.segments import Scheme
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
    _known: dict[tuple[int, int], Computed[int, LeafFootprint | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", same_shapes(self.graph))
        object.__setattr__(self, "_ranges", ranges_of(self.chip.tiles))

    def may_fit(self, scheme: Scheme) -> bool:
        """Whether the chip may be able to run the scheme on its tiles; False is certain, True is not.

        Nothing is said of schemes whose leaves have other partitions to choose from: with bands, or with
        weights that tiles share. Nor of a layer with the whole batch, which may be mapped on the whole chip.
        """
        segment = scheme.segment
        if scheme.bands > 1 or self.tile_costs.shares_weights:
            return True
        if len(segment) == 1 and scheme.subbatches == 1:
            return True
        in_turn = segment.kind == "turns"
        return all(
            self._regions_fit[region, in_turn][scheme.subbatches] for region in self.regions.of(segment)
        )

    @cached_property
    def _regions_fit(self) -> Computed[tuple[Region, bool], Computed[int, bool]]:
        """By region, and whether it is a segment in turns, and by sub-batches: whether it may fit."""

        def of_region(key: tuple[Region, bool]) -> Computed[int, bool]:
            return Computed(lambda subbatches: self._region_may_fit(*key, subbatches))

        return Computed(of_region)

    def _region_may_fit(self, region: Region, in_turn: bool, subbatches: int) -> bool:
        """Whether each leaf of a region has a partition that fits, and the data that is there with it does.

        While a leaf runs, the data of the next one arrives (``costmodel.schedule.segment.buffers``). In a
        segment in turns that of the first one does so after the last, for the next sub-batch; in a region of
        a pipeline the inputs of the next sub-batch arrive all the time.
        """
        batch, again = self.regions.slicing.batch // subbatches, subbatches > 1
        leaves, tile, known = [], self.chip.tile, self.of(batch, region.tiles)
        for number in region.layers:
            leaf = known[number]
            if leaf is None:
                return False
            leaves.append(leaf)
        if len(leaves) == 1:
            return not again or leaves[0].repeated <= tile.free_bits
        following = [leaf.ahead for leaf in leaves[1:]]
        following.append(leaves[0].ahead if in_turn and again else 0.0)
        arriving = leaves[0].inputs if again and not in_turn else 0.0
        most = max(leaf.running + ahead for leaf, ahead in zip(leaves, following, strict=True))
        return most + arriving <= tile.buffer.size_bits

    def of(self, batch: int, tiles: int) -> Computed[int, LeafFootprint | None]:
        """By layer the footprint of ``batch`` samples on ``tiles`` tiles; None if no partition fits."""
        if (batch, tiles) not in self._known:
            found: Computed[int, LeafFootprint | None]

            def footprint(number: int) -> LeafFootprint | None:
                if (same := self._same[number]) != number:
                    return found[same]
                ways = [way for way in self._ways(number, batch, tiles) if way.shape[1]]
                return LeafFootprint(*np.concatenate(ways, axis=1).min(axis=1).tolist()) if ways else None

            self._known[batch, tiles] = found = Computed(footprint)
        return self._known[batch, tiles]

    def _ways(self, number: int, batch: int, tiles: int) -> Iterator[Array]:
        """The numbers [4, n] of a footprint for each partition that fits: with pinned weights, then streamed.

        A tile that streams holds two slices, as one arrives while the other is used, and with the inputs of
        the next run its first slice comes, too. A single slice is all weights, which may as well be pinned.
        Weights that another layer makes arrive as inputs do.
        """
        if number not in self._layers:
            self._layers[number] = LeafLayer(self.graph, number, self.chip)
        leaf, free = self._layers[number], self.chip.tile.free_bits
        for streamed in (False, True):
            parts, slices = offered_partitions(self.tile_costs, number, batch, tiles, streamed)
            if streamed:
                parts, slices = parts[slices > 1], slices[slices > 1]
            if not len(parts):
                continue
            volumes = leaf.volumes(batch, parts, self._ranges)
            # each [n, 2]: on the fullest tile and on the mean tile
            share = np.array([1, 1 / tiles])
            inputs = volumes[:, :2] * (leaf.layer.input_tensors * leaf.bits.inputs) * share
            weights = volumes[:, 2:] * leaf.bits.weights * share
            first, again = weights, np.zeros(len(parts))
            if leaf.layer.weight_producers:
                again = weights[:, 0]
            if streamed:
                first = np.stack(
                    [leaf.slice_bits(volumes[:, 2] * leaf.bits.weights, slices), weights[:, 1] / slices],
                    axis=1,
                )
                again = first[:, 0]
            held = inputs + first * (2 if streamed else 1)
            numbers = (
                held[:, 0] + inputs[:, 0] + again,
                held[:, 1],
                inputs[:, 1] + first[:, 1],
                inputs[:, 1],
            )
            yield np.stack(numbers)[:, held[:, 0] <= free]
