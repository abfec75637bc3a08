"""Sizes, parallelism and accesses of a layer's directives (section III-B), exactly.

Every buffer of a level holds a tile of each tensor. The updates of that level and of all levels outside it
move these tiles, and a move brings in the words that the buffer did not hold. Where sizes do not divide, the
last tiles count as full ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.formats.directives.values import LayerScheme, LevelScheme, TensorTile, Update

INPUT_DIMS = ("Xi", "Yi")
"""Columns and rows of inputs; their bounds follow from those of outputs and filters."""
Region = tuple[frozenset[int], ...]
"""A set of words of a tensor: for each dim its positions; a word is one position along every dim."""


@dataclass(frozen=True)
class Transfers:
    """How a level's buffers are filled (section III-C).

    ``broadcast``: the next level sends a word once to all buffers that take it at the same time. ``forward``:
    words that another buffer of the level held before come from that buffer, over links between neighbours.
    """

    broadcast: bool = True
    forward: bool = False


@dataclass(frozen=True)
class TensorAccesses:
    """Words of one tensor between the buffers of a level and the next one, over the whole layer.

    ``held``: what one buffer holds; of a shared tile that is its part. ``filled``, ``drained``: what enters
    one buffer, and the outputs that leave it. ``next_reads``, ``next_writes``: what is read from and written
    to one buffer of the next level. ``passed``: what the level's buffers below that one pass among each
    other.
    """

    held: int
    filled: int
    drained: int
    next_reads: int
    next_writes: int
    passed: int


class _Move(NamedTuple):
    """An update as it moves one tensor: the distance along each of the tensor's dims, and its iterations."""

    distance: tuple[int, ...]
    trips: int


def iterations(level: LevelScheme, outer: LevelScheme) -> tuple[int, ...]:
    """The iterations of each update of a level, so that together they cover a buffer of ``outer``.

    ``outer`` is the next level. ``covered`` is what the stacks, and then each update in turn, have covered of
    each dim. The dims of outputs and filters decide how many iterations an update needs, and must agree.
    Dims of inputs decide only where an update moves no others.
    """
    covered = dict(level.sizes)
    for stack in level.stacks:
        for dim, shift in stack.shifts:
            covered[dim] = covered.get(dim, 1) + shift * (stack.replicas - 1)
    trips = []
    for update in level.updates:
        deciding = [step for step in update.steps if step[0] not in INPUT_DIMS] or list(update.steps)
        counts = {
            dim: max(0, ceil((_bound(outer, dim) - covered.get(dim, 1)) / step)) + 1 for dim, step in deciding
        }
        if len(set(counts.values())) > 1:
            raise InputError(f"level {level.name}", "dims that end together", counts, key="update")
        count = next(iter(counts.values()))
        for dim, step in update.steps:
            covered[dim] = covered.get(dim, 1) + step * (count - 1)
        trips.append(count)
    _check_covered(level, outer, covered)
    return tuple(trips)


def _bound(outer: LevelScheme, dim: str) -> int:
    if dim not in outer.sizes:
        raise InputError(f"level {outer.name}", f"a tensor with {dim}, which inner levels move", "none")
    return outer.sizes[dim]


def _check_covered(level: LevelScheme, outer: LevelScheme, covered: dict[str, int]) -> None:
    for dim, size in outer.sizes.items():
        if dim not in INPUT_DIMS and covered.get(dim, 1) < size:
            expected = f"stacks and updates that cover {dim}={size} of {outer.name}"
            raise InputError(f"level {level.name}", expected, covered.get(dim, 1), key=dim)


def cycles(layer: LayerScheme, per_update: int = 1) -> int:
    """Cycles if each iteration of the innermost update takes ``per_update``, and nothing waits for data."""
    return per_update * prod(trips for pair in layer.pairs for trips in iterations(*pair))


def parallelism(layer: LayerScheme) -> int:
    """Innermost buffers of the whole machine."""
    return prod(level.parallelism for level in layer.levels)


