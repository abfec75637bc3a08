"""Placing buffers one by one: each at the lowest place left free, or always the one that can stand lowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    waiting = dict.fromkeys(range(len(ordered)), 0)
    addresses: Addresses = {}
    height = 0
    while waiting:
        index = min(waiting, key=waiting.__getitem__)
        address, placed = waiting.pop(index), ordered[index]
        addresses[placed.name] = address
        top = address + placed.size
        height = max(height, top)
        for other, place in waiting.items():
            buffer = ordered[other]
            if place < top and buffer.start < placed.end and placed.start < buffer.end:
                waiting[other] = -(-top // buffer.alignment) * buffer.alignment
    return addresses, height


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
