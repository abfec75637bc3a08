"""A mapping as the arguments of Gemmini's tiled calls, for software that runs it on the machine.

Gemmini's library has two calls whose caller chooses the tiles. ``tiled_matmul`` takes ``tile_I``,
``tile_J`` and ``tile_K``, in blocks of DIM rows or columns. ``tiled_conv`` takes ``batches``, ``porows``,
``pocols``, ``pochs``, ``krows``, ``kcols`` and ``kchs``, in elements. Both walk their tiles in one order,
which the caller cannot change:

| call | its loops over tiles, outermost first |
|---|---|
| tiled_matmul | I, J, K: rows of the result, its columns, what is summed |
| tiled_conv | batch, output rows and columns, output channels, filter rows and columns, input channels |

So a mapping can run only if its loops at DRAM stand in that order. What lies inside a tile is the hardware's
own affair: blocks of DIM by DIM weights, whose loops stand in one order (K R S C Q P, outermost first, P in
groups of DIM columns). Of the inner levels of a mapping nothing is written but their tile.

A convolution's P and R run along the columns, which are next to each other in Gemmini's memory layout, and Q
and S along the rows.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from typing import Any, Literal

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer, Role, Tensor
from costmodel.workload.projection import Axis

WALK = ("N", "Q", "P", "K", "S", "R", "C")
"""The loops of ``tiled_conv`` over tiles, outermost first, as dims of a convolution."""

WHERE = "mapping for Gemmini"
TILES = ("batches", "porows", "pocols", "pochs", "krows", "kcols", "kchs")
"""The tile sizes of ``tiled_conv``, of the dims of ``WALK``."""


@dataclass(frozen=True)
class TiledCall:
    """One call of Gemmini's library that runs a whole layer.

    ``arguments`` are numbers by the names of the call's parameters; those that are pointers, scales or
    activations are the caller's. ``walk`` are the loops over tiles that have more than one iteration,
    outermost first, with their iterations.
    """

    call: Literal["tiled_matmul", "tiled_conv"]
    dim: int
    """DIM: the side of the array."""
    arguments: ReadOnlyDict[str, int]
    walk: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``walk`` is a list of pairs."""
        return {
            "call": self.call,
            "DIM": self.dim,
            "arguments": dict(self.arguments),
            "walk": [list(loop) for loop in self.walk],
        }


