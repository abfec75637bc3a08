"""How many bits the buffers of tiles hold while the nodes of a segment run (SET, section 3.3.1).

A leaf holds the inputs of its batch, and its outputs leave in a stream. Inputs have to be there before the
leaf starts, so they arrive while the tile still computes something else:

- from DRAM: while the tile computes what comes before, whatever that is;
- from a producer: while that computes. In a T cut it is the child before; in an S cut all of the sub-batch
  before. A producer that makes several of the consumer's sub-batches at a time sends them all at once.

      T cut, tile:    | child 0        | child 1        | child 2        |
      its buffer:     | inputs of 0    | inputs of 1    | inputs of 2    |
                      | + arriving: 1  | + arriving: 2  |                |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import TileBuffer
from costmodel.hardware.widths import whole_bytes

Array = NDArray[Any]


@dataclass(frozen=True)
class Held:
    """Bits on every tile, each an array [tiles], for one batch of a node.

    ``arriving``: inputs that producers outside of the node send over the NoC. ``arriving[0]`` are from its
    siblings, the other children of the same cut, ``arriving[1]`` from children of the cut above that one, and
    so on up. ``ahead``: what has to come from DRAM before the node can start. ``weights`` stay on the tiles,
    with the rows of inputs that a leaf keeps from band to band (:mod:`costmodel.schedule.row_bands`).
    ``busy``: the most of everything but weights that a tile holds at a time while the node runs.
    """

    arriving: tuple[Array, ...]
    ahead: Array
    weights: Array
    busy: Array

    @cached_property
    def most(self) -> int:
        """Bits that the fullest tile holds."""
        return int(np.maximum.reduce(self.busy + self.weights))

    @cached_property
    def most_busy(self) -> int:
        """The same without weights."""
        return int(np.maximum.reduce(self.busy))

    @cached_property
    def coming(self) -> Array:
        """Bits [tiles] that have to come before the node can start, but for those from further up."""
        found: Array = self.from_siblings + self.ahead
        return found

    @cached_property
    def most_coming(self) -> int:
        """Of these the bits that come to one tile at most."""
        return int(np.maximum.reduce(self.coming))

    @cached_property
    def in_turn(self) -> Array:
        """[4, tiles]: what the node holds while it runs, what has to come before, what stays, and what comes
        from further up.
        """
        found = np.zeros((4, len(self.busy)), np.int64)
        found[0], found[1], found[2], found[3] = self.busy, self.coming, self.weights, self.from_further
        return found

    @property
    def from_siblings(self) -> Any:
        """Bits [tiles], or 0, that other children of the node's parent send."""
        return self.arriving[0] if self.arriving else 0

    @property
    def from_further(self) -> Any:
        """Bits [tiles], or 0, from producers that are not below the node's parent."""
        return sum(self.arriving[1:])


def overflow_reason(name: str, most: int, buffer: TileBuffer) -> str:
    """Why the node called ``name``, of which a tile holds ``most`` bits, does not fit; empty if it does."""
    if most <= buffer.size_bits:
        return ""
    return f"{name}: a tile has to hold {whole_bytes(most):,} bytes and has {buffer.size_bytes:,}"


def leaf_held(weights: Array, from_dram: Array, arriving: tuple[Array, ...], stream_bits: int) -> Held:
    """A leaf's bits: inputs ``from_dram`` [tiles] and from producers, pinned weights, and ``stream_bits``.

    The last is the buffer through which outputs leave; a tile without inputs has no part of the layer and
    makes none.
    """
    inputs = sum(arriving, from_dram)
    return Held(arriving, from_dram, weights, np.where(inputs > 0, inputs + stream_bits, 0))


def streamed(leaf: Held, first: Array, together: Array) -> Held:
    """The same leaf with weights that come slice by slice.

    ``first`` [tiles]: bits of a slice, which has to be there before the leaf starts. ``together`` [tiles]:
    of the slices that a tile holds at a time.
    """
    return Held(leaf.arriving, leaf.ahead + first, np.zeros_like(leaf.weights), leaf.busy + together)


