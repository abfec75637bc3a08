"""Prices of the bits of buffers, by which leaves of a segment that overflows take partitions that hold less.

Each leaf takes the way that is cheapest for itself. Where the leaves of a segment do not fit together, some
of them have to take less of the buffers, though it costs them more: another partition with fewer copies, or
weights that are streamed, in smaller slices. Which of them does so at the least cost follows from prices, as
in a Lagrangian relaxation of "the least cost that fits": a bit that lacks somewhere costs something, and each
leaf takes what is cheapest with that.

A cut overflows at a *moment*, which for a T cut is the run of one of its children. The price of a moment
counts only for leaves that hold something then:

- the leaf that runs, for its inputs, and for weights that it streams;
- the leaf whose inputs arrive, as it runs next, or as they come from further up in the tree;
- every leaf whose weights stay.

So the price of weights that stay is that of all moments together, as they take their bits at each. Prices
begin low, and those of each cut that overflows rise step by step until the segment fits. The last rise is
then halved if all still fits. Where it does not fit in MOST_RISES steps, its leaves take the fewest bits that
they can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from costmodel.schedule.leaf.streams import FREE, BufferPrices
from costmodel.schedule.segment.buffers import busy_in_turn
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.tree import Cut, Leaf, leaves

FIRST_PRICE = 1 / 32
"""The first price of a whole buffer, in units of what the segment costs."""
STEP = 8.0
"""The factor by which the price of a cut rises that still overflows."""
MOST_RISES = 6
"""How often prices rise at most in one segment."""
HIGHEST = 2.0**100
"""A price at which a leaf takes the fewest bits that it can, whatever else that costs."""


Prices = Callable[[str, bool], BufferPrices]
"""The prices of bits for a leaf, by its layer, and by whether it runs a single time for each batch of the
segment."""


class TightCut(NamedTuple):
    """A cut that holds too much, and whether it runs a single time for a batch of the segment."""

    cost: NodeCost
    once: bool


class _Mark(NamedTuple):
    """At which part of the moments that lack bits a leaf holds its weights (``kept``), and its other data.

    So the price of a cut is that of a bit that is held at all of its moments that lack bits.
    """

    leaf: str
    kept: float
    running: float


def at_no_price(layer: str, once: bool) -> BufferPrices:
    """Prices of the cheapest leaves."""
    return FREE


def streaming(layer: str, once: bool) -> BufferPrices:
    """Prices at which leaves keep no weights where these may be streamed, and are the cheapest of that."""
    return BufferPrices(HIGHEST, 0.0)


def fewest_bits(layer: str, once: bool) -> BufferPrices:
    """Prices at which leaves take the fewest bits that they can.

    ``once``: no cut above it has several sub-batches, so weights are held while it runs, like inputs. If not,
    those that stay are held while others run, too.
    """
    return BufferPrices(HIGHEST if once else 4 * HIGHEST, HIGHEST)


class ScarceBuffers:
    """The prices for all leaves of one segment.

    ``size``: bits of a tile's buffer that may be held.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._prices: dict[Cut, float] = {}
        # A leaf that was marked stays so: without its price it might overflow the buffers again.
        self._marks: dict[Cut, dict[str, _Mark]] = defaultdict(dict)
        self._of_leaf: dict[str, BufferPrices] = {}
        self._risen: list[Cut] = []

    def of(self, leaf: str) -> BufferPrices:
        """The prices for the leaf of this layer."""
        return self._of_leaf.get(leaf, FREE)

    def rise(self, tight: Sequence[TightCut], cost: float) -> None:
        """Raise the prices of these cuts, from a first one that follows from the ``cost`` of the segment.

        That is its cost in the unit of :class:`BufferPrices`, as if it fitted.
        """
        self._risen.clear()
        for one in tight:
            cut = one.cost.node
            assert isinstance(cut, Cut)
            self._prices[cut] = (
                STEP * self._prices[cut] if cut in self._prices else FIRST_PRICE * cost / self._size
            )
            self._risen.append(cut)
            marks = self._marks[cut]
            for mark in _marks(one, self._size):
                known = marks.get(mark.leaf, mark)
                marks[mark.leaf] = _Mark(
                    mark.leaf, max(known.kept, mark.kept), max(known.running, mark.running)
                )
        self._add_up()

    def fall(self, part: float) -> None:
        """Take back a ``part`` of the last rise, by its logarithm; a negative one rises again."""
        for cut in self._risen:
            self._prices[cut] /= STEP**part
        self._add_up()

    @property
    def prices(self) -> Mapping[str, BufferPrices]:
        """The prices for leaves, by layer; of all others they are free."""
        return self._of_leaf

    def _add_up(self) -> None:
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for cut, price in self._prices.items():
            for mark in self._marks[cut].values():
                sums[mark.leaf][0] += price * mark.kept
                sums[mark.leaf][1] += price * mark.running
        self._of_leaf = {leaf: BufferPrices(*map(_rounded, both)) for leaf, both in sums.items()}


