"""A linear arena, as in TensorFlow Lite: a block goes into the smallest gap that holds it and stays there."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Hole(NamedTuple):
    """Free bytes [start, end) that evicting ``victims`` would make (none: they are free now)."""

    start: int
    end: int
    victims: tuple[str, ...]


@dataclass
class Arena:
    """Blocks by name: (address, size), within ``capacity`` bytes."""

    capacity: int
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def allocate(self, name: str, size: int) -> int | None:
        """The address of a new block in the smallest gap that holds it, or None without one."""
        gaps = [hole for hole in self.holes({}) if hole.end - hole.start >= size]
        if not gaps:
            return None
        address = min(gaps, key=lambda hole: hole.end - hole.start).start
        self.blocks[name] = address, size
        return address

    def free(self, name: str) -> None:
        """Take a block out."""
        del self.blocks[name]

    def holes(self, evictable: Container[str]) -> Iterator[Hole]:
        """Every free gap, and every gap that evicting neighbouring ``evictable`` blocks would make."""
        placed = sorted((address, address + size, name) for name, (address, size) in self.blocks.items())
        edges = [(0, 0, ""), *placed, (self.capacity, self.capacity, "")]
        for before in range(len(edges) - 1):
            victims: list[str] = []
            for after in range(before + 1, len(edges)):
                yield Hole(edges[before][1], edges[after][0], tuple(victims))
                if edges[after][2] not in evictable:
                    break
                victims.append(edges[after][2])
