"""Greedy packings: each buffer at the lowest free address, or always the buffer that can stand lowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from solvers.budget import InTime, always_in_time
from solvers.scratchpad.packing.problem import Addresses, Buffer

ORDERS: tuple[Callable[[Buffer], tuple[float, ...]], ...] = (
    lambda buffer: (-buffer.size, buffer.start),
    lambda buffer: (-buffer.size * (buffer.end - buffer.start), buffer.start),
    lambda buffer: (buffer.start - buffer.end, -buffer.size),
    lambda buffer: (buffer.start, -buffer.size),
)
"""Large, large and long, long, or early buffers first."""


def lowest_addresses(ordered: Sequence[Buffer]) -> tuple[Addresses, int]:
    """Addresses of the buffers, placed in that order, and how far up they reach."""
    neighbours = _neighbours(ordered)
    found: list[int] = []
    for index, buffer in enumerate(ordered):
        taken = sorted(
            (found[other], found[other] + ordered[other].size) for other in neighbours[index] if other < index
        )
        address = 0
        for bottom, top in taken:
            if bottom - address >= buffer.size:
                break
            address = max(address, -(-top // buffer.alignment) * buffer.alignment)
        found.append(address)
    height = max((address + buffer.size for buffer, address in zip(ordered, found, strict=True)), default=0)
    return {buffer.name: address for buffer, address in zip(ordered, found, strict=True)}, height


def from_the_ground(ordered: Sequence[Buffer]) -> tuple[Addresses, int]:
    """Addresses without gaps below: the next buffer is always the one that can stand lowest on those placed.

    Of several, the first in ``ordered``. This is the first descent of the complete search, with alignments.
    """
    neighbours = _neighbours(ordered)
    least = [0] * len(ordered)
    waiting = [(0, index) for index in range(len(ordered))]
    addresses: Addresses = {}
    height = 0
    while waiting:
        address, index = heappop(waiting)
        if address < least[index]:  # lifted since this entry was made
            heappush(waiting, (least[index], index))
            continue
        addresses[ordered[index].name] = address
        top = address + ordered[index].size
        height = max(height, top)
        for other in neighbours[index]:
            if least[other] < top:
                least[other] = -(-top // ordered[other].alignment) * ordered[other].alignment
    return addresses, height


def _neighbours(buffers: Sequence[Buffer]) -> list[list[int]]:
    """Per buffer those that are alive with it."""
    found: list[list[int]] = [[] for _ in buffers]
    alive: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda one: buffers[one].start):
        alive = [other for other in alive if buffers[other].end > buffers[index].start]
        for other in alive:
            found[other].append(index)
        found[index] += alive
        alive.append(index)
    return found


def greedy_packing(
    buffers: Sequence[Buffer], enough: int = 0, in_time: InTime = always_in_time
) -> tuple[Addresses, int]:
    """The lowest of the packings in the orders of :data:`ORDERS`, and its height.

    The first that is no higher than ``enough`` ends the search for it; so does the end of the time, but not
    before there is one.
    """
    best: tuple[Addresses, int] | None = None
    for pack in (lowest_addresses, from_the_ground):
        for order in ORDERS:
            packing = pack(sorted(buffers, key=order))
            if best is None or packing[1] < best[1]:
                best = packing
            if best[1] <= enough or not in_time():
                return best
    assert best is not None
    return best