def accesses(
    layer: LayerScheme, level_name: str, transfers: Transfers | None = None
) -> dict[str, TensorAccesses]:
    """For each tensor of a level the words between it and the next level.

    They are counted while the layer's last level holds its tiles once: that is the whole layer, if these are
    the whole tensors. Raises InputError for the last level itself, and for updates that do not fit the sizes.
    """
    index = layer.levels.index(layer.level(level_name))
    if index + 1 == len(layer.levels):
        raise InputError(f"layer {layer.name}", f"a level outside {level_name}", "none")
    level = layer.levels[index]
    trips = [list(iterations(*pair)) for pair in layer.pairs]
    updates = [update for one in layer.levels[index:-1] for update in one.updates]
    counts = [count for level_trips in trips[index:] for count in level_trips]
    inner = list(zip(layer.levels[index - 1].updates, trips[index - 1], strict=True)) if index else []
    return {
        tensor.name: _accesses(tensor, level, list(zip(updates, counts, strict=True)), inner, transfers)
        for tensor in level.tensors
    }


def _accesses(
    tensor: TensorTile,
    level: LevelScheme,
    updates: Sequence[tuple[Update, int]],
    inner: Sequence[tuple[Update, int]],
    transfers: Transfers | None,
) -> TensorAccesses:
    transfers = transfers or Transfers()
    moves = [_Move(_along(tensor, update.steps), trips) for update, trips in updates]
    pieces = _offsets(tensor, level)
    tile = _box(tensor, pieces[:1])
    words = brought_words(tile, moves)
    read_back = words - _distinct_words(tile, moves) if tensor.output else words
    asked = _asked(tensor, level, transfers)
    # outputs have no forwarding: each buffer adds its own part
    joined = transfers.forward and not tensor.output
    from_next = brought_words(_union(tensor, level, pieces), moves) if joined else words * asked
    passed = words * level.parallelism - from_next if joined else 0
    rotated = _rotated_words(tensor, level, words, inner, transfers)
    return TensorAccesses(
        held=tensor.held_words,
        filled=read_back,
        drained=words if tensor.output else 0,
        next_reads=read_back * asked if tensor.output else from_next,
        next_writes=words * asked if tensor.output else 0,
        passed=passed + rotated,
    )


def brought_words(region: Region, moves: Sequence[_Move]) -> int:
    """Words that enter a buffer while nested updates (innermost first) move its tile.

    When an update moves on, all updates inside it start over. So the tile moves by the update's own distance,
    minus what the inner updates had moved it (``net``). What that brings:

    - nothing, if ``net`` is zero;
    - only the new words, if ``net`` is the distance of the innermost update that moves the tile: the tile
      then slides like a window;
    - the whole tile, for any other distance, because a buffer does not keep what it has slid past.

    As everywhere in the cost model (item 3 of costmodel/mapping/counts/traffic.py), the second iteration of
    an update stands for all later ones. So an inner update counts as having moved one step (``back``),
    however many iterations it has. ``again``: iterations of all updates outside.
    """
    total = words = prod(len(positions) for positions in region)
    again = prod(move.trips for move in moves)
    back = [0] * len(region)
    first: tuple[int, ...] | None = None
    for move in moves:
        again //= move.trips
        net = tuple(step - way for step, way in zip(move.distance, back, strict=True))
        if any(net) and first is None and move.trips > 1:
            first = net
        if any(net):
            kept = _overlap(region, net) if net == first else 0
            total += (move.trips - 1) * again * (words - kept)
        if move.trips > 1:
            back = [way + step for way, step in zip(back, move.distance, strict=True)]
    return total


def _overlap(region: Region, distance: Iterable[int]) -> int:
    """Words that a region has in common with itself when it is moved by ``distance``."""
    return prod(
        len(positions & {position + way for position in positions})
        for positions, way in zip(region, distance, strict=True)
    )


