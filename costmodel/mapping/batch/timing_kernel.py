"""Compiled: the timed cycles of a walk over tiles, as :mod:`costmodel.mapping.timing` defines them.

A walk is the temporal loops of the outermost level, and nothing else of a mapping counts for it: the tile
along a dim is the layer's size divided by the loop's bound. The only other number is what the levels inside
take by their own bandwidths. So the exact mapper counts a walk once its outermost loops are chosen.

The order of floating-point operations is that of the readable definition, so that both round alike.

Most functions here work on *kinds* of tiles and not on single tiles. Along a dim all tiles are equal but the
last, which may be smaller; so an axis that sums n dims has up to 2**n kinds of tiles, and a count of each
kind replaces a loop over thousands of tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import inlined
from costmodel.mapping.batch.counting_kernel import extent as extent_of

if TYPE_CHECKING:
    from costmodel.mapping.batch.timing_tables import TimingTables, WalkCounts

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""
ARRAY, LOADS, STORES, MISSES, ISSUE, STEPS, STORING, APART = range(8)
"""The entries of ``WalkCounts.cycles``: cycles of each component over all steps, up to ISSUE; how many STEPS
there are, and how many of them store (STORING); APART is 1 if no two of these follow each other."""
LOAD, STORE = 0, 1
"""Directions of transfers: the first index of arrays that say [2] in ``TimingTables``."""
MOST_ROUNDS = 100
"""At most so many steps of Newton's method: nothing can interrupt a loop of compiled code."""
STARTS = 1024
"""Entries of the table of first hit rates, evenly spaced over the inverse of the pressure."""


def _starts() -> Array:
    """Hit rates [STARTS + 1] at the pressures ``STARTS / k``, a little lowered; at k = 0 their limit, 0.

    A hit rate grows with k, so the entry of the next smaller k is below it. At k = ``STARTS`` it would be 1,
    a root from which Newton's method does not move: the entry before is repeated there.
    """
    pressures = STARTS / np.arange(1, STARTS)
    low, high = np.zeros(STARTS - 1), np.full(STARTS - 1, 1.0)
    for _ in range(60):
        middle = (low + high) / 2
        below = middle < np.exp(-pressures * (1 - middle))
        # the other root is 1: below it, and above the one looked for, the difference is positive
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.concatenate([[0.0], np.maximum(low - 1e-9, 0.0), [low[-1] - 1e-9]])


FIRST_RATES = _starts()
"""Where Newton's method begins, by the number of a pressure's inverse in ``STARTS`` steps."""


@inlined
def count_walk(timing: TimingTables, sizes: Array, walk: WalkCounts, any_order: bool) -> None:
    """Fill ``walk.cycles`` for the first ``walk.loops[0]`` loops of ``walk.dim`` and ``walk.bound``.

    The loops are innermost first; ``sizes`` [dims] are the layer's. Loops are changed where the machine
    rounds tiles up to whole blocks: bounds become smaller, loops of one iteration are taken out, and
    ``walk.loops`` falls. So the caller fills in the loops before each call. All else in ``walk`` is
    workspace.

    With ``any_order`` the entries are lower bounds that hold for these loops in every order: tiles that can
    stay count as loaded once, caches miss nothing, and STORING and APART are 0, as waiting for a free buffer
    depends on the order. On a machine without timing nothing is filled.
    """
    _count_if_timed(timing.timed, timing, sizes, walk, any_order)


# Of a branch that an argument's type decides, numba compiles one side only: for None the other. Without that,
# what counts walks would be a third of the code that is compiled for machines that have none.
@inlined
def _count_if_timed(
    timed: int | None, timing: TimingTables, sizes: Array, walk: WalkCounts, any_order: bool
) -> None:
    if timed is not None:
        _count(timing, sizes, walk, any_order)


