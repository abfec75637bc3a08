"""What of a convolution's inputs is image, and what padding around it that no memory holds.

A loop nest reads all positions under its windows and does not know which of them are padding. The chip
knows: what comes from DRAM is the image. So of the words that a mapping fetches, those beyond the edges are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, product
from typing import NamedTuple

from costmodel.mapping.traffic import StridedLoop, nest_of
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.schedule.boxes.space import Projection
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.layer_graph.layer import IMAGE_AXES
from costmodel.workload.network import Axis, Layer


class Image(NamedTuple):
    """The axes of a layer's inputs along which windows slide, some of them with padding around the image.

    Each is a projection, which says what an axis of a loop nest's tensor cannot: along it the image has
    ``length`` rows (columns), and ``-offset`` rows of padding come before it.
    """

    axes: tuple[Projection, ...]

    @staticmethod
    def of(layer: NetworkLayer) -> Image | None:
        """The image that a layer reads; None where no window reaches beyond it.

        Nor is there one for the layers of a training step that run on the whole chip only: their nests are
        those of the forward layers, whose tensors have other parts there.
        """
        if layer.needs_whole_chip:
            return None
        space = layer.space(1)
        inputs = next(tensor for tensor in space.tensors if tensor.role == "inputs")
        axes = tuple(inputs.axes[axis] for axis in IMAGE_AXES)
        ends = [axis.at({dim: size - 1 for dim, size in space.dims}) for axis in axes]
        padded = any(one.offset < 0 or last >= one.length for one, last in zip(axes, ends, strict=True))
        return Image(axes) if padded else None

    def along(self, axis: Axis) -> Projection | None:
        """The image along an axis of the layer's loop nest, which follows the dims as the projection does."""
        return next((one for one in self.axes if {stride[:2] for stride in one.steps} == set(axis)), None)


class Fetched(NamedTuple):
    """Of every ``all`` words of inputs that a mapping fetches from DRAM, ``image`` are no padding."""

    image: int
    all: int

    def of(self, words: int) -> int:
        """The words of the image among ``words``."""
        # Exact: the words are a multiple of ``all``, as axes without windows and loops around only multiply.
        return words // self.all * self.image


EVERYTHING = Fetched(1, 1)


def fetched(nest: Layer, mapping: AnyMapping, image: Image | None) -> Fetched:
    """How much of the inputs that a ``mapping`` of ``nest`` on the whole chip fetches is ``image``.

    Tiles are boxes, so each axis is followed by itself: where every fetched interval of rows begins and ends,
    and how much of it is image. In two cases all padding is counted as data: where buffers do not keep the
    inputs, and where two loops of DRAM move along one axis, because then a step of the outer one may find
    what a step of the inner one has fetched.
    """
    if image is None:
        return EVERYTHING
    (inputs,) = (tensor for tensor in nest.tensors if tensor.role == "inputs")
    parts = as_parts(mapping).nest
    if inputs.name not in parts.levels[-2].keep:
        return EVERYTHING
    loops, tile = nest_of(parts), parts.tiles[-2]
    # Loops inside the first one that moves the inputs' tile leave it in the buffer: nothing is fetched in
    # them.
    moving = list(dropwhile(lambda loop: loop.dim not in inputs.steps, loops.temporal[-1]))
    image_words, all_words = 1, 1
    for axis, extent in zip(inputs.axes, inputs.extents(tile), strict=True):
        if (along := image.along(axis)) is None:
            continue
        dims, window = dict(axis), (-along.offset, along.length)
        spread = [loop for loop in loops.spatial[-1] if loop.dim in dims]
        if len(spread) > 1 or sum(loop.dim in dims for loop in moving) > 1:
            return EVERYTHING
        of_image, of_axis = _lengths(axis, spread, moving, extent, window)
        image_words, all_words = image_words * of_image, all_words * of_axis
    return Fetched(image_words, all_words)


def _lengths(
    axis: Axis,
    spread: Sequence[StridedLoop],
    moving: Sequence[StridedLoop],
    extent: int,
    window: tuple[int, int],
) -> tuple[int, int]:
    """Lengths of all intervals that are fetched along an axis: of the image in them, and in all.

    ``spread`` are the loops over tiles of the chip. Of the loops in time, ``moving``, the first one fetches
    only what the step before has not fetched, as Timeloop counts it; all others fetch whole tiles again.
    ``extent``: the length of a tile. ``window``: where the image begins, and its length.
    """
    steps, (begin, length) = dict(axis), window
    again = [loop for loop in (*spread, *moving[1:]) if loop.dim in steps]
    distances = [[steps[loop.dim] * loop.inner * i for i in range(loop.bound)] for loop in again]
    first = [(0, extent)]
    if moving and moving[0].dim in steps:
        step = steps[moving[0].dim] * moving[0].inner
        # The next tile lies ``step`` further, and overlaps with this one by the rest.
        new = min(step, extent)
        first += [(step * i + extent - new, new) for i in range(1, moving[0].bound)]
    of_image, of_axis = 0, 0
    for base in map(sum, product(*distances)):
        for start, size in first:
            of_axis += size
            left, right = max(base + start, begin), min(base + start + size, begin + length)
            of_image += max(right - left, 0)
    return of_image, of_axis
