"""The tiles of a segment's layers, and so what has to be known of each layer to cost the segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.schedule.allocation import allocate
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing
from solvers.schedule.tiles.layer_parts import Request


class Region(NamedTuple):
    """Layers (numbers) that take turns on so many tiles."""

    layers: tuple[int, ...]
    tiles: int


@dataclass(frozen=True)
class Regions:
    """The regions of the segments of ``slicing``, which share tiles as in the chip model.

    ``normalized``: cycles of a layer (its number) for a sample on one tile; not asked for one region.
    """

    slicing: Slicing
    normalized: Callable[[int], float]
    _known: dict[Segment, tuple[Region, ...]] = field(default_factory=dict)

    def of(self, segment: Segment) -> tuple[Region, ...]:
        """The regions of a segment, first layers first."""
        if segment not in self._known:
            self._known[segment] = self._shared(segment)
        return self._known[segment]

    def _shared(self, segment: Segment) -> tuple[Region, ...]:
        regions, model = self.slicing.regions(segment), self.slicing.problem.model
        if len(regions) == 1:
            return (Region(tuple(regions[0]), model.tiles),)
        cycles = [sum(self.normalized(number) for number in region) for region in regions]
        tiles = allocate(model.tiles, cycles, [1] * len(regions))
        assert tiles is not None  # there are no pipelines of more regions than tiles
        return tuple(Region(tuple(region), count) for region, count in zip(regions, tiles, strict=True))

    def requests(self, scheme: Scheme) -> Iterator[Request]:
        """What has to be known before the scheme is costed, one a layer; a segment of one may run alone."""
        segment, batch = scheme.segment, self.slicing.batch // scheme.subbatches
        if len(segment) == 1 and scheme.subbatches == 1:
            yield Request(segment.first, batch, 0)
        for region in self.of(segment):
            yield from (Request(number, batch, region.tiles) for number in region.layers)