@inlined
def _count(timing: TimingTables, sizes: Array, walk: WalkCounts, any_order: bool) -> None:
    """:func:`count_walk` of a machine with timing."""
    _tiles(timing, sizes, walk)
    # After ``_tiles``, which drops loops that rounding has made a single tile.
    steps = 1.0
    for loop in range(walk.loops[0]):
        steps *= walk.bound[loop]
    walk.cycles[STEPS] = steps
    walk.cycles[ISSUE] = steps * timing.issue
    walk.cycles[ARRAY] = _array_cycles(timing, sizes, walk) if timing.has_array else 0.0
    # Outward from the array, each cache counts the lines that it does not hold, and charges for moving them
    # from what lies behind it. Lines of the output are written, all others are read.
    read_misses, write_misses = 0.0, 0.0
    if not any_order:
        for cache in range(len(timing.cache_lines)):
            if timing.cold[cache] == 0.0:  # the cache has held the whole layer from the beginning
                continue
            _count_misses(timing, sizes, walk, cache)
            read, written = 0.0, 0.0
            for tensor in range(len(timing.axes)):
                if tensor == timing.output:
                    written += walk.missed[tensor]
                else:
                    read += walk.missed[tensor]
            read_misses += read * timing.read_miss[cache]
            write_misses += written * timing.write_miss[cache]
    spills = 1
    if not timing.keeps_partial_sums and not any_order:
        spills = _visits(timing, walk, timing.output)
    walk.cycles[LOADS] = _loads(timing, walk, spills, any_order, read_misses)
    walk.cycles[STORES] = _stores(timing, walk, spills, write_misses)
    walk.cycles[MISSES] = read_misses + write_misses
    # What steps wait for until a buffer is free depends on their order. Without it they never take less than
    # the slowest component, which is a bound for any order.
    walk.cycles[STORING], walk.cycles[APART] = 0.0, 0.0
    if timing.whole_steps and not any_order:
        _count_storing(timing, walk)


@inlined
def _count_storing(timing: TimingTables, walk: WalkCounts) -> None:
    """Fill in how many steps store their outputs, and whether no two of them follow each other.

    Loops over summed dims inside the first one that moves the output add to the same tile: only the last of
    their steps stores it, so a step that stores is followed by some that do not. Summed loops further outside
    come back to a tile later. A machine that keeps partial sums stores it once, after all its ``together``
    steps; any other stores it after every ``inner`` steps."""
    inner, together, moved = 1, 1, False
    for loop in range(walk.loops[0]):
        if timing.relevant[timing.output, walk.dim[loop]]:
            moved = True
            continue
        together *= walk.bound[loop]
        if not moved:
            inner *= walk.bound[loop]
    if not timing.keeps_partial_sums:
        together = inner
    walk.cycles[STORING] = walk.cycles[STEPS] // together
    walk.cycles[APART] = 1.0 if inner > 1 else 0.0


@inlined
def walk_cycles(timing: TimingTables, cycles: Array, inner: float) -> Real:
    """The cycles of a walk, not rounded, from ``cycles`` as in ``WalkCounts``, where the levels inside take
    ``inner`` cycles.

    They never fall when ``inner`` or an entry in cycles rises and STEPS, STORING and APART stay, nor when
    STORING rises from 0, where nothing waits for a free buffer. So lower bounds of the cycles with STORING 0
    give a lower bound. The result can fall with more STEPS, as the one step that overlaps with nothing is
    shorter then, and with more STORING steps, which share the cycles of STORES.

    With two steps in flight the slowest component sets the pace, and what the first step loads and the last
    one computes and stores overlaps with nothing (``fill_drain`` of ``TimedCycles``)::

        load     | 1 | 2 |   | 3 |   | 4 |
        compute      |  1  |  2  |  3  |  4  |
        store              | 1 | | 2 | | 3 | | 4 |
                 fill|     all but one     |  drain

    On a machine without timing the result is ``inner``.
    """
    return _cycles_if_timed(timing.timed, timing, cycles, inner)


@inlined
def _cycles_if_timed(timed: int | None, timing: TimingTables, cycles: Array, inner: float) -> Real:
    if timed is not None:
        return _cycles(timing, cycles, inner)
    return inner


@inlined
def _cycles(timing: TimingTables, cycles: Array, inner: float) -> Real:
    """:func:`walk_cycles` of a machine with timing."""
    array = max(cycles[ARRAY], inner)
    loads, stores, issue = cycles[LOADS], cycles[STORES], cycles[ISSUE]
    in_sequence = array + loads + stores + issue
    if timing.in_flight == 1:
        return in_sequence
    slowest = max(max(max(array, loads), max(stores, cycles[MISSES])), issue)
    steps = cycles[STEPS]
    if cycles[STORING] > 0.0:
        slowest = max(slowest, _in_whole_steps(timing, cycles, array))
    return (steps - 1) / steps * slowest + in_sequence / steps


