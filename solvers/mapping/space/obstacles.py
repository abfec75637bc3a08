"""Why a problem has no mapping: a constraint or capacity that provably cannot be met, with its numbers.

Each check is a generator of reasons, sentences for the user; a problem without reasons can still be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.precision import Precision
from costmodel.mapping.element_bits import tile_bits
from costmodel.workload.network import Layer
from solvers.divisors import divisors
from solvers.mapping.space.rules import LevelRules
from solvers.mapping.space.space import MappingSpace, Slot


def obstacle(space: MappingSpace) -> str:
    """The first reason found why ``space`` is empty, or an empty string, which proves nothing."""
    asked = (_factored, _spread, _stored) if space.rules.levels else ()
    for check in (_kept, *asked):  # without constraints all loops can stand at the outermost level
        if reason := next(check(space), ""):
            return reason
    return ""


def _kept(space: MappingSpace) -> Iterator[str]:
    """Levels that cannot even hold tiles of one word of what they must keep."""
    for level, rules, masks in zip(
        space.architecture.levels, space.level_rules, space.keep_sets, strict=True
    ):
        if masks:
            continue
        able = [t for t in space.layer.tensors if level.can_keep(t) and rules.may_keep(t)]
        must = able if space.rules.keep == "all" else [t for t in able if rules.must_keep(t)]
        yield (
            f"{level.name}: tiles of one word each of {', '.join(t.name for t in must)} "
            f"need {len(must)} words, {level.usable_words:.0f} are usable"
            if space.architecture.precision is None
            else f"{level.name}: an element each of {', '.join(t.name for t in must)} "
            f"does not fit {level.usable_words * level.word_bits:.0f} bits"
        )


def _factored(space: MappingSpace) -> Iterator[str]:
    """Dims whose size is no product of factors within the bounds."""
    for index, (dim, size) in enumerate(space.layer.dims):
        for level, rules in zip(space.architecture.levels, space.level_rules, strict=True):
            if level.fanout == 1 and (least := rules.spatial_rule(dim).least) > 1:
                yield f"{level.name}: spatial factor {dim} >= {least} asked, there is no fan-out"
        for slot in space.slots:
            if not any(_fits(slot, index, divisor) for divisor in divisors(size)):
                yield _no_factor(space, slot, index)
        if not _covered(space, index)[-1]:
            blocks = [_block(space, slot, index) for slot in space.slots if _is_bounded(slot, index, size)]
            yield f"{dim}={size} is no product of factors within {'; '.join(blocks)}"


def _no_factor(space: MappingSpace, slot: Slot, index: int) -> str:
    """The reason why a slot can have no factor of the dim with this index."""
    dim, size = space.layer.dims[index]
    least, most = slot.least[index], slot.most[index]
    level = space.architecture.levels[slot.level]
    kind = "spatial" if slot.spatial else "temporal"
    if least > most:
        fanout = f"its fan-out is {level.fanout_x} x {level.fanout_y}"
        allowed = f", {most} at most on the sides allowed" if most < level.fanout else ""
        return f"{level.name}: {kind} factor {dim} >= {least} asked, {fanout}{allowed}"
    bounds = f"= {least}" if least == most else f"from {least} to {most}"
    return f"{level.name}: no {kind} factor {dim} {bounds} divides {dim}={size}"


def _block(space: MappingSpace, slot: Slot, index: int) -> str:
    """The bounds on a dim's factor in one slot, in words."""
    name = space.architecture.levels[slot.level].name
    kind = "spatial" if slot.spatial else "temporal"
    return f"{name} {kind} {slot.least[index]} to {slot.most[index]}"


def _is_bounded(slot: Slot, index: int, size: int) -> bool:
    return slot.least[index] > 1 or slot.most[index] < size


def _fits(slot: Slot, index: int, factor: int) -> bool:
    return slot.least[index] <= factor <= slot.most[index]


