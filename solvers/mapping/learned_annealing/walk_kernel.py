"""Compiled: annealing chains that walk through a mapping space on a model's predictions.

Random numbers come from outside, DRAWS of them for each step of each chain, so that a seed decides the walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from solvers.mapping.learned_annealing.features_kernel import describe

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows
    from solvers.mapping.learned_annealing.features_kernel import Features, WalkSpace
    from solvers.mapping.space.tables import SpaceTables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

DRAWS = 12
"""Random numbers of one step: 0 to 4 are for the first change, 5 to 9 for the second one, 10 says whether
there is a second one, 11 whether the step is accepted."""

OVERFULL = 1e6
"""Prediction for tiles that do not fit, where these are avoided: it is above all others."""

FACTORS, ORDERS = 0.7, 0.9
"""A draw below FACTORS moves a factor, one below ORDERS exchanges two loops; others change what is kept."""


class Trees(NamedTuple):
    """Regression trees as arrays, [trees, nodes] each: a row's prediction is the sum of its leaves."""

    feature: Array
    threshold: Array
    left: Array
    """The child for values up to the threshold; -1 at a leaf."""
    right: Array
    value: Array


class WalkDraws(NamedTuple):
    """The random numbers and temperatures of a walk."""

    chance: Array
    """[chains, steps, DRAWS] random numbers from 0 to below 1."""
    temperature: Array
    """[steps]"""


class Trial(NamedTuple):
    """Scratch arrays for one step."""

    row: BatchRows
    """A single mapping."""
    seen: Features


class Proposals(NamedTuple):
    """What each chain proposes."""

    rows: BatchRows
    predicted: Array
    """[chains] infinite where a chain has met nothing new."""
    known: Array
    """Hashes of all mappings measured or proposed, uint64; 0 is a free entry. More than half stay free."""


@entry
def walk(
    walk_space: WalkSpace, trees: Trees, chains: BatchRows, trial: Trial, how: WalkDraws, out: Proposals
) -> None:
    """Walk every chain; each proposes the best mapping it meets that is neither measured nor proposed yet."""
    # Each step changes a copy of the chain's mapping once or twice. The chain goes there if the prediction is
    # not higher, or by chance (Metropolis). What is proposed is the best that the chain has seen, even if it
    # did not go there. Chains run one after the other: a later one does not propose what an earlier one did.
    # A prediction is a logarithm of the cost, so the difference of two is what Metropolis's rule takes.
    row, seen = trial.row, trial.seen
    for chain in range(how.chance.shape[0]):
        out.predicted[chain] = np.inf
        here = _predict(walk_space, trees, chains, chain, seen)
        for step in range(how.chance.shape[1]):
            draws = how.chance[chain, step]
            _copy(chains, chain, row, 0)
            for change in range(1 + (draws[10] < 0.5)):
                _change(walk_space.space, row, draws, 5 * change)
            there = _predict(walk_space, trees, row, 0, seen)
            if there < out.predicted[chain] and there < OVERFULL and not _is_known(row, 0, out.known):
                out.predicted[chain] = there
                _copy(row, 0, out.rows, chain)
            if there <= here or draws[11] < np.exp((here - there) / max(how.temperature[step], 1e-12)):
                here = there
                _copy(row, 0, chains, chain)
        if out.predicted[chain] < np.inf:
            _know(out.rows, chain, out.known)


@entry
def learn_of(rows: BatchRows, known: Array, fresh: Array) -> None:
    """Put ``rows`` among the known; ``fresh`` [n] tells which were not there."""
    for row in range(fresh.shape[0]):
        fresh[row] = not _is_known(rows, row, known)
        if fresh[row]:
            _know(rows, row, known)


@called
def _predict(walk_space: WalkSpace, trees: Trees, rows: BatchRows, row: int, seen: Features) -> float:
    """What the model predicts for a row, as the logarithm of its cost: the sum of a leaf of each tree."""
    overfill = describe(walk_space, rows, row, seen)
    if walk_space.avoid_overfull and overfill > 0:
        # Worse the more overfull, so that a chain that starts among such mappings finds its way out.
        return OVERFULL + overfill
    predicted = 0.0
    for tree in range(trees.left.shape[0]):
        node = 0
        while trees.left[tree, node] >= 0:
            below = seen.features[trees.feature[tree, node]] <= trees.threshold[tree, node]
            node = trees.left[tree, node] if below else trees.right[tree, node]
        predicted += trees.value[tree, node]
    return predicted


