"""Layers and meshes as the plain numbers and arrays that compiled code computes with.

Modules with compiled code are imported inside of functions: importing numba takes a second, which commands
that count no schedule should not wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer

Array = NDArray[Any]
KERNEL_KINDS = {"conv": 0, "fc": 1, "groupconv": 2, "pool": 3, "eltwise": 4, "ptp": 4, "transpose": 5}


def same_shapes(graph: LayerGraph) -> list[int]:
    """For every layer the number of the first layer that costs the same on the same tiles."""
    first: dict[tuple[Any, ...], int] = {}
    return [
        first.setdefault((kernel_shape(layer), layer.sizes(1), layer.needs_whole_chip and layer.part), index)
        for index, layer in enumerate(graph.layers)
    ]


def kernel_shape(layer: NetworkLayer) -> Any:
    """The layer for one sample as a :class:`costmodel.schedule.leaf.ranges_kernel.Shape`."""
    from costmodel.schedule.leaf.ranges_kernel import Shape

    return Shape(
        kind=KERNEL_KINDS[layer.kind],
        c=layer.c,
        r=layer.r,
        s=layer.s,
        stride_h=layer.stride_h,
        stride_w=layer.stride_w,
        pad_h=layer.pad_h,
        pad_w=layer.pad_w,
        input_h=layer.input_h,
        input_w=layer.input_w,
        group_c=layer.group_c,
        group_k=layer.group_k,
        operands=layer.operands,
        has_weights=layer.has_weights,
        weights_follow_b=bool(layer.weight_producers),
        order=(layer.order[0], layer.order[1], layer.order[2]),
    )


@cache
def placement_orders() -> tuple[Array, Array]:
    """Placement orders [16, 24, 4] of the axes for each set of axes that are cut, and how many [16].

    Sets are bits as :func:`.placement_kernel.axes_cut` makes them. An axis that is not cut has one part, so
    its rank changes nothing: only the permutations of cut axes differ, in alphabetical order; the other axes
    follow.
    """
    orders, counts = np.zeros((16, 24, 4), np.int64), np.zeros(16, np.int64)
    for cut in range(16):
        whole = [axis for axis in range(3, -1, -1) if not cut >> axis & 1]
        found = [(*order, *whole) for order in permutations(a for a in range(4) if cut >> a & 1)]
        counts[cut] = len(found)
        orders[cut, : len(found)] = found
    return orders, counts


def mesh_of(
    sizes: tuple[int, int],
    positions: Sequence[tuple[int, int]],
    ports: Sequence[tuple[int, int]],
    with_links: bool,
) -> Any:
    """The :class:`.mesh_kernel.Mesh` of ``sizes`` = (columns, rows), tiles at ``positions``, DRAM at
    ``ports``.
    """
    from costmodel.schedule.mesh.mesh_kernel import Mesh

    tiles, at = np.array(positions, np.int64).T.copy(), np.array(ports, np.int64).T.copy()
    along = _along(at[0], sizes[0]), _along(at[1], sizes[1])
    rows = np.arange(len(at[0]) + 1)[:, None]
    to_tile = along[0][rows, tiles[0], tiles[0]] + along[1][rows, tiles[1], tiles[1]]
    reached = np.zeros(sizes[0], np.int64), np.zeros(sizes[0], np.int64)
    links = np.zeros(sizes[0] * sizes[1] * 4 if with_links else 0, np.int64)
    return Mesh(tiles[0], tiles[1], at[0], at[1], *along, to_tile, *reached, links)


def ranges_of(tiles: int) -> Any:
    """Empty :class:`.ranges_kernel.Ranges` for partitions into ``tiles`` parts."""
    from costmodel.schedule.leaf.ranges_kernel import Ranges

    shape, axes = (3, 4, tiles), (3, 4)
    first, end, axis, follows = (np.zeros(size, np.int64) for size in (shape, shape, axes, axes))
    return Ranges(first, end, axis, follows, np.zeros((2, *shape[1:]), np.int64))


def _along(ports: Array, length: int) -> Array:
    """Links along one axis from all ports to every index from ``first`` to ``last`` [ports + 1, length,
    length].

    A port at index p reaches from min(p, first) to max(p, last). Row r < ports adds the links of the ports
    that send a byte when r bytes are divided by floored prefix sums, the last row those of all ports.
    """
    count = len(ports)
    first, last = np.arange(length)[:, None, None], np.arange(length)[None, :, None]
    links = np.maximum(ports, last) - np.minimum(ports, first)
    sums = np.arange(count)[:, None] * np.arange(count + 1)[None, :] // count
    sent = np.vstack([np.diff(sums, axis=1), np.ones((1, count), np.int64)])
    return np.ascontiguousarray(np.einsum("flp,rp->rfl", links, sent))
