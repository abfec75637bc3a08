"""When a node of a segment can start, and how many cycles it takes from then on.

A leaf needs all inputs of its batch, and its weights, before it can start (:mod:`.segment.buffers`). So in a
T cut the data of a child comes while the child before it computes, and DRAM serves both: the outputs of the
one and the inputs of the next::

    tiles     |          | child 0             | child 1             |
    DRAM      | inputs 0 | outputs 0, inputs 1 | outputs 1, inputs 2 |

Weights that stay in the buffers for all sub-batches come once, before the first one. So a node has a first
batch, for which they come, and later batches. Nothing computes during the first fetch; replays of programs
(:mod:`costmodel.replay`) confirm its cycles.

Tiles of later stages of a pipeline need their first data later than those of the first stage, and DRAM serves
first what is needed first. So a pipeline can start before all that it fetches is there::

    stage 0   |           | sub-batch 0 | sub-batch 1 |
    stage 1   |                         | sub-batch 0 |
    DRAM      | stage 0's | stage 1's   | ...

What a leaf makes leaves its tiles while it runs, for whomever it is, and they go on with the next leaf when
all of it has left (:mod:`costmodel.schedule.program`). So a leaf runs for no less time than links need for
all that it sends, also to leaves that run much later. DRAM's data for the next leaf shares links with it::

    tiles     | leaf a              | leaf b             | leaf c
    links     | a for b and for c   |
    links     |  weights of b       | weights of c       |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip

Array = NDArray[Any]
CyclesT = TypeVar("CyclesT", int, float)


@dataclass(frozen=True, eq=False)
class LinkLoads:
    """What links carry for one batch of a node: ``port_bits`` [X * Y * 4] over so many ``times``.

    Bits times DRAM ports; a time's part of them need not be whole.
    """

    port_bits: Array
    times: int

    @staticmethod
    def stacked(loads: Sequence[LinkLoads]) -> LinkLoads:
        """Several, with ``port_bits`` [n, X * Y * 4]."""
        times = loads[0].times
        if all(one.times == times for one in loads):
            return LinkLoads(np.array([one.port_bits for one in loads]), times)
        times = lcm(*(one.times for one in loads))
        return LinkLoads(np.array([one.port_bits * (times // one.times) for one in loads]), times)

    @staticmethod
    def sum_of(loads: Sequence[LinkLoads]) -> LinkLoads:
        """All of them together."""
        stack = LinkLoads.stacked(loads)
        return LinkLoads(np.add.reduce(stack.port_bits), stack.times)

    def __add__(self, other: LinkLoads) -> LinkLoads:
        if self.times == other.times:
            return LinkLoads(self.port_bits + other.port_bits, self.times)
        return LinkLoads.sum_of((self, other))

    def __mul__(self, count: int) -> LinkLoads:
        return self if count == 1 else LinkLoads(count * self.port_bits, self.times)

    def cycles(self, chip: Chip) -> int:
        """Cycles that the busiest link needs for them."""
        return -(-int(self.port_bits.max()) // self._rate(chip))

    def each_cycles(self, chip: Chip) -> list[int]:
        """The same for each of those that are stacked."""
        rate = self._rate(chip)
        return [-(-busiest // rate) for busiest in self.port_bits.max(axis=1).tolist()]

    def on_each_link(self, chip: Chip) -> Array:
        """Cycles [X * Y * 4] that each link needs for them, in fractions."""
        found: Array = self.port_bits / self._rate(chip)
        return found

    def _rate(self, chip: Chip) -> int:
        """The port bits that a link carries in a cycle of every one of the times."""
        return chip.noc.link_bits_per_cycle * len(chip.ports) * self.times


@dataclass(frozen=True, eq=False)
class BatchRun:
    """How a node runs one batch.

    ``ahead_bits``: bits that have to come from DRAM before the batch starts; data for several tiles counts
    once. ``ahead``: what links carry of that, for which the busiest one needs ``link_cycles``.
    ``early``: how many cycles before all that data is there the batch can start, as later stages of a
    pipeline need theirs later; only the first batch of a segment does. ``running``: cycles of the batch from
    its start until its tiles go on. ``dram_bits``: all bits that DRAM moves for the batch; ``during``: what
    links carry for it besides what comes ahead.
    """

    ahead_bits: int
    ahead: LinkLoads
    link_cycles: int
    early: int
    running: int
    dram_bits: int
    during: LinkLoads

    def fetched(self, chip: Chip) -> int:
        """Cycles until all data that comes ahead is there, where nothing else moves meanwhile."""
        return max(chip.least_cycles(self.ahead_bits, 0), self.link_cycles)

    def waited(self, chip: Chip) -> int:
        """Cycles before the batch starts, where nothing computes before."""
        return self.fetched(chip) - self.early


@dataclass(frozen=True, eq=False)
class NodeRuns:
    """How a node runs its ``first`` batch and each ``later`` one.

    Pinned weights come with the first batch, so DRAM and links take longer for it than for any later one.
    """

    first: BatchRun
    later: BatchRun


@dataclass(frozen=True, eq=False)
class LeafRuns:
    """How a leaf runs its ``first`` batch and each ``later`` one if it sends nothing to other tiles.

    Their ``running`` leaves out links. ``times``: how many batches it runs in all. ``pinned``: what links
    carry of the weights that come once, before the first one. ``leaving``: what else they carry with its
    outputs, which begin to leave when the first, or a later, batch has run for ``waiting`` cycles.
    """

    first: BatchRun
    later: BatchRun
    times: int
    pinned: LinkLoads
    leaving: LinkLoads
    waiting: tuple[int, int] = (0, 0)

    def sending(self, chip: Chip, sent: Sequence[Array] = ()) -> NodeRuns:
        """The same with all that its tiles send to those of other leaves over all runs.

        Outputs leave while the leaf runs, and its tiles go on when they have left.
        """
        leaving, during = self.leaving, (self.first.during, self.later.during)
        if sent:
            more = LinkLoads(sum(sent[1:], sent[0]), self.times)
            both = during[0] + more
            # mostly one object: what does not come ahead is the same for every batch
            leaving, during = leaving + more, (both, both if during[0] is during[1] else during[1] + more)
        on_links = leaving.cycles(chip)

        def with_sent(run: BatchRun, wait: int, during: LinkLoads) -> BatchRun:
            running = max(run.running, wait + on_links)
            return BatchRun(
                run.ahead_bits, run.ahead, run.link_cycles, run.early, running, run.dram_bits, during
            )

        return NodeRuns(*map(with_sent, (self.first, self.later), self.waiting, during))


class _Turns(NamedTuple):
    """Children in turn.

    ``cycles``: of all. ``first_turn``: of the first one, and those of them that DRAM and links need.
    ``during``: what links carry, but for what comes before the first one starts and for what follows the
    last one.
    """

    cycles: int
    first_turn: tuple[int, int]
    during: LinkLoads


def _in_turn(runs: Sequence[BatchRun], chip: Chip, then: BatchRun | None = None) -> _Turns:
    """Children that run one after the other, once the data of the first one is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    ``then``: what follows the last child, if its data comes meanwhile.
    """
    following = [*runs[1:], *(() if then is None else (then,))]
    stack = LinkLoads.stacked([*(run.during for run in runs), *(run.ahead for run in following)])
    count, rate = len(runs), chip.dram.bits_per_cycle
    in_turns = stack.port_bits[:count].copy()
    in_turns[: len(following)] += stack.port_bits[count:]
    on_links = LinkLoads(in_turns, stack.times).each_cycles(chip)
    moving, taken = [], []
    for number, (run, links) in enumerate(zip(runs, on_links, strict=True)):
        after = following[number] if number < len(following) else None
        bits = run.dram_bits - run.ahead_bits + (0 if after is None else after.ahead_bits)
        moving.append(max(-(-bits // rate), links))
        taken.append(max(run.running, moving[-1], 0 if after is None else after.link_cycles))
    during = LinkLoads(np.add.reduce(stack.port_bits[: 2 * count - 1]), stack.times)
    return _Turns(sum(taken), (taken[0], moving[0]), during)


def turns(children: Sequence[NodeRuns], subbatches: int, chip: Chip) -> NodeRuns:
    """A T cut: all children in turn for one sub-batch after the other.

    A link may carry what leaves one child and what comes to a later one, so the cut takes no less than its
    busiest link needs for a batch of all children, but for what comes before it starts.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    moved = sum(run.dram_bits for run in later)

    def whole(runs: Sequence[BatchRun], own: _Turns, running: int, during: LinkLoads) -> BatchRun:
        """The cut's batch, whose first sub-batch is ``runs``, which are in turn as ``own`` says."""
        begins, on_links = runs[0], during.cycles(chip)
        running = max(running, on_links)
        taken, moving = own.first_turn
        return BatchRun(
            begins.ahead_bits,
            begins.ahead,
            begins.link_cycles,
            # what has not come at the start comes during the first turn, if DRAM and links have the time
            early=min(begins.early, taken - moving, running - on_links) if begins.early else 0,
            running=running,
            dram_bits=sum(run.dram_bits for run in runs) + (subbatches - 1) * moved,
            during=during,
        )

    last = _in_turn(later, chip)
    if subbatches == 1:
        begun = _in_turn(first, chip)
        return NodeRuns(
            whole(first, begun, begun.cycles, begun.during), whole(later, last, last.cycles, last.during)
        )
    # each sub-batch but the last one fetches for the next
    begun, between = _in_turn(first, chip, later[0]), _in_turn(later, chip, later[0])
    rest = (subbatches - 2) * between.cycles + last.cycles
    others = (last.during + later[0].ahead) * (subbatches - 1)
    return NodeRuns(
        whole(first, begun, begun.cycles + rest, begun.during + others),
        whole(later, between, between.cycles + rest, last.during + others),
    )


