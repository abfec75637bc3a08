"""A segment's buffers, time, energy and traffic, counted from its leaves up in compiled code.

The segment is written as a program in postfix order, as for a stack machine: a leaf pushes its row of the
store onto a stack, and a cut replaces the rows of its children on top of the stack by one row of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.published.set_isca2023.leaf.values import CYCLES, DRAM, HELD, HOPS

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

CHILDREN, IN_TIME, SUBBATCHES, ROUNDS = 0, 1, 2, 3
"""Columns of a program. CHILDREN: how many children the node has, 0 for a leaf. IN_TIME: 1 for a T cut, 0 for
an S cut. SUBBATCHES: those of a cut; for a leaf its row in the store. ROUNDS: how many times an S cut takes
the time of its slowest child, with fill and drain."""


class HeldColumns(NamedTuple):
    """The columns of the stack that say what one tile holds of a node: bytes of three kinds.

    ``inputs``: fetched before the node starts. ``weights``: kept as long as the node may run again. ``busy``:
    the most that the tile holds while the node computes, weights that are kept apart.
    """

    inputs: int
    weights: int
    busy: int


class Store(NamedTuple):
    """The leaves searched so far: ``numbers`` [n, HELD + 6 tiles], ``energy_pj`` [n]."""

    numbers: Array
    energy_pj: Array


class NodeStack(NamedTuple):
    """The nodes whose parents are not counted yet: ``numbers`` [n, HELD + 7 tiles], ``energy_pj`` [n]."""

    numbers: Array
    energy_pj: Array


class Limits(NamedTuple):
    """The limits of a platform: its tiles, the bytes of a buffer, and bandwidths."""

    tiles: int
    buffer_bytes: int
    stream_bytes: int
    dram_bytes_per_cycle: int
    link_bytes_per_cycle: int


@entry
def compose(program: Array, store: Store, stack: NodeStack, limits: Limits) -> Int:
    """Run ``program`` [nodes, 4], children before parents; row 0 of the stack then holds the segment.

    Returns the row in the program of the first node that does not fit the buffers, or -1 if all do. The last
    node is the segment, which alone waits for DRAM and links.
    """
    height = 0
    for row in range(program.shape[0]):
        children, last = program[row, CHILDREN], row == program.shape[0] - 1
        if children == 0:
            _push(program[row, SUBBATCHES], store, stack, height, limits)
        else:
            height -= children
            _combine(program[row], stack, height, last, limits)
        if _most_held(stack.numbers[height], limits.tiles) > limits.buffer_bytes:
            return row
        if last:
            _wait(stack.numbers[height], limits)
        height += 1
    return -1


@called
def _push(leaf: Int, store: Store, stack: NodeStack, height: Int, limits: Limits) -> None:
    """Put row ``leaf`` of the store onto the stack; while busy, a tile with inputs also streams outputs."""
    known, node, tiles = store.numbers[leaf], stack.numbers[height], limits.tiles
    stack.energy_pj[height] = store.energy_pj[leaf]
    # The store has inputs and weights of each tile, then links. The stack has what a busy tile holds in
    # between, so links move on by ``tiles`` columns.
    for column in range(HELD + 2 * tiles):
        node[column] = known[column]
    for tile in range(tiles):
        inputs = known[HELD + tile]
        node[HELD + 2 * tiles + tile] = inputs + limits.stream_bytes if inputs > 0 else 0
    for link in range(4 * tiles):
        node[HELD + 3 * tiles + link] = known[HELD + 2 * tiles + link]


@called
def _combine(cut: Array, stack: NodeStack, first: Int, segment: bool, limits: Limits) -> None:
    """Replace the children, in the stack's rows from ``first`` on, by their cut in row ``first``.

    As row ``first`` is also that of the first child, every helper reads the children's numbers of a column
    before it writes the cut's. ``segment``: the cut is the whole segment.
    """
    numbers, times, children = stack.numbers, cut[SUBBATCHES], cut[CHILDREN]
    energy = 0.0
    longest, total = 0, 0
    for child in range(first, first + children):
        energy += stack.energy_pj[child]
        longest = max(longest, numbers[child, CYCLES])
        total += numbers[child, CYCLES]
    stack.energy_pj[first] = times * energy
    for tile in range(HELD, HELD + limits.tiles):
        held = HeldColumns(tile, tile + limits.tiles, tile + 2 * limits.tiles)
        # Tile by tile, since what a tile holds depends on nothing that other tiles hold.
        if cut[IN_TIME]:
            _hold_in_time(numbers, first, children, times, segment, held)
        else:
            _hold_in_space(numbers, first, children, times, segment, held)
    _add_up(numbers, first, children, times, HOPS, DRAM + 1)
    _add_up(numbers, first, children, times, HELD + 3 * limits.tiles, HELD + 7 * limits.tiles)
    numbers[first, CYCLES] = times * total if cut[IN_TIME] else cut[ROUNDS] * longest


@inlined
def _add_up(numbers: Array, first: Int, children: Int, times: Int, begin: Int, end: Int) -> None:
    """Columns ``begin`` to before ``end`` of a cut: the sum of its children's, for ``times`` sub-batches."""
    for child in range(first + 1, first + children):
        for column in range(begin, end):
            numbers[first, column] += numbers[child, column]
    for column in range(begin, end):
        numbers[first, column] *= times


