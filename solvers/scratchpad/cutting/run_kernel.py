"""The pieces of a run and their play, compiled: what :mod:`costmodel.scratchpad.cut` makes of the same cut,
piece by piece, without an object for each. Imports numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.compiled import called, entry, inlined
from solvers.scratchpad.cutting.run_tables import (
    COPIED,
    FLAGS,
    MACS,
    MISFIT,
    MOVED,
    NEVER,
    PIECES,
    PLAYED,
    RESIDENT,
    TOO_SMALL,
)

if TYPE_CHECKING:
    from solvers.scratchpad.cutting.run_tables import DivisionTables, RunCuts, RunWork

Int = Any
"""A 64-bit integer of compiled code."""

BY_ROWS, BY_CHANNELS = 1, 2


@entry
def play(
    tables: DivisionTables,
    cuts: RunCuts,
    work: RunWork,
    first: Int,
    end: Int,
    capacity: Int,
    moved: Int,
    most: Int,
) -> Int:
    """Play the operators at positions ``[first, end)``, cut so, from what the runs before left.

    ``moved``: bytes that these moved; beyond ``most`` the play ends. ``work.result`` and, of tensors that are
    read later on, ``work.flags`` say what the run leaves, in the order of ``cuts``.
    """
    bands = _lay_out(tables, cuts, work, end)
    if bands < 0:
        return TOO_SMALL
    work.result[MACS] = 0
    pieces = 0
    entries = 0
    for position in range(first, end):
        bands, pieces, entries = _cut(tables, work, position, bands, pieces, entries)
        if bands < 0:
            return TOO_SMALL
    work.entry_first[pieces] = entries
    _order(tables, work, bands, pieces, end)
    _note_uses(work, bands, pieces)
    if not _run(tables, work, bands, pieces, end, capacity, moved, most):
        return MISFIT
    # the flags of what is left move to the front: no band is written before it was read
    count = 0
    for number in range(len(cuts.tensor)):
        tensor = cuts.tensor[number]
        if _next_reader(tables, tensor, end) < NEVER:
            for band in range(work.row_count[tensor] * work.parts[tensor]):
                work.flags[count] = work.flags[work.base[tensor] + band]
                count += 1
    work.result[FLAGS], work.result[PIECES] = count, pieces
    return PLAYED


@inlined
def _next_reader(tables: DivisionTables, tensor: Int, end: Int) -> Int:
    """The next position from ``end`` on at which a tensor is read; NEVER where there is none."""
    for place in range(tables.reader_first[tensor], tables.reader_first[tensor + 1]):
        if tables.reader[place] >= end:
            return tables.reader[place]
    return NEVER


@called
def _lay_out(tables: DivisionTables, cuts: RunCuts, work: RunWork, end: Int) -> Int:
    """Number the bands of all tensors; returns how many there are, or -1 where they are too many."""
    size = len(work.tensor) - 1
    count = len(cuts.tensor)
    rows = 0
    for number in range(count):
        tensor = cuts.tensor[number]
        work.parts[tensor], work.recomputed[tensor] = cuts.channels[number], cuts.recomputed[number]
        if cuts.recomputed[number]:
            continue
        if rows + cuts.rows[number] > size:
            return -1
        work.row_first[tensor], work.row_count[tensor] = rows, cuts.rows[number]
        for row in range(cuts.rows[number]):
            work.row_start[rows] = row * tables.rows[tensor] // cuts.rows[number]
            work.row_end[rows] = (row + 1) * tables.rows[tensor] // cuts.rows[number]
            rows += 1
    # bands of recomputed tensors follow from those of what their reader makes, which comes behind them
    for number in range(count - 1, -1, -1):
        if cuts.recomputed[number]:
            tensor = cuts.tensor[number]
            position = tables.reader[tables.reader_first[tensor]]
            read = _read_of(tables, position, tensor)
            reader_made = tables.made_tensor[tables.made_first[position]]
            if rows + work.row_count[reader_made] > size:
                return -1
            work.row_first[tensor] = rows
            for row in range(work.row_count[reader_made]):
                place = work.row_first[reader_made] + row
                start, stop = _rows_needed(tables, read, work.row_start[place], work.row_end[place])
                # two bands of the reader may need the very same rows, which they then share
                before = rows - 1
                same = row > 0 and work.row_start[before] == start and work.row_end[before] == stop
                if not same:
                    work.row_start[rows], work.row_end[rows] = start, stop
                    rows += 1
            work.row_count[tensor] = rows - work.row_first[tensor]
    bands = 0
    flagged = 0
    for number in range(count):
        tensor = cuts.tensor[number]
        parts = work.parts[tensor]
        work.base[tensor] = bands
        if bands + work.row_count[tensor] * parts > size:
            return -1
        whole = work.row_count[tensor] * parts == 1 and work.row_start[work.row_first[tensor]] == 0
        whole = whole and work.row_end[work.row_first[tensor]] == tables.rows[tensor]
        for row in range(work.row_first[tensor], work.row_first[tensor] + work.row_count[tensor]):
            for part in range(parts):
                start, stop = _channels_of(tables, work, tensor, part)
                own = (stop - start) * (work.row_end[row] - work.row_start[row]) * tables.elements[tensor]
                if whole:
                    work.traffic[bands], work.block[bands] = tables.traffic[tensor], tables.block[tensor]
                else:
                    _size(tables, work, bands, own)
                work.tensor[bands] = tensor
                work.host[bands] = tables.on_host[tensor]
                work.made[bands] = 0
                work.flags[bands] = 0
                if flagged < len(cuts.flags):
                    work.flags[bands] = cuts.flags[flagged]
                    flagged += 1
                bands += 1
    return bands


@inlined
def _size(tables: DivisionTables, work: RunWork, band: Int, elements: Int) -> None:
    """Enter the bytes of a band of so many elements."""
    size = (elements * tables.settings[0] + 7) // 8
    work.traffic[band] = size
    work.block[band] = (size + tables.settings[1] - 1) // tables.settings[1] * tables.settings[1]


@inlined
def _channels_of(tables: DivisionTables, work: RunWork, tensor: Int, part: Int) -> tuple[Int, Int]:
    channels, parts = tables.channels[tensor], work.parts[tensor]
    return part * channels // parts, (part + 1) * channels // parts


@inlined
def _read_of(tables: DivisionTables, position: Int, tensor: Int) -> Int:
    for read in range(tables.read_first[position], tables.read_first[position + 1]):
        if tables.read_tensor[read] == tensor:
            return read
    return -1


@inlined
def _rows_needed(tables: DivisionTables, read: Int, start: Int, stop: Int) -> tuple[Int, Int]:
    """The rows of an input for rows of the output, without padding."""
    rows = tables.rows[tables.read_tensor[read]]
    if not tables.read_windowed[read]:
        return 0, rows
    stride, before = tables.read_stride[read], tables.read_before[read]
    reach = (tables.read_size[read] - 1) * tables.read_dilation[read]
    return max(start * stride - before, 0), min((stop - 1) * stride - before + reach + 1, rows)


@inlined
def _touches(tables: DivisionTables, read: Int, made: tuple[Int, Int], start: Int, stop: Int) -> Int:
    """Whether any of the rows is needed for the output's rows ``made``: strides may skip all."""
    size, stride = tables.read_size[read], tables.read_stride[read]
    before, dilation = tables.read_before[read], tables.read_dilation[read]
    if dilation == 1 and size >= stride:
        return start < (made[1] - 1) * stride - before + size and made[0] * stride - before < stop
    for row in range(made[0], made[1]):
        for tap in range(size):
            if start <= row * stride - before + tap * dilation < stop:
                return True
    return False


