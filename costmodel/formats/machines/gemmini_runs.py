"""Runs of Gemmini's RTL as DOSA's data have them: what each row says that the machine ran.

A row names a layer and a mapping, and the machine takes only a tile (``rtl_tile``, the factors inside DRAM)
and the order of the loops at DRAM (``rtl_tile_loops``). The program that ran is not always the row's layer:

* Convolutions are square, padded by half the window: P decides, Q is taken as P, and an even window has one
  output more a side. A filter or a dilation for which that says nothing is refused.
* Programs of products count tiles in blocks of 16, and Gemmini's library takes the count in blocks of the
  mesh: a tile of 32 on a mesh of 4 runs as 8.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from math import ceil
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, known_names, whole_number, whole_numbers
from costmodel.mapping.mapping import Loop
from costmodel.workload.network import Layer, sized_convolution

DIMS = ("R", "S", "P", "Q", "C", "K", "N")
KINDS = ("convolution", "matmul")
KEYS = ("rtl_tile", "rtl_tile_loops", "rtl_cycles")
"""What only these rows have."""
PROGRAM_BLOCK = 16
"""The mesh that the programs of products were written for."""


@dataclass(frozen=True)
class GemminiRun:
    """What ran: ``tile`` by dim, ``loops`` outermost first; ``overrides`` give the architecture its mesh."""

    layer: Layer
    tile: dict[str, int]
    loops: tuple[Loop, ...]
    cycles: float
    overrides: dict[str, int]


def is_gemmini_run(row: ReadOnlyDict[str, Any]) -> bool:
    """Whether a row has a key that only these runs have."""
    return any(key in row for key in KEYS)


def gemmini_run(row: ReadOnlyDict[str, Any], where: str) -> GemminiRun:
    """The run of a row; InputError names the key that is missing or wrong.

    Of ``stride`` the one along P counts, as of the outputs. A row without one has 1.
    """
    sizes = dict.fromkeys(DIMS, 1) | whole_numbers(field(row, "layer", dict, where), DIMS, where, "layer")
    tile = dict.fromkeys(DIMS, 1) | whole_numbers(
        field(row, "rtl_tile", dict, where), DIMS, where, "rtl_tile"
    )
    order = list(_bounds(row, sizes, tile, where))
    stride = _along_p(row, "stride", where)
    _check_program(row, sizes, where)
    mesh = _mesh(row, where)
    product = sizes["R"] == sizes["S"] == sizes["Q"] == 1
    if product:
        if mesh != (PROGRAM_BLOCK, PROGRAM_BLOCK):
            tile |= {dim: ceil(tile[dim] / PROGRAM_BLOCK) * mesh[0] for dim in ("P", "C", "K")}
    else:
        outputs = sizes["P"] + (sizes["R"] % 2 == 0)
        sizes |= {"P": outputs, "Q": outputs}
    name = " ".join(f"{dim}{sizes[dim]}" for dim in DIMS) + f" stride {stride}"
    layer = sized_convolution(name, sizes, (stride, stride))
    tile = {dim: min(points, sizes[dim]) for dim, points in tile.items()}
    bounds = {dim: ceil(sizes[dim] / tile[dim]) for dim in DIMS}
    # a loop that the row does not have, for the outputs more of an even window, is the innermost
    walked = [*dict.fromkeys(order), *(dim for dim in DIMS if dim not in order)]
    loops = tuple((dim, bounds[dim]) for dim in walked if bounds[dim] > 1)
    cycles = measured_cycles(row, "rtl_cycles", where)
    overrides = {"Scratchpad.fanout.x": mesh[0], "Accumulator.fanout.y": mesh[1]}
    return GemminiRun(layer, tile, loops, cycles, overrides)


def measured_cycles(row: ReadOnlyDict[str, Any], key: str, where: str) -> float:
    """The measured cycles of a row under ``key``; InputError unless they are a number above 0."""
    cycles = row.get(key)
    if not isinstance(cycles, (int, float)) or isinstance(cycles, bool) or not 0 < cycles < 2**63:
        raise InputError(where, "measured cycles, more than 0", cycles, key=key)
    return float(cycles)


def _bounds(
    row: ReadOnlyDict[str, Any], sizes: dict[str, int], tile: dict[str, int], where: str
) -> dict[str, int]:
    """The loops over tiles, outermost first; InputError unless they and the tile cover the layer.

    The last tile of a loop may be smaller than the others, but not empty. Along Q any number of tiles will
    do, as the run takes P for it.
    """
    bounds: dict[str, int] = {}
    for entry in field(row, "rtl_tile_loops", list, where):
        if not isinstance(entry, list) or len(entry) != 2:
            raise InputError(where, "loops as [dim, bound]", entry, key="rtl_tile_loops")
        known_names(entry[:1], DIMS, where, "rtl_tile_loops")
        if entry[0] in bounds:
            raise InputError(where, "one loop a dim", entry[0], key="rtl_tile_loops")
        bounds[entry[0]] = whole_number(entry[1], where, "rtl_tile_loops")
    for dim, size in sizes.items():
        if dim != "Q" and bounds.get(dim, 1) != ceil(size / tile[dim]):
            expected = f"tiles that cover {dim}={size}, the last one not empty"
            found = f"{bounds.get(dim, 1)} of {tile[dim]}"
            raise InputError(where, expected, found, key="rtl_tile_loops")
    return bounds


def _along_p(row: ReadOnlyDict[str, Any], key: str, where: str) -> int:
    """A step that may be one number, or one along P and one along Q; 1 where the row does not say."""
    written = row.get(key, 1)
    if isinstance(written, dict):
        return whole_numbers(written, ("P", "Q"), where, key).get("P", 1)
    return whole_number(written, where, key)


def _check_program(row: ReadOnlyDict[str, Any], sizes: dict[str, int], where: str) -> None:
    """InputError for what no program of these runs was: nobody knows what would have run."""
    if (kind := row.get("kind", KINDS[0])) not in KINDS:
        raise InputError(where, f"one of {', '.join(KINDS)}", kind, key="kind")
    if (dilation := _along_p(row, "dilation", where)) != 1:
        raise InputError(where, "1, which all of these programs have", dilation, key="dilation")
    if sizes["R"] != sizes["S"]:
        expected = "square filters, of which the program takes one number"
        raise InputError(where, expected, f"{sizes['R']} x {sizes['S']}", key="layer")


def _mesh(row: ReadOnlyDict[str, Any], where: str) -> tuple[int, int]:
    """Columns and rows of the array that ran."""
    key = "mesh" if "mesh" in row else "mesh_inferred"
    if key not in row:
        return PROGRAM_BLOCK, PROGRAM_BLOCK
    mesh = row[key] if isinstance(row[key], list) else [row[key]] * 2
    if len(mesh) != 2:
        raise InputError(where, "columns and rows of the mesh, or the side of a square one", mesh, key=key)
    return whole_number(mesh[0], where, key), whole_number(mesh[1], where, key)