@inlined
def _hold_in_time(
    numbers: Array, first: Int, children: Int, times: Int, segment: bool, held: HeldColumns
) -> None:
    """The bytes of one tile of a T cut: the next child's inputs are fetched while a child computes.

    The same as :func:`.buffers.cut_in_time` in one pass. ``shifted``: the segment runs once, so weights are
    fetched like inputs and do not stay. ``now``: what the child before holds; ``ahead``: what the first child
    fetches, which comes again after the last child if there are several sub-batches.
    """
    inputs, weights, busy = held.inputs, held.weights, held.busy
    shifted = segment and times == 1
    ahead = numbers[first, inputs] + (numbers[first, weights] if shifted else 0)
    now: Int = 0
    all_inputs: Int = 0
    all_weights: Int = 0
    most: Int = 0
    for child in range(first, first + children):
        own_weights = numbers[child, weights] if shifted else 0
        if child > first:
            most = max(most, now + numbers[child, inputs] + own_weights)
        now = numbers[child, busy] + own_weights
        all_inputs += numbers[child, inputs]
        all_weights += numbers[child, weights]
    numbers[first, busy] = max(most, now + ahead if times > 1 else now)
    numbers[first, weights] = 0 if shifted else all_weights
    numbers[first, inputs] = 0 if segment else times * all_inputs


@inlined
def _hold_in_space(
    numbers: Array, first: Int, children: Int, times: Int, segment: bool, held: HeldColumns
) -> None:
    """The bytes of one tile of an S cut: the next sub-batch's inputs are fetched during this one.

    The same as :func:`.buffers.cut_in_space`.
    """
    all_inputs: Int = 0
    all_weights: Int = 0
    all_busy: Int = 0
    for child in range(first, first + children):
        all_inputs += numbers[child, held.inputs]
        all_weights += numbers[child, held.weights]
        all_busy += numbers[child, held.busy]
    numbers[first, held.inputs] = 0 if segment else times * all_inputs
    numbers[first, held.weights] = all_weights
    numbers[first, held.busy] = all_busy + all_inputs if times > 1 else all_busy


@called
def _most_held(node: Array, tiles: Int) -> Int:
    """The bytes that the fullest tile holds: inputs fetched ahead, or weights and all else while busy."""
    most: Int = 0
    for tile in range(HELD, HELD + tiles):
        most = max(most, node[tile], node[tile + tiles] + node[tile + 2 * tiles])
    return most


@inlined
def _wait(node: Array, limits: Limits) -> None:
    """Make a segment's cycles at least those that DRAM and its busiest link need."""
    busiest: Int = 0
    for link in range(HELD + 3 * limits.tiles, HELD + 7 * limits.tiles):
        busiest = max(busiest, node[link])
    cycles = max(node[CYCLES], -(-node[DRAM] // limits.dram_bytes_per_cycle))
    node[CYCLES] = max(cycles, -(-busiest // limits.link_bytes_per_cycle))
