"""What tiles' global buffers hold while parts of an RA tree run, as the released evaluator counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.published.set_isca2023.leaf.search import ReleasedLeafCost

Array = NDArray[Any]


@dataclass(frozen=True)
class ReleasedHeld:
    """Bytes on every tile, each an array [tiles].

    ``inputs``: what is fetched before the node starts. ``weights``: pinned. ``busy``: the most of everything
    but weights that a tile holds while the node computes.
    """

    inputs: Array
    weights: Array
    busy: Array

    @staticmethod
    def nothing(tiles: int) -> ReleasedHeld:
        """The bytes of a root T cut: none, as its segments are checked one by one.

        The released evaluator charges nothing for fetching the next segment's data ahead.
        """
        zero = np.zeros(tiles, np.int64)
        return ReleasedHeld(zero, zero, zero)

    @property
    def most(self) -> int:
        """The bytes that the fullest tile holds."""
        return max(int(self.inputs.max()), int((self.busy + self.weights).max()))


def leaf_held(leaf: ReleasedLeafCost, stream_bytes: int) -> ReleasedHeld:
    """A leaf's inputs and weights, and the buffer of ``stream_bytes`` through which outputs leave.

    A producer never holds all of its outputs. A tile without inputs has no part of the layer.
    """
    busy = np.where(leaf.inputs > 0, leaf.inputs + stream_bytes, 0)
    return ReleasedHeld(leaf.inputs, leaf.weights, busy)


def cut_in_time(children: Sequence[ReleasedHeld], subbatches: int, segment: bool) -> ReleasedHeld:
    """A T cut below the root: a child computes while the next one's inputs are fetched.

    In a segment with one sub-batch every child runs once, so weights need not stay: each child's are fetched
    with its inputs (the released program's weight shift). With several sub-batches the first child's inputs
    for the next sub-batch are fetched while the last child computes. A segment needs no inputs ahead.
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
    """An S cut: children have tiles of their own; during a sub-batch the next one's inputs are fetched.

    A tile belongs to one child, so sums over children have one term a tile.
    """
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
