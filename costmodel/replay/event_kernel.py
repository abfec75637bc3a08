"""The event loop, compiled.

There are three kinds of events: a tile goes on, a packet has arrived, and DRAM is free. Links are servers
that take packets in the order in which these set out. A packet sets out on all links of its route at a
time; each carries it as soon as it has carried those before, and it has arrived when the last one is done.
A message has a few packets in flight and sends the next when one has arrived. So messages that meet on a
link take turns packet by packet, and one that is held up elsewhere leaves the link to the others.

DRAM takes packets one after the other, too, and first those that are needed first. A plan says when that is:
a run of the program before this one, in which nothing but computing takes time. There a load is needed when
the first of its tiles reads it, and a store when the compute ends that makes it; what a slow link carries has
to set out so much earlier. So a tile may ask for data long before it needs it, and what others need at once
does not wait for that. All tiles fall behind the plan, but what was to come first still comes first. A packet
of DRAM sets out when DRAM begins to read or write it.

The life of a message with three packets, of which two may be in flight::

    tiles       every source sends, every target receives: the last one to do so starts the transfer
    packet 0        |=====>|
    packet 1        |==========>|          behind packet 0 on the first link that both need
    packet 2               |========>|     sets out when packet 0 has arrived
    end                                |   the last packet has arrived, the routers on the way have taken
                                           their time, and the compute that makes the data has ended

A function that ends a transfer or blocks a tile says so in the state; only :func:`simulate` takes events out
of the queue, so no function calls itself.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.replay.event_values import (
    ABSENT,
    BETWEEN_TILES,
    BLOCKED,
    CALLED,
    COMING,
    COMPUTE,
    DATA,
    DONE,
    END,
    FREE,
    FROM_DRAM,
    HELD_TWICE,
    HOLD,
    LOAD,
    LONGEST,
    LOOP,
    MOST_EVENTS,
    NO_COMPUTE,
    NOT_HELD,
    NOTHING,
    OUTPUTS,
    OVERLAP,
    RECEIVE,
    RUNNING,
    SEND,
    SENT_TWICE,
    THERE,
    TO_DRAM,
    TOO_LONG,
    TOO_MANY,
    Messages,
    ProgramTables,
    Queue,
    ReplayState,
)
from costmodel.replay.repeats_kernel import skip_repeats

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""


@entry
def simulate(tables: ProgramTables, run: ReplayState) -> None:
    """Run a program until nothing happens any more, or until something impossible is in ``run.failure``."""
    tiles: Int = tables.code.begin.shape[0] - 1
    messages: Int = tables.messages.size.shape[0]
    for tile in range(tiles):
        run.tiles.status[tile] = CALLED
        _push(run.queue, 0, tile)
    # No event puts one into the past, so the first of the heap is always the next thing to happen.
    while run.queue.counts[0] > 0:
        now, what = run.queue.time[0], run.queue.what[0]
        _pop(run.queue)
        run.end[0] = max(run.end[0], now)
        if now > LONGEST:
            run.failure[0] = TOO_LONG
        elif run.repeats.tile[0] >= 0 and run.queue.counts[1] > MOST_EVENTS:
            run.failure[0] = TOO_MANY
        elif what < tiles:
            _advance(tables, run, what, now)
        elif what < tiles + messages:
            _packet_arrived(tables, run, what - tiles, now)
        else:
            _serve(tables, run, what - tiles - messages, now)
        if run.repeats.turned[0] > 0:
            skip_repeats(tables, run, now)
        if run.failure[0]:
            return


@called
def _advance(tables: ProgramTables, run: ReplayState, tile: Int, now: Int) -> None:
    """Let a tile issue instructions until it has to wait or is at its end."""
    code, tiles = tables.code, run.tiles
    tiles.status[tile] = RUNNING
    # Issuing takes no time: all instructions up to the first wait are of the same moment. Only a compute, a
    # free and a send that passes data on ever wait; loads, receives and all other sends and stores go on by
    # themselves.
    while tiles.status[tile] == RUNNING and run.failure[0] == 0:
        at = tiles.next[tile]
        if at == code.begin[tile + 1]:
            tiles.status[tile] = DONE
            return
        operation = code.operation[at]
        if operation == LOOP:
            tiles.loops[tile, code.depth[at]] = code.times[at]
            if tile == run.repeats.tile[0]:
                run.repeats.turns[code.depth[at]], run.repeats.next_kept[code.depth[at]] = 0, 1
        elif operation == END:
            tiles.loops[tile, code.depth[at]] -= 1
            if tiles.loops[tile, code.depth[at]] > 0:
                tiles.next[tile] = code.body[at]
                if tile == run.repeats.tile[0]:
                    run.repeats.turned[0] = code.depth[at] + 1
                continue
        elif operation in (LOAD, RECEIVE):
            _take_in(tables, run, tile, at, now)
        elif operation == COMPUTE:
            if _waits(tables, run, tile, at, now):
                return
            _plan_reads(tables, run, at, now)
            _compute(tables, run, tile, at, now)
        elif operation == FREE:
            if _waits(tables, run, tile, at, now):
                return
            _plan_reads(tables, run, at, now)
            _give_back(tables, run, tile, at)
        elif operation == HOLD:
            _put(tables, run, tile, at, THERE)
        elif operation == SEND and code.reads_begin[at + 1] > code.reads_begin[at]:
            if _waits_to_pass(tables, run, tile, at):
                return
            _plan_reads(tables, run, at, now)
            _pass_on(tables, run, at, now)
        else:
            _send(tables, run, tile, at, now)
        tiles.next[tile] = at + 1


@called
def _waits(tables: ProgramTables, run: ReplayState, tile: Int, at: Int, now: Int) -> Truth:
    """Whether a compute or free has to wait; then the tile is blocked, or called again when that ends.

    A free waits for its own data, and for what is stored from its bytes; a compute for all that it reads and
    for the outputs of the one before.
    """
    code, tiles, messages = tables.code, run.tiles, run.messages
    for number in range(code.reads_begin[at], code.reads_begin[at + 1]):
        copy = code.reads[number]
        if messages.copy[copy] == ABSENT:
            _fail(run, NOT_HELD, tile, at, copy)
            return True
        # a compute may read one copy as two operands: it waits for it once
        late = messages.copy[copy] == COMING or (code.operation[at] == FREE and messages.from_copy[copy] > 0)
        if late and messages.awaited[copy] == 0:
            messages.awaited[copy] = 1
            tiles.missing[tile] += 1
    if tiles.missing[tile] > 0 or (code.operation[at] == COMPUTE and tiles.leaving[tile] > 0):
        tiles.status[tile] = BLOCKED
        return True
    if now < tiles.compute_end[tile]:
        tiles.status[tile] = CALLED
        _push(run.queue, tiles.compute_end[tile], tile)
        return True
    return False


@called
def _plan_reads(tables: ProgramTables, run: ReplayState, at: Int, now: Int) -> None:
    """Note how far ahead the data was asked for that an instruction is the first to read, or frees."""
    plan = run.plan
    if plan.asked_by.shape[0] == 0:
        return
    for number in range(tables.code.reads_begin[at], tables.code.reads_begin[at + 1]):
        copy = tables.code.reads[number]
        asked = plan.asked_by[copy]
        if asked >= 0:
            plan.found[asked, 0] = min(plan.found[asked, 0], now - plan.asked_after[copy])
            plan.asked_by[copy] = -1


@called
def _waits_to_pass(tables: ProgramTables, run: ReplayState, tile: Int, at: Int) -> Truth:
    """Whether a send of data that the tile has must wait: for the data, or for its own last transfer."""
    code, messages = tables.code, run.messages
    copy = code.reads[code.reads_begin[at]]
    if messages.copy[copy] == ABSENT:
        _fail(run, NOT_HELD, tile, at, copy)
        return True
    if messages.copy[copy] == COMING:
        messages.awaited[copy] = 1
        run.tiles.missing[tile] += 1
    elif messages.out[code.copy_or_output[at]] == 0:
        return False
    # The end of any transfer of the tile wakes it, and then it looks again.
    run.tiles.status[tile] = BLOCKED
    return True


@called
def _pass_on(tables: ProgramTables, run: ReplayState, at: Int, now: Int) -> None:
    """Issue a send of data that has arrived; a free of its bytes waits until the transfer has ended."""
    messages, output = run.messages, tables.code.copy_or_output[at]
    copy = tables.code.reads[tables.code.reads_begin[at]]
    messages.from_copy[copy] += 1
    messages.out[output], messages.bytes_of[output] = 1, copy
    _join(tables, run, tables.code.message[at], now)


@called
def _wake(tables: ProgramTables, run: ReplayState, tile: Int, reason: Int, now: Int) -> None:
    """Call a blocked tile that has nothing more to wait for; ``reason`` is what it waited for last."""
    tiles = run.tiles
    if tiles.status[tile] != BLOCKED or tiles.missing[tile] > 0:
        return
    if tables.code.operation[tiles.next[tile]] == COMPUTE and tiles.leaving[tile] > 0:
        return
    tiles.status[tile], tiles.reason[tile] = CALLED, reason
    _push(run.queue, now, tile)


@called
def _compute(tables: ProgramTables, run: ReplayState, tile: Int, at: Int, now: Int) -> None:
    """Start a compute whose data is there."""
    tiles, work = run.tiles, tables.code.work[at]
    ticks = tables.works.cycles[work] * tables.rates.cycle
    end, again = now + ticks, run.begun[at]
    if run.plan.asked_by.shape[0] > 0:
        run.plan.found[at, 1] = now - tiles.compute_end[tile]
        if again == 0:
            run.plan.found[at, 0] = run.plan.found[at, 1]
    tiles.planned_end[tile] += tables.code.planned[at, again] + ticks
    if again == 0:
        run.begun[at] = 1
        tiles.begun[tile] += 1
    tiles.waited[tile, tiles.reason[tile]] += now - tiles.compute_end[tile]
    tiles.reason[tile] = NOTHING
    tiles.busy[tile] += end - now
    tiles.compute_end[tile] = end
    tiles.computes[tile] += 1
    run.end[0] = max(run.end[0], end)
    layer = tables.works.layer[work]
    # events come in the order of time, so the first start that is seen is the earliest, but not so the ends
    if run.layers[layer, 0] < 0:
        run.layers[layer, 0] = now
    run.layers[layer, 1] = max(run.layers[layer, 1], end)
    if run.computed.shape[0] > 0:
        row = run.logged[0]
        run.computed[row, 0], run.computed[row, 1] = work, tile
        run.computed[row, 2], run.computed[row, 3] = now, end
        run.logged[0] += 1


@called
def _send(tables: ProgramTables, run: ReplayState, tile: Int, at: Int, now: Int) -> None:
    """Issue a send or store of the last compute's outputs; the transfer ends no earlier than that."""
    tiles, messages = run.tiles, run.messages
    message, output = tables.code.message[at], tables.code.copy_or_output[at]
    if tiles.computes[tile] == 0:
        _fail(run, NO_COMPUTE, tile, at, -1)
    elif messages.output_of[output] == tiles.computes[tile]:
        _fail(run, SENT_TWICE, tile, at, -1)
    else:
        bytes_of: Int = -1
        if tables.code.reads_begin[at + 1] > tables.code.reads_begin[at]:
            bytes_of = tables.code.reads[tables.code.reads_begin[at]]
            if messages.copy[bytes_of] == ABSENT:
                _fail(run, NOT_HELD, tile, at, bytes_of)
                return
            messages.from_copy[bytes_of] += 1
        else:
            tiles.leaving[tile] += 1
        messages.output_of[output], messages.out[output] = tiles.computes[tile], 1
        messages.bytes_of[output] = bytes_of
        # Outputs leave while they are made: the transfer may begin with the compute and ends after it.
        messages.floor[message] = max(messages.floor[message], tiles.compute_end[tile])
        messages.needed[message] = min(messages.needed[message], tiles.planned_end[tile])
        _join(tables, run, message, now)


