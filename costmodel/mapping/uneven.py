"""Uneven mappings: at one level every tensor may end its tile at a loop of its own.

In a :class:`Mapping` the tiles of all tensors that a level keeps cover the same loops: all loops at and
inside the level. In an uneven mapping each tensor has a *cut* of its own: its tile covers the loops inside
the cut, and the loops outside replace it (ZigZag's uneven loop blocking). The cuts divide the loops of a
level into *parts*, each a block of loops that ends where some of the tensors cut. With W cut after one loop
and I after three::

    inner levels | k4   c2   q8 | outer levels
    tile of W    ----]
    tile of I    --------------]
    parts        | 1 |    2    |

The innermost part also has the level's spatial loops.

Nothing new has to be counted. What a tensor moves depends only on the loops and on its own cuts, and to one
tensor a part that keeps it is the same as a level. So an uneven mapping is counted as an even one on the
architecture that has a level for each part (:func:`split`). Only three things are of the level as a whole:
its tiles must fit its capacity together, its words go over the same ports, and it leaks once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.timing import Layouts
from costmodel.mapping.element_bits import held_units, open_sums, units_of
from costmodel.mapping.mapping import LevelMapping, Mapping, overfull
from costmodel.mapping.mapping import violations as even_violations
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class UnevenMapping:
    """A mapping with one block of loops for every part of every level.

    ``nest`` has one entry a part, INNERMOST FIRST, whose ``keep`` names the tensors whose tile ends there.
    ``part_levels`` has for each part the index of its hardware level: ascending from 0, none left out, the
    outermost level once. Raises InputError for others.
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
    def layouts(self) -> Layouts:
        """How tensors lie in memory, as of an even mapping."""
        return self.nest.layouts

    @property
    def parts(self) -> tuple[tuple[LevelMapping, ...], ...]:
        """Per hardware level its parts, innermost first."""
        grouped = groupby(zip(self.part_levels, self.nest.levels, strict=True), key=lambda pair: pair[0])
        return tuple(tuple(part for _, part in pairs) for _, pairs in grouped)


AnyMapping = Mapping | UnevenMapping


def with_layouts(mapping: AnyMapping, layouts: Layouts) -> AnyMapping:
    """The same loops over tensors in other layouts."""
    if isinstance(mapping, UnevenMapping):
        return replace(mapping, nest=replace(mapping.nest, layouts=layouts))
    return replace(mapping, layouts=layouts)


def as_parts(mapping: AnyMapping) -> UnevenMapping:
    """The mapping as parts; an even one has one part for each level."""
    if isinstance(mapping, UnevenMapping):
        return mapping
    return UnevenMapping(mapping, tuple(range(len(mapping.levels))))


def simplest(mapping: UnevenMapping) -> AnyMapping:
    """The same mapping without parts that have no temporal loops; an even one if each level has one part
    left.

    The tensors of a part that is left out end their tiles at the part inside it.
    """
    levels: list[tuple[LevelMapping, ...]] = []
    for parts in mapping.parts:
        kept = [parts[0]]
        for part in parts[1:]:
            if part.temporal:
                kept.append(part)
            else:
                kept[-1] = replace(kept[-1], keep=kept[-1].keep | part.keep)
        levels.append(tuple(kept))
    nest = replace(mapping.nest, levels=tuple(part for parts in levels for part in parts))
    part_levels = tuple(level for level, parts in enumerate(levels) for _ in parts)
    return nest if len(part_levels) == len(levels) else UnevenMapping(nest, part_levels)


# a search evaluates thousands of mappings whose levels are cut into the same parts
@lru_cache(maxsize=256)
def split(architecture: Architecture, part_levels: tuple[int, ...]) -> Architecture:
    """The architecture whose levels are the parts of an uneven mapping, innermost first.

    Each part has all numbers of its hardware level, but only the innermost part of a level has its fan-out
    and leakage.
    """
    levels = []
    for index, level in enumerate(part_levels):
        number = index - part_levels.index(level)
        levels.append(_part(architecture.levels[level], number) if number else architecture.levels[level])
    return replace(architecture, levels=tuple(levels))


def _part(level: StorageLevel, number: int) -> StorageLevel:
    # a level leaks and fans out once, into however many parts it is cut
    name = f"{level.name} part {number + 1}"
    return replace(level, name=name, fanout_x=1, fanout_y=1, leakage_pj_per_cycle=0.0)


def violations(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> list[str]:
    """As :func:`costmodel.mapping.mapping.violations`, for even and uneven mappings.

    The nest of an uneven mapping must be right on the :func:`split` architecture. Besides, a level must keep
    each tensor in one part only, and the tiles of all its parts must fit together.
    """
    if isinstance(mapping, Mapping):
        return even_violations(architecture, layer, mapping)
    if mapping.part_levels[-1] != len(architecture.levels) - 1:
        count = mapping.part_levels[-1] + 1
        return [f"parts of {count} levels, {architecture.name} has {len(architecture.levels)}"]
    reasons = even_violations(split(architecture, mapping.part_levels), layer, mapping.nest)
    return reasons or [*_shared(architecture, layer, mapping)]


def _shared(architecture: Architecture, layer: Layer, mapping: UnevenMapping) -> Iterator[str]:
    """Violations of levels as a whole, whose parts are right one by one: a tensor kept twice, tiles that do
    not fit together."""
    held: list[dict[str, int]] = [{} for _ in architecture.levels]
    units = units_of(architecture, layer)
    sums = open_sums(layer, mapping.nest.levels) if units else ()
    for number, (level, part) in enumerate(zip(mapping.part_levels, mapping.nest.levels, strict=True)):
        for tensor in layer.tensors:
            if tensor.name in part.keep:
                if tensor.name in held[level]:
                    yield f"{architecture.levels[level].name}: keeps {tensor.name} in two parts"
                each = held_units(layer, tensor, units[level], sums[number]) if units else 1
                held[level][tensor.name] = tensor.words(mapping.tiles[number]) * each
    for index, (hardware, taken) in enumerate(zip(architecture.levels, held, strict=True)):
        if reason := overfull(hardware, taken, units[index] if units else None):
            yield reason