@called
def _cut(
    tables: DivisionTables, work: RunWork, position: Int, bands: Int, pieces: Int, entries: Int
) -> tuple[Int, Int, Int]:
    """Add the pieces of an operator; returns how many bands, pieces and entries there are, or -1 of bands."""
    size = len(work.tensor) - 1
    axis = tables.sums[position]
    if not (tables.by_rows[position] or tables.by_channels[position] or axis):
        if pieces >= size:
            return -1, pieces, entries
        entries = _whole_piece(tables, work, position, pieces, entries)
        return (bands if entries >= 0 else -1), pieces + 1, entries
    output = tables.made_tensor[tables.made_first[position]]
    source = tables.read_tensor[tables.read_first[position]]
    across = work.row_count[output] if tables.by_rows[position] else 1
    along = work.parts[output] if tables.by_channels[position] else 1
    steps: Int = 1
    if axis:
        steps = work.row_count[source] if axis == BY_ROWS else work.parts[source]
    # the parameters of a single piece come and go with it, as those of an operator that is not cut
    apart = across * along > 1 or steps > 1
    if across * along < work.row_count[output] * work.parts[output]:
        steps = 1  # a piece that makes several bands reads all at once
    if along * steps > size:
        return -1, pieces, entries
    for number in range(along * steps):
        work.parameters[number] = -1
    for piece in range(across * along):
        row, part = piece // along, piece % along
        start, stop, low, high = 0, tables.rows[output], 0, tables.channels[output]
        if tables.by_rows[position]:
            start, stop = (
                work.row_start[work.row_first[output] + row],
                work.row_end[work.row_first[output] + row],
            )
        if tables.by_channels[position]:
            low, high = _channels_of(tables, work, output, part)
        box = (output, start, stop, low, high)
        for step in range(steps):
            # room for the sum before, a band of parameters, and the sum that is made
            if pieces >= size or bands + 2 > size or entries + 3 > size:
                return -1, pieces, entries
            work.operator[pieces], work.entry_first[pieces] = position, entries
            work.piece_held[pieces] = 0 if apart else tables.held[position]
            if step > 0:
                work.entry[entries], work.over[entries] = work.parameters[size], 1
                entries += 1
            for read in range(tables.read_first[position], tables.read_first[position + 1]):
                entries = _read(tables, work, read, box, (axis, step if steps > 1 else -1), entries)
                if entries < 0:
                    return -1, pieces, entries
            if entries + 2 > size:
                return -1, pieces, entries
            if apart and tables.settings[2]:
                bands = _parameters(tables, work, position, (part, step, steps, high - low), bands)
                band = work.parameters[part * steps + (step if axis == BY_CHANNELS else 0)]
                if band >= 0:
                    work.entry[entries], work.over[entries] = band, 0
                    entries += 1
            work.inputs[pieces] = entries - work.entry_first[pieces]
            work.result[MACS] += _macs(tables, work, position, box, step if steps > 1 else -1)
            if step < steps - 1:
                made = work.base[output] + row * work.parts[output] + part
                work.traffic[bands], work.block[bands] = work.traffic[made], work.block[made]
                work.tensor[bands], work.host[bands] = -1, 0
                work.made[bands], work.flags[bands] = 1, 0
                work.entry[entries], work.over[entries] = bands, 0
                work.parameters[size] = bands
                bands += 1
                entries += 1
            else:
                entries = _made(tables, work, position, (row, part), entries)
                if entries < 0:
                    return -1, pieces, entries
                if steps == 1:
                    _mark_over(tables, work, position, pieces, entries)
            pieces += 1
    return bands, pieces, entries