def pipelined(children: Sequence[NodeRuns], stages: Sequence[int], subbatches: int, chip: Chip) -> NodeRuns:
    """An S cut: a pipeline, whose children use DRAM and links at the same time.

    DRAM and links may be fast enough for each child and too slow for all together. Tiles of later stages
    fetch their weights and first inputs behind those of the stages before. So the first stage starts when
    its own data is there, and each later one when its data is there and the stage before has been through
    once (fill). After the last stage has been through once the pipeline takes a period for each further
    sub-batch, in which DRAM and links move what all stages need for one.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    moved, count = sum(run.dram_bits for run in later), len(children)
    stack = LinkLoads.stacked([*(run.ahead for run in later), *(run.during for run in later)])
    every = LinkLoads(stack.port_bits[:count] + stack.port_bits[count:], stack.times)
    together = LinkLoads(np.add.reduce(every.port_bits), every.times)
    period = max(
        chip.least_cycles(moved, 0),
        together.cycles(chip),
        *every.each_cycles(chip),
        *(max(run.running, chip.least_cycles(run.dram_bits, 0)) for run in later),
    )

    def whole(runs: Sequence[BatchRun], is_first: bool) -> BatchRun:
        """The cut's batch, of which ``runs`` is the first sub-batch; ``is_first``: of the segment's."""
        during = LinkLoads.sum_of([run.during for run in runs])
        if subbatches > 1:
            during = during + together * (subbatches - 1)
        bits = sum(run.ahead_bits for run in runs)
        dram = sum(run.dram_bits for run in runs) + (subbatches - 1) * moved
        passing = slowest_by_stage([run.running for run in runs], stages)
        ahead = LinkLoads.sum_of([run.ahead for run in runs])
        links = max(ahead.cycles(chip), *(run.link_cycles for run in runs))
        rest = max(chip.least_cycles(dram - bits, 0), during.cycles(chip))
        running = max(sum(passing) + (subbatches - 1) * period, rest)
        early = 0
        if is_first:
            # by how much the last stage is through earlier than if nothing ran before all data is there
            spared = max(chip.least_cycles(bits, 0), links) + sum(passing)
            spared -= _filled(runs, stages, passing, chip)
            # what has not come at the start DRAM and links still have to bring, besides all else
            early = min(spared, running - rest)
        return BatchRun(
            ahead_bits=bits,
            ahead=ahead,
            link_cycles=links,
            early=early,
            running=running,
            dram_bits=dram,
            during=during,
        )

    return NodeRuns(whole(first, True), whole(later, False))


def _filled(runs: Sequence[BatchRun], stages: Sequence[int], passing: Sequence[int], chip: Chip) -> int:
    """Cycles until the last stage has been through once, from the moment when the fetch begins.

    Stages fetch one after the other. ``passing``: for each stage the cycles from its start until the next one
    has what it makes.
    """
    cycles = bits = links = 0
    loads: list[LinkLoads] = []
    for stage, passed in enumerate(passing):
        own = [run for run, its_stage in zip(runs, stages, strict=True) if its_stage == stage]
        bits += sum(run.ahead_bits for run in own)
        loads = [LinkLoads.sum_of([*loads, *(run.ahead for run in own)])]
        links = max(links, loads[0].cycles(chip), *(run.link_cycles for run in own))
        fetched = max(chip.least_cycles(bits, 0), links) - min(run.early for run in own)
        cycles = max(cycles, fetched) + passed
    return cycles


def slowest_by_stage(cycles: Sequence[CyclesT], stages: Sequence[int]) -> list[CyclesT]:
    """The cycles of the slowest child of each stage; every stage up to the last has one."""
    by_stage: dict[int, CyclesT] = {}
    for taken, stage in zip(cycles, stages, strict=True):
        by_stage[stage] = max(by_stage.get(stage, taken), taken)
    return [by_stage[stage] for stage in range(len(by_stage))]