def _covered(space: MappingSpace, index: int) -> list[set[int]]:
    """For each slot (inside out) the points of a dim that it and those inside can cover together, as far as
    the slots outside can cover the rest of the size.

    First from the inside out, all products of allowed factors; then from the outside in, only those of them
    that some allowed factor of the next slot turns into one that is kept there. Empty sets: no way at all.
    """
    size = space.layer.dims[index][1]
    inside: list[set[int]] = []
    reached = {1}
    for slot in space.slots:
        reached = {
            covered * factor
            for covered in reached
            for factor in divisors(size // covered)
            if _fits(slot, index, factor)
        }
        inside.append(reached)
    kept = [{size} & inside[-1]]
    for slot, reached in zip(space.slots[:0:-1], inside[-2::-1], strict=True):
        outer = kept[0]
        kept.insert(
            0,
            {
                covered
                for covered in reached
                if any(whole % covered == 0 and _fits(slot, index, whole // covered) for whole in outer)
            },
        )
    return kept


def _spread(space: MappingSpace) -> Iterator[str]:
    """Levels whose fan-out cannot take the least spatial factors that the constraints demand."""
    for slot in space.slots:
        level, rules = space.architecture.levels[slot.level], space.level_rules[slot.level]
        asked = {
            dim: min(factor for factor in divisors(size) if _fits(slot, index, factor))
            for index, (dim, size) in enumerate(space.layer.dims)
            if slot.spatial
        }
        asked = {dim: factor for dim, factor in asked.items() if factor > 1}
        if asked and not _some_sides_fit(rules, asked, level.fanout_x, level.fanout_y):
            factors = ", ".join(f"{dim} {factor}" for dim, factor in asked.items())
            yield (
                f"{level.name}: spatial factors of at least {factors} are asked, "
                f"which do not fit the fan-out of {level.fanout_x} x {level.fanout_y} on the sides allowed"
            )


def _some_sides_fit(rules: LevelRules, asked: dict[str, int], fanout_x: int, fanout_y: int) -> bool:
    for sides in product("xy", repeat=len(asked)):
        placed = [*zip(asked.items(), sides, strict=True)]
        allowed = all(rules.allows_side(dim, "x" if side == "x" else "y") for (dim, _), side in placed)
        x, y = (prod(f for (_, f), side in placed if side == which) for which in "xy")
        if allowed and x <= fanout_x and y <= fanout_y:
            return True
    return False


def _stored(space: MappingSpace) -> Iterator[str]:
    """Levels that cannot hold even the smallest tiles that the constraints leave, whichever of the allowed
    sets of tensors they keep."""
    layer = space.layer
    covered = [_covered(space, index) for index in range(len(layer.dims))]
    for number, slot in enumerate(space.slots):
        level = space.architecture.levels[slot.level]
        tile = {dim: min(covered[index][number]) for index, (dim, _) in enumerate(layer.dims)}
        words: list[dict[str, float]] = [
            {**_words(layer, mask, tile)} for mask in space.keep_sets[slot.level]
        ]
        if (precision := space.architecture.precision) is not None:
            # in words of the level, the last one perhaps in part: at most what the tiles take
            words = [
                {name: _in_words(precision, layer, tile, name, level) for name in sizes} for sizes in words
            ]
        least = min(words, key=lambda parts: sum(parts.values()))
        if sum(least.values()) > level.usable_words:
            parts = ", ".join(f"{name} {count:.15g}" for name, count in least.items())
            dims = " ".join(f"{dim}{size}" for dim, size in tile.items() if size > 1)
            yield (
                f"{level.name}: the constraints make tiles of at least {dims}, that is "
                f"{sum(least.values()):.15g} words ({parts}), {level.usable_words:.0f} are usable"
            )


def _in_words(
    precision: Precision, layer: Layer, tile: dict[str, int], name: str, level: StorageLevel
) -> float:
    """Words of the level that a tensor's tile takes, at least, where elements have widths of their own."""
    return float(tile_bits(precision, layer, tile, layer.tensor(name)) / level.word_bits)


def _words(layer: Layer, mask: int, tile: dict[str, int]) -> dict[str, int]:
    """Words of the tile of each tensor in ``mask``, by the tensors' names."""
    return {
        tensor.name: tensor.words(tile) for number, tensor in enumerate(layer.tensors) if mask >> number & 1
    }
