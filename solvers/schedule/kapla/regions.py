"""How many tiles each layer of a segment has, and so which tile costs the segment needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.schedule.segment.allocation import allocate
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing
from solvers.schedule.tiles.layer_parts import Request


class Region(NamedTuple):
    """Layers (numbers) that take turns on ``tiles`` tiles of their own."""

    layers: tuple[int, ...]
    tiles: int


@dataclass(frozen=True)
class Regions:
    """The regions of the segments of ``slicing``, with as many tiles as the chip model gives them.

    ``normalized``: the cycles of a layer (by its number) for one sample on one tile, in proportion to which
    regions get tiles (SET, section 3.3.2). A segment of one region has all tiles, and does not call it.
    """

    slicing: Slicing
    normalized: Callable[[int], float]
    _known: dict[Segment, tuple[Region, ...]] = field(default_factory=dict)
    _same: dict[Region, Region] = field(default_factory=dict)
    """Each region once, as many pipelines have the same ones."""

    def of(self, segment: Segment) -> tuple[Region, ...]:
        """The regions of a segment, in the order of their layers."""
        if segment not in self._known:
            self._known[segment] = self._shared(segment)
        return self._known[segment]

    def _shared(self, segment: Segment) -> tuple[Region, ...]:
        """The regions with their tiles: each gets about as many as its part of the cycles asks for."""
        regions, model = self.slicing.regions(segment), self.slicing.problem.model
        if len(regions) == 1:
            return (Region(tuple(regions[0]), model.tiles),)
        # a region needs at least one tile; fill and drain are the whole pipeline's and do not favour a region
        cycles = [sum(self.normalized(number) for number in region) for region in regions]
        tiles = allocate(model.tiles, cycles, [1] * len(regions))
        assert tiles is not None  # there are no pipelines of more regions than tiles
        found = (Region(tuple(region), count) for region, count in zip(regions, tiles, strict=True))
        return tuple(self._same.setdefault(region, region) for region in found)

    def requests(self, scheme: Scheme) -> Iterator[Request]:
        """The tile costs that have to be known before the scheme is costed: those of each layer on its tiles.

        A single layer in one sub-batch may also be mapped on the whole chip, so that cost is requested, too,
        as ``tiles`` 0. With bands they are the costs of bands of all heights that occur.
        """
        segment, batch = scheme.segment, self.slicing.batch // scheme.subbatches
        if scheme.bands > 1:
            heights = self.slicing.heights(scheme)
            for region in self.of(segment):
                for number in region.layers:
                    distinct = tuple(sorted(set(heights[number]), reverse=True))
                    yield Request(number, batch, region.tiles, distinct)
            return
        if len(segment) == 1 and scheme.subbatches == 1:
            yield Request(segment.first, batch, 0)
        for region in self.of(segment):
            yield from (Request(number, batch, region.tiles) for number in region.layers)
