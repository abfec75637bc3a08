"""Where the elements of a tensor lie: each axis as a number of mixed radix, whose digits step through data.

One calculus for all views of a tensor. :mod:`costmodel.workload.views` steps through the elements of the
tensor that a product reads; the layer graph of a chip steps through the channels, rows and columns that its
layers compute. Both see a shuffle of the 12 channels of an image like this:

    x (1, 12, 8, 8)          axis 1: 12 steps of 1
    reshape (1, 3, 4, 8, 8)  axis 1: 3 steps of 4, axis 2: 4 steps of 1
    transpose 1 and 2        axis 1: 4 steps of 1, axis 2: 3 steps of 4
    reshape (1, 12, 8, 8)    axis 1: 4 steps of 1, then 3 of 4, so channels 0, 4, 8, 1, 5, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Literal, NamedTuple

import numpy as np

Shape = tuple[int, ...]
"""The lengths of a tensor's axes, in elements."""
Dim = Literal["C", "H", "W", ""]
"""What a digit steps through: channels, rows, columns; or, with no name, the elements of a whole tensor."""


class Digit(NamedTuple):
    """One digit of a position along an axis: it counts to ``size``, and a step moves ``stride`` elements.

    A digit of stride 0 does not move: its positions show the same elements again.
    """

    size: int
    stride: int
    dim: Dim = ""


Digits = tuple[Digit, ...]
"""An axis, its slowest digit first. An axis of length 1 has none."""


def length_of(axis: Digits) -> int:
    """How many positions an axis has."""
    return prod(digit.size for digit in axis)


def merged(digits: Iterable[Digit]) -> Digits:
    """The same axis in the fewest digits.

    Where a step of one is as long as all steps of the next through the same dim, both are one.
    """
    found: list[Digit] = []
    for digit in digits:
        before = found[-1] if found else None
        if before and before.dim == digit.dim and before.stride == digit.size * digit.stride:
            found[-1] = Digit(before.size * digit.size, digit.stride, digit.dim)
        elif digit.size > 1:
            found.append(digit)
    return tuple(found)


def regrouped(digits: Digits, shape: Shape) -> tuple[Digits, ...] | None:
    """The digits as axes of the lengths in ``shape``, in their order; a digit may be split in two.

    None where an axis would have to take a part of a digit that divides it unevenly.
    """
    left, axes = list(digits), list[Digits]()
    for length in shape:
        axis: list[Digit] = []
        while length > 1 and left:
            digit = left.pop(0)
            if digit.size > length and digit.size % length == 0:
                inner = digit._replace(size=digit.size // length)
                left.insert(0, inner)
                digit = digit._replace(size=length, stride=digit.stride * inner.size)
            if length % digit.size:
                return None
            axis.append(digit)
            length //= digit.size
        if length != 1:
            return None
        axes.append(tuple(axis))
    return None if left else tuple(axes)


def broadcast(axes: Sequence[Digits], shape: Shape) -> tuple[Digits, ...]:
    """Axes of length 1, and new ones in front, that show the same elements as often as ``shape`` says."""
    padded = ((),) * (len(shape) - len(axes)) + tuple(axes)
    return tuple(
        (Digit(length, 0),) if not axis and length > 1 else axis
        for axis, length in zip(padded, shape, strict=True)
    )


def repeated(axis: Digits, times: int) -> Digits:
    """The whole axis so many times over."""
    return merged((Digit(times, 0), *axis))


def offsets(digits: Iterable[Digit]) -> list[int]:
    """How far each position is from the first, in elements; the slowest digit comes first."""
    found = np.zeros(1, dtype=np.int64)
    for digit in digits:
        found = (found[:, None] + digit.stride * np.arange(digit.size)).ravel()
    return [int(offset) for offset in found]
