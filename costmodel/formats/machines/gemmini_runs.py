"""Runs of Gemmini's RTL as DOSA's data have them: what each row says that the machine ran.

A row names a layer and a mapping, and the machine takes only a tile (``rtl_tile``, the factors inside DRAM)
and the order of the loops at DRAM (``rtl_tile_loops``). The program that ran is not always the row's layer:

* Convolutions are square, padded by half the window: P decides, Q is taken as P, and an even window has one
  output more a side.
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
    """Whether a row has the keys that only these runs have."""
    return "rtl_tile" in row and "rtl_cycles" in row


def gemmini_run(row: ReadOnlyDict[str, Any], where: str) -> GemminiRun:
    """The run of a row; InputError names the key that is missing or wrong."""
    sizes = dict.fromkeys(DIMS, 1) | whole_numbers(field(row, "layer", dict, where), DIMS, where, "layer")
    tile = dict.fromkeys(DIMS, 1) | whole_numbers(
        field(row, "rtl_tile", dict, where), DIMS, where, "rtl_tile"
    )
    order = []
    for entry in field(row, "rtl_tile_loops", list, where):
        if not isinstance(entry, list) or len(entry) != 2:
            raise InputError(where, "loops as [dim, bound]", entry, key="rtl_tile_loops")
        known_names(entry[:1], DIMS, where, "rtl_tile_loops")
        order.append(entry[0])
    stride = whole_numbers(row.get("stride", {}), ("P", "Q"), where, "stride").get("P", 1)
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
    cycles = whole_number(row["rtl_cycles"], where, "rtl_cycles")
    overrides = {"Scratchpad.fanout.x": mesh[0], "Accumulator.fanout.y": mesh[1]}
    return GemminiRun(layer, tile, loops, float(cycles), overrides)


def _mesh(row: ReadOnlyDict[str, Any], where: str) -> tuple[int, int]:
    """Columns and rows of the array that ran."""
    key = "mesh" if "mesh" in row else "mesh_inferred"
    if key not in row:
        return PROGRAM_BLOCK, PROGRAM_BLOCK
    mesh = field(row, key, list, where)
    if len(mesh) != 2:
        raise InputError(where, "columns and rows of the mesh", mesh, key=key)
    return whole_number(mesh[0], where, key), whole_number(mesh[1], where, key)
