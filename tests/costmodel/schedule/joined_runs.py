"""How children of a cut run together, counted step by step with exact numbers.

It is written from what :mod:`costmodel.schedule.starts` says, and shares nothing with its compiled functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple


class Batch(NamedTuple):
    """One batch of a node: the fields of ``BatchRun``, with what links carry as plain numbers."""

    ahead_bits: int
    link_cycles: int
    early: int
    running: int
    dram_bits: int
    ahead: tuple[int, ...]
    during: tuple[int, ...]


class Node(NamedTuple):
    """The first batch of a node, and each later one."""

    first: Batch
    later: Batch


class Resources(NamedTuple):
    """Bits of DRAM, and bits times ports of a link, in a cycle."""

    dram: int
    link: int

    def cycles(self, bits: int, loads: Sequence[int] = ()) -> int:
        return max(ceil(Fraction(bits, self.dram)), ceil(Fraction(max(loads, default=0), self.link)))


def _sum(loads: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*loads, strict=True)))


def in_turn(children: Sequence[Node], subbatches: int, on: Resources) -> Node:
    """A T cut: all runs of its children, one after the other, for a first and for a later batch."""
    return Node(_run_in_turn(children, subbatches, True, on), _run_in_turn(children, subbatches, False, on))


def _run_in_turn(children: Sequence[Node], subbatches: int, is_first: bool, on: Resources) -> Batch:
    runs = [
        child.first if is_first and subbatch == 0 else child.later
        for subbatch in range(subbatches)
        for child in children
    ]
    taken, moving = [], []
    for number, run in enumerate(runs):
        bits, loads, waits = run.dram_bits - run.ahead_bits, [run.during], 0
        if number + 1 < len(runs):
            after = runs[number + 1]
            bits, waits = bits + after.ahead_bits, after.link_cycles
            loads.append(after.ahead)
        moving.append(on.cycles(bits, _sum(loads)))
        taken.append(max(run.running, moving[-1], waits))
    during = _sum([*(run.during for run in runs), *(run.ahead for run in runs[1:])])
    begins, running = runs[0], max(sum(taken), on.cycles(0, during))
    early = min(begins.early, taken[0] - moving[0], running - on.cycles(0, during)) if begins.early else 0
    dram_bits = sum(run.dram_bits for run in runs)
    return Batch(begins.ahead_bits, begins.link_cycles, early, running, dram_bits, begins.ahead, during)


def side_by_side(
    children: Sequence[Node], stages: Sequence[int], subbatches: int, on: Resources, cuts: Sequence[bool]
) -> Node:
    """An S cut: a fill through all stages, and then a period for each further sub-batch.

    ``cuts``: which children are T cuts, whose data within a turn meets what all others send.
    """
    later = [child.later for child in children]
    each = [on.cycles(run.dram_bits, _sum([run.ahead, run.during])) for run in later]
    in_period = _sum([loads for run in later for loads in (run.ahead, run.during)])
    together = on.cycles(sum(run.dram_bits for run in later), in_period)
    period = max(together, *each, *(run.running for run in later))
    for run, is_cut in zip(later, cuts, strict=True):
        each_link = zip(in_period, run.ahead, run.during, strict=True)
        met = [of_all - ahead - during for of_all, ahead, during in each_link if during]
        if is_cut and met:
            period = max(period, run.running + on.cycles(0, (max(met),)))

    def whole(runs: Sequence[Batch], is_first: bool) -> Batch:
        by_stage = [
            [run for run, stage in zip(runs, stages, strict=True) if stage == number]
            for number in range(max(stages) + 1)
        ]
        bits, ahead = sum(run.ahead_bits for run in runs), _sum([run.ahead for run in runs])
        dram_bits = sum(run.dram_bits for run in runs) + (subbatches - 1) * sum(
            one.dram_bits for one in later
        )
        during = _sum([*(run.during for run in runs), *[in_period] * (subbatches - 1)])
        passing = [max(run.running for run in stage) for stage in by_stage]
        links = max(on.cycles(0, ahead), *(run.link_cycles for run in runs))
        rest = on.cycles(dram_bits - bits, during)
        running = max(sum(passing) + (subbatches - 1) * period, rest)
        early = 0
        if is_first:
            through = 0
            for number, stage in enumerate(by_stage):
                so_far = [run for one in by_stage[: number + 1] for run in one]
                come = max(
                    on.cycles(sum(run.ahead_bits for run in so_far), _sum([run.ahead for run in so_far])),
                    *(run.link_cycles for run in so_far),
                )
                through = max(through, come - min(run.early for run in stage)) + passing[number]
            early = min(max(on.cycles(bits), links) + sum(passing) - through, running - rest)
        return Batch(bits, links, early, running, dram_bits, ahead, during)

    return Node(whole([child.first for child in children], True), whole(later, False))
