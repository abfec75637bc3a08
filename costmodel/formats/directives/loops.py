"""Directives from the loops of a Mapping and back, where both can express a scheme.

Loops cannot express shared tiles. Directives cannot express bypass, nor the order of loops inside the
innermost buffer. In both, factors must divide sizes. Names of dims are the paper's: ``Yo`` and ``Xo`` are
output rows and columns (P, Q), ``S`` and ``R`` those of filters (R, S elsewhere in archsweep), ``Yi`` and
``Xi`` those of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import replace
from itertools import product
from math import prod

from costmodel.errors import InputError
from costmodel.formats.directives.counts import INPUT_DIMS, iterations
from costmodel.formats.directives.values import (
    Amounts,
    LayerScheme,
    LevelScheme,
    Stack,
    TensorTile,
    Update,
)
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.counts.traffic import StridedLoop, nest_of
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, loops
from costmodel.workload.network import Layer, Tensor
from costmodel.workload.projection import Axis

CONVOLUTION = {"P": "Yo", "Q": "Xo", "R": "S", "S": "R"}
GEMM = {"M": "N", "N": "K", "K": "C"}
WINDOWS = {"P": "Yi", "Q": "Xi"}
"""For each output dim along which windows slide, the paper's name of the input dim."""


def directives_of(
    layer: Layer,
    mapping: Mapping,
    level_names: Sequence[str],
    tensor_names: ReadOnlyDict[str, str] | None = None,
) -> LayerScheme:
    """The directives of a mapping whose levels all keep all tensors.

    ``level_names`` are innermost first. ``tensor_names`` rename the layer's tensors. Raises InputError for
    bypassed tensors, for layouts, and for spatial loops below the innermost level: stacks are of buffers, and
    there are no buffers below it.
    """
    where = f"mapping of {layer.name}"
    kept = {tensor.name for tensor in layer.tensors}
    if any(level.keep != kept for level in mapping.levels):
        raise InputError(where, "levels that keep every tensor", "a bypass")
    if mapping.layouts:
        raise InputError(where, "the machine's own layouts: directives say no others", mapping.layouts)
    if mapping.levels[0].spatial:
        raise InputError(where, "one MAC unit below the innermost level", mapping.levels[0].spatial)
    nest, names = nest_of(mapping), tensor_names or {}
    # Directives of a level are about the loops around its tiles, which a mapping has at the next level;
    # around the outermost tiles there are none.
    outside = [*zip(nest.spatial[1:], nest.temporal[1:], strict=True), ([], [])]
    return LayerScheme(
        layer.name,
        tuple(
            LevelScheme(
                level_name,
                tuple(_tile(layer, tensor, tile, names) for tensor in layer.tensors),
                tuple(Stack(_moves(layer, loop), loop.bound) for loop in spatial),
                tuple(Update(_moves(layer, loop)) for loop in temporal),
            )
            for level_name, tile, (spatial, temporal) in zip(level_names, mapping.tiles, outside, strict=True)
        ),
    )


def mapping_of(
    scheme: LayerScheme,
    layer: Layer,
    architecture: Architecture,
    tensor_names: ReadOnlyDict[str, str] | None = None,
) -> Mapping:
    """The loops of a scheme whose levels are the architecture's.

    Stacks become spatial loops along whichever sides of the fan-out are large enough. ``tensor_names`` are
    the scheme's names of the layer's tensors. Raises InputError where loops cannot express the scheme: for
    shared tiles, moves that overlap or leave gaps, and sizes that do not divide. To find these, the loops
    are turned back into directives and compared.
    """
    where = f"layer {scheme.name}"
    if len(scheme.levels) != len(architecture.levels):
        raise InputError(where, f"{len(architecture.levels)} levels", len(scheme.levels))
    scheme = _without_single_steps(scheme)
    every = frozenset(tensor.name for tensor in layer.tensors)
    dims = {name: dim for dim, name in _names(layer).items()}
    inside = scheme.levels[0].sizes
    first = loops((dim, inside.get(name, 1)) for name, dim in dims.items())
    levels = [LevelMapping(first, (), (), every)]
    for (inner, outer), hardware in zip(scheme.pairs, architecture.levels[1:], strict=True):
        stacks = [(_only_dim(stack.shifts, dims, where), stack.replicas) for stack in inner.stacks]
        updates = zip(inner.updates, iterations(inner, outer), strict=True)
        temporal = loops((_only_dim(update.steps, dims, where), trips) for update, trips in updates)
        x, y = _sides(loops(stacks), hardware.fanout_x, hardware.fanout_y)
        levels.append(LevelMapping(temporal, x, y, every))
    mapping = Mapping(tuple(levels))
    level_names = [level.name for level in scheme.levels]
    # Instead of a test for each thing that loops cannot say, the result is written as directives again:
    # whatever got lost on the way shows as a difference.
    _check_expressed(scheme, directives_of(layer, mapping, level_names, tensor_names))
    return mapping


