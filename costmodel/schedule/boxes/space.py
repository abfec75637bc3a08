"""A layer's iteration space: the points that it computes, and which element of each tensor a point touches.

A point has one index for each dim. A tensor's index along one of its axes follows from the point:

    index = offset + sum over steps of coefficient * (index of the dim // divisor)

Rows of a convolution with stride 2, padding 1 above and window R: ``offset`` -1, steps 2 * P and 1 * R. Input
channels of a convolution in groups, 4 outputs and 6 inputs each: steps 6 * (K // 4) and 1 * C. An index
outside of [0, length) is padding, for which nothing is read.

The image of a box is a box again: as no coefficient is negative and no dim has two steps on one tensor, the
first and the last point of the box touch the first and the last index along every axis. The image is exactly
what is touched unless an axis jumps over indices in between. These are the cases, and in each a machine
fetches the whole box, because it fetches runs of neighbouring elements (one start and one length an axis):

- a stride larger than the window's extent (1 x 1 convolutions of stride 2): the rows in between, and at the
  edges those between the padding that is touched and the first row that is;
- input channels cut within groups, in a box of several groups: those of each group that others have;
- filter columns cut in a box of several filter rows, where rows and columns are one axis of the tensor.

:meth:`Projection.jumps` says of a box whether an axis is such a case, and :meth:`IterationSpace.touched`
counts exactly what is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from costmodel.errors import InputError
from costmodel.schedule.boxes.arrays import Array, Box, with_empty_ones_alike
from costmodel.workload.network import Layer, Role


class Stride(NamedTuple):
    """How an axis follows a dim: by ``coefficient`` for every ``divisor`` points along it."""

    dim: str
    coefficient: int = 1
    divisor: int = 1


@dataclass(frozen=True)
class Projection:
    """How one axis of a tensor follows the dims. ``length``: elements along the axis, without padding."""

    steps: tuple[Stride, ...]
    length: int
    offset: int = 0

    def at(self, point: dict[str, int]) -> int:
        """The index that a point touches; below 0, or not below ``length``, it is padding."""
        return self.offset + sum(c * (point[dim] // divisor) for dim, c, divisor in self.steps)

    def jumps(self, box: dict[str, tuple[int, int]]) -> bool:
        """Whether the points of ``box`` touch only some of the indices between the first and the last.

        With the steps in the order of their coefficients, what is touched has no gap if each step is at most
        as long as what the steps before it touch together. Padding is not left out, so the answer may be yes
        where only padding lies in the gaps.
        """
        reach = 0
        # ``reach``: the indices from 0 to ``reach`` that the steps so far touch without a gap. A step of at
        # most reach + 1 puts the next such run directly behind the last one, or over it.
        for step in sorted(self.steps, key=lambda one: one.coefficient):
            first, end = box[step.dim]
            count = (end - 1) // step.divisor - first // step.divisor
            if count and step.coefficient > reach + 1:
                return True
            reach += step.coefficient * count
        return False

    def touched(self, box: dict[str, tuple[int, int]]) -> int:
        """How many different indices the points of ``box`` touch, padding left out."""
        if not self.jumps(box):
            first = self.at({dim: first for dim, (first, _) in box.items()})
            last = self.at({dim: end - 1 for dim, (_, end) in box.items()})
            return max(min(last + 1, self.length) - max(first, 0), 0)
        # Without gaps the two ends are enough. With them all indices are made, one dim after the other;
        # repetitions are dropped in between, so the list is never much longer than the axis.
        found = np.array([self.offset])
        for dim, coefficient, divisor in self.steps:
            along = np.unique(np.arange(*box[dim]) // divisor) * coefficient
            found = np.unique(found[:, None] + along)
        return int(np.count_nonzero((found >= 0) & (found < self.length)))


@dataclass(frozen=True)
class ProjectedTensor:
    """A tensor of a layer: one projection for each of its axes. ``role``: as in a loop nest."""

    name: str
    role: Role
    axes: tuple[Projection, ...]

    @cached_property
    def dims(self) -> frozenset[str]:
        """The dims that the tensor depends on; parts along all others touch the same elements."""
        return frozenset(step.dim for axis in self.axes for step in axis.steps)


@dataclass(frozen=True)
class IterationSpace:
    """The points of a layer: ``dims`` are (name, size) pairs. One tensor has the role ``outputs``.

    Dims on which the outputs do not depend are summed over: tiles that have different parts along them make
    partial sums of the same outputs.
    """

    name: str
    dims: tuple[tuple[str, int], ...]
    tensors: tuple[ProjectedTensor, ...]

    @staticmethod
    def of_nest(nest: Layer) -> IterationSpace:
        """The iteration space of a loop nest of any kind; its padding counts as data."""
        tensors = tuple(
            ProjectedTensor(
                tensor.name,
                tensor.role,
                tuple(
                    Projection(tuple(Stride(dim, coefficient) for dim, coefficient in axis), length)
                    for axis, length in zip(tensor.axes, tensor.extents(nest.sizes), strict=True)
                ),
            )
            for tensor in nest.tensors
        )
        return IterationSpace(nest.name, nest.dims, tensors)

    def __post_init__(self) -> None:
        known, where = dict(self.dims), f"iteration space of {self.name}"
        if len(known) != len(self.dims) or any(size < 1 for size in known.values()):
            raise InputError(where, "different dims with sizes of at least 1", self.dims, key="dims")
        if sum(one.role == "outputs" for one in self.tensors) != 1:
            raise InputError(where, "one tensor of outputs", [one.name for one in self.tensors])
        for tensor in self.tensors:
            steps = [step for axis in tensor.axes for step in axis.steps]
            if len({step.dim for step in steps}) != len(steps) or not tensor.dims <= known.keys():
                raise InputError(where, f"each of {sorted(known)} at most once", steps, key=tensor.name)
            if any(step.coefficient < 1 or step.divisor < 1 for step in steps):
                raise InputError(where, "coefficients and divisors of at least 1", steps, key=tensor.name)

    @cached_property
    def index(self) -> dict[str, int]:
        """By dim, its position in ``dims`` and in boxes of points."""
        return {dim: number for number, (dim, _) in enumerate(self.dims)}

    @cached_property
    def output(self) -> ProjectedTensor:
        return next(one for one in self.tensors if one.role == "outputs")

    @cached_property
    def summed(self) -> frozenset[str]:
        """The dims that are summed over."""
        return frozenset(self.index) - self.output.dims

    def tensor(self, name: str) -> ProjectedTensor:
        """The tensor of that name; InputError if there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        names = [tensor.name for tensor in self.tensors]
        raise InputError(f"iteration space of {self.name}", f"a tensor among {names}", name)

    @property
    def whole(self) -> Array:
        """The box [dims, 2] of all points."""
        return np.array([(0, size) for _, size in self.dims], np.int64)

    def touched(self, tensor: ProjectedTensor, box: Box) -> int:
        """Elements of a tensor that the points of a box touch, each counted once.

        As no dim moves along two axes, what is touched along one axis is the same wherever one stands on the
        others, so the counts along the axes multiply.
        """
        if any(end <= first for first, end in box):
            return 0
        ranges = dict(zip(self.index, box, strict=True))
        return prod(axis.touched(ranges) for axis in tensor.axes)

    def image(self, tensor: ProjectedTensor, boxes: Array) -> Array:
        """What boxes of points [..., dims, 2] touch of a tensor: boxes of elements [..., axes, 2].

        Padding is cut off. The image of an empty box, or of one that touches only padding, is empty.
        """
        found = np.zeros((*boxes.shape[:-2], len(tensor.axes), 2), np.int64)
        for number, axis in enumerate(tensor.axes):
            first, last = found[..., number, 0], found[..., number, 1]
            for dim, coefficient, divisor in axis.steps:
                first += boxes[..., self.index[dim], 0] // divisor * coefficient
                # Each end is moved by itself, as every coefficient is positive: see the module's docstring.
                # Of an empty box the last point is before the first; what that gives is overwritten below.
                last += (boxes[..., self.index[dim], 1] - 1) // divisor * coefficient
            found[..., number, 0] = np.maximum(first + axis.offset, 0)
            found[..., number, 1] = np.minimum(last + axis.offset + 1, axis.length)
        full = np.all(boxes[..., 1] > boxes[..., 0], axis=-1, keepdims=True)
        return with_empty_ones_alike(np.where(full[..., None], found, 0))