@inlined
def _in_whole_steps(timing: TimingTables, cycles: Array, array_cycles: float) -> Real:
    """Cycles of all steps where each keeps its half of the buffers until it has stored its outputs.

    The formulas are those of ``costmodel/mapping/timing/cycles.py``, which derives them."""
    steps, storing = cycles[STEPS], cycles[STORING]
    load, array, store = cycles[LOADS] / steps, array_cycles / steps, cycles[STORES] / storing
    between = max(load, array)  # cycles from one step to the next where neither stores
    if cycles[APART] > 0.0:
        wait = max(0.0, store - abs(load - array) - timing.ahead)
        return steps * between + storing * wait
    with_store = max(max(between, store), (load + array + store - timing.ahead) / 2)
    return (steps - storing) * between + storing * with_store


@inlined
def _tiles(timing: TimingTables, sizes: Array, walk: WalkCounts) -> None:
    """Fill ``tile``, ``tiles`` and ``last``; round tiles of products, drop loops that end at once.

    A tile that is rounded up to whole blocks covers more of the dim, so there are fewer of them and the last
    one is smaller; a loop with one tile left is no loop, and the others move up in ``walk``."""
    for dim in range(len(sizes)):
        walk.tile[dim] = sizes[dim]
        walk.tiles[dim] = 1
        walk.last[dim] = sizes[dim]
    kept = 0
    for loop in range(walk.loops[0]):
        dim, bound = walk.dim[loop], walk.bound[loop]
        tile = sizes[dim] // bound
        if timing.rounding[dim] > 1:
            points = timing.rounding[dim]
            tile = min((tile + points - 1) // points * points, sizes[dim])
            bound = (sizes[dim] + tile - 1) // tile
        walk.tile[dim] = tile
        walk.tiles[dim] = bound
        walk.last[dim] = sizes[dim] - (bound - 1) * tile
        if bound > 1:
            walk.dim[kept] = dim
            walk.bound[kept] = bound
            kept += 1
    walk.loops[0] = kept


@inlined
def _array_cycles(timing: TimingTables, sizes: Array, walk: WalkCounts) -> Real:
    """Passes of all blocks, and what the last pass of a block waits for."""
    # ``blocks`` of weights are held one after the other, in all tiles together. ``through`` are the points of
    # the other dims that stream through each block, without the dim that passes are cut from; ``row_tiles``
    # is into how many tiles those dims are cut, each of which ends its passes with a last one.
    blocks, through, row_tiles = 1, 1, 1
    for dim in range(len(sizes)):
        points = timing.block[dim]
        if points == 1:  # spares divisions, which are slow
            blocks *= sizes[dim]
        elif points > 0:
            whole = (walk.tile[dim] + points - 1) // points
            blocks *= (walk.tiles[dim] - 1) * whole + (walk.last[dim] + points - 1) // points
        elif timing.streams[dim]:
            through *= sizes[dim]
            row_tiles *= walk.tiles[dim]
    tile, last, tiles = 1, 1, 1
    if timing.streamed >= 0:
        tile, last, tiles = (
            walk.tile[timing.streamed],
            walk.last[timing.streamed],
            walk.tiles[timing.streamed],
        )
    # A tile is cut into full passes of ``most`` points and a shorter one of the rest, if there is one.
    most, shortest = timing.pass_points, timing.shortest_pass
    whole, last_whole = tile // most, last // most
    full = (tiles - 1) * whole + last_whole
    rest, last_rest = tile - whole * most, last - last_whole * most
    # Tiles with the same rest are added before they are multiplied, as the definition does.
    rests, last_rests = 0, 0
    if rest == last_rest:
        rests = tiles if rest else 0
    else:
        rests, last_rests = (tiles - 1 if rest else 0), (1 if last_rest else 0)
    cycles = full * through * blocks * max(float(most), shortest)
    cycles += rests * through * blocks * max(float(rest), shortest)
    cycles += last_rests * through * blocks * max(float(last_rest), shortest)
    # The last pass of a block takes at least ``least_last_pass`` cycles, because the next block enters beside
    # it: what that adds depends on how many points this pass has, those of the rest or a full one's.
    waiting = 0.0
    ending = rest if rest else most
    last_ending = last_rest if last_rest else most
    wait = max(timing.least_last_pass - max(float(ending), shortest), 0.0)
    last_wait = max(timing.least_last_pass - max(float(last_ending), shortest), 0.0)
    if ending == last_ending:
        waiting = tiles * row_tiles * blocks * wait
    else:
        waiting = (tiles - 1) * row_tiles * blocks * wait + row_tiles * blocks * last_wait
    return cycles + waiting


@inlined
def _visits(timing: TimingTables, walk: WalkCounts, tensor: int) -> Int:
    """How often a walk comes to each tile of a tensor that stays until another tile replaces it.

    Loops that do not move the tensor repeat a visit only outside the first loop that moves it."""
    count, moved = 1, False
    for loop in range(walk.loops[0]):
        if timing.relevant[tensor, walk.dim[loop]]:
            moved = True
        elif moved:
            count *= walk.bound[loop]
    return count


@inlined
def _repeats(timing: TimingTables, walk: WalkCounts, tensor: int) -> Int:
    """How many steps use each tile of a tensor."""
    count = 1
    for loop in range(walk.loops[0]):
        if not timing.relevant[tensor, walk.dim[loop]]:
            count *= walk.bound[loop]
    return count


@inlined
def _loads(timing: TimingTables, walk: WalkCounts, spills: int, any_order: bool, misses: float) -> Real:
    """Cycles of all loads, of setting outputs to zero, and of lines that miss.

    ``spills``: how often each tile of the output is stored, 1 if it stays until it is finished. All but the
    first of its visits load it again. ``misses``: cycles already.
    """
    rows, requests, beats, slower = 0.0, 0.0, 0.0, 0.0
    if timing.moves[LOAD]:
        for tensor in range(len(timing.axes)):
            if tensor == timing.output:
                continue
            times = 1
            if timing.reloads[tensor]:
                times = _repeats(timing, walk, tensor)
            elif not any_order:
                times = _visits(timing, walk, tensor)
            moved = _transfer(timing, walk, tensor, LOAD, times)
            rows, requests, beats = rows + moved[0], requests + moved[1], beats + moved[2]
            slower += _slower(timing, LOAD, moved)
        if spills > 1:  # all visits but the first bring the partial sums back
            moved = _transfer(timing, walk, timing.output, LOAD, spills - 1)
            rows, requests, beats = rows + moved[0], requests + moved[1], beats + moved[2]
            slower += _slower(timing, LOAD, moved)
    clearing = 0.0
    if timing.clear_per_row > 0:
        clearing = timing.clear_per_row * _cleared_rows(timing, walk)
    return _port(timing, LOAD, (rows, requests, beats, slower)) + misses + clearing


@inlined
def _stores(timing: TimingTables, walk: WalkCounts, spills: int, misses: float) -> Real:
    """Cycles of all stores, and of lines that miss; ``spills`` and ``misses`` as for :func:`_loads`."""
    if not timing.moves[STORE]:
        return misses
    moved = _transfer(timing, walk, timing.output, STORE, spills)
    every = (moved[0], moved[1], moved[2], _slower(timing, STORE, moved))
    return _port(timing, STORE, every) + misses


@inlined
def _slower(timing: TimingTables, direction: int, moved: tuple[float, float, float, float]) -> Real:
    """Cycles of one tensor's transfers by the slower of bus and buffer, which work side by side."""
    rows, requests, beats, buffer = moved
    bus = beats + timing.per_request[direction] * requests + timing.per_row[direction] * rows
    return max(buffer, bus)


@inlined
def _port(timing: TimingTables, direction: int, every: tuple[float, float, float, float]) -> Real:
    """Cycles of all transfers of a direction: by the bus, and what the buffer needs beyond that."""
    rows, requests, beats, slower = every
    requesting, moving = timing.per_request[direction] * requests, timing.per_row[direction] * rows
    return beats + requesting + moving + max(0.0, slower - beats - requesting - moving)


@inlined
def _extents(timing: TimingTables, walk: WalkCounts, tensor: int, axis: int) -> Int:
    """Fill ``extents`` and ``counts``: elements of the tiles along an axis, each kind once; their number.

    Each dim of the axis whose last tile is smaller doubles the kinds. Kind k becomes 2k (a whole tile of the
    dim) and 2k + 1 (its last one), from the highest k down, so that none is overwritten before it is read."""
    kinds = 1
    walk.extents[0] = 1
    walk.counts[0] = 1
    for term in range(timing.term_dims.shape[2]):
        dim = timing.term_dims[tensor, axis, term]
        if dim < 0:
            break
        step = timing.term_steps[tensor, axis, term]
        behind = step - 1 if timing.whole_strides and timing.relevant[timing.output, dim] else 0
        tile, last, tiles = walk.tile[dim], walk.last[dim], walk.tiles[dim]
        if last == tile:
            for kind in range(kinds):
                walk.extents[kind] += step * (tile - 1) + behind
                walk.counts[kind] *= tiles
        else:
            for kind in range(kinds - 1, -1, -1):
                extent, count = walk.extents[kind], walk.counts[kind]
                walk.extents[2 * kind] = extent + step * (tile - 1) + behind
                walk.counts[2 * kind] = count * (tiles - 1)
                walk.extents[2 * kind + 1] = extent + step * (last - 1) + behind
                walk.counts[2 * kind + 1] = count
            kinds *= 2
    for kind in range(kinds):
        elements = _elements(timing, tensor, axis, walk.extents[kind])
        walk.extents[kind] = min(elements, timing.lengths[tensor, axis])
    return kinds


@inlined
def _of_all_tiles(timing: TimingTables, walk: WalkCounts, tensor: int, axis: int) -> Int:
    """The elements along an axis of all tiles together."""
    elements = 0
    for kind in range(_extents(timing, walk, tensor, axis)):
        elements += walk.extents[kind] * walk.counts[kind]
    return elements


@inlined
def _elements(timing: TimingTables, tensor: int, axis: int, positions: int) -> Int:
    """Elements of an axis that so many positions take, as ``MemoryAxis.elements``."""
    block = timing.axis_block[tensor, axis]
    if timing.axis_inside[tensor, axis] > 0:
        return timing.axis_inside[tensor, axis]
    return positions if block == 1 else (positions + block - 1) // block


@inlined
def _transfer(
    timing: TimingTables, walk: WalkCounts, tensor: int, direction: int, times: int
) -> tuple[Real, Real, Real, Real]:
    """Rows, requests, beats and cycles of the buffer of all tiles of a tensor, each moved ``times`` times.

    A row is a tile's elements that are neighbours along the innermost axis in memory. First the axis that
    makes rows is found, further out where whole rows are joined. Then all other axes say how many rows there
    are, and each kind of row is cut into pieces of at most ``row_elements`` and a last piece of the rest."""
    inner = timing.axes[tensor] - 1
    element = timing.element_bytes
    stride = (
        timing.strides[tensor, inner - 1]
        if inner > 0
        else (timing.lengths[tensor, 0] * timing.strides[tensor, 0])
    )
    # Rows that are whole follow each other in memory; ``joined`` elements of them make one of the next axis.
    joined, joined_tiles = 1, 1
    while timing.joins_rows[direction] and inner > 0:
        kinds = _extents(timing, walk, tensor, inner)
        tiles, whole = 0, True
        for kind in range(kinds):
            tiles += walk.counts[kind]
            whole = whole and walk.extents[kind] == timing.lengths[tensor, inner]
        if not whole:
            break
        joined *= timing.lengths[tensor, inner]
        joined_tiles *= tiles
        inner -= 1
        stride = element * timing.lengths[tensor, inner] * joined
    outer = float(times)
    for axis in range(inner):
        outer *= _of_all_tiles(timing, walk, tensor, axis)
    # Rows begin ``stride`` bytes apart and pieces ``most`` elements; the divisor of both tells at which
    # offsets from a request's boundary they can begin (``lines_of_run``).
    kinds = _extents(timing, walk, tensor, inner)
    most = timing.row_elements[direction]
    apart = _divisor(stride, most * element)
    rows, requests, beats, buffer = 0.0, 0.0, 0.0, 0.0
    for kind in range(kinds):
        extent, count = walk.extents[kind] * joined, walk.counts[kind] * joined_tiles
        elements, filled_ones = extent, 1
        if most > 0:
            elements, filled_ones = most, extent // most
        for part in range(2):  # full pieces, then the rest
            pieces = filled_ones if part == 0 else 1
            size = (elements if part == 0 else extent - filled_ones * elements) * element
            if pieces == 0 or size == 0:
                continue
            rows += count * pieces
            filled = 1.0
            if timing.in_proportion[direction]:
                filled = min(1.0, size / timing.beat_bytes[direction])
            lines = lines_of_run(float(size), apart, timing.request_bytes[direction])
            requests += count * pieces * filled * lines
            buffer += count * pieces * np.ceil(size / timing.buffer_bytes[direction])
            beats += count * pieces * np.ceil(size / timing.beat_bytes[direction])
    return outer * rows, outer * requests, outer * beats, outer * buffer


@inlined
def _cleared_rows(timing: TimingTables, walk: WalkCounts) -> Real:
    """Rows of the array's width (``clear_width``, in elements) that all tiles of outputs have.

    Each is set to zero once.
    """
    tensor, inner = timing.output, timing.axes[timing.output] - 1
    rows = 1.0
    for axis in range(inner):
        rows *= _of_all_tiles(timing, walk, tensor, axis)
    pieces = 0
    for kind in range(_extents(timing, walk, tensor, inner)):
        wide = (walk.extents[kind] + timing.clear_width - 1) // timing.clear_width
        pieces += wide * walk.counts[kind]
    return rows * pieces


@inlined
def _divisor(one: int, other: int) -> Int:
    """The greatest common divisor; of a number and 0 it is the number.

    Lines and sets are mostly powers of two, whose common divisor with a number is its lowest bit: that spares
    Euclid's divisions.
    """
    if other & (other - 1) == 0 and one > 0 and other > 0:
        return min(one & -one, other)
    while other:
        one, other = other, one % other
    return one


@inlined
def lines_of_run(run: float, stride: int, line: int) -> Real:
    """Lines that a run of ``run`` bytes touches, in the mean over the offsets of runs ``stride`` bytes apart.

    With g = gcd(stride, line) there are n = line / g offsets k * g. Of run = q * line + r, the part r touches
    no line at offset 0 if r is 0, two lines where k * g + r is above ``line``, and one elsewhere.
    """
    step = _divisor(stride, line)
    offsets = line / step  # a whole number; whole numbers divide more slowly
    whole = np.floor(run / line)
    rest = run - whole * line
    touched = offsets * whole + offsets
    if rest == 0.0:
        touched -= 1.0
    else:
        touched += offsets - 1 - np.floor((line - rest) / step)
    return touched / offsets


@inlined
def _extent(timing: TimingTables, tensor: int, axis: int, box: Array) -> Int:
    """Elements from the first to the last that ``box`` [dims] touches on an axis, at most the whole axis."""
    positions = extent_of(timing, tensor, axis, box)
    return min(_elements(timing, tensor, axis, positions), timing.lengths[tensor, axis])


@inlined
def _lines_of_box(timing: TimingTables, tensor: int, box: Array, line: int) -> Real:
    """Lines that ``box`` touches: rows that lie closer together than a line are one run, others count one by
    one."""
    # From the innermost axis outwards. As long as the gaps between runs are shorter than a line, no line
    # between them is left out, and all of it is one longer run. The first larger gap ends that: from there on
    # every axis multiplies the number of runs.
    run, count = float(timing.element_bytes), 1.0
    stride = timing.element_bytes
    for axis in range(timing.axes[tensor] - 1, -1, -1):
        extent, step = _extent(timing, tensor, axis, box), timing.strides[tensor, axis]
        if count == 1.0 and step - run < line:
            run = (extent - 1) * step + run
        elif extent > 1:
            stride = step if count == 1.0 else _divisor(stride, step)
            count *= extent
    return count * lines_of_run(run, stride if count > 1 else line, line)


@inlined
def _usable_lines(timing: TimingTables, tensor: int, cache: int, box: Array) -> Real:
    """Lines of the cache that a tensor can use: rows a power of two apart meet in few of its sets."""
    lines, line = timing.cache_lines[cache], timing.line_bytes[cache]
    if timing.row_sets[cache, tensor] == 0.0:
        return lines
    inner = timing.axes[tensor] - 1
    extent = _extent(timing, tensor, inner, box)
    if extent >= timing.lengths[tensor, inner]:
        return lines
    row = lines_of_run(float(extent * timing.element_bytes), timing.strides[tensor, inner - 1], line)
    sets = min(float(timing.cache_sets[cache]), timing.row_sets[cache, tensor] * row)
    return sets * timing.cache_ways[cache]


@inlined
def _count_lines(timing: TimingTables, sizes: Array, walk: WalkCounts, line: int) -> None:
    """Fill ``lines``: what the tile touches, and what the loops up to each one touch together."""
    tensors = len(timing.axes)
    for dim in range(len(sizes)):
        walk.box[dim] = walk.tile[dim]
    for tensor in range(tensors):
        walk.lines[0, tensor] = _lines_of_box(timing, tensor, walk.box, line)
    for loop in range(walk.loops[0]):
        dim = walk.dim[loop]
        walk.box[dim] = sizes[dim]
        for tensor in range(tensors):
            walk.lines[loop + 1, tensor] = walk.lines[loop, tensor]
            if timing.relevant[tensor, dim]:
                walk.lines[loop + 1, tensor] = _lines_of_box(timing, tensor, walk.box, line)


@inlined
def _count_misses(timing: TimingTables, sizes: Array, walk: WalkCounts, cache: int) -> None:
    """Fill ``missed``: the lines of each tensor that the steps touch and the cache does not hold."""
    tensors, lines = len(timing.axes), timing.cache_lines[cache]
    # Caches mostly have lines of one length.
    counted = cache > 0 and timing.cold[cache - 1] > 0.0
    if not counted or timing.line_bytes[cache] != timing.line_bytes[cache - 1]:
        _count_lines(timing, sizes, walk, timing.line_bytes[cache])
    # A step misses all lines of its tile, and each loop from the innermost outwards multiplies the misses: by
    # ``bound`` where nothing survives an iteration, by ``growth`` (the new lines that an iteration brings)
    # where everything does. In between, the fraction ``lost`` of the lines that the next iteration would find
    # is pushed out by what all tensors touch in between, ``between`` times the cache's lines.
    for dim in range(len(sizes)):
        walk.box[dim] = walk.tile[dim]
    for tensor in range(tensors):
        walk.missed[tensor] = walk.lines[0, tensor]
        walk.stays[tensor] = not timing.reloads[tensor]
    for loop in range(walk.loops[0]):
        dim = walk.dim[loop]
        bound = sizes[dim] / walk.box[dim]
        between = 0.0
        for tensor in range(tensors):
            between += walk.lines[loop, tensor]
        between /= lines
        pushed = -1.0  # what the iteration between pushes out, once a tensor asks for it
        for tensor in range(tensors):
            touched, growth = walk.lines[loop, tensor], 1.0
            if not timing.relevant[tensor, dim]:
                if walk.stays[tensor]:  # it is not touched again
                    continue
            else:
                kept = tensor == timing.output and timing.keeps_partial_sums
                walk.stays[tensor] = walk.stays[tensor] and kept
                growth = min(walk.lines[loop + 1, tensor] / touched, bound)
            if growth == bound:  # every iteration touches lines of its own: none can be lost
                walk.missed[tensor] *= growth
                continue
            usable, pressure = _usable_lines(timing, tensor, cache, walk.box), between
            if usable < lines:
                pressure = max(between, touched / usable)
            if pressure > between:
                lost = 1 - hit_rate(pressure)
            else:
                if pushed < 0.0:
                    pushed = 1 - hit_rate(between)
                lost = pushed
            walk.missed[tensor] *= growth + (bound - growth) * lost
        walk.box[dim] = sizes[dim]
    for tensor in range(tensors):
        walk.missed[tensor] *= timing.cold[cache]


@inlined
def hit_rate(pressure: float) -> Real:
    """The fraction of a tensor's lines that a cache still holds when they are touched again.

    ``pressure``, x: the lines that are touched in between divided by those of the cache. The fraction is the
    root h below 1 of h = exp(-x (1 - h)); 1 up to x = 1.

    From a rate below, Newton's method climbs to the root and never passes it, since h - exp(-x (1 - h)) is
    concave; it ends at the first step that no longer climbs.
    """
    if pressure <= 1.0:
        return 1.0
    rate = FIRST_RATES[int(STARTS / pressure)]  # of a higher pressure, so the rate is below the root
    for _ in range(MOST_ROUNDS):
        power = np.exp(-pressure * (1 - rate))
        better = rate + (power - rate) / (1 - pressure * power)
        if better <= rate:
            break
        rate = better
    return rate