def _without_single_steps(scheme: LayerScheme) -> LayerScheme:
    """The scheme without stacks of one buffer and updates of one iteration, which make no loops."""
    trips = [iterations(inner, outer) for inner, outer in scheme.pairs] + [()]
    return LayerScheme(
        scheme.name,
        tuple(
            replace(
                level,
                stacks=tuple(stack for stack in level.stacks if stack.replicas > 1),
                updates=tuple(
                    update for update, count in zip(level.updates, counts, strict=False) if count > 1
                ),
            )
            for level, counts in zip(scheme.levels, trips, strict=True)
        ),
    )


def _check_expressed(scheme: LayerScheme, found: LayerScheme) -> None:
    """InputError unless ``found``, the directives of the loops, equals the scheme at every level."""
    for told, made in zip(scheme.levels, found.levels, strict=True):
        for key, ours, theirs in (
            ("tensor", _by_name(told), _by_name(made)),
            ("stack", _distances(told.stacks), _distances(made.stacks)),
            ("update", [dict(one.steps) for one in told.updates], [dict(one.steps) for one in made.updates]),
        ):
            if ours != theirs:
                where = f"layer {scheme.name}: {told.name}"
                raise InputError(where, f"what loops can express, such as {theirs}", ours, key=key)


def _by_name(level: LevelScheme) -> dict[str, tuple[dict[str, int], int, bool]]:
    return {tensor.name: (dict(tensor.sizes), tensor.shared, tensor.output) for tensor in level.tensors}


def _distances(stacks: Sequence[Stack]) -> list[tuple[list[tuple[str, int]], int]]:
    """The stacks' shifts and replicas, sorted: loops on two sides of a fan-out have no order to compare."""
    return sorted((sorted(stack.shifts), stack.replicas) for stack in stacks)


def _names(layer: Layer) -> dict[str, str]:
    """The paper's name of each of the layer's dims; a matrix product has M, N, K and no C."""
    own = GEMM if set(GEMM) <= set(layer.sizes) and "C" not in layer.sizes else CONVOLUTION
    return {dim: own.get(dim, dim) for dim in layer.sizes}


def _axis_name(layer: Layer, axis: Axis) -> str:
    if len(axis) == 1:
        return _names(layer)[axis[0][0]]
    windows = [WINDOWS[dim] for dim, _ in axis if dim in WINDOWS]
    if len(windows) != 1:
        expected = "axes of one dim, or windows along P or Q"
        raise InputError(f"layer {layer.name}", expected, "+".join(dim for dim, _ in axis))
    return windows[0]


def _tile(
    layer: Layer, tensor: Tensor, tile: ReadOnlyDict[str, int], names: ReadOnlyDict[str, str]
) -> TensorTile:
    sizes = zip((_axis_name(layer, axis) for axis in tensor.terms), tensor.extents(tile), strict=True)
    return TensorTile(names.get(tensor.name, tensor.name), tuple(sizes), output=tensor.is_output)


def _moves(layer: Layer, loop: StridedLoop) -> Amounts:
    """How far one iteration of a loop moves each dim: its own, and the input's rows or columns with it."""
    moves = {_names(layer)[loop.dim]: loop.inner}
    for tensor in layer.tensors:
        for axis in tensor.terms:
            coefficient = dict(axis).get(loop.dim)
            if coefficient is not None and len(axis) > 1:
                moves[_axis_name(layer, axis)] = coefficient * loop.inner
    return tuple(moves.items())


def _only_dim(amounts: Amounts, dims: ReadOnlyDict[str, str], where: str) -> str:
    own = [name for name, _ in amounts if name not in INPUT_DIMS]
    if len(own) != 1 or own[0] not in dims:
        expected = f"moves of one dim among {', '.join(dims)} (with {' or '.join(INPUT_DIMS)})"
        raise InputError(where, expected, ", ".join(name for name, _ in amounts))
    return dims[own[0]]


def _sides(stacks: tuple[Loop, ...], columns: int, rows: int) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
    """The stacks on X and on Y, so that both fit their sides of the fan-out.

    The first stacks go to X if they can. If nothing fits, all go to X; that the mapping exceeds the fan-out
    is for its checks to find.
    """
    return next(_fitting(stacks, columns, rows), (stacks, ()))


def _fitting(
    stacks: tuple[Loop, ...], columns: int, rows: int
) -> Iterator[tuple[tuple[Loop, ...], tuple[Loop, ...]]]:
    for on_x in product((True, False), repeat=len(stacks)):
        x = tuple(stack for stack, here in zip(stacks, on_x, strict=True) if here)
        y = tuple(stack for stack, here in zip(stacks, on_x, strict=True) if not here)
        if prod(bound for _, bound in x) <= columns and prod(bound for _, bound in y) <= rows:
            yield x, y
