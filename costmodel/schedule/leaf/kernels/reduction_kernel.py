"""The transfers of a leaf whose input channels are cut: of each part of these, and of partial sums; compiled.

The parts of a group's input channels have no element in common, neither of inputs nor of weights. So the
transfers of the leaf are those of one leaf for each part, on tiles of its own, and the way of the partial
sums to the owners on top.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import entry
from costmodel.schedule.leaf.kernels.equal_parts_kernel import fill_parts
from costmodel.schedule.leaf.kernels.leaf_kernel import dram_bits, hold
from costmodel.schedule.leaf.kernels.leaf_values import LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.links_kernel import load_apart
from costmodel.schedule.leaf.kernels.overlap_kernel import fill_overlaps
from costmodel.schedule.leaf.kernels.placement_kernel import tile_of
from costmodel.schedule.leaf.kernels.ranges_kernel import ANY, OUTPUTS, is_skipped, size_of
from costmodel.schedule.mesh.mesh_kernel import route

Array = NDArray[Any]


@entry
def count_streams(
    workspace: Workspace,
    placed: LeafPlacement,
    held: Array,
    moved: Array,
    with_dram: Array,
    received: Array,
) -> None:
    """Count the streams of a leaf: those of one part of the input channels where its space has only these.

    Fills the mesh's links, ``held`` [streams, tiles] with the bits of each stream on every tile, and
    ``moved`` [2] with the bits read from and written to DRAM over all runs. ``with_dram`` and ``received``:
    as :func:`.links_kernel.load_apart` fills them.
    """
    leaf, parts = placed.leaf, placed.parts
    fill_parts(workspace, leaf, parts)
    fill_overlaps(workspace, leaf, parts)
    load_apart(workspace, placed, with_dram, received)
    moved[0], moved[1] = dram_bits(workspace, leaf, parts)
    for number in range(leaf.streams.shape[0]):
        hold(workspace.ranges, placed, leaf.streams[number], held[number])


@entry
def count_sums(workspace: Workspace, placed: LeafPlacement, reduced: int, bits: int, sums: Array) -> None:
    """Count the partial sums of ``bits`` each that the tiles of every group send to its owner.

    The workspace holds the ranges of the partition; ``placed``: the owners. Fills the mesh's links with what
    these messages load over all runs, and ``sums`` [tiles] with the bits of all partial sums of a run that
    each owner holds.
    """
    mesh, ranges, parts = workspace.mesh, workspace.ranges, placed.parts
    ports = mesh.port_x.shape[0]
    mesh.links[:] = 0
    sums[:] = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    if is_skipped(ranges, k, b, h, w):
                        continue
                    size = size_of(ranges, (OUTPUTS, k, b, h, w), (0, ANY)) * bits
                    owner = tile_of(placed, k, b, h, w)
                    sums[owner] = reduced * size
                    x, y = mesh.x[owner], mesh.y[owner]
                    mesh.lowest[x], mesh.highest[x] = y, y
                    load = size * ports * placed.leaf.runs
                    for part in range(1, reduced):
                        tile = owner + part
                        route(mesh, mesh.x[tile], mesh.y[tile], (x, x), load, mesh.links)
