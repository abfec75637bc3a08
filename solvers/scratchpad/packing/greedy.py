"""Placing buffers one by one, each at the lowest place that its lifetime leaves free."""

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


def greedy_packing(buffers: Sequence[Buffer]) -> tuple[Addresses, int]:
    """The lowest of the packings in the orders of :data:`ORDERS`, and its height."""
    packings = (lowest_places(sorted(buffers, key=order)) for order in ORDERS)
    return min(packings, key=lambda packing: packing[1])
