"""What the steps of a walk ask of a machine, in numbers that hold whatever each of them costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil, gcd, prod

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import ArrayTiming, CacheTiming, Timing, TransferTiming
from costmodel.mapping.timing.caches import (
    MemoryAxis,
    Placed,
    hit_rate,
    lines_of_box,
    lines_of_run,
    placed,
    usable_lines,
)
from costmodel.mapping.timing.walk import Walk, dim_of, is_product, steps_level
from costmodel.workload.network import Tensor


@dataclass(frozen=True)
class ArrayCounts:
    """Passes of the whole layer: ``passes`` as (points, how many), ``last`` those that are a block's last."""

    passes: tuple[tuple[int, int], ...]
    last: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TransferCounts:
    """What one tensor moves in the whole layer: rows, and the requests and beats that they need.

    ``requests`` for less than a beat count as a fraction where the machine takes them in proportion.
    ``buffer_cycles`` are those in which the buffer takes in or gives all bytes.
    """

    rows: float
    requests: float
    beats: float
    buffer_cycles: float


@dataclass(frozen=True)
class StoringSteps:
    """How many steps end by storing outputs, and whether each is ``alone``: no two of them are neighbours."""

    count: int
    alone: bool


@dataclass(frozen=True)
class StepCounts:
    """What a layer asks for, over all its ``steps``.

    ``loads`` and ``stores`` are per tensor; ``read_misses`` and ``write_misses`` are lines per cache.
    """

    steps: int
    stores_of_steps: StoringSteps
    product: bool
    array: ArrayCounts | None
    loads: tuple[TransferCounts, ...]
    stores: tuple[TransferCounts, ...]
    cleared_rows: float
    read_misses: tuple[float, ...]
    write_misses: tuple[float, ...]