@called
def _take_in(tables: ProgramTables, run: ReplayState, tile: Int, at: Int, now: Int) -> None:
    """Issue a load or receive: its bits are taken from now on."""
    _put(tables, run, tile, at, COMING)
    if run.failure[0] == 0:
        message, planned_end = tables.code.message[at], run.tiles.planned_end[tile]
        needed = planned_end + tables.code.planned[at, 0]
        run.messages.needed[message] = min(run.messages.needed[message], needed)
        if run.plan.asked_by.shape[0] > 0:
            copy = tables.code.copy_or_output[at]
            run.plan.asked_by[copy], run.plan.asked_after[copy] = at, run.tiles.compute_end[tile]
        _join(tables, run, message, now)


@called
def _put(tables: ProgramTables, run: ReplayState, tile: Int, at: Int, state: Int) -> None:
    """Take the bits of a copy, which is in ``state`` from now on.

    The tile's copies lie in ``held_copy`` by address, so a new one has to fit between its two neighbours.
    """
    tiles, messages = run.tiles, run.messages
    message, copy, address = tables.code.message[at], tables.code.copy_or_output[at], tables.code.address[at]
    size = tables.messages.size[message]
    if messages.copy[copy] != ABSENT:
        _fail(run, HELD_TWICE, tile, at, copy)
        return
    first = tiles.held_begin[tile]
    end = first + tiles.held[tile]
    position = _first_from(run, first, end, address)
    if position < end and messages.address[tiles.held_copy[position]] < address + size:
        _fail(run, OVERLAP, tile, at, tiles.held_copy[position])
        return
    if position > first:
        before = tiles.held_copy[position - 1]
        if messages.address[before] + tables.messages.copy_size[before] > address:
            _fail(run, OVERLAP, tile, at, before)
            return
    for later in range(end, position, -1):
        tiles.held_copy[later] = tiles.held_copy[later - 1]
    tiles.held_copy[position] = copy
    tiles.held[tile] += 1
    tiles.bits[tile] += size
    tiles.most_bits[tile] = max(tiles.most_bits[tile], tiles.bits[tile])
    messages.copy[copy], messages.address[copy], messages.filled[copy] = state, address, 1


