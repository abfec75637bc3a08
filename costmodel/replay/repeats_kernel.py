"""Skips what a run does again and again, compiled.

When one chosen tile (``repeats.tile`` of the run's state) begins a loop's body anew, the state of the whole
run is described by numbers that do not say when it is: moments as what is left until then, and no totals. If
an earlier turn of the loop began in the same state, all that has happened since happens again, in the same
time. That goes on for as long as every tile stays in its loops. Here the state of turn 3 is found at turn 5::

    turn    1     2     3     4     5     6   ...   998   999   1000
    state   a     b     c     d     c     d          d     c     d
                        |-- period --|     496 periods are added at once

So many periods are added to all moments, totals and loop counters at once, but for the last one or two. The
numbers at the end are those of a run turn by turn. The state at the beginning of turns 2, 3, 5, 9 and so on
is kept in place of the one before, twice as far apart each time, so a period of any length is found; each
depth of loops has its own.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.replay.event_values import (
    DONE,
    END,
    LONGEST,
    TOO_LONG,
    ProgramTables,
    Queue,
    Repeats,
    ReplayState,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""


@called
def skip_repeats(tables: ProgramTables, run: ReplayState, now: Int) -> None:
    """Add as many periods as can be, if the run has been in this state before; else keep it now and then.

    It is called when the chosen tile has begun a turn of a loop: ``run.repeats.turned[0]`` is then 1 more
    than the depth of that loop, 0 being the outermost one, and is set to 0 here. Moments, totals and loop
    counters are all that a skip changes. ``run.failure`` says so where they would exceed 64 bits.
    """
    repeats = run.repeats
    depth = repeats.turned[0] - 1
    repeats.turned[0] = 0
    length = _describe(tables, run, now)
    repeats.turns[depth] += 1
    if repeats.turns[depth] > 1 and repeats.length[depth] == length:
        same = True
        for number in range(length):
            if repeats.state[depth, number] != repeats.current[number]:
                same = False
                break
        if same:
            periods = _periods(tables, run, depth, now)
            if periods > 0:
                _add(tables, run, depth, periods, now)
                repeats.turns[depth], repeats.next_kept[depth] = 0, 1
                return
    if repeats.turns[depth] == repeats.next_kept[depth]:
        repeats.next_kept[depth] *= 2
        repeats.moment[depth], repeats.length[depth] = now, length
        for number in range(length):
            repeats.state[depth, number] = repeats.current[number]
        _keep_totals(run, depth)


@inlined
def _left(moment: Int, now: Int) -> Int:
    """How long until a moment; 0 for one in the past, which nothing depends on any more."""
    return max(moment - now, 0)


@called
def _describe(tables: ProgramTables, run: ReplayState, now: Int) -> Int:
    """Write the state into ``current``; returns how many numbers that takes."""
    tiles, messages, queue, found = run.tiles, run.messages, run.queue, run.repeats.current
    at: Int = 0
    for tile in range(tiles.next.shape[0]):
        found[at], found[at + 1] = tiles.next[tile], tiles.status[tile]
        found[at + 2], found[at + 3] = tiles.missing[tile], tiles.leaving[tile]
        found[at + 4], found[at + 5] = tiles.reason[tile], _left(tiles.compute_end[tile], now)
        found[at + 6] = tiles.begun[tile]
        at += 7
    for number in range(messages.joined.shape[0]):
        found[at], found[at + 1] = messages.joined[number], messages.waits[number]
        found[at + 2], found[at + 3] = messages.left[number], messages.packets[number]
        found[at + 4], found[at + 5] = messages.closing[number], _left(messages.floor[number], now)
        at += 6
    for copy in range(messages.copy.shape[0]):
        found[at], found[at + 1] = messages.copy[copy], messages.address[copy]
        found[at + 2], found[at + 3] = messages.awaited[copy], messages.filled[copy]
        found[at + 4] = messages.from_copy[copy]
        at += 5
    for output in range(messages.out.shape[0]):
        tile = tables.messages.output_tile[output]
        last = messages.output_of[output] == tiles.computes[tile]
        found[at], found[at + 1], found[at + 2] = messages.out[output], last, messages.bytes_of[output]
        at += 3
    for link in range(run.link_free.shape[0]):
        found[at] = _left(run.link_free[link], now)
        at += 1
    for server in range(run.dram_free.shape[0]):
        found[at], found[at + 1] = _left(run.dram_free[server], now), run.serving[server]
        at += 2
    at = _describe_queue(run.repeats, queue, now, at)
    for server in range(run.dram_free.shape[0]):
        first = at + 1
        at = _describe_queue(run.repeats, run.waiting[server], 0, at)
        # the times of these are moments of the plan, and their messages say how those go on
        for number in range(first, at, 2):
            found[number] -= messages.needed[found[number + 1]]
    return at


@called
def _describe_queue(repeats: Repeats, queue: Queue, now: Int, at: Int) -> Int:
    """Write what is in a heap into ``current`` from ``at`` on; returns where that ends.

    The heap has its entries in some order; the order in which they come is that of time and of ``order``.
    """
    found, order, entries = repeats.current, repeats.order, queue.counts[0]
    found[at] = entries
    at += 1
    for number in range(entries):
        position = number
        while position > 0 and _later(queue, order[position - 1], number):
            order[position] = order[position - 1]
            position -= 1
        order[position] = number
    for number in range(entries):
        found[at], found[at + 1] = queue.time[order[number]] - now, queue.what[order[number]]
        at += 2
    return at


@inlined
def _later(queue: Queue, one: Int, other: Int) -> Truth:
    """Whether one entry of a heap comes after another entry."""
    if queue.time[one] != queue.time[other]:
        return queue.time[one] > queue.time[other]
    return queue.order[one] > queue.order[other]


@inlined
def _loops_around(tables: ProgramTables, run: ReplayState, tile: Int) -> Int:
    """How many loops a tile is in; their counters say how often it still goes through them."""
    if run.tiles.status[tile] == DONE:
        return 0
    at = run.tiles.next[tile]
    return tables.code.depth[at] + (1 if tables.code.operation[at] == END else 0)


@called
def _keep_totals(run: ReplayState, depth: Int) -> None:
    """Keep what grows with every turn, and the loop counters, as they are now at a loop of this ``depth``.

    What a later turn adds to these is what each further turn that runs alike will add.
    """
    tiles, kept = run.tiles, run.repeats
    for tile in range(tiles.next.shape[0]):
        for loop in range(tiles.loops.shape[1]):
            kept.loops[depth, tile, loop] = tiles.loops[tile, loop]
        kept.computes[depth, tile], kept.busy[depth, tile] = tiles.computes[tile], tiles.busy[tile]
        kept.compute_end[depth, tile] = tiles.compute_end[tile]
        kept.planned_end[depth, tile] = tiles.planned_end[tile]
        for reason in range(tiles.waited.shape[1]):
            kept.waited[depth, tile, reason] = tiles.waited[tile, reason]
    for number in range(run.messages.done.shape[0]):
        kept.done[depth, number] = run.messages.done[number]
        kept.needed[depth, number] = run.messages.needed[number]


@called
def _periods(tables: ProgramTables, run: ReplayState, depth: Int, now: Int) -> Int:
    """How often what happened since the kept state can be added; 0: not at all.

    Every tile has to be in the same turn of all its loops but one, which then goes on for as many turns in
    each period. One whole period is left to be run. All tiles that compute get on equally in the plan.
    """
    tiles, kept = run.tiles, run.repeats
    most: Int = LONGEST
    planned = _planned_later(run, depth)
    if planned < 0:
        return 0
    for tile in range(tiles.next.shape[0]):
        changed = False
        for loop in range(_loops_around(tables, run, tile)):
            turns = kept.loops[depth, tile, loop] - tiles.loops[tile, loop]
            if turns == 0:
                continue
            if changed or turns < 0:
                return 0
            changed = True
            most = min(most, (tiles.loops[tile, loop] - 1) // turns - 1)
        # the end of a compute may be past, and still counts when the tile's next wait is added up
        later = now - kept.moment[depth]
        if tiles.computes[tile] == kept.computes[depth, tile]:
            later = 0
        if tiles.compute_end[tile] - kept.compute_end[depth, tile] != later:
            return 0
    # the chosen tile has begun a turn, so some tile is in a loop
    return max(most, 0)


@called
def _planned_later(run: ReplayState, depth: Int) -> Int:
    """By how much the plan's moments are later than in the kept state, for tiles and data alike; -1: unlike.

    A tile that computes nothing meanwhile stays where it is, and so does what it has asked for.
    """
    tiles, messages, kept = run.tiles, run.messages, run.repeats
    found: Int = 0
    for tile in range(tiles.next.shape[0]):
        later = tiles.planned_end[tile] - kept.planned_end[depth, tile]
        if later > 0 and found > 0 and later != found:
            return -1
        found = max(found, later)
    for number in range(messages.needed.shape[0]):
        later = messages.needed[number] - kept.needed[depth, number]
        if later != 0 and later != found:
            return -1
    return found


@called
def _add(tables: ProgramTables, run: ReplayState, depth: Int, periods: Int, now: Int) -> None:
    """Add so many periods to all moments, totals and loop counters."""
    tiles, messages, kept = run.tiles, run.messages, run.repeats
    # checked by division, as the product may not fit
    if (LONGEST - now) // (now - kept.moment[depth] + 1) < periods:
        run.failure[0] = TOO_LONG
        return
    later = periods * (now - kept.moment[depth])
    kept.skipped[0] += periods
    for number in range(run.queue.counts[0]):
        run.queue.time[number] += later
    for server in range(run.dram_free.shape[0]):
        waiting = run.waiting[server]
        for number in range(waiting.counts[0]):
            needed = messages.needed[waiting.what[number]]
            waiting.time[number] += periods * (needed - kept.needed[depth, waiting.what[number]])
    for output in range(messages.out.shape[0]):
        tile = tables.messages.output_tile[output]
        if messages.output_of[output] == tiles.computes[tile]:
            messages.output_of[output] += periods * (tiles.computes[tile] - kept.computes[depth, tile])
    for tile in range(tiles.next.shape[0]):
        for loop in range(_loops_around(tables, run, tile)):
            tiles.loops[tile, loop] -= periods * (kept.loops[depth, tile, loop] - tiles.loops[tile, loop])
        if tiles.computes[tile] != kept.computes[depth, tile]:
            tiles.compute_end[tile] += later
        tiles.computes[tile] += periods * (tiles.computes[tile] - kept.computes[depth, tile])
        tiles.busy[tile] += periods * (tiles.busy[tile] - kept.busy[depth, tile])
        tiles.planned_end[tile] += periods * (tiles.planned_end[tile] - kept.planned_end[depth, tile])
        for reason in range(tiles.waited.shape[1]):
            tiles.waited[tile, reason] += periods * (
                tiles.waited[tile, reason] - kept.waited[depth, tile, reason]
            )
    for number in range(messages.done.shape[0]):
        messages.done[number] += periods * (messages.done[number] - kept.done[depth, number])
        messages.needed[number] += periods * (messages.needed[number] - kept.needed[depth, number])
        if messages.floor[number] > now:
            messages.floor[number] += later
    for link in range(run.link_free.shape[0]):
        if run.link_free[link] > now:
            run.link_free[link] += later
    for server in range(run.dram_free.shape[0]):
        if run.dram_free[server] > now:
            run.dram_free[server] += later
