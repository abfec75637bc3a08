"""The steps in which a machine with timing runs a layer: a step for each tile, and loops from tile to tile.

A layer of K 64 and P 56 whose outermost level has the loops K 4 and P 7 runs in 28 steps, each on a tile of
16 x 8 points. How the levels inside compute a tile is no part of the walk.
"""

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
"""The dims of a matrix product, each with the dim of the same convolution, which has a 1 x 1 filter and one
column of outputs: rows M are output rows P, columns N are output channels K, and the sum over K is one over
input channels C."""


@dataclass(frozen=True)
class Walk:
    """A layer that is cut into tiles, and the order in which its tiles are worked on.

    ``tile`` has the points of one tile along each dim; a dim that it leaves out has one. ``loops`` go from
    tile to tile, OUTERMOST FIRST, as (dim, bound). The last tile along a dim is what is left of the layer's
    size: at least one point, at most a whole tile. Raises InputError for tiles that do not cover the layer.
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
        """How many tiles the layer has along a dim."""
        return self._bounds.get(dim, 1)

    @cached_property
    def steps(self) -> int:
        """Steps of the whole walk: every iteration of the loops is one, whether its tiles are new or not."""
        return prod(bound for _, bound in self.loops)

    def extents(self, dim: str) -> tuple[tuple[int, int], ...]:
        """How long the tiles along a dim are, as (points, how many tiles have so many).

        At most two pairs: all tiles are equal but the last one, which may be shorter.
        """
        tiles, tile = self.tiles_along(dim), self.tile.get(dim, 1)
        last = self.layer.sizes.get(dim, 1) - (tiles - 1) * tile
        if last == tile:
            return ((tile, tiles),)
        return ((tile, tiles - 1), (last, 1)) if tiles > 1 else ((last, 1),)


def is_product(layer: Layer) -> bool:
    """Whether no window slides: a matrix product, or a convolution of 1 x 1 with one column of outputs.

    Machines run these by code of their own, whose timing differs from that of their convolutions.
    """
    return "M" in layer.sizes or all(layer.sizes.get(dim, 1) == 1 for dim in ("R", "S", "Q"))


def dim_of(layer: Layer, dim: str) -> str:
    """The dim of ``layer`` that a dim of the machine's timing is: timings name dims as convolutions do."""
    if "M" not in layer.sizes:
        return dim
    return {ours: name for name, ours in GEMM_DIMS.items()}.get(dim, dim)


def steps_level(architecture: Architecture) -> int:
    """The number of the level, from the innermost, whose temporal loops are the steps.

    The architecture has timing.
    """
    timing = architecture.timing
    if timing is None or timing.level is None:
        return len(architecture.levels) - 1
    return architecture.index(timing.level)


def has_inner_steps(architecture: Architecture) -> bool:
    """Whether a level lies outside the one whose temporal loops are the steps; False without timing."""
    return architecture.timing is not None and steps_level(architecture) < len(architecture.levels) - 1


@dataclass(frozen=True)
class TimedPart:
    """What a machine with timing runs at a time: all of a layer, or one of ``times`` equal parts of it.

    Where levels lie outside that of the steps, each iteration of their loops is a part. ``layer`` has the
    dims of one part, which are those of the tile that the steps' level holds, and ``mapping`` ends with that
    level.
    """

    layer: Layer
    mapping: AnyMapping
    times: int = 1


def timed_part(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> TimedPart:
    """The part of a layer that one run of the steps computes, and its mapping.

    Raises InputError for an uneven mapping in which tensors end their tiles at different loops of the steps'
    level: then no iteration of the loops outside has a tile of its own that the steps could walk over.
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
    # From here on the level of the steps is the outermost one: its tile is the layer of a part, and the
    # temporal loops outside say how many parts there are.
    outside = parts.nest.levels[len(inside) :]
    tile = parts.tiles[inside[-1]]
    own = UnevenMapping(Mapping(parts.nest.levels[: len(inside)]), parts.part_levels[: len(inside)])
    return TimedPart(
        replace(layer, dims=tuple((dim, tile.get(dim, 1)) for dim in layer.sizes)),
        own,
        prod(bound for one in outside for _, bound in one.temporal),
    )


def walk_of(timing: Timing, layer: Layer, mapping: AnyMapping) -> Walk:
    """The steps of a mapping whose outermost level is the one of the steps (see :func:`timed_part`).

    Its temporal loops go from tile to tile. Its spatial loops belong to the tile: what the instances of the
    next level hold together is loaded in one step.
    """
    parts = as_parts(mapping).nest
    outer = parts.levels[-1]
    tile = _inner_tile(parts)
    for dim, bound in outer.spatial:
        tile[dim] = tile.get(dim, 1) * bound
    return rounded(timing, layer, tile, outer.temporal[::-1])


def rounded(timing: Timing, layer: Layer, tile: ReadOnlyDict[str, int], loops: tuple[Loop, ...]) -> Walk:
    """The walk of ``tile`` along ``loops`` (outermost first), the tile rounded up as the machine does it.

    A machine with a ``product_block`` rounds the tiles of a matrix product up to whole multiples of it, at
    most to the layer's size, so that fewer tiles cover the layer.
    """
    if not timing.product_block or not is_product(layer):
        return Walk(layer, tile, loops)
    own = dict(tile)
    for machine_dim, points in timing.product_block:
        dim = dim_of(layer, machine_dim)
        if dim in layer.sizes:
            own[dim] = min(-(-tile.get(dim, 1) // points) * points, layer.sizes[dim])
    bounds = ((dim, -(-layer.sizes[dim] // own.get(dim, 1))) for dim, _ in loops)
    # rounding may leave a single tile along a dim, and then no loop over it
    return Walk(layer, own, tuple((dim, bound) for dim, bound in bounds if bound > 1))


def _inner_tile(nest: Mapping) -> dict[str, int]:
    return dict(nest.tiles[-2]) if len(nest.levels) > 1 else {}
