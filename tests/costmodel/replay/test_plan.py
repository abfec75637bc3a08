"""The plan by which DRAM serves: when instructions would run if nothing but computing took time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from costmodel.replay.event_kernel import simulate
from costmodel.replay.event_values import LONGEST
from costmodel.replay.replay import replay
from costmodel.replay.tables import Compiled, ReplayOptions
from costmodel.schedule.program.program import Program
from tests.costmodel.replay.programs import (
    Body,
    compute,
    free,
    load,
    message,
    program,
    random_program,
    receive,
    repeat,
    send,
    work,
)
from tests.costmodel.replay.second_count import instructions
from tests.costmodel.schedule.chip_cases import chip

Step = tuple[int, int]
"""A tile and the place of an instruction in its list."""


def planned(of: Program) -> list[list[int]]:
    """What a run without transfers finds, in cycles and by instruction; LONGEST where nothing reads."""
    compiled = Compiled(of, ReplayOptions())
    run = compiled.new_run(logged=False, planning=True)
    simulate(compiled.without_transfers, run)
    assert not run.failure[0]
    return [
        [value if value == LONGEST else value // compiled.ticks for value in row]
        for row in run.plan.found.tolist()
    ]


def moments(of: Program) -> dict[Step, int]:
    """When each instruction of a program without loops is done with waiting, from what it waits for alone.

    A transfer takes no time: it ends when all its tiles take part and the computes that make its data end.
    """
    lists = [instructions(body) for body in of.tiles]
    takes_part: dict[int, list[Step]] = {number: [] for number in range(len(of.messages))}
    for tile, steps in enumerate(lists):
        for at, one in enumerate(steps):
            if one.operation not in ("compute", "free"):
                takes_part[one.message].append((tile, at))
    found: dict[Step, int] = {}

    def computed(tile: int, at: int) -> int:
        """When the last compute before an instruction ends."""
        for before in range(at - 1, -1, -1):
            if lists[tile][before].operation == "compute":
                return found[tile, before] + of.works[lists[tile][before].work].cycles
        return 0

    def over(number: int) -> int | None:
        """When a message has arrived; None while that is not known."""
        if any(step not in found for step in takes_part[number]):
            return None
        begun = [found[step] for step in takes_part[number]]
        made = [computed(*step) for step in takes_part[number] if step[0] in of.messages[number].sources]
        return max(begun + made)

    def waits_for(tile: int, at: int) -> Iterator[int | None]:
        one = lists[tile][at]
        yield found.get((tile, at - 1), 0 if at == 0 else None)
        if one.operation in ("compute", "free"):
            yield computed(tile, at)
            yield from map(over, one.reads if one.operation == "compute" else [one.message])
        if one.operation == "compute":
            for before in range(at - 1, -1, -1):
                if lists[tile][before].operation == "compute":
                    break
                if lists[tile][before].operation in ("send", "store"):
                    yield over(lists[tile][before].message)

    known = -1
    while known < len(found):
        known = len(found)
        for tile, steps in enumerate(lists):
            for at in range(len(steps)):
                if (tile, at) not in found and (at == 0 or (tile, at - 1) in found):
                    times = list(waits_for(tile, at))
                    if None not in times:
                        found[tile, at] = max(time for time in times if time is not None)
    return found


@pytest.mark.parametrize("seed", range(120))
def test_plans_of_random_programs(seed: int) -> None:
    of = random_program(Random(seed))
    times, plan = moments(of), iter(planned(of))
    for tile, body in enumerate(of.tiles):
        steps, ended = instructions(body), 0
        for at, one in enumerate(steps):
            expected = [0, 0]
            if one.operation == "compute":
                expected = [times[tile, at] - ended] * 2
                ended = times[tile, at] + of.works[one.work].cycles
            elif one.operation in ("load", "receive"):
                reading = [
                    times[tile, later]
                    for later, other in enumerate(steps[at + 1 :], at + 1)
                    if one.message in other.reads
                    or (other.operation == "free" and other.message == one.message)
                ]
                expected[0] = reading[0] - ended if reading else LONGEST
            assert next(plan) == expected, (tile, at, one)
    assert next(plan, None) is None, "the plan has more instructions than the program"


def test_of_a_loop_the_first_turn_waits_and_later_ones_do_not() -> None:
    """Two tiles in a pipeline of four turns of 10 cycles: the second one begins when the first has sent."""
    weights, handed = message(8, (), (1,)), message(8, (0,), (1,))
    first: Body = [repeat(4, compute(0), send(1))]
    second: Body = [load(0), repeat(4, receive(1, 64), compute(0, 0, 1), free(1))]
    found = planned(program(chip(2, 1), [weights, handed], [work(10)], first, second))
    assert found[1] == [0, 0]  # after the begin of the loop, the first stage never waits
    assert found[4][0] == 10  # the weights of the second one are needed when the first sub-batch has come
    assert found[7] == [10, 0]


def test_dram_serves_a_later_stage_later() -> None:
    """Weights of 40 bytes for each of two stages, 4 bytes in a cycle, a run takes 20 cycles.

    Those of the second one are asked for first, and would delay the first stage to cycle 20. As planned they
    come while it computes.
    """
    on = chip(2, 1, dram=4, link=1000)
    messages = [message(40, (), (0,)), message(40, (), (1,)), message(4, (1,), (0,))]
    first, second = [load(1), compute(0, 1), send(2)], [load(0), receive(2, 64), compute(0, 0, 2)]
    found = replay(program(on, messages, [work(20)], second, first), ReplayOptions(packet_bytes=8))
    assert found.cycles == 10 + 20 + 20


def test_what_a_slow_link_carries_sets_out_earlier() -> None:
    """150 bytes for a tile in the corner, which needs them last, and 60 for each of nine tiles, all at once.

    DRAM sends 6 bytes in a cycle from six ports, so it takes 115 cycles for all. The last link to the corner
    has four of six parts and takes 100 cycles for them: if they came last, after 90 cycles, that were 190.
    """
    on = chip(4, 3, dram=6, link=1)
    corner = on.positions.index((0, 0))
    others = [tile for tile, (x, _) in enumerate(on.positions) if x > 0]
    messages = [message(150, (), (corner,)), *(message(60, (), (tile,)) for tile in others)]
    bodies: list[Body] = [[] for _ in range(on.tiles)]
    bodies[corner] = [load(0), compute(0), compute(1, 0)]
    for number, tile in enumerate(others, 1):
        bodies[tile] = [load(number), compute(1), compute(1, number)]
    found = replay(
        program(on, messages, [work(60), work(5)], *bodies), ReplayOptions(packet_bytes=6), log=True
    )
    assert found.log is not None
    (arrived,) = [end for number, _, end in found.log.moved.tolist() if number == 0]
    assert 100 <= arrived / found.log.ticks < 165
