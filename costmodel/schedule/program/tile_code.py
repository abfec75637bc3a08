"""Joins the code of one tile for all segments.

A tile fetches the first data of its next segment while the last step of the segment before computes, as far
as its buffer holds the data of both::

    load ...             what the first step needs
    compute              ... all steps of the first segment
    load ...             what the first step of the second one needs
    send, store, free    of the last step of the first segment
    compute              ... all steps of the second one

Data that does not fit is loaded when the last step has freed its own. Every other segment fills the buffer
from its end, so that neighbouring segments leave opposite ends free. There the data of a last step leaves as
many bytes free as the next segment fetches early, if there are such addresses. The segments may come in
several rounds; then the first one follows the last one of the round before.

A message that comes again lies where it lay before, and a repetition is written once. Where no such addresses
are found, repetitions are written out, and a message may lie elsewhere each time
(:meth:`TileSegment.written_out`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import dropwhile
from typing import NamedTuple

from costmodel.schedule.program.addresses import Occupancy, Span, addresses
from costmodel.schedule.program.program import Instruction, Repeat
from costmodel.schedule.program.repetition import Repeated, Rolled, length, walked
from costmodel.schedule.tree.validity import NotPossibleError

Code = tuple[Instruction | Repeat, ...]

Moments = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Messages that arrive, and that leave thereafter, one step of a tile after the other."""
KNOWN = 1000
"""Of how many segments it is remembered what the buffer holds, and where. Most tiles of a segment, and its
copies in a network that repeats a block, differ in nothing but the numbers of their messages."""


MOST_WRITTEN_OUT = 1000
"""How many steps of a tile in a segment are written out at most; addresses of more would take minutes."""


class StepMessages(NamedTuple):
    """What a tile does for one step, in this order: numbers of messages and of a work.

    ``loads_before``: what it loads from DRAM before it computes. ``receives``: what other tiles send.
    ``work``: its compute, -1 for a tile without a part, which reads the messages ``reads``. ``loads``: what
    it loads beside the compute, for later steps. ``sends`` and ``stores``: outputs to tiles and to DRAM.
    ``passes``: messages that it passes on, each with that in whose bytes they lie. ``frees``: messages whose
    bytes no later step needs.
    """

    loads_before: tuple[int, ...]
    receives: tuple[int, ...]
    work: int
    reads: tuple[int, ...]
    loads: tuple[int, ...]
    sends: tuple[int, ...]
    stores: tuple[int, ...]
    frees: tuple[int, ...]
    passes: tuple[tuple[int, int], ...] = ()

    @property
    def arriving(self) -> tuple[int, ...]:
        """The messages that take bytes of the buffer, in the order in which they do so."""
        return (*self.loads_before, *self.receives, *self.loads)


@dataclass(frozen=True)
class TileSegment:
    """What a tile does in a segment: ``items`` are numbers of ``blocks``.

    ``messages``: those whose data comes to the tile, in the order of their first arrival; ``occupancy`` has
    them by their number in this order. ``early``: messages of the first step that the tile may fetch during
    the segment before. First the weights, then these and the inputs; empty where the buffer holds neither.
    ``arrivals``: of a segment that is written out, whose blocks have arrivals in place of messages, the
    message of each. Empty: of one that is not.
    """

    blocks: Sequence[StepMessages]
    items: Rolled
    messages: tuple[int, ...]
    occupancy: Occupancy
    early: tuple[tuple[int, ...], ...] = ()
    arrivals: tuple[int, ...] = ()

    @staticmethod
    def of(
        blocks: Sequence[StepMessages],
        items: Rolled,
        sizes: Mapping[int, int | float],
        early: tuple[tuple[int, ...], ...],
        arrivals: tuple[int, ...] = (),
    ) -> TileSegment:
        """With what the buffer holds; the third time of a repetition is as the second."""
        order: dict[int, int] = {}
        moments = []
        for number in walked(items):
            block = blocks[number]
            come = tuple([order.setdefault(message, len(order)) for message in block.arriving])
            moments.append((come, tuple([order[message] for message in block.frees])))
        occupancy = _occupancy(tuple(moments), tuple([sizes[message] for message in order]))
        return TileSegment(blocks, items, tuple(order), occupancy, early, arrivals)

    @cached_property
    def number(self) -> dict[int, int]:
        """The numbers of ``messages`` in their order."""
        return {message: number for number, message in enumerate(self.messages)}

    def message(self, number: int) -> int:
        """The message that the blocks mean by a number."""
        return self.arrivals[number] if self.arrivals else number

    def written_out(self) -> TileSegment:
        """The segment without repetitions, in which each arrival of a message may have its own address."""
        arrivals: list[int] = []
        there: dict[int, int] = {}
        blocks = []

        def come(messages: Sequence[int]) -> tuple[int, ...]:
            for message in messages:
                there[message] = len(arrivals)
                arrivals.append(message)
            return tuple([there[message] for message in messages])

        for number in walked(self.items, MOST_WRITTEN_OUT):
            block = self.blocks[number]
            loads_before, receives = come(block.loads_before), come(block.receives)
            reads = tuple([there[message] for message in block.reads])
            blocks.append(
                block._replace(
                    loads_before=loads_before,
                    receives=receives,
                    reads=reads,
                    loads=come(block.loads),
                    frees=tuple([there[message] for message in block.frees]),
                    passes=tuple([(message, there[held]) for message, held in block.passes]),
                )
            )
        sizes = {number: self.occupancy.sizes[self.number[one]] for number, one in enumerate(arrivals)}
        # nothing of the first step comes twice in it
        early = tuple(tuple(arrivals.index(message) for message in one) for one in self.early)
        return TileSegment.of(blocks, tuple(range(len(blocks))), sizes, early, tuple(arrivals))

    def early_at_the_end(self, buffer: tuple[int, int | float], mirrored: bool) -> list[Span]:
        """Where all that it may fetch early lies at its end of the buffer; empty if it fetches nothing early.

        That is the end with the last addresses if it is ``mirrored``.
        """
        if not self.early:
            return []
        (first, end), size = buffer, sum(self.occupancy.sizes[self.number[one]] for one in self.early[-1])
        return [(end - size, end) if mirrored else (first, first + size)]

    @property
    def held_last(self) -> tuple[int, ...] | None:
        """The messages that are there during the last step; None if the tile computes nothing in it."""
        numbers = list(walked(self.items, 1))
        last = self.blocks[numbers[-1]] if numbers else None
        return None if last is None or last.work < 0 else last.frees


