"""The image of a box of a layer's loop nest: the elements of a tensor that its points touch.

The image of a box is a box again: as no coefficient of a projection is negative and no dim has two steps on
one tensor, the first and the last point of the box touch the first and the last index along every axis. All
elements of the image are touched unless an axis jumps over indices in between. There are three such cases. In
each of them a machine fetches the whole box, because it fetches runs of neighbouring elements (one start and
one length an axis):

- a stride larger than the window's extent (1 x 1 convolutions of stride 2): the rows in between, and at the
  edges those between the padding that is touched and the first row that is;
- input channels cut within groups, in a box of several groups: those of each group that others have;
- filter columns cut in a box of several filter rows, where rows and columns are one axis of the tensor.

:meth:`.Projection.jumps` says of a box whether an axis is such a case, and :func:`touched` counts exactly
what is touched.
"""

from __future__ import annotations

from math import prod

import numpy as np

from costmodel.schedule.boxes.arrays import Array, Box, with_empty_ones_alike
from costmodel.workload.network import Layer, Tensor


def whole(layer: Layer) -> Array:
    """The box [dims, 2] of all points."""
    return np.array([(0, size) for _, size in layer.dims], np.int64)


def touched(layer: Layer, tensor: Tensor, box: Box) -> int:
    """Elements of a tensor that the points of a box touch, each counted once.

    No dim moves along two axes. So the indices that are touched along one axis do not depend on the others,
    and the counts along the axes multiply.
    """
    if any(end <= first for first, end in box):
        return 0
    ranges = dict(zip(layer.sizes, box, strict=True))
    return prod(axis.touched(ranges, layer.length(axis)) for axis in tensor.axes)


def image(layer: Layer, tensor: Tensor, boxes: Array) -> Array:
    """What boxes of points [..., dims, 2] touch of a tensor: boxes of elements [..., axes, 2].

    Padding is cut off. The image of an empty box, or of one that touches only padding, is empty.
    """
    found = np.zeros((*boxes.shape[:-2], len(tensor.axes), 2), np.int64)
    for number, axis in enumerate(tensor.axes):
        first, last = found[..., number, 0], found[..., number, 1]
        for dim, coefficient, divisor in axis.steps:
            first += boxes[..., layer.index[dim], 0] // divisor * coefficient
            # Each end is moved by itself, as every coefficient is positive: see the module's docstring. Of an
            # empty box the last point is before the first; what that gives is overwritten below.
            last += (boxes[..., layer.index[dim], 1] - 1) // divisor * coefficient
        found[..., number, 0] = np.maximum(first + axis.offset, 0)
        found[..., number, 1] = np.minimum(last + axis.offset + 1, layer.length(axis))
    full = np.all(boxes[..., 1] > boxes[..., 0], axis=-1, keepdims=True)
    return with_empty_ones_alike(np.where(full[..., None], found, 0))
