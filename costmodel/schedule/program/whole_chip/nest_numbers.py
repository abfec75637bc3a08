"""Translates elements and points of a layer's loop nest into the numbers that programs have for them.

The two differ. In a nest the groups of a convolution are a dim beside the channels of one group, and rows of
padding count as rows before the image. A program has the boxes of the layer's iteration space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from costmodel.mapping.counts.traffic import StridedLoop
from costmodel.schedule.boxes.arrays import boxes_of
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.layer_graph.sources import Source
from costmodel.schedule.program.program import Box, Interval, Moves
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]
SAMPLES_FIRST = 1, 0, 2, 3
"""The axes of a layer's activations in the order that messages have them."""


class NestNumbers:
    """The numbers of ``batch`` samples of a layer. ``nest``: its loop nest.

    NotPossibleError for a layer whose nest has other elements than its outputs: one of a training step that
    scatters or updates, and one whose weights are activations of several samples in several groups.
    """

    def __init__(self, layer: NetworkLayer, batch: int) -> None:
        self.layer, self.nest, self._space = layer, layer.nest(batch), layer.space(batch)
        if layer.needs_whole_chip:
            raise NotPossibleError(f"{layer.name}: no program yet for updates, and errors that scatter")
        self._dims: dict[str, tuple[str, ...]] = {dim: (dim,) for dim, _ in self._space.dims}
        self._known_axes: dict[str, list[list[int]]] = {}
        self._known_dims: dict[tuple[str, ...], list[list[tuple[int, int]]]] = {}
        sizes = self.nest.sizes
        folded = bool(layer.weight_producers) and batch > 1
        if "K" not in sizes:  # depthwise: the only channel dim is C
            self._dims |= {"K": ("C",), "C": ()}
        elif "G" in sizes and not folded:
            self._dims["K"] = "G", "K"
        elif "G" in sizes:
            self._dims["N"] = ("G",)
        if folded and (layer.groups > 1 or "K" not in sizes):
            raise NotPossibleError(f"{layer.name}: no program yet for weights of each sample in groups")

    def padded(self, covered: Mapping[str, int]) -> Layer:
        """The nest with the sizes that a mapping makes."""
        dims = tuple((dim, max(size, covered.get(dim, 1))) for dim, size in self.nest.dims)
        return self.nest if dims == self.nest.dims else replace(self.nest, dims=dims)

    def channel_dims(self, tensor: Tensor) -> set[str]:
        """The nest's dims along which channels of a tensor follow one another."""
        return {dim for axis in self._axes(tensor)[0] for dim, _ in tensor.terms[axis]}

    def box(self, tensor: Tensor, begin: Sequence[int], end: Sequence[int]) -> Box | None:
        """The elements of a tensor from ``begin`` to ``end`` [axes of the nest], in the axes of the space.

        None where all of them are padding.
        """
        found: list[Interval] = []
        lengths = tensor.extents(self.nest.sizes)
        for axes, projection in zip(self._axes(tensor), self._projected(tensor).axes, strict=True):
            parts = [(int(begin[axis]), int(end[axis]), lengths[axis]) for axis in axes]
            first, stop = self._joined(parts)
            first, stop = (
                max(first + projection.offset, 0),
                min(stop + projection.offset, self._space.length(projection)),
            )
            if first >= stop:
                return None
            found.append((first, stop))
        return tuple(found)

    def needed(self, source: Source, box: Box) -> Box | None:
        """Of a ``box`` of the space the part that a source has, as messages have it; None: nothing."""
        part = source.needed(boxes_of([box]))[0].tolist()
        found = tuple((first, end) for first, end in part)
        if any(first >= end for first, end in found):
            return None
        return found if source.is_parameter else self.samples_first(found)

    @staticmethod
    def samples_first(box: Box) -> Box:
        """A box of activations as messages have it."""
        return tuple(box[axis] for axis in SAMPLES_FIRST)

    def points(self, begin: Sequence[int], end: Sequence[int], dims: Sequence[tuple[str, int]]) -> Box | None:
        """The points from ``begin`` to ``end`` [dims of the nest], by the ``dims`` of the layer's program.

        None where all of them pad dims.
        """
        found: list[Interval] = []
        for own in self._nest_dims(tuple(dim for dim, _ in dims)):
            first, stop = self._joined([(begin[at], end[at], length) for at, length in own])
            if first >= stop:
                return None
            found.append((first, stop))
        return tuple(found)

    def _joined(self, parts: Sequence[tuple[int, int, int]]) -> Interval:
        """The interval of (first, end, length) of nested axes, the outermost first, cut to lengths."""
        first, stop = 0, 1
        for begin, end, length in parts:
            begin, end = max(begin, 0), min(end, length)
            if stop - first > 1 and (begin, end) != (0, length):
                raise NotPossibleError(
                    f"{self.layer.name}: no program for parts of the channels of several groups at a time"
                )
            first, stop = first * length + begin, (stop - 1) * length + end
        return first, stop

    def moves(self, tensor: Tensor, around: Sequence[StridedLoop], parameter: bool) -> Moves:
        """How boxes of a tensor move in the iterations of loops ``around``, which are the innermost first."""
        lengths, axes = tensor.extents(self.nest.sizes), self._axes(tensor)
        found = []
        for loop in reversed(around):
            step = tensor.steps.get(loop.dim, (0,) * len(tensor.axes))
            by = []
            for own in axes:
                inside = [prod(lengths[one] for one in own[number + 1 :]) for number in range(len(own))]
                by.append(sum(loop.inner * step[one] * each for one, each in zip(own, inside, strict=True)))
            found.append((loop.bound, tuple(by if parameter else (by[axis] for axis in SAMPLES_FIRST))))
        return tuple(found)

    def point_moves(self, around: Sequence[StridedLoop], dims: Sequence[tuple[str, int]]) -> Moves:
        """How boxes of points move, by the ``dims`` of the layer's program."""
        found = []
        for loop in reversed(around):
            by = []
            for dim, _ in dims:
                own = self._dims.get(dim, (dim,))
                inside = [prod(self.nest.sizes[one] for one in own[at + 1 :]) for at in range(len(own))]
                by.append(
                    sum(loop.inner * each for one, each in zip(own, inside, strict=True) if one == loop.dim)
                )
            found.append((loop.bound, tuple(by)))
        return tuple(found)

    def _projected(self, tensor: Tensor) -> Tensor:
        return self._space.tensor(tensor.name)

    def _nest_dims(self, dims: tuple[str, ...]) -> list[list[tuple[int, int]]]:
        """For each of ``dims`` of the layer's program those of the nest, as (position, size).

        Remembered, as are the axes of tensors: a program asks for each of its thousands of pieces.
        """
        if dims not in self._known_dims:
            sizes, index = self.nest.sizes, self.nest.index
            self._known_dims[dims] = [
                [(index[one], sizes[one]) for one in self._dims.get(dim, (dim,))] for dim in dims
            ]
        return self._known_dims[dims]

    def _axes(self, tensor: Tensor) -> list[list[int]]:
        """For each axis of the space those of the nest's tensor, the outermost (groups) first."""
        if tensor.name not in self._known_axes:
            self._known_axes[tensor.name] = list(self._axes_of(tensor))
        return self._known_axes[tensor.name]

    def _axes_of(self, tensor: Tensor) -> Iterator[list[int]]:
        for projection in self._projected(tensor).axes:
            dims = {one for step in projection.steps for one in self._dims.get(step.dim, (step.dim,))}
            own = [number for number, axis in enumerate(tensor.terms) if dims & set(dict(axis))]
            yield sorted(own, key=lambda number: "G" not in dict(tensor.terms[number]))
