"""Loop orders of one block that can be best: one of each class of equal cost, without the dominated ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from costmodel.workload.network import Layer

Order = tuple[int, ...]


class Motion(NamedTuple):
    """How the loops of a layer move one tensor; dims by their index.

    ``axes`` [dims]: the axis that a loop over the dim moves the tensor along, -1 for an irrelevant dim.
    ``overlapping``: axes on which several dims of more than one point meet, so that tiles can overlap.
    """

    axes: tuple[int, ...]
    overlapping: frozenset[int]


class Effect(NamedTuple):
    """What an order does for one tensor.

    ``run``: the innermost irrelevant loops. ``slide``: the loops after them along one overlapping axis, up to
    the first one along another, each with the irrelevant loops inside it.
    """

    run: frozenset[int]
    slide: tuple[tuple[int, frozenset[int]], ...]

    def covers(self, other: Effect) -> bool:
        """Whether no tile inside is delivered more words than with the other effect."""
        return (
            self.run >= other.run
            and len(self.slide) >= len(other.slide)
            and all(
                mine == theirs and inside <= more_inside
                for (mine, inside), (theirs, more_inside) in zip(self.slide, other.slide, strict=False)
            )
        )


def motions_of(layer: Layer) -> tuple[Motion, ...]:
    """The layer's tensors as the loops move them."""
    motions = []
    for tensor in layer.tensors:
        axis_of = {dim: number for number, axis in enumerate(tensor.axes) for dim, _ in axis}
        overlapping = frozenset(
            number
            for number, axis in enumerate(tensor.axes)
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

    What is delivered into any tile inside the block (item 3 of the cost model) depends on the order only
    through each tensor's :class:`Effect`. Every loop multiplies the words, but those of the run, which cost
    nothing, and those of the slide, a step of which may cost less than a whole tile and never more; what that
    saves is multiplied by all loops around it, irrelevant ones too. The same holds for a tile whose run or
    slide began in a block further inside, for it goes on with the same loops. So an order whose effects cover
    those of another is at least as good, whatever the factors; with ``dominance`` the other is left out.
    """
    found: dict[tuple[Effect, ...], Order] = {}
    for order in _classes(motions, first, looped - {*first, *last}, last):
        found.setdefault(tuple(_effect(motion, order) for motion in motions), order)
    if not dominance:
        return tuple(found.values())
    return tuple(
        order
        for effects, order in found.items()
        if not any(other != effects and _covers(other, effects) for other in found)
    )


def _covers(one: Sequence[Effect], other: Sequence[Effect]) -> bool:
    return all(mine.covers(theirs) for mine, theirs in zip(one, other, strict=True))


def _classes(motions: Sequence[Motion], order: Order, rest: frozenset[int], last: Order) -> Iterator[Order]:
    """Continuations of ``order``; once all its effects are settled, in one order only."""
    if not rest or all(_settled(motion, order) for motion in motions):
        yield (*order, *sorted(rest), *last)
        return
    for dim in sorted(rest):
        yield from _classes(motions, (*order, dim), rest - {dim}, last)


def _effect(motion: Motion, order: Order) -> Effect:
    run: frozenset[int] = frozenset()
    still: frozenset[int] = frozenset()
    slide: list[tuple[int, frozenset[int]]] = []
    axis = -1
    for dim in order:
        moves = motion.axes[dim]
        if moves < 0:
            still |= {dim}
            run = run if axis >= 0 else still
        elif axis in (-1, moves):
            axis = moves
            if axis in motion.overlapping:
                slide.append((dim, still))
        else:
            break
    return Effect(run, tuple(slide))


def _settled(motion: Motion, order: Order) -> bool:
    """Whether no loop around ``order`` can change the effect any more."""
    moved = list(dict.fromkeys(axis for dim in order if (axis := motion.axes[dim]) >= 0))
    return len(moved) > 1 or (len(moved) == 1 and moved[0] not in motion.overlapping)


def looped_sets(dims: Sequence[int]) -> Iterator[frozenset[int]]:
    """All subsets of ``dims``."""
    for bits in range(1 << len(dims)):
        yield frozenset(dim for bit, dim in enumerate(dims) if bits >> bit & 1)


def runs_together(motions: Sequence[Motion], dims: Sequence[int]) -> tuple[int, ...]:
    """Sets of tensors (bit masks, the empty one first) that can have a run in one block: all those that some
    dim among ``dims`` leaves in place, and their subsets."""
    still = {sum(1 << t for t, motion in enumerate(motions) if motion.axes[dim] < 0) for dim in dims}
    subsets = chain.from_iterable(
        (sub for sub in range(mask + 1) if sub & mask == sub) for mask in sorted(still | {0})
    )
    return tuple(sorted(set(subsets), key=lambda mask: (mask.bit_count(), mask)))
