"""Reads, fills and updates of one mapping, counted as Timeloop's nest analysis counts them.

This is the definition of the counts, written to be read. ``evaluate`` uses it for one mapping at a time. The
compiled kernels (``counting_kernel.py`` and those that call it) count the same faster, and tests hold them
equal to this module, mapping by mapping.

**The rules.** Other modules name them by number ("item 5"). T is a tensor; levels count from the inside; a
*child* is an instance of the next inner level, or a MAC unit.

1. T's tile at a level is the box around everything that its loops at and inside that level touch, holes of
   strides and dilations included. The kept tiles fit ``floor(size / multiple_buffering)``; X factors the X
   fan-out, Y factors the Y fan-out.
2. Instances in use: the product of the spatial factors further out.
3. Words delivered into a tile: the loops around it are walked for iterations 0 and 1 only, and iteration 1
   counts bound - 1 times. A step that does not move the tile costs nothing. One that moves it like the last
   remembered step, or the first one ever, costs what the overlap leaves. Any other costs the tile and forgets
   the remembered step.
4. A MAC unit holds nothing: level 0 delivers a word of every operand in each cycle.
5. Children whose tiles coincide have one access of their parent in common (sums of outputs are added on the
   way). Different tiles that overlap have nothing in common.
6. A level is filled with what its own network delivers, whoever supplies it; the outermost level never is.
7. Where T bypasses a level, the next level outside supplies that level's traffic after its multicast, and its
   own multicast comes on top.
8. Of inputs and weights, reads are what is supplied. Of outputs, updates are what arrives. The first update
   of every partial sum finds nothing to read (and nothing to fill), so reads and fills are fewer by the words
   of item 9.
9. An instance is responsible for a part of the tensor: for all of it at the outermost level, and further
   inside for the part of its parent times tile over the box of the parent's spatial block, rounded down at
   every level, bypassed ones too.
10. Energy: accesses are rounded up to blocks, for each kind and instance. Instances in use leak over all
    cycles, also where nothing is kept.
11. Cycles: the product of the temporal factors, stretched by the level whose read, write or shared bandwidth
    falls most short of its average demand.
12. Statistics of networks are not modelled.
13. Link transfers between neighbouring children are not modelled.

Everything is exact integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import dropwhile
from math import gcd, prod
from operator import or_
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Loop, Mapping
from costmodel.workload.network import Layer, Tensor


class StridedLoop(NamedTuple):
    """A loop with its stride ``inner``: the points of its dim that all loops inside it cover, so that one of
    its steps moves what is inside by so many points."""

    dim: str
    bound: int
    inner: int


class Nest(NamedTuple):
    """The loops of a mapping with their strides: per level (innermost first), loops innermost first.

    A level's ``spatial`` loops lie inside its ``temporal`` ones. ``compute_cycles``: the product of all
    temporal bounds.
    """

    spatial: list[list[StridedLoop]]
    temporal: list[list[StridedLoop]]
    compute_cycles: int


class Counts(NamedTuple):
    """Accesses to one tensor at one level over the whole layer: words of one instance of the level.

    ``reads`` leave it: words of an operand on their way inwards, partial sums of an output before they are
    added to. ``fills`` are written into it from outside, ``updates`` (of an output only) from inside.
    ``tile_words``: the tile that it holds at a time. ``partition_words``: the words of the tensor that this
    instance is responsible for, where instances divide it among them (item 9).
    """

    reads: int
    fills: int
    updates: int
    tile_words: int
    partition_words: int


def refuse_begun(architecture: Architecture, layer: Layer) -> None:
    """InputError for a layer that adds to sums which are there already, where they are not counted.

    Timed steps would have to load them, and elements of several widths would move as wide as sums are.
    """
    for key in ("timing", "precision"):
        if layer.output.begun and getattr(architecture, key) is not None:
            where = f"layer {layer.name} on {architecture.name}"
            expected = f"an architecture without {key}: partial sums that are there before are not counted"
            raise InputError(where, expected, key, f"Leave {key} out", key=key)


def nest_of(mapping: Mapping) -> Nest:
    """Give every loop its stride; compute cycles are the product of all temporal bounds (item 11)."""
    covered: dict[str, int] = {}
    nest = Nest([], [], prod(bound for level in mapping.levels for _, bound in level.temporal))
    for level in mapping.levels:
        nest.spatial.append(_strided(level.spatial, covered))
        nest.temporal.append(_strided(level.temporal, covered))
    return nest


def _strided(block: Sequence[Loop], covered: dict[str, int]) -> list[StridedLoop]:
    strided = []
    for dim, bound in block:
        inner = covered.get(dim, 1)
        strided.append(StridedLoop(dim, bound, inner))
        covered[dim] = inner * bound
    return strided


def tensor_traffic(tensor: Tensor, mapping: Mapping, nest: Nest) -> list[Counts | None]:
    """The tensor's counts at every level, innermost first; None where it bypasses the level.

    ``nest`` is ``nest_of(mapping)``, and the mapping must have no violations.
    """
    outermost = len(mapping.levels) - 1
    kept = [tensor.name in level.keep for level in mapping.levels]
    tiles = [tensor.extents(tile) for tile in mapping.tiles]
    delivered = [nest.compute_cycles]  # item 4: a MAC gets one word a cycle and holds none
    for level in range(outermost):
        outside = [loop for block in nest.temporal[level + 1 :] for loop in block]
        delivered.append(delivered_words(tensor, tiles[level], outside))
    contents = content_accesses(tensor, kept, delivered, nest)
    partitions = partition_words(tensor, mapping, nest, [prod(tile) for tile in tiles])
    return [
        _counts(
            tensor,
            contents[level],
            # items 6 and 7: what the level's own network delivers, whether or not the parent is bypassed
            delivered[level + 1] if level < outermost else None,
            prod(tiles[level]),
            partitions[level],
        )
        if kept[level]
        else None
        for level in range(outermost + 1)
    ]


def _counts(tensor: Tensor, content: int, delivered: int | None, tile_words: int, partition: int) -> Counts:
    """Item 8, for one instance that sends ``content`` words inwards (an output: takes so many in).

    ``delivered`` is what fills it from outside, None at the outermost level, which nothing fills. An output
    begins at zero: the first visit of each of the ``partition`` words that the instance is responsible for
    reads nothing and fills nothing. Of one that is begun already the first visit is like any other.
    """
    if not tensor.is_output:
        return Counts(content, delivered or 0, 0, tile_words, partition)
    at_zero = 0 if tensor.begun else partition
    # below 0 only for outputs with sliding or strided axes, whose partitions are boxes with holes
    fills = 0 if delivered is None else max(0, delivered - at_zero)
    return Counts(max(0, content - at_zero), fills, content, tile_words, partition)


def delivered_words(tensor: Tensor, extents: Sequence[int], outside: Sequence[StridedLoop]) -> int:
    """Item 3: words delivered into one tile of ``extents`` while all loops ``outside`` it run.

    ``outside`` are the temporal loops around the tile, innermost first.

    Timeloop steps through iterations 0 and 1 of every loop and counts iteration 1 ``bound - 1`` times. It
    remembers how the tile moved last, and lets a step reuse the overlap of two tiles only if it moves the
    tile in the same way. From this it follows what a step of each loop delivers:

    * loops inside the first one that moves the tile: nothing, as the tile stays where it is;
    * the first moving loop: the words of the tile that its step uncovers. The move remembered then is its
      own, or none at all at the beginning;
    * a loop around it, whose step also takes all loops inside back to their start: as many words if the tile
      moves in all as the first moving loop moves it, nothing if it does not move, else a whole tile.
    """
    if not tensor.slides:  # every step from the first moving loop outwards delivers a whole tile
        moving = dropwhile(lambda loop: loop.dim not in tensor.steps, outside)
        return prod(extents) * prod([loop.bound for loop in moving])
    words, outer = prod(extents), prod([loop.bound for loop in outside])
    for loop, step in zip(outside, step_words(tensor, extents, outside), strict=True):
        outer //= loop.bound
        words += (loop.bound - 1) * outer * step
    return words


def step_words(tensor: Tensor, extents: Sequence[int], outside: Sequence[StridedLoop]) -> list[int]:
    """For each loop of ``outside``, the words that one of its steps delivers; see :func:`delivered_words`."""
    tile_words = prod(extents)
    steps = tensor.steps
    moving = list(dropwhile(lambda loop: loop.dim not in steps, outside))
    still = [0] * (len(outside) - len(moving))
    if not tensor.slides:  # tiles never overlap and no two of the steps above cancel
        return still + [tile_words] * len(moving)
    found: list[int] = []
    back = [0] * len(extents)  # from the start of the sweep of all loops inside to its last counted iteration
    first_move: list[int] | None = None
    new_words = 0
    for dim, _, inner in moving:
        stride = [inner * step for step in steps[dim]] if dim in steps else [0] * len(extents)
        move = [forth - come for forth, come in zip(stride, back, strict=True)]
        if first_move is None:
            first_move, new_words = move, tile_words - _overlap(extents, move)
        found.append(new_words if move == first_move else tile_words if any(move) else 0)
        back = [come + forth for come, forth in zip(back, stride, strict=True)]
    return still + found


def _overlap(extents: Sequence[int], move: Sequence[int]) -> int:
    """Words that a box of ``extents`` has in common with itself moved by ``move``."""
    return prod(max(0, extent - abs(distance)) for extent, distance in zip(extents, move, strict=True))


def content_accesses(tensor: Tensor, kept: Sequence[bool], delivered: Sequence[int], nest: Nest) -> list[int]:
    """Items 5 and 7: the *content* of each level, words that one instance would send inwards over the layer.

    Of an output it is what the instance would take in from inside. "Content" is Timeloop's word for it.
    Every multicast group of the level's spatial block counts once. Where the next inner level is bypassed,
    what passes through it counts, after that level's own multicast.
    """
    contents: list[int] = []
    for level, words in enumerate(delivered):
        through = words if level == 0 or kept[level - 1] else contents[-1]
        contents.append(through * multicast_groups(tensor, nest.spatial[level]))
    return contents


def multicast_groups(tensor: Tensor, spatial: Sequence[StridedLoop]) -> int:
    """Item 5: how many different tiles the children below a spatial block hold (equal ones share a word)."""
    moving = [loop for loop in spatial if loop.dim in tensor.steps]
    if not tensor.slides or len(moving) < 2:
        return prod(loop.bound for loop in moving)
    strides = {dim: coefficient for axis in tensor.terms for dim, coefficient in axis}
    return prod(
        distinct_sums([(loop.bound, strides[loop.dim] * loop.inner) for loop in moving if loop.dim in dims])
        for dims in ({dim for dim, _ in axis} for axis in tensor.terms)
    )


def distinct_sums(terms: Sequence[tuple[int, int]]) -> int:
    """How many values ``sum(stride * i)`` takes over ``0 <= i < bound`` for (bound, stride) terms.

    For two terms with greatest common divisor g, (i, j) has the value of (i - b/g, j + a/g): every pair that
    has such a neighbour repeats a value. For more, a bit set of all values is built up term by term.
    """
    if len(terms) < 2:
        return prod(bound for bound, _ in terms)
    if len(terms) == 2:
        (bound_a, stride_a), (bound_b, stride_b) = terms
        common = gcd(stride_a, stride_b)
        repeated = max(0, bound_a - stride_b // common) * max(0, bound_b - stride_a // common)
        return bound_a * bound_b - repeated
    reached = 1  # bit v: the value v is taken
    for bound, stride in terms:
        reached = reduce(or_, (reached << stride * i for i in range(bound)))
    return reached.bit_count()


def partition_words(tensor: Tensor, mapping: Mapping, nest: Nest, tile_words: Sequence[int]) -> list[int]:
    """Item 9: the words that each instance of every level is responsible for, innermost level first.

    The one instance of the outermost level is responsible for the whole tensor. Below each fan-out the words
    divide among the children as their tiles divide what they cover together.
    """
    partitions = [tile_words[-1]]
    for level in range(len(tile_words) - 2, -1, -1):
        union = dict(mapping.tiles[level])
        for dim, bound, inner in nest.spatial[level + 1]:
            union[dim] = inner * bound
        partitions.append(partitions[-1] * tile_words[level] // tensor.words(union))
    return partitions[::-1]
