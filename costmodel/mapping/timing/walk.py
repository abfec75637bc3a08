"""The steps in which a machine with timing runs a layer: one tile, and the loops that walk it over the
layer."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import Timing
from costmodel.mapping.mapping import Loop, Mapping
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, as_parts
from costmodel.workload.network import Layer

GEMM_DIMS = {"M": "P", "N": "K", "K": "C", "B": "N"}
"""The dims of our matrix products by what they are in a convolution of 1 x 1 with one row: rows M are P,
columns N are output channels K, and the sum over K is over input channels C."""


@dataclass(frozen=True)
class Walk:
    """One tile after the other over a layer.

    ``tile`` has the points of one tile along each dim, ``loops`` the steps OUTERMOST FIRST as (dim, bound).
    The last tile along a dim is what is left of the layer's size: at least one point, at most a whole tile.
    """

    layer: Layer
    tile: ReadOnlyDict[str, int]
    loops: tuple[Loop, ...]

    def __post_init__(self) -> None:
        for dim, size in self.layer.dims:
            covered, tile = self.tiles_along(dim), self.tile.get(dim, 1)
            if not (covered - 1) * tile < size <= covered * tile:
                expected = f"tiles and loops that cover {size} points, the last tile not empty"
                raise InputError(
                    f"walk of {self.layer.name}", expected, f"{covered} tiles of {tile}", key=dim
                )

    @cached_property
    def _bounds(self) -> dict[str, int]:
        bounds: dict[str, int] = {}
        for dim, bound in self.loops:
            bounds[dim] = bounds.get(dim, 1) * bound
        return bounds

    def tiles_along(self, dim: str) -> int:
        """How many tiles there are along a dim."""
        return self._bounds.get(dim, 1)

    @cached_property
    def steps(self) -> int:
        """Tiles of the whole walk."""
        return prod(bound for _, bound in self.loops)

    def extents(self, dim: str) -> tuple[tuple[int, int], ...]:
        """The points along a dim of every tile along it, as (points, how many tiles have so many)."""
        tiles, tile = self.tiles_along(dim), self.tile.get(dim, 1)
        last = self.layer.sizes.get(dim, 1) - (tiles - 1) * tile
        if last == tile:
            return ((tile, tiles),)
        return ((tile, tiles - 1), (last, 1)) if tiles > 1 else ((last, 1),)


def is_product(layer: Layer) -> bool:
    """Whether no window slides: a matrix product, or a convolution of 1 x 1 over a single row.

    Machines have a loop of their own for products.
    """
    return "M" in layer.sizes or all(layer.sizes.get(dim, 1) == 1 for dim in ("R", "S", "Q"))


def dim_of(layer: Layer, dim: str) -> str:
    """The name that a dim of the machine, which speaks of convolutions, has in ``layer``."""
    if "M" not in layer.sizes:
        return dim
    return {ours: name for name, ours in GEMM_DIMS.items()}.get(dim, dim)


def steps_level(architecture: Architecture) -> int:
    """The number of the level whose temporal loops are the steps; the architecture has timing."""
    timing = architecture.timing
    if timing is None or timing.level is None:
        return len(architecture.levels) - 1
    return architecture.index(timing.level)


def has_inner_steps(architecture: Architecture) -> bool:
    """Whether the steps that the timing speaks of are those of a level inside the outermost one."""
    return architecture.timing is not None and steps_level(architecture) < len(architecture.levels) - 1


@dataclass(frozen=True)
class TimedPart:
    """What a machine with timing runs at once: all of a layer, or ``times`` equal parts one after the other.

    Where levels lie outside that of the steps, each iteration of their loops is a ``layer`` of its own, as
    large as the tile that the steps' level holds; its ``mapping`` ends with that level.
    """

    layer: Layer
    mapping: AnyMapping
    times: int = 1


def timed_part(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> TimedPart:
    """The part of a mapping that the architecture's timing speaks of.

    InputError for a mapping in which tensors end at different loops of the steps' level: parts would overlap.
    """
    level = steps_level(architecture)
    if level == len(architecture.levels) - 1:
        return TimedPart(layer, mapping)
    parts = as_parts(mapping)
    inside = [number for number, of in enumerate(parts.part_levels) if of <= level]
    if parts.part_levels.count(level) > 1:
        where = f"mapping of {layer.name} on {architecture.name}"
        name = architecture.levels[level].name
        remedy = "Solve without uneven levels, or leave out timing in a copy of the tile's file"
        raise InputError(
            where, f"one tile of all tensors at {name}, whose steps are timed", "several", remedy
        )
    outside = parts.nest.levels[len(inside) :]
    tile = parts.tiles[inside[-1]]
    own = UnevenMapping(Mapping(parts.nest.levels[: len(inside)]), parts.part_levels[: len(inside)])
    return TimedPart(
        replace(layer, dims=tuple((dim, tile.get(dim, 1)) for dim in layer.sizes)),
        own,
        prod(bound for one in outside for _, bound in one.temporal),
    )


def walk_of(timing: Timing, layer: Layer, mapping: AnyMapping) -> Walk:
    """The steps of a mapping: the temporal loops of the outermost level over the tiles inside it.

    A machine with a ``product_block`` rounds the tiles of a matrix product up to it, and walks over fewer.
    """
    parts = as_parts(mapping).nest
    outer = parts.levels[-1]
    tile = _inner_tile(parts)
    for dim, bound in outer.spatial:
        tile[dim] = tile.get(dim, 1) * bound
    return rounded(timing, layer, tile, outer.temporal[::-1])


def rounded(timing: Timing, layer: Layer, tile: ReadOnlyDict[str, int], loops: tuple[Loop, ...]) -> Walk:
    """The walk of ``tile`` along ``loops`` (outermost first) with the tiles that the machine makes of it."""
    if not timing.product_block or not is_product(layer):
        return Walk(layer, tile, loops)
    own = dict(tile)
    for machine_dim, points in timing.product_block:
        dim = dim_of(layer, machine_dim)
        if dim in layer.sizes:
            own[dim] = min(-(-tile.get(dim, 1) // points) * points, layer.sizes[dim])
    bounds = ((dim, -(-layer.sizes[dim] // own.get(dim, 1))) for dim, _ in loops)
    return Walk(layer, own, tuple((dim, bound) for dim, bound in bounds if bound > 1))


def _inner_tile(nest: Mapping) -> dict[str, int]:
    return dict(nest.tiles[-2]) if len(nest.levels) > 1 else {}
