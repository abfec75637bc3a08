"""Layers as the plain numbers and arrays that compiled code computes with.

Modules with compiled code are imported inside of functions: importing numba takes a second, which commands
that count no schedule should not wait for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.boxes.arrays import Interval
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import OUTPUT_DIMS, REDUCED_DIM
from costmodel.workload.network import Layer, Role
from costmodel.workload.projection import Projection

Array = NDArray[Any]
DATA: tuple[Role, ...] = ("outputs", "inputs", "weights")
"""The kinds of data, in the order of their numbers in compiled code."""
UNBOUNDED = 1 << 62
"""The length of a dim that needs no cutting off, as a part's indices along it are never beyond its end."""


def same_shapes(graph: LayerGraph) -> list[int]:
    """For every layer the number of the first layer that costs the same on the same tiles.

    Names and producers make no difference, but for whether weights are activations.
    """
    first: dict[tuple[Any, ...], int] = {}
    return [first.setdefault(_kind_and_sizes(layer), index) for index, layer in enumerate(graph.layers)]


def _kind_and_sizes(layer: NetworkLayer) -> tuple[Any, ...]:
    plain = replace(
        layer,
        name="",
        kind="eltwise" if layer.kind == "ptp" else layer.kind,
        external_c=0,
        producers=(),
        weight_producers=(),
        part=layer.part if layer.needs_whole_chip else "forward",
        channels=(),
    )
    return plain, bool(layer.weight_producers)


def kernel_space(layer: NetworkLayer, channels: Interval | None = None) -> Any:
    """The layer's iteration space as a :class:`.ranges_kernel.KernelSpace`, for any batch.

    A layer that needs the whole chip is never cut among tiles, and gets the space of a layer without data.
    ``channels``: only these input channels, for one part of a leaf that has them cut; None: all.
    """
    from costmodel.schedule.leaf.kernels.ranges_kernel import KernelSpace, ProjectionRow

    nothing = ProjectionRow(-1, 0, 1, -1, 0, 0)
    rows = np.array([[nothing] * len(OUTPUT_DIMS)] * len(DATA), np.int64)
    if not layer.needs_whole_chip:
        space = layer.space(1)
        for tensor in space.tensors:  # the operands of an element-wise layer have the same projections
            rows[DATA.index(tensor.role)] = [_projection_row(space, axis, channels) for axis in tensor.axes]
    return KernelSpace(rows, layer.operands, layer.has_weights, bool(layer.weight_producers))


def _projection_row(space: Layer, axis: Projection, channels: Interval | None) -> Any:
    """One dim of a tensor as a :class:`.ranges_kernel.ProjectionRow`; ``channels`` as for a whole space.

    Some channels are a shorter dim whose first index is moved.
    """
    from costmodel.schedule.leaf.kernels.ranges_kernel import ProjectionRow

    cut = [stride for stride in axis.steps if stride.dim in OUTPUT_DIMS]
    whole, offset = {dim: size for dim, size in space.dims if dim not in OUTPUT_DIMS}, axis.offset
    if channels is not None:
        whole[REDUCED_DIM] = channels[1] - channels[0]
        offset += sum(step.coefficient * channels[0] for step in axis.steps if step.dim == REDUCED_DIM)
    reach = axis.extent(whole) - 1
    if not cut:
        return ProjectionRow(-1, 0, 1, reach, offset, space.length(axis))
    ((dim, coefficient, divisor),) = cut
    # a whole dim ends where its tensor does, unless rows of zeros follow: those of a copy behind a cache
    whole_dim = (coefficient, divisor, reach, offset) == (1, 1, 0, 0)
    padded = axis.length is not None and axis.length < dict(space.dims)[dim]
    length = UNBOUNDED if whole_dim and not padded else space.length(axis)
    return ProjectionRow(OUTPUT_DIMS.index(dim), coefficient, divisor, reach, offset, length)


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


def orders_of(parts: Array) -> list[tuple[int, ...]]:
    """All placement orders of a partition that differ."""
    orders, counts = placement_orders()
    cut = sum(int(part > 1) << axis for axis, part in enumerate(parts))
    return [tuple(order) for order in orders[cut, : counts[cut]].tolist()]


def ranges_of(tiles: int) -> Any:
    """Empty :class:`.ranges_kernel.Ranges` for partitions into ``tiles`` parts."""
    from costmodel.schedule.leaf.kernels.ranges_kernel import Ranges

    shape, axes = (3, 4, tiles), (3, 4)
    first, end, axis, follows = (np.zeros(size, np.int64) for size in (shape, shape, axes, axes))
    skipped, served, until = (np.zeros(size, np.int64) for size in (shape[1:], 4, shape))
    counts, theirs = (np.zeros(size, np.int64) for size in ((3, 3), (2, *shape[1:])))
    return Ranges(first, end, axis, follows, skipped, served, until, counts, np.zeros(0, np.int64), theirs)
