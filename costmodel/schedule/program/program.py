"""The values of a program, and what they mean.

A tile works through its instructions in order. Transfers and computation go on by themselves once they are
issued, so that a tile can fetch the next layer's inputs while it computes::

    load     fetches from DRAM.           The tile goes on at once.
    receive  waits for another tile.      The tile goes on at once.
    compute  waits until all data that it reads has arrived, the compute before it has ended, and the outputs
             of that one have left: they leave through a small buffer, so a blocked way out holds up the tile.
             Then it starts, and the tile goes on.
    send     sends outputs of the last compute to tiles, store sends them to DRAM. They leave in a
             stream: the transfer may begin with that compute and ends no earlier. The tile goes on at once.
             A send may also pass on data that the tile has loaded or received (``Instruction.reads``). It
             waits until that data has arrived, and what it passed on by this message before; then the tile
             goes on.
    hold     keeps bytes for outputs to DRAM that several computes add to, or that leave later.
    free     waits until the last compute has ended, the data has arrived and what is stored or passed on
             from its bytes has left, then gives the bytes back.

Outputs that are held leave from their bytes and not through the small buffer: a store says of which message
(``Instruction.reads``), either of those that it holds itself or of partial sums that were loaded and added
to in place. Such a store holds up no compute, only the free of its bytes.

A transfer starts when every tile that takes part in it has issued its instruction. A load of elements that
the program stores waits for these stores, too: its message names them (``Message.after``). They may come
later, on other tiles; a load that waits stops no tile. Data that several tiles need travels once, as one
multicast. So a program holds all there is to know about what moves, and a simulator needs no model of
schedules to run it.

What is done several times (``Repeat``) is for other data each time: its box ``moves``. A tile holds the data
of a message once at a time, and sends or stores it once for each compute. So data that arrives while that of
the sub-batch before is still in use has a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.hardware.chip import Chip

Interval = tuple[int, int]
"""Indices from the first to before the second."""
Box = tuple[Interval, ...]
"""One interval for each dim of a loop nest, or for each axis of a tensor."""

Moves = tuple[tuple[int, tuple[int, ...]], ...]
"""How a box moves from one time to the next, as nested loops from the outermost in: (times, shift of the box
along each of its axes). See :func:`box_at`."""

OUTPUT_DIMS = ("N", "K", "P", "Q")
"""The dims of a nest that number samples, channels, rows and columns of its outputs, in the order of the axes
of their boxes."""

Operation = Literal["load", "receive", "compute", "send", "store", "hold", "free"]


@dataclass(frozen=True)
class Message:
    """One transfer of ``size_bytes`` of a tensor; with eighths where elements are no whole bytes.

    ``sources``: the tiles that send. Empty for data from DRAM, which comes in equal parts from all ports.
    Several tiles are sources of one message only where they send partial sums of the same outputs to DRAM or,
    on a mesh of PEs, to one unit; these are added where their ways meet. ``targets``: the tiles that receive;
    empty for data to DRAM, which goes in equal parts to all ports. A tile may be both source and target: what
    it keeps for itself crosses no link. ``tensor`` and ``box``: which elements these are the first time, or
    the smallest box around them. The tensor is a layer by its name (its outputs: samples, channels, rows,
    columns), the layer's own input from outside the network (``NAME.input``, alike) or its parameters
    (``NAME.weights``: outputs, inputs of a group, filter rows, filter columns). ``moves``: which elements
    these are the other times; empty: the same ones each time. ``after``: numbers of the messages that store
    some of these elements in DRAM. Each time, the transfer waits until those of their repetitions have ended
    that store elements of it (:func:`times_before`). ``partial``: these are partial sums on their way to the
    tile that adds them up (:class:`Work`), and not outputs yet. That tile sends its own to itself.
    """

    tensor: str
    box: Box
    size_bytes: int | float
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    moves: Moves = ()
    after: tuple[int, ...] = ()
    partial: bool = False


@dataclass(frozen=True)
class Work:
    """What one compute does: the points ``box`` of the loop nest of ``layer``.

    ``box`` has the dims of the layer's :class:`LayerNest`. ``moves``: which points these are the other times.
    ``cycles``: how long the tile takes once all its data is there. ``operations``: multiply-accumulates, or
    operations of the vector units. ``mapping``: the tile's loop nest as text; empty for vector work.

    ``adds``: it computes none of these points, but adds up the partial sums that the compute reads, into the
    outputs of ``box``. Only then are they outputs that may leave.
    """

    layer: str
    box: Box
    cycles: int
    operations: int
    mapping: str = ""
    moves: Moves = ()
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a tile.

    ``message``: number of the message that is loaded, received, sent or stored, whose outputs are held, or
    whose data is freed. ``address``: where the data of a load, receive or hold begins in the tile's buffer,
    in bytes and eighths of them. ``work``: number of the work of a compute, and ``reads`` the messages whose
    data it needs; these are loaded or received before it and freed after it. Of a store ``reads`` is the
    message in whose bytes the outputs lie: the one that is stored if a hold keeps them, or that of loaded
    partial sums; nothing where they leave through the small buffer. Of a send it is the message whose data,
    or some of it, is passed on; nothing where outputs are sent. Numbers that an operation has no use for are
    -1.
    """

    operation: Operation
    message: int = -1
    address: int | float = -1
    work: int = -1
    reads: tuple[int, ...] = ()