@dataclass(frozen=True)
class _Placed:
    """A segment with addresses, and the messages of its first step that the tile fetches early."""

    segment: TileSegment
    at: dict[int, int | float]
    early: tuple[int, ...]

    def spans(self, messages: Sequence[int]) -> list[Span]:
        """The bytes where messages lie."""
        sizes, number = self.segment.occupancy.sizes, self.segment.number
        return [(self.at[message], self.at[message] + sizes[number[message]]) for message in messages]

    def code(self, first_fetched: bool) -> list[Instruction | Repeat]:
        """The segment's instructions; ``first_fetched``: without the loads that came early."""
        taken = {self.segment.message(number) for number in (self.early if first_fetched else ())}
        bodies = [tuple(_instructions(block, self.segment, self.at)) for block in self.segment.blocks]
        found = list(_coded(self.segment.items, bodies))
        rest = dropwhile(lambda item: isinstance(item, Instruction) and item.operation == "load", found)
        loads = found[: len(found) - len(tail := list(rest))]
        kept = [item for item in loads if isinstance(item, Instruction) and item.message not in taken]
        return [*kept, *tail]

    @property
    def early_loads(self) -> list[Instruction]:
        return [Instruction("load", self.segment.message(one), self.at[one]) for one in self.early]


@lru_cache(KNOWN)
def _occupancy(moments: Moments, sizes: tuple[int | float, ...]) -> Occupancy:
    """What the buffer holds from moment to moment; messages are numbered in the order of their arrival."""
    occupancy = Occupancy(dict(enumerate(sizes)))
    for come, leave in moments:
        for message in come:
            occupancy.arrive(message)
        occupancy.leave(leave)
    return occupancy


@lru_cache(KNOWN)
def _addresses(
    occupancy: Occupancy,
    buffer: tuple[int, int | float],
    avoided: tuple[tuple[int, tuple[Span, ...]], ...],
    mirrored: bool,
) -> tuple[int | float, ...] | None:
    """An address for each message of an occupancy, in the order of arrival; None where none were found."""
    found = addresses(occupancy, *buffer, dict(avoided), mirrored)
    return None if found is None else tuple([found[number] for number in range(len(found))])


def tile_code(segments: Sequence[TileSegment], rounds: int, first: int, end: int | float) -> Code:
    """The code of a tile for all ``segments`` in turn, and that ``rounds`` times.

    Its buffer has the addresses from ``first`` to before ``end``. NotPossibleError where the data of a
    segment fits by the sum of bytes but no addresses were found for it.
    """
    placed: list[_Placed] = []
    for number, segment in enumerate(segments):
        before, mirrored = placed[-1] if placed else None, number % 2 == 1
        freed: list[Span] = []
        if number + 1 < len(segments):
            freed = segments[number + 1].early_at_the_end((first, end), not mirrored)
        elif rounds > 1 and number and segments[0].early:
            freed = placed[0].spans(segments[0].early[-1])
        placed.append(_placed(segment, before, freed, (first, end), mirrored))
    wrapped = _fetched_in_rounds(placed) if rounds > 1 and len(placed) > 1 else ()
    if not wrapped:
        body = tuple(_in_turn(placed, (), ()))
        return (Repeat(rounds, body),) if rounds > 1 and body else body
    # only the first round has nobody to fetch for it, and only the last one nobody to fetch for
    placed[0] = _Placed(placed[0].segment, placed[0].at, wrapped)
    loads = placed[0].early_loads
    again = Repeat(rounds - 1, tuple(_in_turn(placed, wrapped, loads)))
    return (*loads, again, *_in_turn(placed, wrapped, ()))


