"""Where the elements of a tensor lie: each axis as a number of mixed radix, whose digits step through data.

A position along an axis is written as digits, the slowest first, and every digit has a stride: the element is
the sum of digit times stride over all axes. Reshapes split and merge digits, transposes reorder them, and
broadcasts add digits of stride 0. So one calculus holds for all views: :mod:`costmodel.workload.views` steps
through the elements of the tensor that a product reads, and the layer graph of a chip through the channels,
rows and columns that its layers compute. Both see a shuffle of the 12 channels of an image like this:

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
    """One digit of a position along an axis: it counts from 0 to before ``size``, and a step of it moves
    ``stride`` elements along ``dim``.

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

    Two neighbouring digits through the same dim are one where a step of the slower is as long as all steps of
    the faster: 3 steps of 4, then 4 steps of 1, are 12 steps of 1.
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
    """The digits, in their order, as axes of the lengths in ``shape``; a digit may be split in two.

    None where an axis would need a part of a digit that does not divide it.
    """
    # Each axis takes digits from the front until their sizes multiply to its length. A digit that is longer
    # than what is left of the axis is split: its slower part ends the axis, its faster part begins the next.
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
    """The axes broadcast to ``shape``: those of length 1, and new ones in front, repeat the same elements."""
    padded = ((),) * (len(shape) - len(axes)) + tuple(axes)
    return tuple(
        (Digit(length, 0),) if not axis and length > 1 else axis
        for axis, length in zip(padded, shape, strict=True)
    )


def repeated(axis: Digits, times: int) -> Digits:
    """The axis repeated as a whole, ``times`` times."""
    return merged((Digit(times, 0), *axis))


def offsets(digits: Iterable[Digit]) -> list[int]:
    """The distance of every position from the first, in elements, in the order of positions.

    ``digits`` are given slowest first.
    """
    found = np.zeros(1, dtype=np.int64)
    for digit in digits:
        found = (found[:, None] + digit.stride * np.arange(digit.size)).ravel()
    return [int(offset) for offset in found]