def _along(tensor: TensorTile, amounts: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """The shifts or steps along each of the tensor's dims; 0 where there is none."""
    distances = dict(amounts)
    return tuple(distances.get(dim, 0) for dim in tensor.dims)


def _offsets(tensor: TensorTile, level: LevelScheme) -> list[tuple[int, ...]]:
    """The first position of each buffer's tile along each dim, below one buffer of the next level."""
    shifts = [_along(tensor, stack.shifts) for stack in level.stacks]
    return [
        tuple(
            sum(number * shift[axis] for number, shift in zip(numbers, shifts, strict=True))
            for axis in range(len(tensor.dims))
        )
        for numbers in product(*(range(stack.replicas) for stack in level.stacks))
    ]


def _union(tensor: TensorTile, level: LevelScheme, offsets: Sequence[tuple[int, ...]]) -> Region:
    """What the tiles of all buffers cover together.

    Raises InputError for a stack that moves several dims of the tensor: its tiles make no box.
    """
    for stack in level.stacks:
        if sum(map(bool, _along(tensor, stack.shifts))) > 1:
            expected = f"stacks that move one dim of tensor{{{tensor.name}}}, where buffers forward it"
            raise InputError(f"level {level.name}", expected, dict(stack.shifts), key="stack")
    return _box(tensor, offsets)


def _box(tensor: TensorTile, offsets: Sequence[tuple[int, ...]]) -> Region:
    """The region that the tiles at ``offsets`` cover, if they make a box."""
    return tuple(
        frozenset(offset[axis] + position for offset in offsets for position in range(size))
        for axis, (_, size) in enumerate(tensor.sizes)
    )


def _asked(tensor: TensorTile, level: LevelScheme, transfers: Transfers) -> int:
    """How many tiles the next level sends at a time: with broadcast each distinct one once."""
    offsets = _offsets(tensor, level)
    if transfers.broadcast:
        return len(set(offsets))
    return len(offsets) // tensor.shared


def _distinct_words(region: Region, moves: Sequence[_Move]) -> int:
    """Words that a buffer holds at any time; each of them, if an output, is not read the first time."""
    counts = []
    for axis, positions in enumerate(region):
        for move in moves:
            if step := move.distance[axis]:
                steps = range(0, step * move.trips, step)
                positions = frozenset(position + way for position in positions for way in steps)
        counts.append(len(positions))
    return prod(counts)


def _rotated_words(
    tensor: TensorTile,
    level: LevelScheme,
    words: int,
    inner: Sequence[tuple[Update, int]],
    transfers: Transfers,
) -> int:
    """Words that buffers pass on so that each buffer of a group sees all parts of a shared tile.

    In one round every part passes through all other buffers of the group. The inner level needs a round
    whenever it starts over with the tensor: in each iteration of its updates that stand outside all those
    that move the tensor. If there is a single round and the next level broadcasts, nothing is passed on: all
    buffers use the words as they come in.
    """
    if tensor.shared == 1:
        return 0
    same = _replicas_of_a_tile(tensor, level)
    if same % tensor.shared:
        expected = f"a divisor of the {same} buffers that need the same tile"
        raise InputError(f"tensor{{{tensor.name}}}", expected, tensor.shared, key="shr")
    rounds = _rounds(tensor, inner)
    if rounds == 1 and transfers.broadcast:
        return 0
    groups = level.parallelism // tensor.shared
    return words * (tensor.shared - 1) * rounds * groups


def _replicas_of_a_tile(tensor: TensorTile, level: LevelScheme) -> int:
    """How many buffers need the same tile: those of all stacks that do not move the tensor."""
    return prod(stack.replicas for stack in level.stacks if not any(_along(tensor, stack.shifts)))


def _rounds(tensor: TensorTile, inner: Sequence[tuple[Update, int]]) -> int:
    """Iterations of the inner level's updates outside the outermost one that moves the tensor."""
    moving = [
        number
        for number, (update, trips) in enumerate(inner)
        if trips > 1 and any(_along(tensor, update.steps))
    ]
    if not moving:
        return 1
    return prod(trips for _, trips in inner[moving[-1] + 1 :])