def _in_turn(
    placed: Sequence[_Placed], fetched: Sequence[int], then: Sequence[Instruction]
) -> Iterator[Instruction | Repeat]:
    """The code of one round.

    ``fetched``: the messages of the first segment that were fetched before. ``then``: loads of the next
    round.
    """
    following = [*(one.early_loads for one in placed[1:]), then]
    for number, (one, loads) in enumerate(zip(placed, following, strict=True)):
        code = one.code(bool(number or fetched))
        yield from _with_loads(code, loads) if loads else code


def _placed(
    segment: TileSegment,
    before: _Placed | None,
    freed: Sequence[Span],
    buffer: tuple[int, int | float],
    mirrored: bool,
) -> _Placed:
    """Addresses for a segment's data; where there are none for it as it is, written out.

    ``freed``: what the data of its last step had best leave free, for what the next one fetches early.
    """
    found = _with_addresses(segment, before, freed, buffer, mirrored)
    comes_again = len(segment.occupancy.times[0]) > len(segment.messages)
    if found is None and comes_again and length(segment.items) <= MOST_WRITTEN_OUT:
        found = _with_addresses(segment.written_out(), before, freed, buffer, mirrored)
    if found is None:
        raise NotPossibleError(
            f"no addresses were found for messages of at most {segment.occupancy.peak:,} bytes at a time in "
            f"the {buffer[1] - buffer[0]:,} bytes of its buffer behind the outputs on their way out"
        )
    return found


def _with_addresses(
    segment: TileSegment,
    before: _Placed | None,
    freed: Sequence[Span],
    buffer: tuple[int, int | float],
    mirrored: bool,
) -> _Placed | None:
    """Addresses for a segment's data, with as much of its first data early as finds bytes; None: for none."""
    held = before.segment.held_last if before is not None else None
    spans = before.spans(held) if before is not None and held is not None else []
    # From the most that could come early down to nothing. A tile that computes nothing in the last step of
    # the segment before has no compute behind which to load.
    for early in (*reversed(segment.early if held is not None else ()), ()):
        taken = dict.fromkeys(early, spans)
        # Where no addresses leave these bytes free, the next segment may have to load late.
        last = segment.held_last or ()
        for kept in (freed, ()) if freed and last else ((),):
            avoided = dict(taken)
            if kept:
                avoided |= {message: [*avoided.get(message, ()), *kept] for message in last}
            numbered = [(segment.number[message], tuple(own)) for message, own in avoided.items()]
            at = _addresses(segment.occupancy, buffer, tuple(numbered), mirrored)
            if at is not None:
                return _Placed(segment, dict(zip(segment.messages, at, strict=True)), early)
    return None


def _fetched_in_rounds(placed: Sequence[_Placed]) -> tuple[int, ...]:
    """The first segment's data that finds free bytes during the last step of the round before."""
    first, last = placed[0], placed[-1]
    held = last.segment.held_last
    if held is None:
        return ()
    taken = last.spans(held)
    for early in reversed(first.segment.early):
        if all(b <= c or d <= a for (a, b) in first.spans(early) for (c, d) in taken):
            return early
    return ()


def _with_loads(
    code: Sequence[Instruction | Repeat], loads: Sequence[Instruction]
) -> list[Instruction | Repeat]:
    """The code with ``loads`` behind its last compute, which is that of its last step."""
    found = list(code)
    # a repetition that ends the code gives up its last time, whose last compute then stands by itself
    while isinstance(last := found[-1], Repeat):
        found.pop()
        found += [Repeat(last.times - 1, last.body)] if last.times > 1 else []
        found += last.body
    at = len(found)
    while isinstance(item := found[at - 1], Repeat) or item.operation != "compute":
        at -= 1
    found[at:at] = loads
    return found


def _instructions(
    block: StepMessages, segment: TileSegment, at: Mapping[int, int | float]
) -> Iterator[Instruction]:
    message = segment.message
    for one in block.loads_before:
        yield Instruction("load", message(one), at[one])
    for one in block.receives:
        yield Instruction("receive", message(one), at[one])
    if block.work >= 0:
        yield Instruction("compute", work=block.work, reads=tuple([message(one) for one in block.reads]))
    for one in block.loads:
        yield Instruction("load", message(one), at[one])
    for sent in block.sends:
        yield Instruction("send", sent)
    for stored in block.stores:
        yield Instruction("store", stored)
    for sent, held in block.passes:
        yield Instruction("send", sent, reads=(message(held),))
    for one in block.frees:
        yield Instruction("free", message(one))


def _coded(items: Rolled, blocks: Sequence[Code]) -> Iterator[Instruction | Repeat]:
    for item in items:
        if isinstance(item, Repeated):
            yield Repeat(item.times, tuple(_coded(item.body, blocks)))
        else:
            yield from blocks[item]
