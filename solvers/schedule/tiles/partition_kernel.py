"""Two loops over partitions, compiled: the fewest slices that fit, and rankings that take turns.

Before anything is mapped, a schedule's search asks for layers in hundreds of batches on so many tiles, each
time for a few dozen partitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class FittingBits(NamedTuple):
    """Bits of a buffer that a part may take: ``of_all``, and the slices ``of_slices`` that are there at once,
    where the output channels can be cut so often.
    """

    of_all: int
    of_slices: int


@entry
def fewest_slices(
    parts: Array,
    sizes: tuple[int, int, int, int],
    inputs: Array,
    of_channel: Int,
    room: FittingBits,
    runs: Int,
    slices: Array,
    used: Array,
) -> None:
    """Fill ``slices`` [n] and ``used`` [n] for the partitions ``parts`` [n, 4] of outputs of these sizes.

    ``inputs`` [n]: bits that the largest part reads; ``of_channel``: bits of the weights of an output
    channel. ``slices`` is 0 for a partition that does not fit in any number of slices.
    ``used``: the layer's size, divided by that of as many of its largest slices as there are.

    A run of several slices holds two, as the next one arrives. With the inputs of the next of several
    ``runs`` its first slice arrives, too.
    """
    channels = sizes[0]
    for row in range(parts.shape[0]):
        slices[row], used[row] = 0, 0.0
        cut = parts[row, 0]
        if cut > channels:
            continue
        count: Int = 1
        of_slices = runs * of_channel * -(-channels // cut)
        held = runs * inputs[row] + of_slices
        while (held > room.of_all or of_slices > room.of_slices) and 2 * count * cut <= channels:
            count *= 2
            of_slices = (1 + runs) * of_channel * -(-channels // (count * cut))
            held = runs * inputs[row] + of_slices
        if held > room.of_all:
            continue
        slices[row] = count
        others = 1.0
        for axis in range(1, 4):
            size, part = sizes[axis], parts[row, axis]
            others *= size / (-(-size // part) * part)
        used[row] = channels / (-(-channels // (count * cut)) * count * cut) * others


@entry
def take_turns(keys: Array, last: Array, order: Array) -> Int:
    """Fill ``order`` [m] with the rows that several rankings name first, and return how many there are.

    ``keys`` [rankings, 2, n]: rows rank by the first number, equal ones by the second, and then as they
    stand. Rankings take turns in naming their next best; a row counts where it is named first. ``last``
    [rankings]: workspace, the row that each ranking named last.
    """
    count: Int = 0
    last[:] = -1
    for _ in range(keys.shape[2]):
        for ranking in range(keys.shape[0]):
            row = next_best(keys[ranking], last[ranking])
            last[ranking] = row
            known = False
            for number in range(count):
                known = known or order[number] == row
            if not known:
                order[count] = row
                count += 1
            if count == order.shape[0]:
                return count
    return count


@inlined
def next_best(keys: Array, last: Int) -> Int:
    """The best row behind ``last``; -1 stands before all."""
    best: Int = -1
    for row in range(keys.shape[1]):
        behind = last < 0 or is_better(keys, last, row)
        if behind and (best < 0 or is_better(keys, row, best)):
            best = row
    return best


@inlined
def is_better(keys: Array, one: Int, other: Int) -> Any:
    """Whether a row ranks before another one."""
    for key in range(2):
        if keys[key, one] != keys[key, other]:
            return keys[key, one] < keys[key, other]
    return one < other
