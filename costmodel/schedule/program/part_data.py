"""The elements that the tiles of a leaf make and read, as boxes of :mod:`costmodel.schedule.boxes`.

All boxes of activations have the axes (samples, channels, rows, columns) here, numbered as the tensor's own
layer numbers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from costmodel.schedule.boxes.arrays import Array, box_at, groups, volume
from costmodel.schedule.boxes.images import image
from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import REDUCED_DIM
from costmodel.schedule.layer_graph.sources import Source
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.program.program import Box, Interval


@dataclass(frozen=True)
class PlacedPart:
    """The part of a layer that one tile computes at a time; ``outputs`` are those of the first batch.

    ``slice``: number of the slice of the tile's part; 0 where the part is computed at once. ``channels``: the
    input channels, where these are cut; None: all. ``owner``: the tile that adds up the partial sums of these
    outputs, where they are partial.
    """

    tile: int
    outputs: Box
    slice: int = 0
    channels: Interval | None = None
    owner: int | None = None


class PlacedParts:
    """The parts of a placed leaf, tile by tile and slice by slice; those without outputs are left out.

    ``slices``: into how many slices of output channels each part is cut. ``computing``: the parts that tiles
    compute. ``parts``: the parts of which tiles have complete outputs in the end: the same, unless the input
    channels are cut; then those of the owners.
    """

    def __init__(self, layer: NetworkLayer, placement: Placement, slices: int = 1) -> None:
        self._tile, self._space = placement.tile, layer.space(placement.batch)
        self._boxes = placement.partition.boxes(self._space)
        self.slices = slices
        self._slices = [self._sliced(placement, slices, number) for number in range(slices)]
        self.computing = tuple(
            PlacedPart(
                self._tile + tile, box_at(made, tile), number, *self._of_group(placement.reduced, tile)
            )
            for number, boxes in enumerate(self._slices)
            for made in [_samples_first(image(self._space, self._space.output, boxes))]
            for tile in np.flatnonzero(volume(made)).tolist()
        )
        self.parts = tuple(part for part in self.computing if part.owner in (None, part.tile))

    def _of_group(self, reduced: int, tile: int) -> tuple[Interval | None, int | None]:
        """The input channels of a part, and the tile that owns its outputs; None where none are cut."""
        if reduced == 1:
            return None, None
        channels = box_at(self._boxes, tile)[self._space.index[REDUCED_DIM]]
        return channels, self._tile + tile - tile % reduced

    def _sliced(self, placement: Placement, slices: int, number: int) -> Array:
        """The boxes of all parts' slices of one number: the part of K is cut like K itself."""
        parts, step = placement.parts[0], placement.steps[0]
        boxes, axis = self._boxes.copy(), self._space.index["K"]
        channels = self._space.dims[axis][1]
        for tile in np.flatnonzero(volume(self._boxes)).tolist():
            first = tile // step % parts * slices + number
            boxes[tile, axis] = part_of(channels, parts * slices, first)
        return boxes

    def reading(self, source: Source, number: int | None = None) -> dict[Box, list[int]]:
        """The different boxes that parts read of a source, each with the tiles that read it.

        With ``number``, those of the parts' slices of this number.

        Activations are numbered as the tensor's own layer numbers them. Parameters have the axes (outputs,
        inputs of a group, filter rows, filter columns).
        """
        boxes_read = self._boxes if number is None else self._slices[number]
        images = image(self._space, self._space.tensor(source.tensor), boxes_read)
        read = groups(source.needed(images))
        boxes = read.boxes if source.is_parameter else _samples_first(read.boxes)
        return {
            box_at(boxes, number): [self._tile + part for part in members]
            for number, members in enumerate(read.members)
        }


def _samples_first(boxes: Array) -> Array:
    """Boxes of activations with the axes (samples, channels, rows, columns), from those of a layer."""
    return boxes[:, [1, 0, 2, 3]]


def elements(box: Box) -> int:
    """How many elements a box has."""
    return prod(max(end - first, 0) for first, end in box)


def common(one: Box, other: Box) -> Box | None:
    """The elements that are in both boxes; None where there are none."""
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return both if all(first < end for first, end in both) else None


def along(box: Box, axis: int, by: int) -> Box:
    """The box moved ``by`` elements along one axis."""
    first, end = box[axis]
    return (*box[:axis], (first + by, end + by), *box[axis + 1 :])


def tensor_of(graph: LayerGraph, layer: NetworkLayer, source: Source) -> str:
    """The name of a source's tensor; see :class:`.program.Message`."""
    if source.producer is not None:
        return graph.layers[source.producer].name
    return f"{layer.name}.weights" if source.is_parameter else f"{layer.name}.input"
