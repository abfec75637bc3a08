"""Placing buffers one by one: each at the lowest place left free, or always the one that can stand lowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from solvers.scratchpad.packing.problem import Addresses, Buffer

ORDERS: tuple[Callable[[Buffer], tuple[float, ...]], ...] = (
    lambda buffer: (-buffer.size, buffer.start),
    lambda buffer: (-buffer.size * (buffer.end - buffer.start), buffer.start),
    lambda buffer: (buffer.start - buffer.end, -buffer.size),
    lambda buffer: (buffer.start, -buffer.size),
)
"""Large, large and long, long, or early buffers first."""


def lowest_places(ordered: Sequence[Buffer]) -> tuple[Addresses, int]:
    """Addresses of the buffers, placed in that order, and how far up they reach."""
    placed: list[tuple[Buffer, int]] = []
    for buffer in ordered:
        neighbours = sorted(
            (address, address + other.size)
            for other, address in placed
            if other.start < buffer.end and buffer.start < other.end
        )
        address = 0
        for bottom, top in neighbours:
            if bottom - address >= buffer.size:
                break
            address = max(address, -(-top // buffer.alignment) * buffer.alignment)
        placed.append((buffer, address))
    height = max((address + buffer.size for buffer, address in placed), default=0)
    return {buffer.name: address for buffer, address in placed}, height


def from_the_ground(ordered: Sequence[Buffer]) -> tuple[Addresses, int]:
    """Addresses without gaps below: always the buffer that can stand lowest on those placed is next.

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


def greedy_packing(buffers: Sequence[Buffer], enough: int = 0) -> tuple[Addresses, int]:
    """The lowest of the packings in the orders of :data:`ORDERS`, and its height.

    The first that is no higher than ``enough`` ends the search for it.
    """
    best: tuple[Addresses, int] | None = None
    for place in (lowest_places, from_the_ground):
        for order in ORDERS:
            packing = place(sorted(buffers, key=order))
            if best is None or packing[1] < best[1]:
                best = packing
            if best[1] <= enough:
                return best
    assert best is not None
    return best