def step_counts(architecture: Architecture, timing: Timing, walk: Walk) -> StepCounts:
    """The counts of a walk on a machine."""
    layer = walk.layer
    # rows lie in memory as the steps' level holds them; accumulators are wider, but send results
    element_bytes = max(1, architecture.levels[steps_level(architecture)].word_bits // 8)
    tensors = [placed(timing, layer, tensor, element_bytes) for tensor in layer.tensors]
    memory = _Memory(walk, timing, tuple(tensors))
    outputs = [tensor for tensor in tensors if tensor.tensor.is_output]
    operands = [tensor for tensor in tensors if not tensor.tensor.is_output]
    spills = 1 if timing.keeps_partial_sums else visits(walk, outputs[0].tensor)
    loads, stores = [], []
    if timing.load is not None:
        loads = [memory.transfer(each, timing.load, _loads(walk, each.tensor, timing)) for each in operands]
        # all visits but the first bring the partial sums back
        loads += [memory.transfer(each, timing.load, spills - 1) for each in outputs if spills > 1]
    if timing.store is not None:
        stores = [memory.transfer(each, timing.store, spills) for each in outputs]
    return StepCounts(
        walk.steps,
        _storing_steps(walk, outputs[0].tensor, timing),
        is_product(layer),
        _array(walk, timing.array) if timing.array else None,
        tuple(loads),
        tuple(stores),
        memory.cleared_rows(outputs[0]) if timing.clear_cycles_per_row else 0.0,
        tuple(memory.misses(operands, cache) for cache in timing.caches),
        tuple(memory.misses(outputs, cache) for cache in timing.caches),
    )


def _array(walk: Walk, array: ArrayTiming) -> ArrayCounts:
    """The passes: of every block, all rows of a tile, cut along the dim that streams.

    What the weights depend on and what is summed makes blocks; the other dims stream through them.
    """
    layer = walk.layer
    size_of = {dim_of(layer, dim): points for dim, points in array.block}
    streamed = dim_of(layer, array.pass_dim)
    held = {dim for tensor in layer.tensors if tensor.role == "weights" for dim in tensor.dims}
    held |= layer.summed | size_of.keys()
    blocks = prod(_blocks_along(walk, dim, size_of.get(dim, 1)) for dim in layer.sizes if dim in held)
    rows = [dim for dim in layer.sizes if dim not in held and dim != streamed]
    through = prod(layer.sizes[dim] for dim in rows)
    tiles_of_rows = prod(walk.tiles_along(dim) for dim in rows)
    passes: dict[int, int] = {}
    last: dict[int, int] = {}
    for points, tiles in walk.extents(streamed):
        whole, rest = divmod(points, array.pass_points)
        for length, count in ((array.pass_points, whole), (rest, int(rest > 0))):
            if count:
                passes[length] = passes.get(length, 0) + count * tiles * through * blocks
        ending = rest or array.pass_points
        last[ending] = last.get(ending, 0) + tiles * tiles_of_rows * blocks
    return ArrayCounts(tuple(passes.items()), tuple(last.items()))


def _blocks_along(walk: Walk, dim: str, size: int) -> int:
    """Blocks of ``size`` points that all tiles along a dim are cut into; a tile's last one may not be
    full."""
    return sum(tiles * ceil(points / size) for points, tiles in walk.extents(dim))


def _loads(walk: Walk, tensor: Tensor, timing: Timing) -> int:
    """How often each tile of an operand is loaded: in every step, or when the step before had another."""
    if tensor.role in timing.reloads:
        return prod(bound for dim, bound in walk.loops if dim not in tensor.dims)
    return visits(walk, tensor)


def _storing_steps(walk: Walk, output: Tensor, timing: Timing) -> StoringSteps:
    """Outputs leave once all that is summed into them is there or, where partial sums do not stay, whenever
    the next step has other outputs."""
    sums = [(dim in output.dims, bound) for dim, bound in walk.loops[::-1]]
    inner = prod(bound for _, bound in takewhile(lambda loop: not loop[0], sums))
    together = inner
    if timing.keeps_partial_sums:
        together = prod(bound for moves, bound in sums if not moves)
    return StoringSteps(walk.steps // together, inner > 1)


def visits(walk: Walk, tensor: Tensor) -> int:
    """How often a walk comes to each tile of a tensor that stays until another takes its place.

    A loop that does not move the tensor brings it back only where a loop inside moves it.
    """
    count, moved = 1, False
    for dim, bound in walk.loops[::-1]:
        if dim in tensor.dims:
            moved = True
        elif moved:
            count *= bound
    return count


@dataclass(frozen=True)
class _Memory:
    """The tensors of a layer in memory, and what a walk over them asks for."""

    walk: Walk
    timing: Timing
    tensors: tuple[Placed, ...]

    def extents(self, axis: MemoryAxis, length: int) -> list[tuple[int, int]]:
        """Of every tile along an axis: its elements, and how many tiles have so many.

        With ``whole_strides`` a tile has the elements that the stride skips behind its last one; those that
        a dilated filter skips lie between its own.
        """
        found = [(1, 1)]
        for step in axis.steps:
            strides = self.timing.whole_strides and step.dim in self.walk.layer.output.dims
            behind = step.coefficient - 1 if strides else 0
            found = [
                (extent + step.coefficient * (points - 1) + behind, count * tiles)
                for extent, count in found
                for points, tiles in self.walk.extents(step.dim)
            ]
        return [(min(axis.elements(extent), length), count) for extent, count in found]

    def transfer(self, tensor: Placed, transfer: TransferTiming, times: int) -> TransferCounts:
        """Rows, requests and beats of all tiles of a tensor, each moved ``times`` times."""
        along = [self.extents(axis, n) for axis, n in zip(tensor.axes, tensor.lengths, strict=True)]
        stride, lengths = tensor.row_stride, list(tensor.lengths)
        while transfer.joins_rows and len(along) > 1 and all(one == lengths[-1] for one, _ in along[-1]):
            # whole rows follow each other in memory, and are one row of the axis outside
            length, tiles = lengths.pop(), sum(count for _, count in along.pop())
            along[-1] = [(extent * length, count * tiles) for extent, count in along[-1]]
            lengths[-1] *= length
            stride = tensor.element_bytes * prod(lengths[-1:])
        outer = float(times)
        for extents in along[:-1]:
            outer *= sum(extent * count for extent, count in extents)
        most = transfer.row_elements
        if is_product(self.walk.layer) and transfer.product_row_elements is not None:
            most = transfer.product_row_elements
        rows = requests = beats = buffered = 0.0
        for extent, count in along[-1] if along else [(1, 1)]:
            whole, rest = divmod(extent, most or extent)
            for elements, pieces in ((most or extent, whole), (rest, int(rest > 0))):
                if not pieces:
                    continue
                size = elements * tensor.element_bytes
                apart = gcd(stride, (most or 0) * tensor.element_bytes)
                rows += count * pieces
                filled = (
                    min(1.0, size / transfer.beat_bytes) if transfer.short_requests_in_proportion else 1.0
                )
                requests += count * pieces * filled * lines_of_run(size, apart, transfer.request_bytes)
                buffered += count * pieces * ceil(size / (transfer.buffer_bytes or transfer.beat_bytes))
                beats += count * pieces * ceil(size / transfer.beat_bytes)
        return TransferCounts(outer * rows, outer * requests, outer * beats, outer * buffered)

    def cleared_rows(self, output: Placed) -> float:
        """Rows of the array's width that all tiles of outputs have."""
        width = dict(self.timing.array.block).get("K", 1) if self.timing.array else 1
        along = [self.extents(axis, n) for axis, n in zip(output.axes, output.lengths, strict=True)]
        rows = 1.0
        for extents in along[:-1]:
            rows *= sum(extent * count for extent, count in extents)
        return rows * sum(ceil(extent / width) * count for extent, count in along[-1])

    def misses(self, counted: Sequence[Placed], cache: CacheTiming) -> float:
        """Lines of some of the tensors that the steps touch and the cache does not hold.

        Outwards over the loops: where a loop moves a tensor, its lines grow; where it comes back to lines
        that it touched before, those are missed that the iteration between has pushed out. A loop at which a
        tensor stays in the machine does not touch it again.
        """
        box = dict(self.walk.tile)
        line = cache.line_bytes
        touched = {each.tensor.name: lines_of_box(each, box, line) for each in self.tensors}
        missed = dict(touched)
        stays = {each.tensor.name: not self._moves_always(each.tensor) for each in self.tensors}
        for dim, _ in self.walk.loops[::-1]:
            size, inside = self.walk.layer.sizes[dim], box.get(dim, 1)
            between = sum(touched.values()) / cache.lines
            usable = {each.tensor.name: usable_lines(cache, each, box) for each in self.tensors}
            box[dim] = size
            for each in self.tensors:
                name = each.tensor.name
                if dim in each.tensor.dims:
                    stays[name] = stays[name] and each.tensor.is_output and self.timing.keeps_partial_sums
                elif stays[name]:
                    continue
                bound = size / inside
                after = lines_of_box(each, box, line)
                growth = min(after / touched[name], bound)
                pressure = max(between, touched[name] / usable[name])
                missed[name] *= growth + (bound - growth) * (1 - hit_rate(pressure))
                touched[name] = after
        if self.timing.starts_warm:
            held = hit_rate(sum(touched.values()) / cache.lines)
            missed = {name: count * (1 - held) for name, count in missed.items()}
        return sum(missed[each.tensor.name] for each in counted)

    def _moves_always(self, tensor: Tensor) -> bool:
        """Whether every step moves a tile of the tensor, changed or not."""
        return tensor.role in self.timing.reloads
