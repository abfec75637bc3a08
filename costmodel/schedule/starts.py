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

What other tiles make for a child cannot come before they make it. A child that is a cut makes it in the
last run of its last leaf, with which the cut ends::

    tiles     | child 0: first leaf | its last leaf |      | child 1
    links     |  weights of child 1 | outputs of the last leaf |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from costmodel.hardware.chip import Chip

CyclesT = TypeVar("CyclesT", int, float)


@dataclass(frozen=True)
class BatchRun:
    """How a node runs one batch.

    ``ahead_bits``: bits that have to come from DRAM before the batch starts; data for several tiles counts
    once. ``link_cycles``: cycles that the busiest link needs for the data that has to come before the batch
    starts, and ``tile_link_cycles`` for what of that data tiles make.
    ``early``: how many cycles before all that data is there the batch can start, as later stages of a
    pipeline need theirs later; only the first batch of a segment does. ``running``: cycles of the batch from
    its start; the last leaf runs ``last_runs`` times in it, the last time for ``last_run`` cycles at its end.
    ``dram_bits``: all bits that DRAM moves for the batch; ``all_link_cycles``: cycles that the busiest link
    needs for all that it carries for the batch.
    """

    ahead_bits: int
    link_cycles: int
    tile_link_cycles: int
    early: int
    running: int
    last_run: int
    last_runs: int
    dram_bits: int
    all_link_cycles: int

    @staticmethod
    def of_leaf(
        ahead_bits: int,
        link_cycles: int,
        tile_link_cycles: int,
        running: int,
        dram_bits: int,
        all_link_cycles: int,
    ) -> BatchRun:
        """The run of a leaf, which is its own last leaf."""
        return BatchRun(
            ahead_bits, link_cycles, tile_link_cycles, 0, running, running, 1, dram_bits, all_link_cycles
        )

    def fetched(self, chip: Chip) -> int:
        """Cycles until all data that comes ahead is there, where nothing else moves meanwhile."""
        return max(chip.least_cycles(self.ahead_bits, 0), self.link_cycles)

    def waited(self, chip: Chip) -> int:
        """Cycles before the batch starts, where nothing computes before."""
        return self.fetched(chip) - self.early

    def period(self, chip: Chip) -> int:
        """Cycles from one such batch to the next, where the data of the next one comes meanwhile."""
        return max(self.running, chip.least_cycles(self.dram_bits, 0), self.all_link_cycles)

    def handed_on(self, tile_link_cycles: int) -> int:
        """Cycles from the start of the batch until what it makes has reached the tiles of the next child.

        ``tile_link_cycles``: of the data of the next child that tiles make. All of it is taken to come from
        the last leaf, a part with each of its runs, and no link carries any before that run begins.
        """
        return self.running - self.last_run + -(-tile_link_cycles // self.last_runs)


@dataclass(frozen=True)
class NodeRuns:
    """How a node runs its ``first`` batch and each ``later`` one.

    Pinned weights come with the first batch, so DRAM takes longer for it than for any later one.
    """

    first: BatchRun
    later: BatchRun


def in_turn(runs: Sequence[BatchRun], chip: Chip, then: BatchRun | None = None) -> int:
    """Cycles of children that run one after the other, once the data of the first one is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    ``then``: what follows the last child, if its data comes meanwhile; no child here makes any of that.
    """
    following, last = [*runs[1:], then], len(runs) - 1
    return sum(
        _turn(run, after, chip, number < last)
        for number, (run, after) in enumerate(zip(runs, following, strict=True))
    )


def _turn(run: BatchRun, after: BatchRun | None, chip: Chip, hands_on: bool) -> int:
    """Cycles of a child during which the data comes of what is ``after`` it; ``hands_on``: it makes some."""
    links = 0 if after is None else after.link_cycles
    if after is not None and hands_on:
        links = max(links, run.handed_on(after.tile_link_cycles))
    return max(run.running, _at_dram(run, after, chip), links)


def _at_dram(run: BatchRun, after: BatchRun | None, chip: Chip) -> int:
    """Cycles that DRAM needs for the outputs of a child and the data of what is ``after`` it."""
    bits = run.dram_bits - run.ahead_bits + (0 if after is None else after.ahead_bits)
    return -(-bits // chip.dram.bits_per_cycle)


def turns(children: Sequence[NodeRuns], subbatches: int, chip: Chip, on_links: int) -> NodeRuns:
    """A T cut: all children in turn for one sub-batch after the other.

    ``on_links``: cycles that the busiest link needs for a batch of all children. It may carry what leaves one
    child and what comes to the next, so the cut takes no less, but for what comes before it starts.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    brought, moved = sum(run.dram_bits for run in first), sum(run.dram_bits for run in later)
    begun, last = in_turn(first, chip), in_turn(later, chip)
    more = 0
    if subbatches > 1:
        # each sub-batch but the last one fetches for the next
        between = in_turn(later, chip, later[0])
        begun = in_turn(first, chip, later[0]) + (subbatches - 2) * between + last
        more = (subbatches - 1) * between

    def whole(runs: Sequence[BatchRun], ends: BatchRun, running: int, dram_bits: int) -> BatchRun:
        """The cut's batch, whose first sub-batch is ``runs``, with the run that ``ends`` it."""
        begins, early = runs[0], runs[0].early
        running = max(running, on_links - begins.link_cycles)
        if early:
            # what has not come at the start comes during the first turn, if DRAM and links have the time
            after = runs[1] if len(runs) > 1 else later[0] if subbatches > 1 else None
            turn = _turn(begins, after, chip, len(runs) > 1)
            early = min(early, turn - _at_dram(begins, after, chip), running + begins.link_cycles - on_links)
        return replace(
            begins,
            early=early,
            running=running,
            last_run=ends.last_run,
            last_runs=subbatches * ends.last_runs,
            dram_bits=dram_bits,
            all_link_cycles=on_links,
        )

    return NodeRuns(
        whole(first, (first if subbatches == 1 else later)[-1], begun, brought + (subbatches - 1) * moved),
        whole(later, later[-1], more + last, subbatches * moved),
    )


def pipelined(
    children: Sequence[NodeRuns], stages: Sequence[int], subbatches: int, chip: Chip, on_links: int
) -> NodeRuns:
    """An S cut: a pipeline, whose children use DRAM and links at the same time.

    DRAM and links may be fast enough for each child and too slow for all together. ``on_links``: cycles that
    the busiest link needs for a batch of all children. Tiles of later stages fetch their weights and first
    inputs behind those of the stages before. So the first stage starts when its own data is there, and each
    later one when its data is there and the stage before has been through once: its slowest child, or as long
    as links need for what it hands on (fill). After the last stage has been through once the pipeline takes
    a period for each further sub-batch, in which DRAM and links move what all stages need for one.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    moved, last = sum(run.dram_bits for run in later), max(stages)
    period = max(_period(later, stages, chip), chip.least_cycles(moved, 0), -(-on_links // subbatches))

    def whole(runs: Sequence[BatchRun]) -> BatchRun:
        """The cut's batch, of which ``runs`` is the first sub-batch."""
        ahead = sum(run.ahead_bits for run in runs)
        dram = sum(run.dram_bits for run in runs) + (subbatches - 1) * moved
        links = max(run.link_cycles for run in runs)
        taken = slowest_by_stage([run.running for run in runs], stages)
        passing = list(map(max, taken, _handed(runs, stages)))
        filled, rest = sum(passing), chip.least_cycles(dram - ahead, 0)
        running = max(filled + (subbatches - 1) * period, rest, on_links)
        # by how much the last stage is through earlier than if nothing ran before all data is there
        spared = max(chip.least_cycles(ahead, 0), links) + filled - _filled(runs, stages, passing, chip)
        begins = [run for run, stage in zip(runs, stages, strict=True) if stage == 0]
        ends = [run for run, stage in zip(runs, stages, strict=True) if stage == last]
        return BatchRun(
            ahead_bits=ahead,
            link_cycles=links,
            tile_link_cycles=max(run.tile_link_cycles for run in begins),
            # what has not come at the start DRAM still has to bring, besides all else
            early=min(spared, running - rest),
            running=running,
            last_run=max(run.last_run for run in ends),
            last_runs=subbatches * min(run.last_runs for run in ends),
            dram_bits=dram,
            all_link_cycles=on_links,
        )

    return NodeRuns(whole(first), whole(later))


def _handed(runs: Sequence[BatchRun], stages: Sequence[int]) -> list[int]:
    """For each stage the cycles that links need for what the next one gets of it."""
    return [*slowest_by_stage([run.tile_link_cycles for run in runs], stages)[1:], 0]


def _period(runs: Sequence[BatchRun], stages: Sequence[int], chip: Chip) -> int:
    """Cycles from one sub-batch of a pipeline to the next: those of its slowest child.

    A child begins the next one when what it has made of the last one has left for the stage behind it.
    """
    handed = _handed(runs, stages)
    return max(
        max(run.period(chip), run.handed_on(handed[stage])) for run, stage in zip(runs, stages, strict=True)
    )


def _filled(runs: Sequence[BatchRun], stages: Sequence[int], passing: Sequence[int], chip: Chip) -> int:
    """Cycles until the last stage has been through once, from the moment when the fetch begins.

    Stages fetch one after the other. ``passing``: for each stage the cycles from its start until the next one
    has what it makes.
    """
    cycles = bits = links = 0
    for stage, passed in enumerate(passing):
        own = [run for run, its_stage in zip(runs, stages, strict=True) if its_stage == stage]
        bits += sum(run.ahead_bits for run in own)
        links = max(links, *(run.link_cycles for run in own))
        fetched = max(chip.least_cycles(bits, 0), links) - min(run.early for run in own)
        cycles = max(cycles, fetched) + passed
    return cycles


def slowest_by_stage(cycles: Sequence[CyclesT], stages: Sequence[int]) -> list[CyclesT]:
    """The cycles of the slowest child of each stage; every stage up to the last has one."""
    by_stage: dict[int, CyclesT] = {}
    for taken, stage in zip(cycles, stages, strict=True):
        by_stage[stage] = max(by_stage.get(stage, taken), taken)
    return [by_stage[stage] for stage in range(len(by_stage))]
