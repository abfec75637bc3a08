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
from typing import NamedTuple, TypeVar

import numpy as np

from costmodel.hardware.chip import Chip

CyclesT = TypeVar("CyclesT", int, float)


class BatchRun(NamedTuple):
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


class NodeRuns(NamedTuple):
    """How a node runs its ``first`` batch and each ``later`` one.

    Pinned weights come with the first batch, so DRAM takes longer for it than for any later one.
    """

    first: BatchRun
    later: BatchRun


def turns(children: Sequence[NodeRuns], subbatches: int, chip: Chip, on_links: int) -> NodeRuns:
    """A T cut: all children in turn for one sub-batch after the other.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    ``on_links``: cycles that the busiest link needs for a batch of all children. It may carry what leaves one
    child and what comes to the next, so the cut takes no less, but for what comes before it starts.
    """
    from costmodel.schedule.starts_kernel import join_turns

    runs = np.empty((2, len(BatchRun._fields)), np.int64)
    join_turns(np.array(children, np.int64), subbatches, chip.dram.bits_per_cycle, on_links, runs)
    return NodeRuns._make(map(BatchRun._make, runs.tolist()))


def pipelined(
    children: Sequence[NodeRuns], stages: Sequence[int], subbatches: int, chip: Chip, on_links: int
) -> NodeRuns:
    """An S cut: a pipeline, whose children use DRAM and links at the same time.

    DRAM and links may be fast enough for each child and too slow for all together. ``on_links``: cycles that
    the busiest link needs for a batch of all children. Tiles of later stages fetch their weights and first
    inputs behind those of the stages before. So the first stage starts when its own data is there, and each
    later one when its data is there and the stage before has been through once: its slowest child, or as long
    as links need for what it hands on (fill). After the last stage has been through once the pipeline takes
    a period for each further sub-batch, in which DRAM and links move what all stages need for one. A period
    is that of the slowest child, which begins the next one when what it has made has left for the stage
    behind it.
    """
    from costmodel.schedule.starts_kernel import join_pipeline

    runs, count = np.empty((2, len(BatchRun._fields)), np.int64), len(children)
    join_pipeline(
        np.array(children, np.int64),
        np.array(stages, np.int64),
        subbatches,
        chip.dram.bits_per_cycle,
        on_links,
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        runs,
    )
    return NodeRuns._make(map(BatchRun._make, runs.tolist()))


def slowest_by_stage(cycles: Sequence[CyclesT], stages: Sequence[int]) -> list[CyclesT]:
    """The cycles of the slowest child of each stage; every stage up to the last has one."""
    by_stage: dict[int, CyclesT] = {}
    for taken, stage in zip(cycles, stages, strict=True):
        by_stage[stage] = max(by_stage.get(stage, taken), taken)
    return [by_stage[stage] for stage in range(len(by_stage))]
