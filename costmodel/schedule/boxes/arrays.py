"""Boxes as arrays of whole numbers, many at once.

An array [..., axes, 2] holds boxes: for each axis the first index and the one behind the last. An empty box
has [0, 0) on every axis, so that all empty boxes are equal; every function here makes and expects that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
Interval = tuple[int, int]
Box = tuple[Interval, ...]


def boxes_of(boxes: Sequence[Box]) -> Array:
    """The boxes as an array [boxes, axes, 2]."""
    return with_empty_ones_alike(np.array(boxes, np.int64).reshape(len(boxes), -1, 2))


def box_at(boxes: Array, number: int) -> Box:
    """One box of an array [boxes, axes, 2] as plain numbers."""
    return tuple((int(first), int(end)) for first, end in boxes[number])


def volume(boxes: Array) -> Array:
    """Points or elements [...] of each box."""
    return np.asarray(np.prod(boxes[..., 1] - boxes[..., 0], axis=-1))


def intersection(one: Array, other: Array) -> Array:
    """What two boxes have in common; leading dims broadcast as in numpy."""
    first = np.maximum(one[..., 0], other[..., 0])
    end = np.minimum(one[..., 1], other[..., 1])
    return with_empty_ones_alike(np.stack([first, end], axis=-1))


def shifted(boxes: Array, steps: Sequence[int]) -> Array:
    """The boxes moved by ``steps`` [axes]; an empty box stays where it is."""
    full = (volume(boxes) > 0)[..., None, None]
    return np.where(full, boxes + np.array(steps, np.int64)[:, None], boxes)


def with_empty_ones_alike(boxes: Array) -> Array:
    """The boxes, each [0, 0) on every axis if its end is at or before its first index on any axis."""
    full = np.all(boxes[..., 1] > boxes[..., 0], axis=-1, keepdims=True)
    return np.where(full[..., None], boxes, 0)


@dataclass(frozen=True, eq=False)
class EqualBoxes:
    """Equal boxes of several parts as one: what a multicast delivers.

    ``boxes`` [groups, axes, 2]: all different, none empty, in the order of their first members.
    ``members``: the numbers of the parts that have each box.
    """

    boxes: Array
    members: tuple[tuple[int, ...], ...]

    @property
    def volume(self) -> int:
        """Elements of all boxes, each counted once however many parts have it.

        Boxes that overlap without being equal, as with halos, are counted with what they have in common.
        """
        return int(volume(self.boxes).sum())


def groups(boxes: Array) -> EqualBoxes:
    """The different boxes of an array [parts, axes, 2], and which parts have them; empty boxes left out."""
    members: dict[Box, list[int]] = {}
    for part in np.flatnonzero(volume(boxes)).tolist():
        members.setdefault(box_at(boxes, part), []).append(part)
    found = np.array(list(members), np.int64).reshape(len(members), *boxes.shape[1:])
    return EqualBoxes(found, tuple(map(tuple, members.values())))
