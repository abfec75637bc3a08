"""How far ahead of its first use data is asked for, against the instructions one after the other."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.replay.first_reads import FirstReads
from costmodel.schedule.program.program import Instruction, Repeat
from tests.costmodel.replay.programs import Body, compute, free, load, random_program, repeat, work
from tests.costmodel.replay.second_count import instructions


def numbered(body: Body, times_seen: dict[int, int]) -> list[int]:
    """For each instruction of the unrolled body its place in the listing, in which a Repeat has two."""
    places = []

    def walk(items: Body, at: int) -> int:
        for one in items:
            if isinstance(one, Repeat):
                for _ in range(one.times):
                    end = walk(list(one.body), at + 1)
                at = end + 1
            else:
                places.append(at)
                at += 1
        return at

    walk(body, 0)
    return places


def ahead_one_by_one(sequence: list[Instruction], at: int, cycles: list[int]) -> int:
    """Cycles of computes from an instruction to the first one behind it that reads its data."""
    total = 0
    for one in sequence[at + 1 :]:
        if one.operation in ("compute", "send") and sequence[at].message in one.reads:
            return total
        if one.operation == "compute":
            total += cycles[one.work]
    return total


@pytest.mark.parametrize("seed", range(60))
def test_programs_without_loops(seed: int) -> None:
    program = random_program(Random(seed))
    cycles = [one.cycles for one in program.works]
    for body in program.tiles:
        found = list(FirstReads(program.works).cycles_ahead(body))
        sequence = instructions(body)
        expected = [
            ahead_one_by_one(sequence, at, cycles) if one.operation in ("load", "receive") else 0
            for at, one in enumerate(sequence)
        ]
        if not any(isinstance(one, Repeat) for one in body):
            assert found == expected


def test_loops() -> None:
    """Data for the next turn, for what stands behind the loop, and past a loop inside."""
    works = [work(1), work(10), work(100)]
    body: Body = [
        load(0),
        load(3, 120),
        repeat(
            4, compute(0, 0), load(1, 40), free(0), repeat(5, compute(1)), compute(2, 1), free(1), load(0)
        ),
        compute(0, 0),
        compute(2, 3),
    ]
    found = list(FirstReads(works).cycles_ahead(body))
    turn = 1 + 5 * 10 + 100
    # loads in front, the loop's begin, compute, load 1 across the inner loop, ..., load 0 of the next turn
    assert found[:2] == [0, 4 * turn + 1]
    assert found[2:6] == [0, 0, 50, 0]
    assert found[-5:] == [0, 0, 0, 0, 0]
    sequence = instructions(tuple(body))
    cycles = [one.cycles for one in works]
    by_place = dict(zip(reversed(numbered(body, {})), range(len(sequence) - 1, -1, -1), strict=True))
    for place, at in by_place.items():
        if sequence[at].operation == "load":
            assert found[place] == ahead_one_by_one(sequence, at, cycles)