@called
def _copy(source: BatchRows, of: int, target: BatchRows, to: int) -> None:
    """Copy row ``of`` of ``source`` to row ``to`` of ``target``."""
    for level in range(source.temporal.shape[1]):
        for dim in range(source.temporal.shape[2]):
            target.temporal[to, level, dim] = source.temporal[of, level, dim]
            target.permutation[to, level, dim] = source.permutation[of, level, dim]
            target.spatial_x[to, level, dim] = source.spatial_x[of, level, dim]
            target.spatial_y[to, level, dim] = source.spatial_y[of, level, dim]
        for tensor in range(source.keep.shape[2]):
            target.keep[to, level, tensor] = source.keep[of, level, tensor]


@called
def _change(space: SpaceTables, row: BatchRows, draws: Array, first: int) -> None:
    """One small change within the rules and fan-outs by five random numbers; some draws change nothing.

    Buffers are not looked at: what does not fit them is left to :func:`_predict`.
    """
    if draws[first] < FACTORS:
        _move_factor(space, row, draws, first)
    elif draws[first] < ORDERS:
        _exchange_loops(space, row, draws, first)
    else:
        _keep_others(space, row, draws, first)


@inlined
def _pick(draw: float, count: Int) -> Int:
    """One of ``count`` numbers from 0."""
    return np.int64(draw * count)


@inlined
def _move_factor(space: SpaceTables, row: BatchRows, draws: Array, first: int) -> None:
    """A divisor of a factor moves from its slot to another one of the same dim."""
    slots, position = space.slot_level.shape[0], _held_position(space, row, draws[first + 1])
    dim, source, target = position // slots, position % slots, _pick(draws[first + 2], slots)
    if position < 0 or source == target:
        return
    # The target takes the divisor before the source gives it up: where it does not fit a fan-out there, the
    # row has to stay as it was.
    held, taken = _factor(space, row, source, dim), _factor(space, row, target, dim)
    moved = _divisor(space, dim, held, draws[first + 3])
    if held // moved < space.slot_least[source, dim] or taken * moved > space.slot_most[target, dim]:
        return
    if not space.slot_spatial[target]:
        row.temporal[0, space.slot_level[target], dim] *= moved
    elif not _spread(space, row, (space.slot_level[target], dim), moved, draws[first + 4]):
        return
    level = space.slot_level[source]
    if not space.slot_spatial[source]:
        row.temporal[0, level, dim] //= moved
    elif row.spatial_x[0, level, dim] > 1:
        row.spatial_x[0, level, dim] //= moved
    else:
        row.spatial_y[0, level, dim] //= moved


