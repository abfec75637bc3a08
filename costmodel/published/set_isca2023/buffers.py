"""What tiles' global buffers hold while parts of an RA tree run, as the released evaluator counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.published.set_isca2023.leaf import ReleasedLeafCost

Array = NDArray[Any]


@dataclass(frozen=True)
class ReleasedHeld:
    """Bytes a tile [tiles]: ``inputs`` fetched ahead, pinned ``weights``, ``busy`` while computing.

    ``busy`` does not include weights.
    """

    inputs: Array
    weights: Array
    busy: Array

    @staticmethod
    def nothing(tiles: int) -> ReleasedHeld:
        """Segments of a root T cut are checked alone; nothing is charged for fetching the next one ahead."""
        zero = np.zeros(tiles, np.int64)
        return ReleasedHeld(zero, zero, zero)

    @property
    def most(self) -> int:
        """What the fullest tile holds."""
        return max(int(self.inputs.max()), int((self.busy + self.weights).max()))


def leaf_held(leaf: ReleasedLeafCost, stream_bytes: int) -> ReleasedHeld:
    """Inputs, weights, and room through which outputs leave; a producer never holds all of its outputs."""
    busy = np.where(leaf.inputs > 0, leaf.inputs + stream_bytes, 0)
    return ReleasedHeld(leaf.inputs, leaf.weights, busy)


def cut_in_time(children: Sequence[ReleasedHeld], subbatches: int, segment: bool) -> ReleasedHeld:
    """A T cut below the root: a child computes while the next one's inputs are fetched.

    The weights of a segment that runs once are fetched like inputs ("weight shift") instead of staying.
    """
    zero = np.zeros_like(children[0].inputs)
    shifted = segment and subbatches == 1
    ahead = [child.inputs + child.weights if shifted else child.inputs for child in children]
    busy = [child.busy + child.weights if shifted else child.busy for child in children]
    most = busy[-1] + ahead[0] if subbatches > 1 else busy[-1]
    for now, following in zip(busy[:-1], ahead[1:], strict=True):
        most = np.maximum(most, now + following)
    weights = zero if shifted else _sum(child.weights for child in children)
    inputs = zero if segment else subbatches * _sum(child.inputs for child in children)
    return ReleasedHeld(inputs, weights, most)


def cut_in_space(children: Sequence[ReleasedHeld], subbatches: int, segment: bool) -> ReleasedHeld:
    """An S cut: children have tiles of their own; during a sub-batch the next one's inputs are fetched."""
    inputs = _sum(child.inputs for child in children)
    busy = _sum(child.busy for child in children)
    weights = _sum(child.weights for child in children)
    return ReleasedHeld(
        np.zeros_like(inputs) if segment else subbatches * inputs,
        weights,
        busy + inputs if subbatches > 1 else busy,
    )


def _sum(arrays: Any) -> Array:
    total: Array = np.sum(list(arrays), axis=0)
    return total