def cut_in_time(children: Sequence[Held], subbatches: int, once: bool) -> Held:
    """A T cut: children compute one after the other, and each one's inputs arrive during the one before it.

    ``once``: the cut runs a single time for each batch of the segment, so that no later run needs its
    weights. With one sub-batch its children run once, too: then their weights need not all stay, and each
    child's are fetched like its inputs. Data from producers further up (``further``) is sent for all
    sub-batches at once, and leaves as its consumers run. After the last child of a sub-batch the first one
    of the next follows.
    """
    fetched = once and subbatches == 1
    held, stays = _in_turn(children, subbatches, once)
    return Held(_above(children, subbatches), _ahead(children[0], fetched), stays, np.maximum.reduce(held))


def busy_in_turn(children: Sequence[Held], subbatches: int, once: bool) -> Array:
    """Bits [children, tiles] that a T cut holds while each child runs, but for weights that stay."""
    return _in_turn(children, subbatches, once)[0]


def _in_turn(children: Sequence[Held], subbatches: int, once: bool) -> tuple[Array, Array]:
    """The same, and the bits [tiles] of the weights that stay."""
    parts = np.array([child.in_turn for child in children])  # [children, 4, tiles]
    held, coming, weights, further = parts[:, 0], parts[:, 1], parts[:, 2], parts[:, 3]
    stays = np.add.reduce(weights)
    if once and subbatches == 1:
        held += weights
        coming += weights
        stays = np.zeros_like(stays)
    held[:-1] += coming[1:]
    if subbatches > 1:
        held[-1] += coming[0]  # the first child of the next sub-batch follows the last one
    if max(len(child.arriving) for child in children) > 1:
        # It came for all sub-batches. What a child itself got is part of its own ``busy``, and leaves when
        # the child has run. So at the first sub-batch most is there.
        held += subbatches * np.add.reduce(further) - further.cumsum(axis=0)
    return held, stays


def held_on_the_way(before: Held, child: Held) -> int:
    """Bits that some tile of a T cut holds at least while one child runs and the next one's inputs arrive.

    It is what is known before the other children are: neither their weights count, nor what comes for them
    from further up.
    """
    held: Array = before.busy + child.from_siblings + child.ahead
    return int(np.maximum.reduce(held))


def cut_in_space(children: Sequence[Held], subbatches: int) -> Held:
    """An S cut: children have tiles of their own; during a sub-batch the inputs of the next one arrive.

    A tile belongs to one child, so sums over children have one term a tile.
    """
    busy, ahead = [child.busy for child in children], [child.ahead for child in children]
    if subbatches > 1:
        # Producers further up send the data of all sub-batches at once: what the running one needs is in
        # ``busy``, the rest waits.
        busy += [(subbatches - 1) * child.from_further for child in children if len(child.arriving) > 1]
        busy += [child.arriving[0] for child in children if child.arriving]
        busy += ahead
    return Held(
        _above(children, subbatches),
        np.add.reduce(ahead),
        np.add.reduce([child.weights for child in children]),
        np.add.reduce(busy),
    )


def _ahead(child: Held, with_weights: bool) -> Array:
    """What has to come from DRAM before a child starts."""
    return child.ahead + child.weights if with_weights else child.ahead


def _above(children: Sequence[Held], subbatches: int) -> tuple[Array, ...]:
    """What arrives for a cut from outside of it, one level up: that of its children, for all sub-batches."""
    levels = max([len(child.arriving) for child in children])
    return tuple(
        subbatches * _total(child.arriving[level] for child in children if len(child.arriving) > level)
        for level in range(1, levels)
    )


def _total(arrays: Iterable[Any]) -> Array:
    total: Array = sum(arrays)
    return total
