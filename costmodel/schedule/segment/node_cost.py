"""The cost of a node of a segment, which is what an evaluation of the segment gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.fused_groups.cost import FusedGroupCost
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.segment.buffers import Held
from costmodel.schedule.starts import NodeRuns
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.whole_chip.cost import WholeChipCost

Array = NDArray[Any]
Sent = tuple[tuple[int, Array], ...]
"""What tiles send to those of other leaves: the number of each layer whose outputs it is, and for one of the
leaves that get some of these the bits times ports on each link."""
ENERGY_PARTS = ("tiles", "transfers", "noc", "dram")
"""The parts of a segment's energy: within tiles, between tiles' buffers and the NoC, on links, in DRAM."""


@dataclass(frozen=True, eq=False)
class NodeCost:
    """What a node of a segment costs for one batch of the segment, in which the node may run several times.

    One is equal to itself only, so that others can be remembered by it.

    Two fields, ``cycles`` and ``runs``, are of one batch of the node itself instead. A leaf has either
    ``leaf``, where it is cut among tiles, or ``whole_chip``, where it is mapped on the whole chip, or
    neither as a layer of a ``group``.
    """

    node: TreeNode
    first_tile: int
    tiles: int
    cycles: int
    """Time of one batch of the node; of a cut it is 0 until the whole segment is known. The time of a segment
    includes its first fetch. That of a cut below it begins when all data of the cut is there. That of a leaf
    includes the traffic of the batch."""
    parts_pj: tuple[float, float, float, float]
    """Energy by ENERGY_PARTS, in pJ."""
    dram_read_bits: int
    dram_write_bits: int
    busy: int
    """Cycles in which a tile computes, summed over tiles."""
    links: Array
    """[X * Y * 4]: bits on each link, times the number of DRAM ports. A transfer that is divided among all
    ports puts bits / ports on a link, so the product stays a whole number. [0] for a leaf mapped on the whole
    chip, whose links are in ``whole_chip``."""
    held: Held
    """Bits in the tiles' buffers."""
    received: Sent = ()
    """What its leaves get over the NoC of layers outside of it."""
    runs: NodeRuns | None = None
    """How the node runs its first batch, which brings the weights, and each later one. None for a leaf mapped
    on the whole chip, and until the whole segment is known (:mod:`.times`)."""
    leaf: LeafCost | None = None
    whole_chip: WholeChipCost | None = None
    """Of a group of layers that are mapped together the cost of all of them, on its T cut and on no node
    below it."""
    group: FusedGroupCost | None = None
    """Of a T cut whose layers are mapped together. Its nodes below have neither ``leaf`` nor ``runs``."""
    children: tuple[NodeCost, ...] = ()
    stages: tuple[int, ...] = ()
    """[children] of an S cut: the pipeline stage, counted from 0, in which each child starts."""

    @property
    def dram_bits(self) -> int:
        return self.dram_read_bits + self.dram_write_bits

    def but(self, **fields: Any) -> NodeCost:
        """The same with other ``fields``, in a fraction of the time that ``dataclasses.replace`` takes."""
        found = object.__new__(NodeCost)
        vars(found).update(vars(self), **fields)
        return found


def running_pj(segment: NodeCost, chip: Chip) -> float:
    """The energy (pJ) of one batch of a segment, including the power that the ``chip`` takes when idle."""
    return sum(segment.parts_pj) + chip.idle_pj_per_cycle * segment.cycles


def runs_on_tiles(cost: NodeCost) -> NodeRuns:
    """How a node runs that is not mapped on the whole chip."""
    assert cost.runs is not None
    return cost.runs
