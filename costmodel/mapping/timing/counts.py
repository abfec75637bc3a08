"""What the steps of a walk ask of a machine: passes of the array, requests and beats of a bus, missed lines.

How many cycles each of them costs is not counted here but in ``cycles``. Constants that are fitted to
measured cycles can therefore change without these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil, gcd, prod

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import ArrayTiming, CacheTiming, Timing, TransferTiming
from costmodel.mapping.timing.caches import (
    MemoryAxis,
    TensorInMemory,
    hit_rate,
    lines_of_box,
    lines_of_run,
    tensor_in_memory,
    usable_lines,
)
from costmodel.mapping.timing.walk import Walk, dim_of, is_product, steps_level
from costmodel.workload.network import Tensor


@dataclass(frozen=True)
class ArrayCounts:
    """The passes that stream through the array in the whole layer (see ``ArrayTiming``).

    ``passes``: as (points of a pass, how many passes have so many). ``last``, likewise: of these the passes
    that are a tile's last one through a block of weights, beside which the next block enters.
    """

    passes: tuple[tuple[int, int], ...]
    last: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TransferCounts:
    """What moving one tensor in one direction takes over the whole layer (see ``TransferTiming``).

    ``rows``: pieces of neighbouring elements that are moved at once. ``requests`` and ``beats``: how many all
    rows together need; a request for less than a beat counts as a fraction where the machine takes it in
    proportion. ``buffer_cycles``: how long the buffer takes to write or read all of it. Requests are means
    over where rows begin in a line, and so no whole numbers.
    """

    rows: float
    requests: float
    beats: float
    buffer_cycles: float


@dataclass(frozen=True)
class StoringSteps:
    """How many steps end by storing outputs, and whether these are isolated.

    ``alone``: no two of them follow each other, so a step that does not store runs between any two. (The
    name is also a key of stored evaluations, which is why it stays.)
    """

    count: int
    alone: bool


@dataclass(frozen=True)
class StepCounts:
    """What a layer asks for, over all its ``steps``.

    ``product``: whether it is a matrix product. ``loads`` and ``stores`` have an entry for each tensor that
    is moved that way. ``cleared_rows``: rows of outputs that are set to zero. ``read_misses`` and
    ``write_misses``: for each cache of the timing the lines that it does not hold, of operands and of
    outputs.
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
    """What the steps of ``walk`` ask for on a machine with this timing."""
    layer = walk.layer
    # In memory an element has the width of the steps' level: accumulators are wider, but what they send is
    # rounded to that width.
    element_bytes = max(1, architecture.levels[steps_level(architecture)].word_bits // 8)
    tensors = [tensor_in_memory(timing, layer, tensor, element_bytes) for tensor in layer.tensors]
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
    """The passes of all tiles: through every block of weights, all points of the tile that use the block.

    Dims that the weights depend on and dims that are summed make blocks. All other dims stream: the points
    along ``pass_dim`` in passes of at most ``pass_points``, again for every point of the remaining ones.
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
    # Along the streamed dim tiles have one of two lengths, and each length divides into full passes and a
    # shorter one of the rest. The last pass of a tile through a block is that rest, if there is one.
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
    """Into how many blocks of ``size`` points all tiles along a dim are cut; those of the rest count whole.

    No block reaches from one tile into the next, as each step computes on its own tile.
    """
    return sum(tiles * ceil(points / size) for points, tiles in walk.extents(dim))


def _loads(walk: Walk, tensor: Tensor, timing: Timing) -> int:
    """How often each tile of an operand is loaded.

    In every step that uses it if the machine ``reloads`` the tensor, otherwise in those that come to it from
    a step with another tile.
    """
    if tensor.role in timing.reloads:
        return prod(bound for dim, bound in walk.loops if dim not in tensor.dims)
    return visits(walk, tensor)


def _storing_steps(walk: Walk, output: Tensor, timing: Timing) -> StoringSteps:
    """How many steps store outputs, and whether no two of them follow each other.

    Loops over summed dims inside the first one that moves the output add to the same tile in ``inner``
    successive steps, of which only the last one stores; if there are any, a step that stores is followed by
    one that does not. Summed loops further outside come back to a tile later. A machine that keeps partial
    sums stores a tile once, after all its ``together`` steps; any other does so after every ``inner`` ones.
    """
    loops = [(dim in output.dims, bound) for dim, bound in walk.loops[::-1]]
    inner = prod(bound for _, bound in takewhile(lambda loop: not loop[0], loops))
    together = inner
    if timing.keeps_partial_sums:
        together = prod(bound for moves, bound in loops if not moves)
    return StoringSteps(walk.steps // together, inner > 1)


def visits(walk: Walk, tensor: Tensor) -> int:
    """How often a walk comes to each tile of a tensor, if a tile stays until another one replaces it.

    A loop that does not move the tensor brings its tiles back only if a loop inside does move it: otherwise
    the tile is still there.
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
    """The tensors of a layer in memory, and a walk that loads and stores their tiles."""

    walk: Walk
    timing: Timing
    tensors: tuple[TensorInMemory, ...]

    def extents(self, axis: MemoryAxis, length: int) -> list[tuple[int, int]]:
        """How long the tiles along an axis are: pairs of elements, and how many tiles have so many.

        ``length``: the elements of the whole axis. A tile reaches from its first element to its last, gaps
        included. With ``whole_strides`` it also has those that the stride skips behind its last one.
        """
        # Tiles along each dim of the axis have one of two lengths. The axis adds up its dims, so the kinds of
        # its tiles are all combinations: of n dims at most 2**n.
        found = [(1, 1)]
        for step in axis.steps:
            # a stride is the coefficient of an output's dim; that of a filter's dim is a dilation, whose gaps
            # lie between elements of the tile
            strides = self.timing.whole_strides and step.dim in self.walk.layer.output.dims
            behind = step.coefficient - 1 if strides else 0
            found = [
                (extent + step.coefficient * (points - 1) + behind, count * tiles)
                for extent, count in found
                for points, tiles in self.walk.extents(step.dim)
            ]
        return [(min(axis.elements(extent), length), count) for extent, count in found]

    def transfer(self, tensor: TensorInMemory, transfer: TransferTiming, times: int) -> TransferCounts:
        """What it takes to move all tiles of a tensor, each of them ``times`` times.

        A row is what a tile has along the innermost axis. All other axes say how many rows there are, and
        each kind of row is cut into pieces of at most ``row_elements`` and a last piece of the rest.
        """
        along = [self.extents(axis, n) for axis, n in zip(tensor.axes, tensor.lengths, strict=True)]
        stride, lengths = tensor.row_stride, list(tensor.lengths)
        while transfer.joins_rows and len(along) > 1 and all(one == lengths[-1] for one, _ in along[-1]):
            # Tiles have whole rows, which follow each other in memory: together they are one row of the axis
            # outside, which is then the innermost one.
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
                # Rows begin ``stride`` bytes apart and pieces ``most`` elements: their common divisor says at
                # which offsets from the boundary of a request a piece can begin.
                apart = gcd(stride, (most or 0) * tensor.element_bytes)
                rows += count * pieces
                filled = (
                    min(1.0, size / transfer.beat_bytes) if transfer.short_requests_in_proportion else 1.0
                )
                requests += count * pieces * filled * lines_of_run(size, apart, transfer.request_bytes)
                buffered += count * pieces * ceil(size / (transfer.buffer_bytes or transfer.beat_bytes))
                beats += count * pieces * ceil(size / transfer.beat_bytes)
        return TransferCounts(outer * rows, outer * requests, outer * beats, outer * buffered)

    def cleared_rows(self, output: TensorInMemory) -> float:
        """Rows of outputs that are set to zero, in all tiles: pieces as wide as the array has columns."""
        # a block of weights has one column of the array for each of its output channels
        width = dict(self.timing.array.block).get("K", 1) if self.timing.array else 1
        along = [self.extents(axis, n) for axis, n in zip(output.axes, output.lengths, strict=True)]
        rows = 1.0
        for extents in along[:-1]:
            rows *= sum(extent * count for extent, count in extents)
        return rows * sum(ceil(extent / width) * count for extent, count in along[-1])

    def misses(self, counted: Sequence[TensorInMemory], cache: CacheTiming) -> float:
        """How many lines of the tensors ``counted`` the cache does not hold when the steps touch them.

        The first step misses every line of its tiles. Then, from the innermost loop outwards, each loop
        multiplies the misses of a tensor. Its ``bound`` iterations together touch ``growth`` times as many
        different lines as one of them: so many iterations bring new lines, which miss as before. The other
        ``bound - growth`` come back to lines that an earlier iteration touched. Of these the fraction 1 - hit
        rate has been pushed out since, and is missed. Where a loop does not move a tensor and its tile stays
        in the machine, memory is not asked again, and the loop adds nothing. On a machine that
        ``starts_warm`` only those misses count whose lines the layer did not leave in the cache before.
        """
        # ``box``: what one iteration of the loop covers along each dim, at first a tile. ``touched``: by
        # tensor, the different lines that this iteration touches; all tensors push each other out, counted or
        # not.
        box = dict(self.walk.tile)
        line = cache.line_bytes
        touched = {each.tensor.name: lines_of_box(each, box, line) for each in self.tensors}
        missed = dict(touched)
        stays = {each.tensor.name: not self._moves_always(each.tensor) for each in self.tensors}
        for dim, _ in self.walk.loops[::-1]:
            size, inside = self.walk.layer.sizes[dim], box.get(dim, 1)
            # Between two touches of a line all tensors touch what one iteration does.
            between = sum(touched.values()) / cache.lines
            usable = {each.tensor.name: usable_lines(cache, each, box) for each in self.tensors}
            box[dim] = size
            for each in self.tensors:
                name = each.tensor.name
                if dim in each.tensor.dims:
                    # a tile that was replaced is loaded again; partial sums that stay are not
                    stays[name] = stays[name] and each.tensor.is_output and self.timing.keeps_partial_sums
                elif stays[name]:
                    continue
                bound = size / inside  # a fraction where the last tile is smaller
                after = lines_of_box(each, box, line)
                growth = min(after / touched[name], bound)
                pressure = max(between, touched[name] / usable[name])
                missed[name] *= growth + (bound - growth) * (1 - hit_rate(pressure))
                touched[name] = after
        if self.timing.starts_warm:
            # of lines that a cold cache would miss, those are there that the whole layer leaves in the cache
            held = hit_rate(sum(touched.values()) / cache.lines)
            missed = {name: count * (1 - held) for name, count in missed.items()}
        return sum(missed[each.tensor.name] for each in counted)

    def _moves_always(self, tensor: Tensor) -> bool:
        """Whether every step moves a tile of the tensor, even where the step before had the same one."""
        return tensor.role in self.timing.reloads