@inlined
def _first_from(run: ReplayState, first: Int, end: Int, address: Int) -> Int:
    """The first of the tile's copies ``first`` to before ``end`` that begins at ``address`` or after it."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if run.messages.address[run.tiles.held_copy[middle]] < address:
            low = middle + 1
        else:
            high = middle
    return low


@called
def _give_back(tables: ProgramTables, run: ReplayState, tile: Int, at: Int) -> None:
    """Free a copy whose data has arrived."""
    tiles, messages = run.tiles, run.messages
    copy = tables.code.copy_or_output[at]
    end = tiles.held_begin[tile] + tiles.held[tile]
    position = _first_from(run, tiles.held_begin[tile], end, messages.address[copy])
    for later in range(position, end - 1):
        tiles.held_copy[later] = tiles.held_copy[later + 1]
    tiles.held[tile] -= 1
    tiles.bits[tile] -= tables.messages.size[tables.code.message[at]]
    messages.copy[copy] = ABSENT


@called
def _join(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """One more tile takes part in a transfer. The last one starts it, unless it waits for stores."""
    messages, state = tables.messages, run.messages
    state.joined[message] += 1
    if state.joined[message] < _taking_part(messages, message):
        return
    waits: Int = 0
    # Data goes through DRAM by a store and a load. Where loops repeat them, the n-th load waits for as many
    # stores as its data takes, and not for all that will ever be.
    for pair in range(messages.pairs[message], messages.pairs[message + 1]):
        if state.done[messages.pair_store[pair]] < _stores_before(messages, run, message, pair):
            waits += 1
    state.waits[message] = waits
    if waits == 0:
        _start(tables, run, message, now)


@inlined
def _taking_part(messages: Messages, message: Int) -> Int:
    """How many instructions of tiles one transfer of a message needs."""
    copies = messages.copies[message + 1] - messages.copies[message]
    return copies + messages.outputs[message + 1] - messages.outputs[message]


@inlined
def _stores_before(messages: Messages, run: ReplayState, load: Int, pair: Int) -> Int:
    """How many transfers of the store of a pair have to end before the next one of its load may start."""
    return messages.needs[messages.needs_begin[pair] + run.messages.done[load]]


@called
def _start(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """Begin a transfer: the first packets set out, those from DRAM after its latency."""
    messages, state, rates = tables.messages, run.messages, tables.rates
    size = messages.size[message]
    state.began[message], state.left[message] = now, size
    state.packets[message] = min(rates.in_flight, (size + rates.packet_bits - 1) // rates.packet_bits)
    first = now + (rates.dram_latency if messages.kind[message] == FROM_DRAM else 0)
    tiles: Int = tables.code.begin.shape[0] - 1
    # One event for each packet in flight. They say only when the next packet sets out, so the first ones are
    # at once, before anything has been carried.
    for _ in range(state.packets[message]):
        _push(run.queue, first, tiles + message)


@called
def _packet_arrived(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """Send the next packet in place of the one that arrived, or end the transfer after the last one.

    The end is put off until the compute that makes the data has ended, and by the routers on the way.
    """
    state, rates = run.messages, tables.rates
    tiles: Int = tables.code.begin.shape[0] - 1
    if state.left[message] > 0:
        if tables.messages.kind[message] == BETWEEN_TILES:
            _set_out(tables, run, message, now)
        else:
            _wait_for_dram(tables, run, message, now)
        return
    if state.closing[message] == 0:
        state.packets[message] -= 1
        # nothing is left to send, but packets that set out with this one have not arrived
        if state.packets[message] > 0:
            return
        state.closing[message] = 1
        way = tables.routes.hops[tables.messages.route[message]] * rates.hop_latency
        end = max(now + way, state.floor[message])
        if end > now:
            _push(run.queue, end, tiles + message)
            return
    _end(tables, run, message, now)


@called
def _set_out(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """Send the next packet of a message on its way."""
    size = min(tables.rates.packet_bits, run.messages.left[message])
    run.messages.left[message] -= size
    tiles: Int = tables.code.begin.shape[0] - 1
    _push(run.queue, _carried(tables, run, message, size, now), tiles + message)


@inlined
def _server_of(tables: ProgramTables, message: Int) -> Int:
    """Which of DRAM's servers a message needs."""
    return tables.rates.dram_writer if tables.messages.kind[message] == TO_DRAM else 0