@called
def _whole_piece(tables: DivisionTables, work: RunWork, position: Int, piece: Int, entries: Int) -> Int:
    """Add the piece of an operator that cannot be cut, which reads and makes whole tensors; returns how many
    entries there are, -1 where they are too many."""
    work.operator[piece], work.piece_held[piece] = position, tables.held[position]
    work.entry_first[piece] = entries
    for read in range(tables.read_first[position], tables.read_first[position + 1]):
        entries = _all_of(work, tables.read_tensor[read], False, entries)
        if entries < 0:
            return entries
    work.inputs[piece] = entries - work.entry_first[piece]
    for made in range(tables.made_first[position], tables.made_first[position + 1]):
        entries = _all_of(work, tables.made_tensor[made], True, entries)
        if entries < 0:
            return entries
    work.result[MACS] += tables.macs[position]
    _mark_over(tables, work, position, piece, entries)
    return entries


@called
def _all_of(work: RunWork, tensor: Int, made: Int, entries: Int) -> Int:
    """Enter all bands of a tensor; -1 where there is no room for them."""
    count = work.row_count[tensor] * work.parts[tensor]
    if entries + count > len(work.tensor) - 1:
        return -1
    for band in range(work.base[tensor], work.base[tensor] + count):
        work.entry[entries], work.over[entries] = band, 0
        if made:
            work.made[band] = 1
        entries += 1
    return entries


@called
def _made(tables: DivisionTables, work: RunWork, position: Int, at: tuple[Int, Int], entries: Int) -> Int:
    """Enter the bands that a piece makes: of an operator that is not cut along an axis all along it."""
    output = tables.made_tensor[tables.made_first[position]]
    row, end_row, part, end_part = 0, work.row_count[output], 0, work.parts[output]
    if tables.by_rows[position]:
        row, end_row = at[0], at[0] + 1
    if tables.by_channels[position]:
        part, end_part = at[1], at[1] + 1
    if entries + (end_row - row) * (end_part - part) > len(work.tensor) - 1:
        return -1
    for own_row in range(row, end_row):
        for own_part in range(part, end_part):
            band = work.base[output] + own_row * work.parts[output] + own_part
            work.entry[entries], work.over[entries] = band, 0
            work.made[band] = 1
            entries += 1
    return entries