def tiled_call(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> TiledCall:
    """The call that runs ``mapping`` of ``layer``; the mapping must have no violations.

    Raises InputError for an architecture without two equal fan-outs, a layer that neither call computes, and
    a mapping that the hardware cannot run: one with a spread of other dims, with loops at DRAM in another
    order, or whose tiles do not fit once they are rounded up to whole blocks.
    """
    dim = array_side(architecture)
    if not isinstance(mapping, Mapping):
        raise InputError(WHERE, "even tiles", "an uneven mapping", "Solve without --uneven")
    if mapping.layouts:
        stated = "; ".join(f"{role} {' '.join(entries)}" for role, entries in mapping.layouts)
        remedy = "Leave permitted_layouts out of the machine's file"
        raise InputError(WHERE, "the layouts of its library: its calls take no others", stated, remedy)
    product = product_dims(layer)
    outputs, sums = (product["J"], product["K"]) if product else ("K", "C")
    _check_spread(architecture, mapping, (outputs, sums))
    if product:
        return _matmul(architecture, layer, mapping, product, dim)
    return _conv(layer, mapping, dim)


def check_machine(architecture: Architecture, layer: Layer) -> None:
    """InputError for an architecture that is no Gemmini, and for a layer that neither call computes."""
    array_side(architecture)
    if not product_dims(layer):
        _check_convolution(layer)


def array_side(architecture: Architecture) -> int:
    """DIM, the side of the array; InputError for an architecture that is no Gemmini."""
    fanned = [level for level in architecture.levels if level.fanout > 1]
    sides = [level.fanout for level in fanned]
    columns = frozenset(fanned[-1].keeps) if fanned else frozenset()
    if len(sides) != 2 or sides[0] != sides[1] or columns != {"weights", "inputs"}:
        found = ", ".join(f"{level.name} ({', '.join(level.keeps)}) by {level.fanout}" for level in fanned)
        raise InputError(
            WHERE,
            "an architecture with two fan-outs of the same size, the outer one below weights and inputs",
            f"{architecture.name} with {found or 'none'}",
            "Take the library's gemmini",
        )
    return sides[0]


def product_dims(layer: Layer) -> dict[str, str]:
    """The dims of the layer that are I, J and K of a matrix product; empty if the layer is none.

    Dims of size 1 do not count, so that a convolution of 1 x 1 filters over one row of pixels is a product.
    A letter that no dim of more than 1 stands for is missing unless all are; it then maps to "".
    """
    letters: dict[frozenset[Role], str] = {
        frozenset({"inputs", "outputs"}): "I",
        frozenset({"weights", "outputs"}): "J",
        frozenset({"inputs", "weights"}): "K",
    }
    found = {"I": "", "J": "", "K": ""}
    for dim, size in layer.dims:
        if size == 1:
            continue
        having = [tensor for tensor in layer.tensors if dim in tensor.dims]
        letter = letters.get(frozenset(tensor.role for tensor in having))
        if letter is None or found[letter] or any(_coefficient(tensor, dim) != 1 for tensor in having):
            return {}
        found[letter] = dim
    return found


def _coefficient(tensor: Tensor, dim: str) -> int:
    return next(step for axis in tensor.terms for name, step in axis if name == dim)


def _check_spread(architecture: Architecture, mapping: Mapping, allowed: tuple[str, str]) -> None:
    """InputError for spatial loops that a weight-stationary array does not have."""
    for hardware, level in zip(architecture.levels, mapping.levels, strict=True):
        for dim, bound in level.spatial:
            role = allowed[0] if "inputs" in hardware.keeps and "weights" in hardware.keeps else allowed[1]
            if dim != role:
                raise InputError(
                    WHERE,
                    f"only {role} spread below {hardware.name}",
                    f"{dim}{bound}",
                    "The library's gemmini has constraints that leave such mappings out",
                )


def _walk(mapping: Mapping, order: tuple[str, ...], call: str) -> tuple[tuple[str, int], ...]:
    """The loops over tiles, outermost first; InputError if they do not stand in the call's order."""
    walk = tuple(reversed(mapping.levels[-1].temporal))
    ranks = [order.index(dim) if dim in order else len(order) for dim, _ in walk]
    if ranks != sorted(ranks) or len(order) in ranks:
        raise InputError(
            WHERE,
            f"the loops of {call} over tiles, outermost first: {', '.join(filter(None, order))}",
            ", ".join(dim for dim, _ in walk),
            "The library's gemmini has constraints that keep this order",
        )
    return walk


def _tile(mapping: Mapping, dim: str) -> int:
    """What the levels inside DRAM cover of a dim."""
    return mapping.tiles[-2].get(dim, 1) if len(mapping.levels) > 1 else 1


def _matmul(
    architecture: Architecture, layer: Layer, mapping: Mapping, product: dict[str, str], side: int
) -> TiledCall:
    """The call of ``tiled_matmul`` for a matrix product, whose tiles are whole blocks of ``side`` x ``side``.

    ``product``: the layer's dim for each of the call's letters I, J, K.
    """
    letters = ("I", "J", "K")
    walk = _walk(mapping, tuple(product[letter] for letter in letters), "tiled_matmul")
    arguments = {f"dim_{letter}": layer.sizes.get(product[letter], 1) for letter in letters}
    named = {product[letter]: letter for letter in letters}
    tile = dict(mapping.tiles[-2]) if len(mapping.levels) > 1 else {}
    for letter in letters:
        # The call counts whole blocks, the last of which may be partly empty.
        blocks = -(-tile.get(product[letter], 1) // side)
        arguments[f"tile_{letter}"] = blocks
        tile[product[letter]] = min(blocks * side, arguments[f"dim_{letter}"])
    for hardware, level in list(zip(architecture.levels, mapping.levels, strict=True))[-2::-1]:
        words = sum(tensor.words(tile) for tensor in layer.tensors if tensor.name in level.keep)
        capacity = hardware.usable_words * architecture.instances[architecture.index(hardware.name)]
        if hardware.fanout > 1 and words > capacity:
            expected = f"tiles that fit {hardware.name} as whole blocks of {side}, as the call counts them"
            remedy = f"Constrain the factors inside {architecture.levels[-1].name}"
            raise InputError(WHERE, expected, f"{words} words", remedy)
    bounds = {dim: -(-layer.sizes[dim] // tile[dim]) for dim, _ in walk}
    walked = tuple((named[dim], bounds[dim]) for dim, _ in walk if bounds[dim] > 1)
    return TiledCall("tiled_matmul", side, arguments, walked)


def _check_convolution(layer: Layer) -> tuple[dict[str, int], dict[str, int]]:
    """The coefficients of the dims along the input's columns and rows; InputError for what is none."""
    if set(layer.sizes) != set(WALK):
        expected = "a convolution without groups, or a matrix product"
        raise InputError(WHERE, expected, f"{layer.name} with dims {' '.join(layer.sizes)}")
    inputs = next(tensor for tensor in layer.tensors if tensor.role == "inputs")
    columns, rows = (_window(inputs, filter_dim) for filter_dim in ("R", "S"))
    sizes = layer.sizes
    square = {"filters": (sizes["R"], sizes["S"]), "strides": (columns["P"], rows["Q"])}
    square["dilations"] = (columns["R"], rows["S"])
    for what, (across, down) in square.items():
        if across != down:
            expected = f"square {what}, of which tiled_conv takes one number"
            raise InputError(WHERE, expected, f"{across} x {down}")
    return columns, rows


def _conv(layer: Layer, mapping: Mapping, side: int) -> TiledCall:
    """The call of ``tiled_conv`` for a convolution."""
    columns, rows = _check_convolution(layer)
    sizes = layer.sizes
    walk = _walk(mapping, WALK, "tiled_conv")
    arguments = {
        "batch_size": sizes["N"],
        "in_row_dim": _reach(rows, sizes),
        "in_col_dim": _reach(columns, sizes),
        "in_channels": sizes["C"],
        "out_channels": sizes["K"],
        "out_row_dim": sizes["Q"],
        "out_col_dim": sizes["P"],
        "stride": columns["P"],
        "input_dilation": 1,
        "kernel_dilation": columns["R"],
        # A layer's input includes its padding.
        "padding": 0,
        "kernel_dim": sizes["R"],
        **{name: _tile(mapping, dim) for name, dim in zip(TILES, WALK, strict=True)},
    }
    named = dict(zip(WALK, TILES, strict=True))
    return TiledCall("tiled_conv", side, arguments, tuple((named[dim], bound) for dim, bound in walk))


def _window(inputs: Tensor, filter_dim: str) -> dict[str, int]:
    """The coefficients of the two dims of the input's axis that the filter's dim moves along."""
    axis: Axis = next(axis for axis in inputs.terms if any(dim == filter_dim for dim, _ in axis))
    return dict(axis)


def _reach(window: dict[str, int], sizes: ReadOnlyDict[str, int]) -> int:
    """Pixels along an axis of the input, padding included."""
    return 1 + sum(step * (sizes[dim] - 1) for dim, step in window.items())
