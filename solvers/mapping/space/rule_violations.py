"""Whether a mapping obeys the rules of its space; independent of every solver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import LevelMapping, Loop
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.workload.network import Layer
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules, allowed_keeps, most_parts


def rule_violations(
    rules: SpaceRules, architecture: Architecture, layer: Layer, mapping: AnyMapping
) -> Iterator[str]:
    """Every rule that a mapping of ``layer`` (of its padded sizes) breaks."""
    mapped: dict[str, LevelMapping] = {}
    for hardware, parts in zip(architecture.levels, as_parts(mapping).parts, strict=True):
        level = mapped[hardware.name] = _together(parts)
        if hardware is architecture.levels[-1]:
            break
        if level.keep not in allowed_keeps(rules, hardware, layer, architecture.precision):
            yield f"{hardware.name}: keeps {_named(level.keep)}, which is no set that '{rules.keep}' allows"
        if len(parts) > (most := most_parts(rules, architecture, layer, hardware)):
            yield f"{hardware.name}: tiles end at {len(parts)} different loops, {most} allowed"
    for asked in rules.levels:
        yield from _of_level(asked, mapped[asked.level])


def _together(parts: tuple[LevelMapping, ...]) -> LevelMapping:
    """The loops of all parts of a level, and all that they keep."""
    temporal = tuple(loop for part in parts for loop in part.temporal)
    keep = frozenset(name for part in parts for name in part.keep)
    return LevelMapping(temporal, parts[0].spatial_x, parts[0].spatial_y, keep)


def _of_level(asked: LevelRules, level: LevelMapping) -> Iterator[str]:
    yield from _factors(asked.level, "temporal", asked.temporal, level.temporal)
    yield from _factors(asked.level, "spatial", asked.spatial, level.spatial)
    yield from _side(asked, "x", level.spatial_x)
    yield from _side(asked, "y", level.spatial_y)
    yield from _order(asked, [dim for dim, _ in level.temporal])


def _factors(level: str, kind: str, rules: tuple[FactorRule, ...], loops: tuple[Loop, ...]) -> Iterator[str]:
    bounds = dict(loops)
    for rule in rules:
        if not rule.allows(bounds.get(rule.dim, 1)):
            yield f"{level}: {kind} factor {rule.dim}={bounds.get(rule.dim, 1)}, the constraint is {rule}"


def _side(asked: LevelRules, side: Literal["x", "y"], loops: tuple[Loop, ...]) -> Iterator[str]:
    for dim, _ in loops:
        if not asked.allows_side(dim, side):
            yield f"{asked.level}: {dim} is spread on {side.upper()}, the constraint does not allow it there"


def _order(asked: LevelRules, dims: list[str]) -> Iterator[str]:
    inner = [dim for dim in asked.innermost if dim in dims]
    if dims[: len(inner)] != inner:
        yield f"{asked.level}: loops {_named(dims)} (innermost first), asked innermost are {_named(inner)}"
    outer = [dim for dim in asked.outermost if dim in dims]
    if dims[::-1][: len(outer)] != outer:
        yield f"{asked.level}: loops {_named(dims)} (innermost first), asked outermost are {_named(outer)}"


def _named(names: object) -> str:
    listed = sorted(names) if isinstance(names, frozenset) else list(names)  # type: ignore[call-overload]
    return ", ".join(listed) if listed else "nothing"
