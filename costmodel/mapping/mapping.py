"""Mappings: how one layer is tiled, ordered, spread and kept over the levels of one architecture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import get_args

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.timing import Layouts
from costmodel.mapping.element_bits import LevelUnits, held_units, open_sums, units_of
from costmodel.workload.network import Layer, Role

Loop = tuple[str, int]
"""A loop of a nest: (dim, bound); bounds of 1 are never written."""


@dataclass(frozen=True)
class LevelMapping:
    """One storage level's part of the nest.

    ``temporal`` loops, INNERMOST FIRST, step through tiles of the next inner level. Inside them,
    ``spatial_x`` and ``spatial_y`` put such tiles side by side on the instances of the fan-out below this
    level. A dim stands at most once in ``temporal`` and at most once in the spatial loops, on X or on Y.
    ``keep`` names the tensors that live here; all others bypass the level.
    """

    temporal: tuple[Loop, ...]
    spatial_x: tuple[Loop, ...]
    spatial_y: tuple[Loop, ...]
    keep: frozenset[str]

    @property
    def spatial(self) -> tuple[Loop, ...]:
        """The loops over both sides of the fan-out, those on X first."""
        return self.spatial_x + self.spatial_y

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops of the level, innermost first."""
        return self.spatial + self.temporal


@dataclass(frozen=True)
class Mapping:
    """The whole nest: ``levels`` INNERMOST FIRST, as in :class:`Architecture`.

    ``layouts``: (role, layout) of each tensor whose layout in memory is not the one in the machine's file,
    in the order of ``Role``. It has to be one of the file's ``timing.permitted_layouts``. Layouts change
    timed cycles only.
    """

    levels: tuple[LevelMapping, ...]
    layouts: Layouts = ()

    @cached_property
    def tiles(self) -> tuple[dict[str, int], ...]:
        """Per level, what each dim covers in one instance: all loops at and inside the level."""
        covered: dict[str, int] = {}
        tiles = []
        for level in self.levels:
            for dim, bound in level.loops:
                covered[dim] = covered.get(dim, 1) * bound
            tiles.append(dict(covered))
        return tuple(tiles)

    @cached_property
    def utilized_instances(self) -> tuple[int, ...]:
        """Per level, instances in use: the product of all spatial bounds outside it."""
        return tuple(
            prod(bound for outer in self.levels[i + 1 :] for _, bound in outer.spatial)
            for i in range(len(self.levels))
        )


def loops(factors: Iterable[Loop]) -> tuple[Loop, ...]:
    """The loops worth writing: those with a bound other than 1."""
    return tuple((dim, bound) for dim, bound in factors if bound != 1)


def violations(architecture: Architecture, layer: Layer, mapping: Mapping) -> list[str]:
    """The reasons why ``mapping`` is not a mapping of ``layer`` on ``architecture``; empty if it is one.

    First its form is checked, and a wrong form hides all other reasons. There has to be one level mapping for
    each storage level. Loops are over dims of the layer with whole bounds of at least 2; a dim stands at most
    once in a level's temporal loops and once in its spatial ones. A level keeps only tensors that it can
    keep, and the outermost one keeps all.

    Then its numbers: factors multiply exactly to the layer's sizes, spatial factors fit the X and the Y
    fan-out, kept tiles fit the usable size (in words, or in bits where the architecture has a precision), and
    the machine permits the layouts.
    """
    # The checks build on each other: the sums below go through levels and dims by name and number, so a
    # mapping of another form is refused before anything of it is multiplied.
    if len(mapping.levels) != len(architecture.levels):
        return [f"{len(mapping.levels)} levels mapped, {architecture.name} has {len(architecture.levels)}"]
    reasons = [*_form(architecture, layer, mapping)]
    if reasons:
        return reasons
    return [
        *_products(layer, mapping),
        *_fanouts(architecture, mapping),
        *_capacity(architecture, layer, mapping),
        *layout_violations(architecture, mapping.layouts),
    ]


