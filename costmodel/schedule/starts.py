"""When a node of a segment can start, and how long it takes from then on.

A leaf needs all inputs of its batch, and its weights, before it can start (:mod:`.buffers`). So in a T cut
the data of a child comes while the child before it computes, and DRAM serves both: the outputs of the one and
the inputs of the next::

    tiles     |          | child 0             | child 1             |
    DRAM      | inputs 0 | outputs 0, inputs 1 | outputs 1, inputs 2 |

Nothing computes during the first fetch. Replays of programs (:mod:`costmodel.replay`) show what it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from costmodel.hardware.chip import Chip

CyclesT = TypeVar("CyclesT", int, float)


@dataclass(frozen=True)
class NodeStart:
    """How a node starts.

    ``ahead_bytes`` have to come from DRAM before that, each byte counted once. ``link_cycles``: what the
    busiest link needs for the data of the leaves that start first. ``running``: cycles of the node's first
    batch once all of it is there.
    """

    ahead_bytes: int
    link_cycles: int
    running: int

    def fetched(self, chip: Chip) -> int:
        """Cycles of the first fetch."""
        return max(chip.least_cycles(self.ahead_bytes, 0), self.link_cycles)


@dataclass(frozen=True)
class ChildRun:
    """A child of a cut: its cycles for one batch, its start, and all bytes that DRAM moves for one batch."""

    cycles: int
    start: NodeStart
    dram_bytes: int


def in_turn(children: Sequence[ChildRun], chip: Chip) -> int:
    """Cycles of children that run once, one after the other, once the data of the first one is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    """
    cycles = 0
    for number, child in enumerate(children):
        rest, links = child.dram_bytes - child.start.ahead_bytes, 0
        if number + 1 < len(children):
            rest += children[number + 1].start.ahead_bytes
            links = children[number + 1].start.link_cycles
        cycles += max(child.start.running, chip.least_cycles(rest, 0), links)
    return cycles


def pipelined(cycles: Sequence[int], stages: Sequence[int], subbatches: int) -> int:
    """Cycles of a pipeline: the first sub-batch goes through all stages, and a period is for each other one.

    ``cycles``, ``stages`` [children]. A period is as long as the slowest child takes; a sub-batch passes each
    stage as soon as its slowest child is through.
    """
    return (subbatches - 1) * max(cycles) + sum(slowest_by_stage(cycles, stages))


def slowest_by_stage(cycles: Sequence[CyclesT], stages: Sequence[int]) -> list[CyclesT]:
    """The cycles of the slowest child of each stage; every stage up to the last has one."""
    by_stage: dict[int, CyclesT] = {}
    for taken, stage in zip(cycles, stages, strict=True):
        by_stage[stage] = max(by_stage.get(stage, taken), taken)
    return [by_stage[stage] for stage in range(len(by_stage))]