def _rounded(price: float) -> float:
    """The next power of two, so that leaves of many segments are asked at equal prices, and searched once."""
    return float(2.0 ** ceil(log2(price))) if price else 0.0


def _marks(tight: TightCut, size: int) -> Iterator[_Mark]:
    """The leaves that hold something at a moment of the cut that lacks bits; some come several times."""
    cost, held = tight.cost, tight.cost.held
    assert isinstance(cost.node, Cut)
    if cost.node.kind == "S":
        lacking = held.busy + held.weights - size
        for child in cost.children:
            of_child = int(lacking[child.first_tile : child.first_tile + child.tiles].max())
            if of_child > 0:
                yield from _running(child, of_child, False, 1)
                yield from _arriving(child, 1)
                yield from _kept(child, 1)
        return
    runs = cost.node.child_runs
    fetched = tight.once and runs == 1
    turns = _turns(cost, tight.once)
    lacks = [turn + int(held.weights.max()) - size for turn in turns]
    moments = sum(lack > 0 for lack in lacks)
    before = [lacks[-1] if runs > 1 else 0, *lacks[:-1]]
    each = 1 / moments
    for child, own, earlier in zip(cost.children, lacks, before, strict=True):
        if own > 0:
            yield from _running(child, own, fetched, each)
        if earlier > 0:
            yield from _arriving(child, each)
        if not fetched:
            yield from _kept(child, 1)
        elif own > 0 or earlier > 0:
            yield from _kept(child, each)
        if np.any(child.held.from_further):
            yield from _arriving(child, each)


def _turns(cost: NodeCost, once: bool) -> list[int]:
    """The bits that the fullest tile holds while each child of a T cut runs, but for weights that stay."""
    assert isinstance(cost.node, Cut)
    holding = [child.held for child in cost.children]
    return [int(most) for most in busy_in_turn(holding, cost.node.child_runs, once).max(axis=1)]


def _running(cost: NodeCost, lacks: int, once: bool, part: float) -> Iterator[_Mark]:
    """The leaves that hold something, beside weights, when ``lacks`` bits lack while a node runs.

    In a T cut these are the ones of the moments at which it holds so much that it would still lack bits.
    ``part``: that of the moment in the price.
    """
    node = cost.node
    if isinstance(node, Leaf):
        yield _Mark(node.layer, 0, part)
    elif node.kind == "S":
        for child in cost.children:
            yield from _running(child, lacks, False, part)
            yield from _arriving(child, part)
    else:
        turns, fetched = _turns(cost, once), once and node.child_runs == 1
        most = max(turns)
        for number, (child, turn) in enumerate(zip(cost.children, turns, strict=True)):
            left = lacks - (most - turn)
            if left <= 0:
                continue
            yield from _running(child, left, fetched, part)
            following = cost.children[(number + 1) % len(cost.children)]
            yield from _arriving(following, part)
            if fetched:
                yield from _kept(child, part)
                yield from _kept(following, part)


def _arriving(cost: NodeCost, part: float) -> Iterator[_Mark]:
    """The leaves whose inputs arrive before a node runs."""
    if isinstance(cost.node, Leaf):
        yield _Mark(cost.node.layer, 0, part)
        return
    for number, child in enumerate(cost.children):
        if number == 0 or cost.node.kind == "S" or np.any(child.held.from_further):
            yield from _arriving(child, part)


def _kept(cost: NodeCost, part: float) -> Iterator[_Mark]:
    """All leaves of a node, whose weights are held at this part of the moments that lack bits."""
    for leaf in leaves(cost.node):
        yield _Mark(leaf.layer, part, 0)
