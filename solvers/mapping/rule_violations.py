"""Whether a mapping obeys the rules of its space; independent of every solver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from costmodel.architecture import Architecture
from costmodel.mapping import LevelMapping, Loop, Mapping
from costmodel.workload import Layer
from solvers.mapping.rules import FactorRule, LevelRules, SpaceRules, allowed_keeps


def rule_violations(
    rules: SpaceRules, architecture: Architecture, layer: Layer, mapping: Mapping
) -> Iterator[str]:
    """Every rule that a mapping of ``layer`` (of its padded sizes) breaks."""
    for hardware, level in zip(architecture.levels[:-1], mapping.levels, strict=False):
        if level.keep not in allowed_keeps(rules, hardware, layer):
            yield f"{hardware.name}: keeps {_named(level.keep)}, which is no set that '{rules.keep}' allows"
    mapped = dict(zip((level.name for level in architecture.levels), mapping.levels, strict=True))
    for asked in rules.levels:
        yield from _of_level(asked, mapped[asked.level])


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
