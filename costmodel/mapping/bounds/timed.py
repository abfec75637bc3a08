"""A lower bound on the timed cycles of every mapping of a layer (:mod:`costmodel.mapping.timing`).

Timeloop's bound on cycles is none here. A machine with timing cuts the real tile into blocks of its array,
so it can be faster than the spatial factors of a mapping say; it keeps partial sums that Timeloop spills, and
its ports are not the bandwidth of the outermost level. Take the steps of any walk over tiles.

**Array.** Along a dim that makes blocks of b points, the tiles together have at least ``ceil(size / b)``
blocks, whatever the tiles are, for ``ceil(x) + ceil(y) >= ceil(x + y)``. All blocks are the product over
these dims. Every point of the other dims streams through each. The passes of a dim of n points, at most p in
each, are at least ``ceil(n / p)``, and take at least n cycles together and at least the shortest pass each.
The last pass of a block has at most ``min(n, p)`` points and takes ``least_last_pass_cycles`` at least.

**Ports.** The tiles of a tensor together cover each element that the MACs use. So along each axis their
elements, tile by tile, are at least the different positions used; and all together at least the product over
the axes. Where an axis lies in blocks, its elements are whole blocks, at least as many as all positions
fill. Each operand is loaded and each output stored at least once. A row of s bytes takes at least
``s / beat`` beats and, in the mean, at least one and ``s / request`` requests; where those for less than a
beat count in proportion, at least ``s / max(request, beat)``. The buffer takes at least ``s / buffer`` cycles
beside that. Rows are at least the elements divided by those that are moved at once, or, where rows have no
limit, the positions along all axes but the innermost. Where whole rows are joined, no row is counted; nor is
any line that misses a cache. Where a mapping chooses a tensor's layout, the least over all that the machine
permits counts, of each tensor by itself.

**Issue.** With T steps and two in flight a walk takes ``(T-1)/T * S + (A + L + W)/T + i`` cycles, i those to
issue one step and S the slowest of array A, loads L, stores W, misses and issue. As ``A + L + W`` is at least
each of the three, this is at least ``max(A, L, W) + i``. With one step in flight it is ``A + L + W + T i``.

**Steps of a level inside.** Where levels lie outside that of the steps, as DRAM outside the buffers of a
chip's tiles, the layer is cut into equal boxes, each a layer of its own: ``n`` instances of the level run
theirs beside each other, ``t`` one after the other, which takes t times one box. A, L and W of all boxes
together are at least those of the whole layer, as every factor above is subadditive: f(x) + f(y) is at least
f(x + y). So t boxes take at least an n-th of it, and the issue of one step.

Every number here grows with the dims of the layer, the last pass of a block apart. So without that one the
bound also holds for larger dims, which padding makes.
"""

from __future__ import annotations

from math import ceil, prod

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import ArrayTiming, Timing, TransferTiming
from costmodel.mapping.counts.traffic import distinct_sums
from costmodel.mapping.timing.caches import tensor_in_memory
from costmodel.mapping.timing.walk import dim_of, has_inner_steps, is_product, steps_level
from costmodel.workload.network import Layer, Tensor


def least_timed_cycles(architecture: Architecture, layer: Layer, inner: float, *, larger: bool) -> float:
    """The bound that the module derives, in cycles, not rounded; 0 for an architecture without timing.

    ``inner``: cycles that the levels inside take at least by their bandwidths; 0 where the steps are those of
    a level inside the outermost. ``larger``: whether padding may make dims larger than the layer has them.
    """
    timing = architecture.timing
    if timing is None:
        return 0.0
    array = max(inner, _array_cycles(timing.array, layer, larger) if timing.array else 0.0)
    loads = stores = 0.0
    # A larger layer can be no product where this one is, if a window begins to slide.
    # And a box of a layer can be a product where the layer is none, if it has one row of the window.
    inside = has_inner_steps(architecture)
    kinds = {is_product(layer), *([False] if larger else []), *([True] if inside else [])}
    for tensor in layer.tensors:
        cycles = min(
            _port_cycles(architecture, choice, layer, tensor, product)
            for choice in _choices(timing, tensor)
            for product in kinds
        )
        if tensor.is_output:
            stores += cycles
        else:
            loads += cycles
    loads += timing.clear_cycles_per_row * min(
        _cleared_rows(architecture, choice, layer) for choice in _choices(timing, layer.output)
    )
    issue = min(timing.issue_of(product=product) for product in kinds)
    beside_each_other = architecture.instances[steps_level(architecture)]
    if timing.steps_in_flight == 1:
        return (array + loads + stores) / beside_each_other + issue
    return max(array, loads, stores) / beside_each_other + issue