@called
def _wait_for_dram(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """Let the next packet of a message wait until DRAM takes it, which may be at once."""
    server = _server_of(tables, message)
    left = run.messages.left[message] * tables.routes.slowest[tables.messages.route[message]]
    _push(run.waiting[server], run.messages.needed[message] - left, message)
    if run.serving[server] == 0:
        _call_server(tables, run, server, max(now, run.dram_free[server]))


@inlined
def _call_server(tables: ProgramTables, run: ReplayState, server: Int, time: Int) -> None:
    """Let a server take the next packet at that time."""
    run.serving[server] = 1
    tiles: Int = tables.code.begin.shape[0] - 1
    _push(run.queue, time, tiles + tables.messages.size.shape[0] + server)


@called
def _serve(tables: ProgramTables, run: ReplayState, server: Int, now: Int) -> None:
    """Let a server of DRAM, which is free, take a packet of the message that is needed first."""
    run.serving[server] = 0
    waiting = run.waiting[server]
    while waiting.counts[0] > 0:
        message = waiting.what[0]
        _pop(waiting)
        if run.messages.left[message] > 0:
            _set_out(tables, run, message, now)
            _call_server(tables, run, server, run.dram_free[server])
            return
        # another packet of the message, which waited too, was the last one
        tiles: Int = tables.code.begin.shape[0] - 1
        _push(run.queue, now, tiles + message)


@called
def _carried(tables: ProgramTables, run: ReplayState, message: Int, size: Int, now: Int) -> Int:
    """When a packet that sets out now has arrived; links carry it after those before it.

    One of DRAM sets out when its server is free, which is busy with it from then on.
    """
    routes, end = tables.routes, now
    route = tables.messages.route[message]
    # A link that is on the ways of several ports carries the part of each, so its ticks a bit are of the
    # route.
    for number in range(routes.begin[route], routes.begin[route + 1]):
        link = routes.link[number]
        free = max(now, run.link_free[link]) + size * routes.ticks[number]
        run.link_free[link] = free
        end = max(end, free)
    if tables.messages.kind[message] != BETWEEN_TILES:
        server, bit = _server_of(tables, message), tables.rates.dram_read_bit
        if tables.messages.kind[message] == TO_DRAM:
            bit = tables.rates.dram_write_bit
        run.dram_free[server] = max(now, run.dram_free[server]) + size * bit
        end = max(end, run.dram_free[server])
    return end


@called
def _end(tables: ProgramTables, run: ReplayState, message: Int, now: Int) -> None:
    """End a transfer: its tiles may go on, and loads that waited for a store may start."""
    messages, state, tiles = tables.messages, run.messages, run.tiles
    # the same message may come again in the next turn of a loop
    state.joined[message], state.closing[message], state.floor[message] = 0, 0, 0
    state.needed[message] = LONGEST
    state.done[message] += 1
    if run.moved.shape[0] > 0:
        row = run.logged[1]
        run.moved[row, 0], run.moved[row, 1], run.moved[row, 2] = message, state.began[message], now
        run.logged[1] += 1
    for copy in range(messages.copies[message], messages.copies[message + 1]):
        state.copy[copy] = THERE
        if state.awaited[copy]:
            state.awaited[copy] = 0
            tiles.missing[messages.copy_tile[copy]] -= 1
            _wake(tables, run, messages.copy_tile[copy], DATA, now)
    for output in range(messages.outputs[message], messages.outputs[message + 1]):
        state.out[output] = 0
        tile, bytes_of = messages.output_tile[output], state.bytes_of[output]
        if bytes_of < 0:
            tiles.leaving[tile] -= 1
        else:
            state.from_copy[bytes_of] -= 1
            if state.from_copy[bytes_of] == 0 and state.awaited[bytes_of]:
                state.awaited[bytes_of] = 0
                tiles.missing[tile] -= 1
        _wake(tables, run, tile, OUTPUTS, now)
    if messages.kind[message] == TO_DRAM:
        _stored(tables, run, message, now)


@called
def _stored(tables: ProgramTables, run: ReplayState, store: Int, now: Int) -> None:
    """Start the loads for which this was the last store that they waited for."""
    messages, state = tables.messages, run.messages
    for number in range(messages.waiters_begin[store], messages.waiters_begin[store + 1]):
        pair = messages.waiters[number]
        load = messages.pair_load[pair]
        if state.waits[load] > 0 and state.done[store] == _stores_before(messages, run, load, pair):
            state.waits[load] -= 1
            if state.waits[load] == 0:
                _start(tables, run, load, now)


@inlined
def _fail(run: ReplayState, what: Int, tile: Int, at: Int, copy: Int) -> None:
    run.failure[0], run.failure[1], run.failure[2], run.failure[3] = what, tile, at, copy


# The heaps are ours because compiled code has none for three arrays. Ties go by the order in which entries
# were put in, which makes a run the same on every machine.


@called
def _push(queue: Queue, time: Int, what: Int) -> None:
    """Put an event into the heap; of events at the same time the one that was put in first comes first."""
    at: Int = queue.counts[0]
    order: Int = queue.counts[1]
    queue.counts[0] += 1
    queue.counts[1] += 1
    while at > 0:
        above = (at - 1) // 2
        # the new event has the largest order of all, so at equal times it stays below
        if queue.time[above] <= time:
            break
        queue.time[at], queue.order[at] = queue.time[above], queue.order[above]
        queue.what[at] = queue.what[above]
        at = above
    queue.time[at], queue.order[at], queue.what[at] = time, order, what


@called
def _pop(queue: Queue) -> None:
    """Take the first event out of the heap: the last one sinks from the top to where it belongs."""
    queue.counts[0] -= 1
    count: Int = queue.counts[0]
    time, order, what = queue.time[count], queue.order[count], queue.what[count]
    at: Int = 0
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and _earlier(queue, below + 1, below):
            below += 1
        if time < queue.time[below] or (time == queue.time[below] and order < queue.order[below]):
            break
        queue.time[at], queue.order[at] = queue.time[below], queue.order[below]
        queue.what[at] = queue.what[below]
        at = below
    queue.time[at], queue.order[at], queue.what[at] = time, order, what


@inlined
def _earlier(queue: Queue, one: Int, other: Int) -> Truth:
    if queue.time[one] != queue.time[other]:
        return queue.time[one] < queue.time[other]
    return queue.order[one] < queue.order[other]
