"""The allocation problem: buffers with fixed lifetimes, to be placed without overlap in a capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.errors import InputError

Addresses = dict[str, int]
"""Where every buffer starts, by name."""


@dataclass(frozen=True)
class Buffer:
    """``size`` units of memory in use at steps ``start`` <= t < ``end``, at a multiple
    of ``alignment``.
    """

    name: str
    start: int
    end: int
    size: int
    alignment: int = 1

    def __post_init__(self) -> None:
        where = f"buffer {self.name}"
        if self.end <= self.start:
            raise InputError(where, f"an end after its start {self.start}", self.end, key="end")
        if self.size < 0:
            raise InputError(where, "a size of at least 0", self.size, key="size")
        if self.alignment < 1:
            raise InputError(where, "an alignment of at least 1", self.alignment, key="alignment")


@dataclass(frozen=True)
class PackingProblem:
    """Give all ``buffers``, whose names differ, addresses from 0 up to, not including, ``capacity``."""

    buffers: tuple[Buffer, ...]
    capacity: int

    def __post_init__(self) -> None:
        if self.capacity < 0:
            raise InputError("packing", "a capacity of at least 0", self.capacity, key="capacity")
        counts = Counter(buffer.name for buffer in self.buffers)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise InputError("packing", "every buffer once", twice[0], key="buffers")


def violations(problem: PackingProblem, addresses: Mapping[str, int]) -> list[str]:
    """Why ``addresses`` are not an answer to ``problem``: looks at every pair of buffers."""
    reasons = []
    known = {buffer.name for buffer in problem.buffers}
    reasons += [f"{name} is no buffer of the problem" for name in addresses.keys() - known]
    reasons += [f"{name} has no address" for name in sorted(known - addresses.keys())]
    placed = [(buffer, addresses[buffer.name]) for buffer in problem.buffers if buffer.name in addresses]
    for buffer, address in placed:
        if address < 0 or address + buffer.size > problem.capacity:
            reasons.append(
                f"{buffer.name}: {address} .. {address + buffer.size} is outside 0 .. {problem.capacity}"
            )
        if address % buffer.alignment:
            reasons.append(f"{buffer.name}: {address} is no multiple of {buffer.alignment}")
    placed.sort(key=lambda pair: pair[0].start)
    for number, (buffer, address) in enumerate(placed):
        for other, there in placed[number + 1 :]:
            if other.start >= buffer.end:
                break
            if address < there + other.size and there < address + buffer.size:
                reasons.append(f"{buffer.name} and {other.name} overlap")
    return reasons