def _form(architecture: Architecture, layer: Layer, mapping: Mapping) -> Iterator[str]:
    tensors = {tensor.name: tensor for tensor in layer.tensors}
    for hardware, level in zip(architecture.levels, mapping.levels, strict=True):
        for block, block_loops in (("temporal", level.temporal), ("spatial", level.spatial)):
            dims = [dim for dim, _ in block_loops]
            if len(set(dims)) != len(dims):
                yield f"{hardware.name}: a dim stands twice in the {block} block ({' '.join(dims)})"
            for dim, bound in block_loops:
                if dim not in layer.sizes:
                    yield f"{hardware.name}: {dim} is not a dim of the layer ({' '.join(layer.sizes)})"
                # Loops of bound 1 are refused, not ignored: so two mappings that do the same are equal
                # values, and answers can be compared and stored by value.
                if not isinstance(bound, int) or bound < 2:
                    yield f"{hardware.name}: {block} factor {dim}={bound} is not a whole number above 1"
        for name in sorted(level.keep):
            if name not in tensors:
                yield f"{hardware.name}: keeps {name}, not a tensor of the layer ({' '.join(tensors)})"
            elif not hardware.can_keep(tensors[name]):
                yield f"{hardware.name}: keeps {name}, but holds only {', '.join(hardware.keeps)}"
    for name in tensors:
        # All words come from the outermost level and end there; a tensor that it bypassed would have no
        # source.
        if name not in mapping.levels[-1].keep:
            yield f"{architecture.levels[-1].name}: {name} must be kept at the outermost level"


def _products(layer: Layer, mapping: Mapping) -> Iterator[str]:
    covered = mapping.tiles[-1]
    for dim, size in layer.dims:
        # Exactly: a mapping that covers more than the layer computes points that do not exist. A solver that
        # wants such factors pads the layer first, and the padding then has a cost like all else.
        if covered.get(dim, 1) != size:
            yield f"factors of {dim} multiply to {covered.get(dim, 1)}, the layer has {dim}={size}"


def _fanouts(architecture: Architecture, mapping: Mapping) -> Iterator[str]:
    for hardware, level in zip(architecture.levels, mapping.levels, strict=True):
        for axis, block, fanout in (
            ("X", level.spatial_x, hardware.fanout_x),
            ("Y", level.spatial_y, hardware.fanout_y),
        ):
            used = prod(bound for _, bound in block)
            if used > fanout:
                reason = f"spatial factors on {axis} multiply to {used}, the fan-out is {fanout}"
                yield f"{hardware.name}: {reason}"


def _capacity(architecture: Architecture, layer: Layer, mapping: Mapping) -> Iterator[str]:
    units = units_of(architecture, layer)
    sums = open_sums(layer, mapping.levels) if units else ()
    for index, (hardware, level, tile) in enumerate(
        zip(architecture.levels, mapping.levels, mapping.tiles, strict=True)
    ):
        words = {tensor.name: tensor.words(tile) for tensor in layer.tensors if tensor.name in level.keep}
        if units:
            words = {
                name: count * held_units(layer, layer.tensor(name), units[index], sums[index])
                for name, count in words.items()
            }
        if reason := overfull(hardware, words, units[index] if units else None):
            yield reason


def overfull(hardware: StorageLevel, held: dict[str, int], units: LevelUnits | None) -> str:
    """Why tiles do not fit a level together; empty where they do.

    ``held``: what the tile of each tensor takes, in ``units``, or in words where that is None.
    """
    word = units.word if units else 1
    if sum(held.values()) <= hardware.usable_words * word:
        return ""
    # People read bits: a unit has word_bits / word of them.
    shown = Fraction(hardware.word_bits, word) if units else 1
    parts = ", ".join(f"{name} {float(count * shown):g}" for name, count in held.items())
    needed, usable = float(sum(held.values()) * shown), hardware.usable_words * word * float(shown)
    name = "bits" if units else "words"
    return f"{hardware.name}: tiles need {needed:.15g} {name} ({parts}), {usable:.0f} are usable"


def layout_violations(architecture: Architecture, layouts: Layouts) -> Iterator[str]:
    """Why a mapping on ``architecture`` cannot have these layouts; nothing if it can."""
    timing, roles = architecture.timing, [role for role, _ in layouts]
    if layouts and timing is None:
        yield f"layouts of {' '.join(roles)}: {architecture.name} has no timing, which layouts could change"
        return
    # Sorted, and the machine's own left out: so two mappings that do the same are equal values, here as well.
    if roles != [role for role in get_args(Role) if role in roles]:
        yield f"layouts of {' '.join(roles)}: each role stands once, in the order {' '.join(get_args(Role))}"
        return
    for role, entries in layouts:
        assert timing is not None
        own, *others = [" ".join(choice) for choice in timing.choices(role)]
        layout = " ".join(entries)
        if layout == own:
            yield f"layout {layout} of {role} is the machine's own, which a mapping leaves out"
        elif layout not in others:
            permitted = " or ".join(filter(None, [own, *others])) or "no layout but that of the layer's axes"
            yield f"layout {layout} of {role}: {architecture.name} permits {permitted}"
