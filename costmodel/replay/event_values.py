"""The records that the compiled event loop computes with: a program as arrays, and the state of a run.

Times are whole numbers of *ticks*, a fraction of a cycle in which every bit takes a whole number of them on
every link and at DRAM: nothing is rounded, and a run gives the same numbers on every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

LOAD, RECEIVE, COMPUTE, SEND, STORE, FREE, LOOP, END, HOLD = range(9)
"""Operations; LOOP begins a Repeat, END ends it."""
BETWEEN_TILES, FROM_DRAM, TO_DRAM = range(3)
"""Kinds of messages."""
ABSENT, COMING, THERE = range(3)
"""States of a copy: the data of a message on one of its targets, or outputs held on one of its sources."""
RUNNING, BLOCKED, CALLED, DONE = range(4)
"""States of a tile: ready to run, waiting for data or outputs, to go on at a known moment, at its end."""
NOTHING, DATA, OUTPUTS = range(3)
"""Why a tile did not compute: it was not held up, its inputs were late, or its outputs could not leave."""
HELD_TWICE, OVERLAP, NOT_HELD, NO_COMPUTE, SENT_TWICE, TOO_LONG, TOO_MANY = range(1, 8)
"""What is found wrong while a program runs; see ``failures.py``."""
# A sum of two moments below this is below 2**62, so that it cannot wrap before it is compared.
LONGEST = 1 << 61
"""Ticks after which a run is given up: later moments may not fit 64 bits."""
MOST_EVENTS = 1 << 31
"""Events after which a run that skips repeated turns is given up, some minutes of work."""


class Code(NamedTuple):
    """The instructions of all tiles, one after the other.

    ``begin`` [tiles + 1]: where each tile's begin. For each instruction [n]: its ``operation``, ``message``,
    ``address`` and ``work``. ``copy_or_output`` is the number of the copy that it loads, receives or frees,
    or of the output that it sends or stores. The copies that it reads are ``reads`` from ``reads_begin`` on,
    up to the next one's; of a store that is the copy in whose bytes the outputs lie, of a send the copy that
    it passes on. ``planned`` [n, 2] is what a run found in which nothing but computing takes time
    (:class:`DramPlan`). Of a LOOP ``times`` says how often it runs, and of an END ``body`` where
    it goes back to; ``depth`` is how many loops are around both.
    """

    begin: Array
    operation: Array
    message: Array
    copy_or_output: Array
    address: Array
    work: Array
    reads_begin: Array
    reads: Array
    planned: Array
    times: Array
    body: Array
    depth: Array


class Messages(NamedTuple):
    """``size`` [messages] in bits, ``kind`` and ``route``.

    A message has the copies from ``copies[m]`` to before ``copies[m + 1]``, one for each target, on the tiles
    ``copy_tile``. Its outputs are numbered alike, one for each source. Behind all of these copies comes one
    for each output, of the bytes that hold it. ``copy_size``: bytes of each copy.

    A load and a store that it waits for are a pair, ``pair_load`` and ``pair_store``. Those of load m are
    the pairs from ``pairs[m]`` on, those of store m are ``waiters`` from ``waiters_begin[m]`` on. How often
    the store has to have ended before the n-th load is ``needs[needs_begin[pair] + n]``.
    """

    size: Array
    kind: Array
    route: Array
    copies: Array
    copy_tile: Array
    copy_size: Array
    outputs: Array
    output_tile: Array
    pairs: Array
    pair_load: Array
    pair_store: Array
    needs_begin: Array
    needs: Array
    waiters_begin: Array
    waiters: Array


class Routes(NamedTuple):
    """The links of route r are ``link`` from ``begin[r]`` on, each with its ``ticks`` a bit of a message.

    ``hops`` [routes]: links of the longest way; ``slowest`` [routes]: the ticks a bit of the busiest link.
    """

    begin: Array
    link: Array
    ticks: Array
    hops: Array
    slowest: Array


class Rates(NamedTuple):
    """Ticks of a cycle, of a bit that DRAM reads or writes, before the first byte of a load, and of a router.

    ``dram_writer``: which of DRAM's servers writes, that of reads (0) or another one (1). A message travels
    in packets of ``packet_bits``, of which so many are ``in_flight`` at a time.
    """

    cycle: int
    dram_read_bit: int
    dram_write_bit: int
    dram_writer: int
    dram_latency: int
    hop_latency: int
    packet_bits: int
    in_flight: int


class Works(NamedTuple):
    """``cycles`` and ``layer`` of each work."""

    cycles: Array
    layer: Array


class Queue(NamedTuple):
    """Events as a binary heap by ``time`` and then by ``order``, in which they were put in.

    ``what``: a tile, or the number of tiles plus a message, or that of tiles and messages plus a server of
    DRAM. ``counts`` [2]: events in it, and ever put in. Messages of which a packet waits for DRAM are kept in
    the same way, by the time when they are needed.
    """

    time: Array
    order: Array
    what: Array
    counts: Array


class TileState(NamedTuple):
    """Of each tile [tiles]: the next instruction and how the tile stands.

    ``compute_end``: when its last compute ends. ``missing``: copies that it waits for; ``leaving``: outputs
    of the last compute that have not arrived. ``computes``: how many it has started. ``loops`` [tiles,
    depth]: how often each loop is still to run. ``reason``: what held it up since the last compute.
    ``held``: how many copies are in its buffer, ``held_begin`` [tiles + 1] where their list ``held_copy``
    begins, which is sorted by address; ``bits`` and ``most_bits``: of all of them, now and at most.
    ``busy``, ``waited`` [tiles, 3]: ticks in which it computed, and in which it did not, by reason.
    ``planned_end``: when its last compute would have ended if nothing but computing took time. ``begun``: how
    many of its computes have run at least once.
    """

    next: Array
    status: Array
    compute_end: Array
    missing: Array
    leaving: Array
    computes: Array
    loops: Array
    reason: Array
    held: Array
    held_begin: Array
    held_copy: Array
    bits: Array
    most_bits: Array
    busy: Array
    waited: Array
    planned_end: Array
    begun: Array


class MessageState(NamedTuple):
    """Of each message: how many tiles ``joined`` its next transfer, when it is ``needed`` from or at DRAM, as
    planned (:class:`DramPlan`), stores that it ``waits`` for, when it ``began``, bits ``left`` to send,
    ``packets`` in flight, the earliest end ``floor``, whether all its packets have arrived (``closing``) and
    how many transfers are ``done``.

    Of each copy its state and address, whether the tile waits for it (``awaited``) or ever had it
    (``filled``), and how many transfers are leaving ``from_copy``. Of each output whether it is leaving
    (``out``), the compute that it was last of, and the copy in whose bytes it lies (``bytes_of``, -1: none).
    """

    joined: Array
    needed: Array
    waits: Array
    began: Array
    left: Array
    packets: Array
    floor: Array
    closing: Array
    done: Array
    copy: Array
    address: Array
    awaited: Array
    filled: Array
    from_copy: Array
    out: Array
    output_of: Array
    bytes_of: Array


class DramPlan(NamedTuple):
    """What would happen when if nothing but computing took time: the order in which DRAM should serve.

    ``found`` [instructions, 2]: of a compute the ticks for which its tile waits before it, the first time and
    the last time that it runs. Of a load or receive the least ticks from the end of the compute in front to
    the first instruction that reads the data, or frees it (LONGEST if there is none), and 0. ``asked_by``
    [copies]: the load or receive of the data, -1 once it has been read; ``asked_after`` [copies]: when the
    compute in front of that ended. All are empty in a run that makes no plan.
    """

    found: Array
    asked_by: Array
    asked_after: Array


class Repeats(NamedTuple):
    """What is known of the loops of ``tile`` [1], to skip turns that repeat (``repeats_kernel.py``).

    The tile is -1 where nothing is skipped. ``turned`` [1]: 1 more than the depth of the loop of which it has
    just begun a turn, else 0. ``current`` [numbers]: the state of the run then; ``order`` [events]: work
    space. ``skipped`` [1]: periods skipped. By depth: ``turns`` since the loop began, the turn whose state is
    ``next_kept``, and of the state that is kept the ``moment``, the ``length`` and the numbers, ``state``
    [depth, numbers], the loop counters and the totals of tiles and messages.
    """

    tile: Array
    turned: Array
    current: Array
    order: Array
    skipped: Array
    turns: Array
    next_kept: Array
    moment: Array
    length: Array
    state: Array
    loops: Array
    computes: Array
    busy: Array
    compute_end: Array
    waited: Array
    planned_end: Array
    needed: Array
    done: Array


class ReplayState(NamedTuple):
    """Everything that changes while a program runs.

    ``link_free``: when each link is free; ``dram_free`` [2]: when each of DRAM's servers is, ``serving`` [2]:
    whether an event says so, and ``waiting``: the messages of which a packet waits for each. ``layers``
    [layers, 2]: first start and last end. ``failure`` [4]: what is wrong, the tile, its instruction, and
    another copy. ``end`` [1]: the latest moment so far. ``computed`` [n, 4] and ``moved`` [n, 3] log work,
    tile, start, end, and message, start, end; they are empty where no trace is asked for. ``logged`` [2]:
    rows in both. ``begun`` [instructions]: the computes that have run at least once.
    """

    queue: Queue
    tiles: TileState
    messages: MessageState
    link_free: Array
    dram_free: Array
    serving: Array
    waiting: tuple[Queue, Queue]
    layers: Array
    failure: Array
    end: Array
    computed: Array
    moved: Array
    logged: Array
    begun: Array
    plan: DramPlan
    repeats: Repeats


class ProgramTables(NamedTuple):
    """What does not change while a program runs."""

    code: Code
    messages: Messages
    routes: Routes
    rates: Rates
    works: Works
