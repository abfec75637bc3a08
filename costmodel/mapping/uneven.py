"""Uneven mappings: at one level every tensor may end its tile at a loop of its own.

In a :class:`Mapping` the loops of a level are inside the tiles of all tensors that it keeps. Here each tensor
has its own cut between the loops that its tile covers and those that replace the tile (ZigZag's uneven loop
blocking), and the loops in between are inside some tiles of the level and outside others. A level is then a
row of *parts*, each a block of loops that ends where some of its tensors cut; the part next to the fan-out
has the spatial loops.

Nothing new has to be counted. What one tensor moves depends on the loops and on its own cuts only, and each
tensor meets a part that keeps it as Timeloop's nest analysis meets a level of its own. So an uneven mapping
is counted as an even one on the architecture whose levels are cut into their parts (:func:`split`), of which
only size, bandwidth and leakage are shared: a level's tiles must fit together, its words go over the same
ports, and it leaks once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.mapping.mapping import violations as even_violations
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class UnevenMapping:
    """A nest cut wherever a tensor of a level cuts.

    ``nest`` has one entry a part, INNERMOST FIRST, and ``keep`` names the tensors whose tile ends there.
    ``part_levels`` has for each part the hardware level (its index) that it belongs to: 0, 1, ... in this
    order, each at least once and the outermost once. Raises InputError for others.
    """

    nest: Mapping
    part_levels: tuple[int, ...]

    def __post_init__(self) -> None:
        steps = [outer - inner for inner, outer in zip(self.part_levels, self.part_levels[1:], strict=False)]
        if len(self.part_levels) != len(self.nest.levels) or self.part_levels[:1] != (0,):
            raise InputError(
                "uneven mapping", "a level for every part, from 0", self.part_levels, key="part_levels"
            )
        if not set(steps) <= {0, 1} or steps[-1:] == [0]:
            expected = "levels in their order, none left out, the outermost once"
            raise InputError("uneven mapping", expected, self.part_levels, key="part_levels")

    @property
    def tiles(self) -> tuple[dict[str, int], ...]:
        """Per part, what each dim covers in one instance: all loops at and inside the part."""
        return self.nest.tiles

    @property
    def parts(self) -> tuple[tuple[LevelMapping, ...], ...]:
        """Per hardware level its parts, innermost first."""
        grouped = groupby(zip(self.part_levels, self.nest.levels, strict=True), key=lambda pair: pair[0])
        return tuple(tuple(part for _, part in pairs) for _, pairs in grouped)


AnyMapping = Mapping | UnevenMapping


def as_parts(mapping: AnyMapping) -> UnevenMapping:
    """The mapping as parts; an even one has one a level."""
    if isinstance(mapping, UnevenMapping):
        return mapping
    return UnevenMapping(mapping, tuple(range(len(mapping.levels))))


def simplest(mapping: UnevenMapping) -> AnyMapping:
    """The same mapping without parts that add no loops; even if that leaves one part a level."""
    levels: list[tuple[LevelMapping, ...]] = []
    for parts in mapping.parts:
        kept = [parts[0]]
        for part in parts[1:]:
            if part.temporal:
                kept.append(part)
            else:
                kept[-1] = replace(kept[-1], keep=kept[-1].keep | part.keep)
        levels.append(tuple(kept))
    nest = Mapping(tuple(part for parts in levels for part in parts))
    part_levels = tuple(level for level, parts in enumerate(levels) for _ in parts)
    return nest if len(part_levels) == len(levels) else UnevenMapping(nest, part_levels)


@lru_cache(maxsize=256)
def split(architecture: Architecture, part_levels: tuple[int, ...]) -> Architecture:
    """The architecture whose levels are the parts of an uneven mapping, innermost first.

    Each has the numbers of its hardware level, but only a level's first part has the fan-out and leaks.
    """
    levels = []
    for index, level in enumerate(part_levels):
        number = index - part_levels.index(level)
        levels.append(_part(architecture.levels[level], number) if number else architecture.levels[level])
    return replace(architecture, levels=tuple(levels))


def _part(level: StorageLevel, number: int) -> StorageLevel:
    name = f"{level.name} part {number + 1}"
    return replace(level, name=name, fanout_x=1, fanout_y=1, leakage_pj_per_cycle=0.0)


def violations(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> list[str]:
    """As :func:`costmodel.mapping.mapping.violations`, for both kinds of mappings.

    An uneven one must be an even one of the :func:`split` architecture, keep each tensor once a level, and
    the tiles of all parts of a level must fit together.
    """
    if isinstance(mapping, Mapping):
        return even_violations(architecture, layer, mapping)
    if mapping.part_levels[-1] != len(architecture.levels) - 1:
        count = mapping.part_levels[-1] + 1
        return [f"parts of {count} levels, {architecture.name} has {len(architecture.levels)}"]
    reasons = even_violations(split(architecture, mapping.part_levels), layer, mapping.nest)
    return reasons or [*_shared(architecture, layer, mapping)]


def _shared(architecture: Architecture, layer: Layer, mapping: UnevenMapping) -> Iterator[str]:
    """What parts that are right one by one do wrong together."""
    held: list[dict[str, int]] = [{} for _ in architecture.levels]
    for level, part, tile in zip(mapping.part_levels, mapping.nest.levels, mapping.tiles, strict=True):
        for tensor in layer.tensors:
            if tensor.name in part.keep:
                if tensor.name in held[level]:
                    yield f"{architecture.levels[level].name}: keeps {tensor.name} in two parts"
                held[level][tensor.name] = tensor.words(tile)
    for hardware, words in zip(architecture.levels, held, strict=True):
        if sum(words.values()) > hardware.usable_words:
            parts = ", ".join(f"{name} {count}" for name, count in words.items())
            yield (
                f"{hardware.name}: tiles need {sum(words.values())} words ({parts}), "
                f"{hardware.usable_words:.0f} are usable"
            )
