"""What the buffers of tiles hold while the nodes of a segment run.

A leaf holds the inputs of its batch and streams its outputs out. What comes from DRAM arrives while the tile
computes what is before; what a producer sends arrives when the producer makes it: for a T cut while the child
before runs, for an S cut during the sub-batch before, and for all of a batch that it makes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Held:
    """Bytes on every tile [tiles] for one batch of a node.

    ``arriving``: inputs that producers outside of the node send over the NoC, by where the producer is: below
    the node's parent, below the parent of that, and so on up. ``ahead``: what has to come from DRAM before
    the node can start. ``weights`` stay on the tiles; ``busy`` is the most of everything else while it runs.
    """

    arriving: tuple[Array, ...]
    ahead: Array
    weights: Array
    busy: Array

    @property
    def most(self) -> int:
        """What the fullest tile holds."""
        return int((self.busy + self.weights).max())

    @property
    def from_siblings(self) -> Any:
        return self.arriving[0] if self.arriving else 0

    @property
    def from_further(self) -> Any:
        return sum(self.arriving[1:])


def leaf_held(weights: Array, from_dram: Array, arriving: tuple[Array, ...], stream_bytes: int) -> Held:
    """``from_dram`` [tiles]: inputs that are read there; outputs leave through ``stream_bytes`` of a tile."""
    inputs = sum(arriving, from_dram)
    return Held(arriving, from_dram, weights, np.where(inputs > 0, inputs + stream_bytes, 0))


def cut_in_time(children: Sequence[Held], subbatches: int, once: bool) -> Held:
    """A T cut: a child computes while the next one's inputs arrive.

    ``once``: the cut runs once while its weights are pinned. If its children do so too, their weights need
    not all be there together: they are fetched as inputs are.
    """
    fetched = once and subbatches == 1
    further = subbatches * sum(child.from_further for child in children)
    following = [*children[1:], *(children[:1] if subbatches > 1 else ())]
    busy = np.zeros_like(children[0].busy)
    for number, child in enumerate(children):
        held = child.busy + further - child.from_further
        held = held + child.weights if fetched else held
        if number < len(following):
            held = held + following[number].from_siblings + _ahead(following[number], fetched)
        busy = np.maximum(busy, held)
    weights = np.zeros_like(busy) if fetched else _total(child.weights for child in children)
    return Held(_above(children, subbatches), _ahead(children[0], fetched), weights, busy)


def cut_in_space(children: Sequence[Held], subbatches: int) -> Held:
    """An S cut: children have tiles of their own; during a sub-batch the inputs of the next one arrive."""
    busy = _total(child.busy + (subbatches - 1) * child.from_further for child in children)
    if subbatches > 1:
        busy = busy + _total(child.from_siblings + child.ahead for child in children)
    return Held(
        _above(children, subbatches),
        _total(child.ahead for child in children),
        _total(child.weights for child in children),
        busy,
    )


def _ahead(child: Held, with_weights: bool) -> Array:
    return child.ahead + child.weights if with_weights else child.ahead


def _above(children: Sequence[Held], subbatches: int) -> tuple[Array, ...]:
    """What arrives for all sub-batches from outside of the children's parent."""
    levels = max(len(child.arriving) for child in children)
    return tuple(
        subbatches * _total(child.arriving[level] for child in children if len(child.arriving) > level)
        for level in range(1, levels)
    )


def _total(arrays: Iterable[Any]) -> Array:
    total: Array = sum(arrays)
    return total