@called
def _read(
    tables: DivisionTables,
    work: RunWork,
    read: Int,
    box: tuple[Int, Int, Int, Int, Int],
    added: tuple[Int, Int],
    entries: Int,
) -> Int:
    """Enter the bands of an input from which a box is made; -1 where there is no room for them.

    ``box``: a tensor, some of its rows, some of its channels. ``added``: the axis of a sum, and which band of
    the input along it is added; -1: all of them.
    """
    output, start, stop, low, high = box
    axis, step = added
    tensor = tables.read_tensor[read]
    parts, channels = work.parts[tensor], tables.channels[tensor]
    needed, needed_end = _rows_needed(tables, read, start, stop)
    if tables.read_joined[read] >= 0:
        low, high = max(low - tables.read_joined[read], 0), min(high - tables.read_joined[read], channels)
    else:
        made_by_group = tables.channels[output] // tables.read_groups[read]
        read_by_group = channels // tables.read_groups[read]
        low, high = low // made_by_group * read_by_group, ((high - 1) // made_by_group + 1) * read_by_group
    if needed >= needed_end or low >= high:
        return entries
    row, end_row, part, end_part = 0, work.row_count[tensor], 0, parts
    if step >= 0 and axis == BY_ROWS:
        row, end_row = step, step + 1
        needed, needed_end = 0, tables.rows[tensor]
    elif not work.recomputed[tensor]:
        # bands are about equal: the first one with any of it is near where equal ones would have it
        row = max(needed * end_row // tables.rows[tensor] - 1, 0)
    if step >= 0 and axis == BY_CHANNELS:
        part, end_part = step, step + 1
        low, high = 0, channels
    else:
        part = max(low * parts // channels - 1, 0)
    for own_row in range(row, end_row):
        place = work.row_first[tensor] + own_row
        first, end = work.row_start[place], work.row_end[place]
        if work.recomputed[tensor] and not (step >= 0 and axis == BY_ROWS):
            # bands overlap: the one that is made for these rows, and no other
            if first != needed or end != needed_end:
                continue
        elif first >= needed_end:
            break
        elif end <= needed:
            continue
        if tables.read_windowed[read] and not _touches(tables, read, (start, stop), first, end):
            continue
        for own_part in range(part, end_part):
            own_low, own_high = _channels_of(tables, work, tensor, own_part)
            if own_low >= high:
                break
            if own_high <= low:
                continue
            if entries >= len(work.tensor) - 1:
                return -1
            work.entry[entries] = work.base[tensor] + own_row * parts + own_part
            work.over[entries] = 0
            entries += 1
    return entries


@called
def _parameters(
    tables: DivisionTables, work: RunWork, position: Int, piece: tuple[Int, Int, Int, Int], bands: Int
) -> Int:
    """Number the band of the parameters of a piece, if no piece before has it; returns how many bands there
    are. ``piece``: its part of the output's channels, its step and how many there are, its channels."""
    part, step, steps, channels = piece
    by_channels = tables.sums[position] == BY_CHANNELS
    slot = part * steps + (step if by_channels else 0)
    if work.parameters[slot] >= 0:
        return bands
    weights = tables.weights[position]
    if steps > 1 and by_channels:
        weights = weights * _step_length(tables, work, position, step) // _length(tables, position)
    # bias and normalisation come with the first step of a sum
    elements = weights * channels
    if step == 0:
        elements += tables.others[position] * channels + tables.loose[position]
    if not elements:
        return bands
    work.parameters[slot] = bands
    _size(tables, work, bands, elements)
    work.tensor[bands], work.host[bands], work.made[bands], work.flags[bands] = -1, 1, 0, 0
    return bands + 1


@called
def _macs(
    tables: DivisionTables, work: RunWork, position: Int, box: tuple[Int, Int, Int, Int, Int], step: Int
) -> Int:
    """Multiply-accumulates of a piece; ``step`` of a sum, -1 for all of it."""
    output, start, stop, low, high = box
    macs = tables.macs[position] * (stop - start) * (high - low)
    macs //= tables.rows[output] * tables.channels[output]
    if step < 0:
        return macs
    return macs * _step_length(tables, work, position, step) // _length(tables, position)


@inlined
def _step_length(tables: DivisionTables, work: RunWork, position: Int, step: Int) -> Int:
    """How many rows or channels of the input a step of a sum adds."""
    source = tables.read_tensor[tables.read_first[position]]
    if tables.sums[position] == BY_ROWS:
        place = work.row_first[source] + step
        return work.row_end[place] - work.row_start[place]
    start, stop = _channels_of(tables, work, source, step)
    return stop - start


@inlined
def _length(tables: DivisionTables, position: Int) -> Int:
    """How many rows or channels of the input all steps of a sum add."""
    source = tables.read_tensor[tables.read_first[position]]
    return tables.rows[source] if tables.sums[position] == BY_ROWS else tables.channels[source]


@called
def _mark_over(tables: DivisionTables, work: RunWork, position: Int, piece: Int, entries: Int) -> None:
    """Mark the inputs of a piece that the one band which it makes may be written over."""
    made = work.entry_first[piece] + work.inputs[piece]
    if entries - made != 1:
        return
    target = work.entry[made]
    box = _box(tables, work, target)
    for read in range(tables.read_first[position], tables.read_first[position + 1]):
        if not tables.read_over[read]:
            continue
        for place in range(work.entry_first[piece], made):
            band = work.entry[place]
            if work.tensor[band] == tables.read_tensor[read] and work.block[band] == work.block[target]:
                own = _box(tables, work, band)
                both_whole = own[4] and box[4]
                same = own[0] == box[0] and own[1] == box[1] and own[2] == box[2] and own[3] == box[3]
                if both_whole or same:
                    work.over[place] = 1


@inlined
def _box(tables: DivisionTables, work: RunWork, band: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Rows and channels of a band, and whether they are all of its tensor's."""
    tensor = work.tensor[band]
    number = band - work.base[tensor]
    place = work.row_first[tensor] + number // work.parts[tensor]
    low, high = _channels_of(tables, work, tensor, number % work.parts[tensor])
    start, stop = work.row_start[place], work.row_end[place]
    whole = stop - start == tables.rows[tensor] and high - low == tables.channels[tensor]
    return start, stop, low, high, whole


@called
def _order(tables: DivisionTables, work: RunWork, bands: Int, pieces: Int, end: Int) -> None:
    """Put the pieces in an order in which a band goes through as many operators as it can.

    Of those whose inputs are made the one of the latest operator comes next, and of these the first.
    """
    # pieces that read a band, as ranges of ``use``; the same arrays have the steps later on
    for band in range(bands + 1):
        work.use_first[band] = 0
    for piece in range(pieces):
        work.waits[piece] = 0
        for place in range(work.entry_first[piece], work.entry_first[piece] + work.inputs[piece]):
            band = work.entry[place]
            if work.made[band]:
                work.waits[piece] += 1
                work.use_first[band + 1] += 1
    for band in range(bands):
        work.use_first[band + 1] += work.use_first[band]
        work.use_next[band] = work.use_first[band]
    for piece in range(pieces):
        for place in range(work.entry_first[piece], work.entry_first[piece] + work.inputs[piece]):
            band = work.entry[place]
            if work.made[band]:
                work.use[work.use_next[band]] = piece
                work.use_next[band] += 1
    ready = 0
    for piece in range(pieces):
        if not work.waits[piece]:
            ready = _push(work, ready, (end - work.operator[piece]) * pieces + piece)
    for step in range(pieces):
        piece = work.heap[0] % pieces
        ready = _pop(work, ready)
        work.order[step] = piece
        for place in range(work.entry_first[piece] + work.inputs[piece], work.entry_first[piece + 1]):
            band = work.entry[place]
            for use in range(work.use_first[band], work.use_first[band + 1]):
                reader = work.use[use]
                work.waits[reader] -= 1
                if not work.waits[reader]:
                    ready = _push(work, ready, (end - work.operator[reader]) * pieces + reader)


@inlined
def _push(work: RunWork, count: Int, key: Int) -> Int:
    """Add a key to the heap of so many; returns how many it has."""
    place = count
    while place > 0 and work.heap[(place - 1) // 2] > key:
        work.heap[place] = work.heap[(place - 1) // 2]
        place = (place - 1) // 2
    work.heap[place] = key
    return count + 1


@inlined
def _pop(work: RunWork, count: Int) -> Int:
    """Take the least key from the heap of so many; returns how many are left."""
    count -= 1
    key, place = work.heap[count], 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and work.heap[child + 1] < work.heap[child]:
            child += 1
        if work.heap[child] >= key:
            break
        work.heap[place] = work.heap[child]
        place = child
    work.heap[place] = key
    return count


@called
def _note_uses(work: RunWork, bands: Int, pieces: Int) -> None:
    """Enter by band the steps at which pieces touch it."""
    for band in range(bands + 1):
        work.use_first[band] = 0
    for place in range(work.entry_first[pieces]):
        work.use_first[work.entry[place] + 1] += 1
    for band in range(bands):
        work.use_first[band + 1] += work.use_first[band]
        work.use_next[band] = work.use_first[band]
    for step in range(pieces):
        piece = work.order[step]
        for place in range(work.entry_first[piece], work.entry_first[piece + 1]):
            band = work.entry[place]
            work.use[work.use_next[band]] = step
            work.use_next[band] += 1
    for band in range(bands):
        work.use_next[band] = work.use_first[band]


@called
def _run(
    tables: DivisionTables,
    work: RunWork,
    bands: Int,
    pieces: Int,
    end: Int,
    capacity: Int,
    moved: Int,
    most: Int,
) -> Int:
    """Run the pieces one after the other; whether all fit and no more than ``most`` bytes are moved.

    Where a piece does not fit, the band that is used again the latest leaves, and what comes back is counted
    there. Of several, as of a tensor that a later run reads, one with a copy leaves, then the one with the
    most bytes, then the last: runs begin with the first rows.
    """
    count: Int = 0
    used: Int = 0
    for band in range(bands):
        work.place[band] = work.pinned[band] = -1
        if work.flags[band] & RESIDENT:
            work.place[band] = count
            work.resident[count] = band
            count += 1
            used += work.block[band]
        work.later[band] = NEVER
        if work.tensor[band] >= 0:
            work.later[band] = _next_reader(tables, work.tensor[band], end)
    for step in range(pieces):
        piece = work.order[step]
        first, stop = work.entry_first[piece], work.entry_first[piece + 1]
        wanted = used + work.piece_held[piece]
        over = False
        for place in range(first, stop):
            band = work.entry[place]
            work.pinned[band] = step
            work.use_next[band] += 1
            if work.place[band] < 0:
                wanted += work.block[band]
            if work.over[place] and not over and not _used_again(work, band):
                over = True
                wanted -= work.block[work.entry[stop - 1]]
        while wanted > capacity:
            victim = _victim(work, count, pieces, step)
            if victim < 0:
                return False
            count = _gone(work, victim, count)
            wanted -= work.block[victim]
            used -= work.block[victim]
            moved += work.traffic[victim]
            if not work.host[victim] and not work.flags[victim] & COPIED:
                moved += work.traffic[victim]
                work.flags[victim] |= COPIED
            if moved > most:
                return False
        for place in range(first, stop):
            band = work.entry[place]
            if work.place[band] < 0:
                work.place[band] = count
                work.resident[count] = band
                count += 1
                used += work.block[band]
        for place in range(first, stop):
            band = work.entry[place]
            if not _used_again(work, band):
                count = _gone(work, band, count)
                used -= work.block[band]
    for band in range(bands):
        work.flags[band] &= COPIED
        if work.place[band] >= 0:
            work.flags[band] |= RESIDENT
    work.result[MOVED] = moved
    return True


@inlined
def _used_again(work: RunWork, band: Int) -> Int:
    return work.use_next[band] < work.use_first[band + 1] or work.later[band] < NEVER


@inlined
def _victim(work: RunWork, count: Int, pieces: Int, step: Int) -> Int:
    """The resident band to leave next; -1 where the piece at this step touches all of them."""
    best, latest, price = -1, -1, 0
    for place in range(count):
        band = work.resident[place]
        if work.pinned[band] == step:
            continue
        use = pieces + work.later[band]
        if work.use_next[band] < work.use_first[band + 1]:
            use = work.use[work.use_next[band]]
        if use < latest:
            continue
        copied = work.host[band] or work.flags[band] & COPIED
        # a band without a copy is written as well as read; the bytes decide between bands of one kind
        own = work.block[band] if copied else -1
        if use > latest or own > price or (own == price and band > best):
            best, latest, price = band, use, own
    return best


@inlined
def _gone(work: RunWork, band: Int, count: Int) -> Int:
    """Take a band out of the scratchpad with so many; returns how many are left."""
    place, last = work.place[band], work.resident[count - 1]
    work.resident[place] = last
    work.place[last] = place
    work.place[band] = -1
    return count - 1