@inlined
def _held_position(space: SpaceTables, row: BatchRows, draw: float) -> Int:
    """One of the factors above 1, as dim * slots + slot; -1 if there are none."""
    slots = space.slot_level.shape[0]
    # Counted first and then gone through again up to the chosen one: compiled code here cannot make a list.
    positions, count = row.temporal.shape[2] * slots, 0
    for position in range(positions):
        count += _factor(space, row, position % slots, position // slots) > 1
    chosen = _pick(draw, count)
    for position in range(positions):
        if _factor(space, row, position % slots, position // slots) > 1:
            if chosen == 0:
                return position
            chosen -= 1
    return -1


@inlined
def _factor(space: SpaceTables, row: BatchRows, slot: Int, dim: Int) -> Int:
    """The factor of a dim in a slot; a spatial one is the product of both sides."""
    level = space.slot_level[slot]
    if space.slot_spatial[slot]:
        return np.int64(row.spatial_x[0, level, dim] * row.spatial_y[0, level, dim])
    return np.int64(row.temporal[0, level, dim])


@inlined
def _divisor(space: SpaceTables, dim: Int, held: Int, draw: float) -> Int:
    """A divisor above 1 of ``held``: half of the time the smallest, else any one."""
    count = 0
    for position in range(1, space.divisor_count[dim]):
        count += held % space.divisors[dim, position] == 0
    chosen = 0 if draw < 0.5 else _pick(2 * draw - 1, count)
    for position in range(1, space.divisor_count[dim]):
        if held % space.divisors[dim, position] == 0:
            if chosen == 0:
                return space.divisors[dim, position]
            chosen -= 1
    return held


@inlined
def _spread(space: SpaceTables, row: BatchRows, where: tuple[Int, Int], factor: Int, draw: float) -> bool:
    """Spread a dim more, on the side where it is or on either one; False if it does not fit there."""
    level, dim = where
    on_x = row.spatial_x[0, level, dim] > 1 or (row.spatial_y[0, level, dim] == 1 and draw < 0.5)
    side = row.spatial_x if on_x else row.spatial_y
    allowed = space.sides.may_x[level, dim] if on_x else space.sides.may_y[level, dim]
    used = factor
    for other in range(side.shape[2]):
        used *= side[0, level, other]
    if not allowed or used > (space.sides.fanout_x[level] if on_x else space.sides.fanout_y[level]):
        return False
    side[0, level, dim] *= factor
    return True


@inlined
def _exchange_loops(space: SpaceTables, row: BatchRows, draws: Array, first: int) -> None:
    """Exchange two loops of a level; not of the innermost, whose order costs nothing."""
    levels = row.temporal.shape[1]
    level = min(1 + _pick(draws[first + 1], levels - 1), levels - 1)
    count = space.free_to[level] - space.free_from[level]
    if count < 2:
        return
    one = space.free_from[level] + _pick(draws[first + 2], count)
    two = space.free_from[level] + _pick(draws[first + 3], count)
    dim = row.permutation[0, level, one]
    row.permutation[0, level, one] = row.permutation[0, level, two]
    row.permutation[0, level, two] = dim


@inlined
def _keep_others(space: SpaceTables, row: BatchRows, draws: Array, first: int) -> None:
    """A level keeps another allowed set of tensors."""
    level = _pick(draws[first + 1], row.keep.shape[1])
    mask = space.masks[level, _pick(draws[first + 2], space.mask_count[level])]
    for tensor in range(row.keep.shape[2]):
        row.keep[0, level, tensor] = (mask >> tensor) & 1 == 1


@called
def _hash(rows: BatchRows, row: int) -> Int:
    """64 bits that differ for different mappings, but for chance; never 0.

    Loops of one iteration, and the order at the innermost level, do not count: they cost nothing.
    """
    bits = np.uint64(0x9E3779B97F4A7C15)
    for level in range(rows.temporal.shape[1]):
        for tensor in range(rows.keep.shape[2]):
            bits = _mixed(bits, np.int64(rows.keep[row, level, tensor]))
        for dim in range(rows.temporal.shape[2]):
            bits = _mixed(bits, np.int64(rows.temporal[row, level, dim]))
            bits = _mixed(bits, np.int64(rows.spatial_x[row, level, dim]))
            bits = _mixed(bits, np.int64(rows.spatial_y[row, level, dim]))
        for position in range(rows.temporal.shape[2]):
            dim = rows.permutation[row, level, position]
            if level > 0 and rows.temporal[row, level, dim] > 1:
                bits = _mixed(bits, np.int64(dim))
    return bits | np.uint64(1)


@inlined
def _mixed(bits: Int, value: Int) -> Int:
    """FNV-1a's step on whole words, and a shift that brings high bits down."""
    bits = (bits ^ np.uint64(value)) * np.uint64(0x100000001B3)
    return bits ^ (bits >> np.uint64(29))


@inlined
def _is_known(rows: BatchRows, row: int, known: Array) -> bool:
    """Whether the mapping in a row, or by chance another one of the same hash, is in the table ``known``."""
    bits = _hash(rows, row)
    return bool(known[_entry_of(bits, known)] == bits)


@inlined
def _know(rows: BatchRows, row: int, known: Array) -> None:
    """Enter the mapping in a row into the table ``known``."""
    bits = _hash(rows, row)
    known[_entry_of(bits, known)] = bits


@inlined
def _entry_of(bits: Int, known: Array) -> Int:
    """The entry that has a hash or would get it: linear probing in a table whose size is a power of two."""
    position = np.int64(bits >> np.uint64(16)) & (known.shape[0] - 1)
    while known[position] != 0 and known[position] != bits:
        position = (position + 1) & (known.shape[0] - 1)
    return position