def _choices(timing: Timing, tensor: Tensor) -> list[Timing]:
    """The machine with each of the layouts that a mapping may choose for a tensor."""
    if not timing.permitted_layouts:
        return [timing]
    return [timing.fixed(((tensor.role, layout),)) for layout in timing.choices(tensor.role)]


def _array_cycles(array: ArrayTiming, layer: Layer, larger: bool) -> float:
    """What the paragraph on the array says, as if the layer were one tile."""
    size_of = {dim_of(layer, dim): points for dim, points in array.block}
    streamed = dim_of(layer, array.pass_dim)
    held = {dim for tensor in layer.tensors if tensor.role == "weights" for dim in tensor.dims}
    held |= layer.summed | size_of.keys()
    blocks = prod(ceil(size / size_of.get(dim, 1)) for dim, size in layer.dims if dim in held)
    through = prod(size for dim, size in layer.dims if dim not in held and dim != streamed)
    points, shortest = layer.sizes.get(streamed, 1), array.shortest_pass_cycles
    cycles = blocks * through * max(float(points), shortest * ceil(points / array.pass_points))
    if larger:
        return cycles
    ending = max(float(min(points, array.pass_points)), shortest)
    return cycles + blocks * max(array.least_last_pass_cycles - ending, 0.0)


def _axes(architecture: Architecture, timing: Timing, layer: Layer, tensor: Tensor) -> tuple[list[int], int]:
    """Different positions along each axis, outermost in memory first, and the bytes of an element."""
    element_bytes = max(1, architecture.levels[steps_level(architecture)].word_bits // 8)
    found = tensor_in_memory(timing, layer, tensor, element_bytes)
    positions = []
    for axis, length in zip(found.axes, found.lengths, strict=True):
        different = distinct_sums([(layer.sizes[step.dim], step.coefficient) for step in axis.steps])
        positions.append(min(length, axis.elements(different)))
    return positions, element_bytes


def _port_cycles(
    architecture: Architecture, timing: Timing, layer: Layer, tensor: Tensor, product: bool
) -> float:
    """What the paragraph on ports says of one tensor that is moved once."""
    port: TransferTiming | None = timing.store if tensor.is_output else timing.load
    if port is None:
        return 0.0
    positions, element_bytes = _axes(architecture, timing, layer, tensor)
    elements = prod(positions)
    moved = elements * element_bytes
    at_once = port.row_elements
    if product and port.product_row_elements is not None:
        at_once = port.product_row_elements
    rows = 0.0  # what remains where whole rows are joined, perhaps all of them into one
    if at_once is not None:
        rows = elements / at_once
    elif not port.joins_rows:
        rows = float(prod(positions[:-1]))
    largest = port.request_bytes
    if port.short_requests_in_proportion:
        largest = max(largest, port.beat_bytes)
    requests = moved / largest
    bus = moved / port.beat_bytes + port.cycles_per_request * requests + port.cycles_per_row * rows
    return max(bus, moved / (port.buffer_bytes or port.beat_bytes))


def _cleared_rows(architecture: Architecture, timing: Timing, layer: Layer) -> float:
    """Rows of outputs that are set to zero at least: all outputs, in pieces of the array's width."""
    width = dict(timing.array.block).get("K", 1) if timing.array else 1
    positions, _ = _axes(architecture, timing, layer, layer.output)
    return prod(positions) / width
