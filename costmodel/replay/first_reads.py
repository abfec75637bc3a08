"""How far ahead of its first use a tile asks for data.

That is the time which the tile computes from the instruction that asks for the data to the first one that
reads it: a compute, or a send that passes the data on. DRAM serves first what is needed first
(:mod:`.event_kernel`), and this tells it what that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.schedule.program.program import Instruction, Repeat, Work

Body = Sequence[Instruction | Repeat]


@dataclass(frozen=True)
class _Whole:
    """What all turns of a Repeat together read, and the cycles of their computes."""

    reads: frozenset[int]
    cycles: int


class FirstReads:
    """Of the instructions of one tile; ``works`` are the program's."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works
        self._wholes: dict[int, _Whole] = {}

    def cycles_ahead(self, body: Body, around: tuple[tuple[Body, int], ...] = ()) -> Iterator[int]:
        """For every instruction of ``body`` the cycles up to the first one that reads its data; 0 but for
        loads and receives.

        A Repeat counts for two, its begin and its end, as in :class:`.event_values.Code`. ``around``: the
        bodies that this one is in, from the outermost in, and where in each the Repeat is. Data that is read
        in the next turn of a Repeat only, or never, counts up to the end of the turn, and on from there.
        """
        for place, one in enumerate(body):
            if isinstance(one, Repeat):
                yield 0
                yield from self.cycles_ahead(one.body, (*around, (body, place)))
                yield 0
            elif one.operation in ("load", "receive"):
                yield self._until_read(one.message, body, place, around)
            else:
                yield 0

    def _until_read(self, message: int, body: Body, place: int, around: tuple[tuple[Body, int], ...]) -> int:
        cycles, is_read = self._through(body[place + 1 :], message)
        while not is_read and around:
            # the next turn of the Repeat comes first, then what stands behind it
            more, is_read = self._through(body, message)
            (body, place), around = around[-1], around[:-1]
            if not is_read:
                more, is_read = self._through(body[place + 1 :], message)
            cycles += more
        return cycles

    def _through(self, body: Body, message: int) -> tuple[int, bool]:
        """Cycles of computes up to the first instruction that reads a message, and whether there is one."""
        cycles = 0
        for one in body:
            if isinstance(one, Repeat):
                whole = self._whole(one)
                if message in whole.reads:
                    return cycles + self._through(one.body, message)[0], True
                cycles += whole.cycles
            elif one.operation in ("compute", "send") and message in one.reads:
                return cycles, True
            elif one.operation == "compute":
                cycles += self._works[one.work].cycles
        return cycles, False

    def _whole(self, repeat: Repeat) -> _Whole:
        found = self._wholes.get(id(repeat))
        if found is None:
            reads, cycles = set[int](), 0
            for one in repeat.body:
                if isinstance(one, Repeat):
                    inner = self._whole(one)
                    reads |= inner.reads
                    cycles += inner.cycles
                elif one.operation in ("compute", "send"):
                    reads.update(one.reads)
                    cycles += self._works[one.work].cycles if one.operation == "compute" else 0
            found = self._wholes[id(repeat)] = _Whole(frozenset(reads), cycles * repeat.times)
        return found
