"""The loop orders of one level that can be best: one of each class of equal cost, without dominated ones.

What a loop order changes is only how often tiles inside it are delivered anew, and that depends on few of its
loops: those up to the first that moves a tensor, and those that slide it. So of the 5,040 orders of seven
loops only a few are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from costmodel.workload.network import Layer

Order = tuple[int, ...]


class Motion(NamedTuple):
    """How the loops of a layer move one tensor; dims and axes are given by their index.

    ``axes`` [dims]: the axis along which a loop over the dim moves the tensor, -1 if the tensor does not have
    the dim. ``overlapping``: the axes that sum several dims larger than 1, on which tiles can overlap.
    """

    axes: tuple[int, ...]
    overlapping: frozenset[int]


class Effect(NamedTuple):
    """All that the deliveries of one tensor see of an order.

    ``run``: the irrelevant loops inside the first loop that moves the tensor; they deliver nothing again.
    ``slide``: from that loop outwards the loops that move the tensor along the same axis, if tiles overlap on
    it, up to the first loop along another axis. A step of these can bring less than a whole tile. With each
    goes the set of all irrelevant loops inside it: the words that its step saves are saved once for every
    iteration of the loops outside it, but not again for those inside.
    """

    run: frozenset[int]
    slide: tuple[tuple[int, frozenset[int]], ...]

    def covers(self, other: Effect) -> bool:
        """Whether no tile inside is delivered more words than with the other effect, whatever the factors.

        That is so if the run has at least the other's loops, and the slide begins with the other's loops,
        each with no irrelevant loops inside that it does not have there: fewer are better, as the loops
        inside do not repeat what a step saves.
        """
        return (
            self.run >= other.run
            and len(self.slide) >= len(other.slide)
            and all(
                mine == theirs and inside <= more_inside
                for (mine, inside), (theirs, more_inside) in zip(self.slide, other.slide, strict=False)
            )
        )


def motions_of(layer: Layer) -> tuple[Motion, ...]:
    """How the layer's loops move each of its tensors, in the order of ``layer.tensors``."""
    motions = []
    for tensor in layer.tensors:
        axis_of = {dim: number for number, axis in enumerate(tensor.terms) for dim, _ in axis}
        overlapping = frozenset(
            number
            for number, axis in enumerate(tensor.terms)
            if sum(layer.sizes[dim] > 1 for dim, _ in axis) > 1
        )
        motions.append(Motion(tuple(axis_of.get(dim, -1) for dim, _ in layer.dims), overlapping))
    return tuple(motions)


@lru_cache(maxsize=65536)
def orders_of(
    motions: tuple[Motion, ...],
    looped: frozenset[int],
    first: Order = (),
    last: Order = (),
    dominance: bool = True,
) -> tuple[Order, ...]:
    """Orders (innermost first) of loops over ``looped``, beginning with ``first`` and ending with ``last``.

    What is delivered into any tile inside the level (item 3 of the cost model) depends on the order only
    through each tensor's :class:`Effect`. Every loop multiplies the words, with two exceptions. Loops of the
    run cost nothing. A step of a loop of the slide costs at most a whole tile and maybe less, and what it
    saves is multiplied by all loops around it, irrelevant ones too. A run or slide that began in a level
    further inside goes on with the same loops, so the same holds for it.

    An order is therefore at least as good as another if its effect on every tensor covers the other's,
    whatever the factors. With ``dominance`` the other is then left out.
    """
    found: dict[tuple[Effect, ...], Order] = {}
    for order in _classes(motions, first, looped - {*first, *last}, last):
        found.setdefault(tuple(_effect(motion, order) for motion in motions), order)
    if not dominance:
        return tuple(found.values())
    return tuple(
        order
        for effects, order in found.items()
        # Two different lists of effects cannot cover each other: sets would contain each other and be equal.
        # So of any that are dominated in a circle one is left, and no order is lost with its last
        # representative.
        if not any(other != effects and _covers(other, effects) for other in found)
    )


def _covers(one: Sequence[Effect], other: Sequence[Effect]) -> bool:
    """Whether the effects of one order, a tensor each, cover those of the other."""
    return all(mine.covers(theirs) for mine, theirs in zip(one, other, strict=True))


def _classes(motions: Sequence[Motion], order: Order, rest: frozenset[int], last: Order) -> Iterator[Order]:
    """``order`` continued by the loops ``rest`` in every order that matters, then by ``last``.

    Once no further loop can change an effect, the remaining ones are added in one order only."""
    if not rest or all(_settled(motion, order) for motion in motions):
        yield (*order, *sorted(rest), *last)
        return
    for dim in sorted(rest):
        yield from _classes(motions, (*order, dim), rest - {dim}, last)


def _effect(motion: Motion, order: Order) -> Effect:
    """The effect of an order on the tensor that moves as ``motion`` says."""
    run: frozenset[int] = frozenset()
    still: frozenset[int] = frozenset()
    slide: list[tuple[int, frozenset[int]]] = []
    axis = -1
    for dim in order:
        moves = motion.axes[dim]
        if moves < 0:
            still |= {dim}
            # The run ends at the first loop that moves the tensor; irrelevant loops further out repeat what
            # comes after it.
            run = run if axis >= 0 else still
        elif axis in (-1, moves):
            axis = moves
            # On an axis of a single dim tiles never overlap: there is nothing that a slide could save.
            if axis in motion.overlapping:
                slide.append((dim, still))
        else:
            break
    return Effect(run, tuple(slide))


def _settled(motion: Motion, order: Order) -> bool:
    """Whether no loop around ``order`` can change the effect any more: the run has ended, and so has the
    slide, at a loop along another axis, or there is none as tiles do not overlap."""
    moved = list(dict.fromkeys(axis for dim in order if (axis := motion.axes[dim]) >= 0))
    return len(moved) > 1 or (len(moved) == 1 and moved[0] not in motion.overlapping)


def looped_sets(dims: Sequence[int]) -> Iterator[frozenset[int]]:
    """All subsets of ``dims``."""
    for bits in range(1 << len(dims)):
        yield frozenset(dim for bit, dim in enumerate(dims) if bits >> bit & 1)


def runs_together(motions: Sequence[Motion], dims: Sequence[int]) -> tuple[int, ...]:
    """Sets of tensors (bit masks, the empty one first) that one level's loops can leave stationary.

    The innermost loop of the level is irrelevant to all of them. So these are, for each of ``dims``, the set
    of tensors that do not have the dim, and all its subsets."""
    still = {sum(1 << t for t, motion in enumerate(motions) if motion.axes[dim] < 0) for dim in dims}
    subsets = chain.from_iterable(
        (sub for sub in range(mask + 1) if sub & mask == sub) for mask in sorted(still | {0})
    )
    return tuple(sorted(set(subsets), key=lambda mask: (mask.bit_count(), mask)))