@dataclass(frozen=True)
class Repeat:
    """Instructions that are done ``times`` times in turn.

    A message in it is transferred every time: the n-th time that a tile sends it belongs to the n-th time
    that each other tile receives it.
    """

    times: int
    body: tuple[Instruction | Repeat, ...]


@dataclass(frozen=True)
class LayerNest:
    """The loop nest of a layer for the whole batch: (dim, size) pairs, in the order of ``Work.box``."""

    layer: str
    dims: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Program:
    """What every tile of ``chip`` does for ``batch`` samples of ``network``.

    ``tiles`` [chip.tiles]: the instructions of each tile, by its number. ``messages`` and ``works`` are what
    they refer to by number. ``output_stream_bytes`` of each buffer, from address 0 on, are kept for outputs
    on their way out. ``layers``: all layers of the network.
    """

    network: str
    batch: int
    chip: Chip
    messages: tuple[Message, ...]
    works: tuple[Work, ...]
    tiles: tuple[tuple[Instruction | Repeat, ...], ...]
    output_stream_bytes: int
    layers: tuple[LayerNest, ...] = ()


def box_at(box: Box, moves: Moves, time: int) -> Box:
    """Where a box is at a time, counted from 0.

    The innermost of ``moves`` goes on every time, the one around it when the inner one starts again: like the
    digits of ``time``.
    """
    shift = [0] * len(box)
    for times, by in reversed(moves):
        # The innermost loop is the fastest digit of ``time``.
        time, digit = divmod(time, times)
        shift = [moved + digit * step for moved, step in zip(shift, by, strict=True)]
    return tuple((first + moved, end + moved) for (first, end), moved in zip(box, shift, strict=True))


def times_before(load: Message, time: int, store: Message) -> int:
    """How often ``store`` has to have ended before ``load`` may start for the time ``time``, counted from 0.

    That is one more than the last time at which both have an element in common; 0 if there is none.
    """
    return _last_common(box_at(load.box, load.moves, time), store.box, store.moves) + 1


def _last_common(wanted: Box, box: Box, moves: Moves) -> int:
    """The last time at which a moving box has an element of ``wanted``; -1 if never.

    Tries the outermost loop from its end, and looks only into iterations that can reach ``wanted``.
    """
    if not moves:
        apart = any(a >= d or c >= b for (a, b), (c, d) in zip(wanted, box, strict=True))
        return -1 if apart else 0
    (times, by), inner = moves[0], moves[1:]
    # How far the inner loops move the box at most. They only move it forward, so in one iteration of this
    # loop it stays within its first position extended by that.
    spread = [sum((count - 1) * step[axis] for count, step in inner) for axis in range(len(box))]
    count = 1
    for each, _ in inner:
        count *= each
    for digit in range(times - 1, -1, -1):
        moved = tuple((a + digit * step, b + digit * step) for (a, b), step in zip(box, by, strict=True))
        reach = tuple((a, b + far) for (a, b), far in zip(moved, spread, strict=True))
        if any(a >= d or c >= b for (a, b), (c, d) in zip(wanted, reach, strict=True)):
            continue
        found = _last_common(wanted, moved, inner)
        if found >= 0:
            return digit * count + found
    return -1


def counted(code: Sequence[Instruction | Repeat], times: int = 1) -> Iterator[tuple[Instruction, int]]:
    """Every instruction and how often it is done; an instruction may come several times."""
    for item in code:
        if isinstance(item, Repeat):
            yield from counted(item.body, times * item.times)
        else:
            yield item, times
