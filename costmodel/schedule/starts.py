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
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip

Array = NDArray[Any]
CyclesT = TypeVar("CyclesT", int, float)


class BatchRun(NamedTuple):
    """How a node runs one batch.

    ``ahead_bits``: bits that have to come from DRAM before the batch starts; data for several tiles counts
    once. ``link_cycles``: what the busiest link needs for that. ``early``: how many cycles before all that
    data is there the batch can start, as later stages of a pipeline need theirs later; only the first batch
    of a segment does. ``running``: cycles of the batch from its start until its tiles go on. ``dram_bits``:
    all bits that DRAM moves for the batch. ``ahead``, ``during`` [X * Y * 4]: what links carry of what comes
    ahead, and besides that for the batch; bits times DRAM ports.
    """

    ahead_bits: int
    link_cycles: int
    early: int
    running: int
    dram_bits: int
    ahead: Array
    during: Array

    def fetched(self, chip: Chip) -> int:
        """Cycles until all data that comes ahead is there, where nothing else moves meanwhile."""
        return max(chip.least_cycles(self.ahead_bits, 0), self.link_cycles)

    def waited(self, chip: Chip) -> int:
        """Cycles before the batch starts, where nothing computes before."""
        return self.fetched(chip) - self.early


class NodeRuns(NamedTuple):
    """How a node runs its ``first`` batch and each ``later`` one.

    Pinned weights come with the first batch, so DRAM and links take longer for it than for any later one.
    ``numbers``, ``loads``: the same as :class:`.starts_kernel.Runs`, of which the others are parts.
    """

    numbers: Array
    loads: Array
    first: BatchRun
    later: BatchRun

    @staticmethod
    def of(numbers: Array, loads: Array) -> NodeRuns:
        """With the parts."""
        first, later = numbers.tolist()
        return NodeRuns(numbers, loads, BatchRun(*first, *loads[0]), BatchRun(*later, *loads[1]))


class LeafRuns(NamedTuple):
    """How a leaf runs its ``first`` batch and each ``later`` one if it sends nothing to other tiles.

    Their ``running`` leaves out links. ``times``: how many batches it runs in all. ``pinned`` [X * Y * 4]:
    what links carry of the weights that come once, before the first one, in bits times DRAM ports.
    ``leaving``: what else they carry with its outputs of a batch, which begin to leave when the first, or a
    later, batch has run for ``waiting`` cycles.
    """

    first: BatchRun
    later: BatchRun
    times: int
    pinned: Array
    leaving: Array
    waiting: tuple[int, int] = (0, 0)

    def sending(self, chip: Chip, sent: Sequence[Array] = ()) -> NodeRuns:
        """The same with all that its tiles send to those of other leaves over all runs.

        Outputs leave while the leaf runs, and its tiles go on when they have left.
        """
        both, leaving = (self.first, self.later), self.leaving
        loads = np.array([(run.ahead, run.during) for run in both])
        if sent:
            more = each_of(sum(sent[1:], sent[0]), self.times)
            leaving = leaving + more
            loads[:, 1] += more
        on_links = link_cycles(chip, leaving)
        taken = [max(run.running, wait + on_links) for run, wait in zip(both, self.waiting, strict=True)]
        numbers = [
            (run.ahead_bits, run.link_cycles, run.early, running, run.dram_bits)
            for run, running in zip(both, taken, strict=True)
        ]
        return NodeRuns.of(np.array(numbers), loads)


def each_of(port_bits: Array, times: int) -> Array:
    """What links carry in one of so many equal ``times``, if they carry ``port_bits`` in all of them.

    It is rounded up to whole bits times ports: parts need not be equal to the bit.
    """
    return port_bits if times == 1 else -(-port_bits // times)


def link_cycles(chip: Chip, port_bits: Array) -> int:
    """Cycles that the busiest link needs for what links carry, in bits times DRAM ports."""
    return chip.least_cycles(0, int(np.maximum.reduce(port_bits)))


def turns(children: Sequence[NodeRuns], subbatches: int, chip: Chip) -> NodeRuns:
    """A T cut: all children in turn for one sub-batch after the other.

    While a child computes DRAM and links take its outputs and bring what the next child needs. A link may
    carry what leaves one child and what comes to a later one, so the cut takes no less than its busiest link
    needs for a batch of all children, but for what comes before it starts.
    """
    from costmodel.schedule.starts_kernel import join_in_turn

    of_all, rates, found = _arrays(children, chip)
    join_in_turn(of_all, subbatches, rates, found)
    return NodeRuns.of(*found)


def pipelined(
    children: Sequence[NodeRuns],
    stages: Sequence[int],
    subbatches: int,
    chip: Chip,
    in_turn: Sequence[bool],
) -> NodeRuns:
    """An S cut: a pipeline, whose children use DRAM and links at the same time.

    DRAM and links may be fast enough for each child and too slow for all together. Tiles of later stages
    fetch their weights and first inputs behind those of the stages before. So the first stage starts when
    its own data is there, and each later one when its data is there and the stage before has been through
    once (fill). After the last stage has been through once the pipeline takes a period for each further
    sub-batch, in which DRAM and links move what all stages need for one.

    ``in_turn``: which children are T cuts. Their leaves wait for one another's data. Once in a turn such data
    stands on a link behind all that the other children send over it at a time. So a period is no shorter
    than the turn and the most that they send over a link on which data moves within the turn. A leaf waits
    for nobody within its turn, and what comes ahead of a turn comes during the one before: such data and
    theirs pass while the child computes.
    """
    from costmodel.schedule.starts_kernel import join_pipelined

    of_all, rates, found = _arrays(children, chip)
    passing = np.empty(max(stages) + 1, np.int64)
    cuts = np.array(in_turn, np.int64)
    join_pipelined(of_all, np.array(stages), cuts, subbatches, rates, passing, found)
    return NodeRuns.of(*found)


def _arrays(children: Sequence[NodeRuns], chip: Chip) -> tuple[Any, Any, Any]:
    """What the compiled functions take: the runs of the children, rates, and runs to fill."""
    from costmodel.schedule.starts_kernel import BitRates, Runs

    of_all = Runs(np.array([one.numbers for one in children]), np.array([one.loads for one in children]))
    rates = BitRates(chip.dram.bits_per_cycle, chip.link_port_bits_per_cycle)
    return of_all, rates, Runs(np.empty_like(of_all.numbers[0]), np.empty_like(of_all.loads[0]))


def slowest_by_stage(cycles: Sequence[CyclesT], stages: Sequence[int]) -> list[CyclesT]:
    """The cycles of the slowest child of each stage; every stage up to the last has one."""
    by_stage: dict[int, CyclesT] = {}
    for taken, stage in zip(cycles, stages, strict=True):
        by_stage[stage] = max(by_stage.get(stage, taken), taken)
    return [by_stage[stage] for stage in range(len(by_stage))]
