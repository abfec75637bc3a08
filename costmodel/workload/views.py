"""Views of tensors: which positions along an axis show the same element again.

Two key-value heads that are expanded to eight query heads are still two heads of data, and a mapping may read
each element once for all the heads that share it. A :class:`View` keeps track of this through reshapes,
transpositions, repetitions and gathers, so that the layer of a product has the sharing in its projections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from costmodel.workload.digits import (
    Digit,
    Digits,
    Shape,
    broadcast,
    length_of,
    merged,
    offsets,
    regrouped,
    repeated,
)


@dataclass(frozen=True)
class View:
    """A tensor as positions in the elements of ``origin``, the tensor whose data it shows.

    The element at a position is ``offset`` plus the sum of digit times stride over all digits of all axes. A
    digit of stride 0 does not move: its positions repeat one element. Heads 0 0 0 0 1 1 1 1 of 64 elements
    each are the axis ``(2, 64), (4, 0)`` of (size, stride); heads 0 1 0 1 0 1 0 1 are ``(4, 0), (2, 64)``. An
    axis of length 1 has no digits. ``lost`` says where the repetitions of an earlier tensor could not be
    followed; empty: nowhere.
    """

    origin: str
    axes: tuple[Digits, ...]
    offset: int = 0
    lost: str = ""

    @property
    def shape(self) -> Shape:
        return tuple(length_of(axis) for axis in self.axes)

    @property
    def repeats(self) -> bool:
        """Whether some element stands at several positions."""
        return any(digit.stride == 0 for axis in self.axes for digit in axis)

    def reshaped(self, shape: Shape) -> View | None:
        """The same elements in the same order in another shape; None where a digit cannot be split evenly."""
        axes = regrouped(merged(digit for axis in self.axes for digit in axis), shape)
        return None if axes is None else replace(self, axes=axes)

    def transposed(self, order: Sequence[int]) -> View:
        """Axis ``i`` of the result is axis ``order[i]``."""
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def expanded(self, shape: Shape) -> View:
        """Broadcast: axes of length 1, and those that are missing in front, repeat to ``shape``."""
        return replace(self, axes=broadcast(self.axes, shape))

    def tiled(self, times: Sequence[int]) -> View:
        """Every axis repeated as a whole, as often as ``times`` says of it."""
        axes = (repeated(axis, count) for axis, count in zip(self.axes, times, strict=True))
        return replace(self, axes=tuple(axes))

    def taken(self, axis: int, positions: Sequence[int], shape: Shape | None = None) -> View | None:
        """The elements at ``positions`` of an axis, in that order, as one axis (or as axes of ``shape``).

        None where no digits describe the positions, as with those of a random shuffle.
        """
        every = offsets(self.axes[axis])
        chosen = [every[position] for position in positions]
        digits = _digits_of(chosen)
        if digits is None:
            return None
        line = View(self.origin, (digits,)).reshaped(shape) if shape is not None else None
        if shape is not None and line is None:
            return None
        axes = line.axes if line is not None else (digits,)
        start = self.offset + chosen[0]
        return replace(self, axes=(*self.axes[:axis], *axes, *self.axes[axis + 1 :]), offset=start)

    def cut(self, axis: int, start: int, length: int, step: int = 1) -> View | None:
        """``length`` positions of an axis from ``start`` on; None where no digits describe them."""
        if len(self.axes[axis]) != 1:
            return self.taken(axis, range(start, start + length * step, step))
        (digit,) = self.axes[axis]
        digits = (Digit(length, digit.stride * step),) if length > 1 else ()
        offset = self.offset + start * digit.stride
        return replace(self, axes=(*self.axes[:axis], digits, *self.axes[axis + 1 :]), offset=offset)


def whole(name: str, shape: Shape, lost: str = "") -> View:
    """A tensor that is its own origin: as far as is known, every position has an element of its own."""
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    axes = tuple(
        (Digit(length, stride),) if length > 1 else () for length, stride in zip(shape, strides, strict=True)
    )
    return View(name, axes, 0, lost)


def chained(views: Sequence[View], axis: int) -> View | None:
    """Views one after the other along an axis, as a view of the one tensor that they all show.

    None where they show several tensors, or show one by steps that differ.
    """
    first = views[0]
    if any((view.origin, view.axes) != (first.origin, first.axes) for view in views):
        return None
    digits = _digits_of([view.offset for view in views])
    if digits is None:
        return None
    axes = (*first.axes[:axis], merged((*digits, *first.axes[axis])), *first.axes[axis + 1 :])
    return replace(first, axes=axes)


def combined(name: str, views: Sequence[View], shape: Shape) -> View:
    """A new tensor that is computed element by element: it repeats where all its operands do.

    ``shape`` is that of the result, to which the operands broadcast.
    """
    axes: list[Digits] = []
    lost = next((view.lost for view in views if view.lost), "")
    for operands in zip(*(view.expanded(shape).axes for view in views), strict=True):
        moves = operands[0]
        for other in operands[1:]:
            pairs = paired(moves, other)
            if pairs is None:
                lost = lost or f"the operands of {name} repeat by numbers that do not divide each other"
                pairs = [(length_of(other), True, True)]
            moves = tuple(Digit(size, int(one or two)) for size, one, two in pairs)
        axes.append(moves)
    return _numbered(name, axes, lost)


def stacked(name: str, views: Sequence[View], axis: int, shape: Shape) -> View:
    """A new tensor of several, one after the other along ``axis``.

    Along other axes it repeats as :func:`combined` says. Along ``axis`` all its positions count as different,
    and ``lost`` says so where operands repeat there, or are the same one twice.
    """
    along = (Digit(shape[axis], 1),) if shape[axis] > 1 else ()
    moving = [replace(view, axes=(*view.axes[:axis], along, *view.axes[axis + 1 :])) for view in views]
    made = combined(name, moving, shape)
    twice = len({(view.origin, view.offset, view.axes) for view in views}) < len(views)
    if twice or any(digit.stride == 0 for view in views for digit in view.axes[axis]):
        made = replace(made, lost=made.lost or f"{name} holds repeated and other data after each other")
    return made


def paired(left: Digits, right: Digits) -> list[tuple[int, bool, bool]] | None:
    """Two axes of equal length, written with the same sizes of digits.

    For every common digit, slowest first: its size, whether the left axis moves along it, and whether the
    right one does. The digits of 0 0 1 1 2 2 and 0 0 0 1 1 1 have the spans 1, 2, 6 and 1, 3, 6: 2 does not
    divide 3, so there are no common ones, and the result is None.
    """
    ends = sorted({*_ends(left), *_ends(right)})
    # Common digits exist exactly if the spans of both axes, taken together, form a chain in which each
    # divides the next.
    if any(ends[i + 1] % ends[i] for i in range(len(ends) - 1)):
        return None
    pairs = [(outer // inner, _moves(left, inner), _moves(right, inner)) for inner, outer in pairwise(ends)]
    return pairs[::-1]


def _numbered(name: str, axes: Sequence[Digits], lost: str) -> View:
    """A tensor of its own with these axes: strides are set anew, but digits that do not move stay so."""
    stride, done = 1, list[Digits]()
    for axis in reversed(axes):
        digits: Digits = ()
        for digit in reversed(axis):
            digits = (Digit(digit.size, stride if digit.stride else 0), *digits)
            stride *= digit.size if digit.stride else 1
        done.append(merged(digits))
    return View(name, tuple(reversed(done)), 0, lost)


def _ends(axis: Digits) -> list[int]:
    """The spans of an axis: 1, then how many positions each digit spans with all faster ones."""
    return [1, *accumulate((digit.size for digit in reversed(axis)), mul)]


def _moves(axis: Digits, span: int) -> bool:
    """Whether the axis moves in a step over ``span`` positions: whether the digit that such a step changes
    has a stride.
    """
    for digit, end in zip(reversed(axis), _ends(axis)[1:], strict=True):
        if span < end:
            return digit.stride != 0
    return False


def _digits_of(shown: Sequence[int]) -> Digits | None:
    """The digits of an axis that shows these offsets, measured from the first; None where there are none.

    The fastest digit is the longest run of equal steps of which all offsets are made up. The slower digits
    are those of the offsets at which the runs begin. Where these have none, no shorter run is tried.
    """
    count = len(shown)
    if count <= 1:
        return () if count else None
    step = shown[1] - shown[0]
    run = next((i for i in range(2, count) if shown[i] - shown[i - 1] != step), count)
    # The longest run first: it leaves the fewest slower digits. A shorter one is only tried where the run
    # does not fit evenly into all positions.
    for size in range(run, 1, -1):
        starts = shown[::size]
        if count % size == 0 and all(
            offset == starts[i // size] + i % size * step for i, offset in enumerate(shown)
        ):
            slower = _digits_of(starts)
            return None if slower is None else merged((*slower, Digit(size, step)))
    return None
