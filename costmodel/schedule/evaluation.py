"""What a schedule costs on a chip: numbers for the whole batch, and the S-T chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import whole_bytes
from costmodel.schedule.segment.node_cost import ENERGY_PARTS, NodeCost
from costmodel.schedule.transitions import Transition
from costmodel.schedule.tree.data_flow import DataFlow, Producers
from costmodel.schedule.tree.spatial_temporal import ChartBox, spatial_temporal_graph
from costmodel.schedule.tree.tree import Cut, TreeNode

Number = TypeVar("Number", int, float)
IDLE = "idle"
"""The part of energy that a chip takes in every cycle, whatever its segments do."""


@dataclass(frozen=True)
class ChipEvaluation:
    """What a schedule costs for the whole batch.

    The ``segments`` run one after the other, and all of that ``rounds`` times. ``transitions``: from
    each segment to the next one, and with several rounds from the last one to the first of the next round.
    """

    tree: TreeNode
    chip: Chip
    rounds: int
    segments: tuple[NodeCost, ...]
    transitions: tuple[Transition, ...]

    @cached_property
    def parts_pj(self) -> dict[str, float]:
        """Energy in pJ by ENERGY_PARTS over all rounds, and ``idle`` if the chip's ``idle_pj_per_cycle`` is
        above 0: what all tiles and DRAM take in every cycle of the run, whether they work or wait.
        """
        sums = [sum(part) for part in zip(*[one.parts_pj for one in self.segments], strict=True)]
        over_rounds: list[float] = [self.rounds * part for part in sums]
        parts = dict(zip(ENERGY_PARTS, over_rounds, strict=True))
        parts["tiles"] -= self._over_all_rounds([one.saved_leakage_pj for one in self.transitions])
        idle_pj = self.chip.idle_pj_per_cycle
        return parts | {IDLE: idle_pj * self.cycles} if idle_pj else parts

    @cached_property
    def energy_pj(self) -> float:
        """Of the whole batch, all parts."""
        return sum(self.parts_pj.values())

    @cached_property
    def cycles(self) -> int:
        """Of the whole batch: all segments in all rounds, less what segments save by overlapping."""
        by_themselves = self.rounds * sum([segment.cycles for segment in self.segments])
        return by_themselves - self._over_all_rounds([one.saved_cycles for one in self.transitions])

    @property
    def segment_cycles(self) -> tuple[int, ...]:
        """Cycles that each segment of the first round takes from the end of the one before it to its own."""
        saved = (0, *(one.saved_cycles for one in self.transitions))
        return tuple(one.cycles - less for one, less in zip(self.segments, saved, strict=False))

    @property
    def most_held(self) -> int:
        """Bits that the fullest tile holds, of a segment or of two that follow each other."""
        pairs = (one.held_bits for one in self.transitions)
        return max([*pairs, *(segment.held.most for segment in self.segments)])

    def _over_all_rounds(self, saved: Sequence[Number]) -> Number:
        """The sum over all rounds of what each transition saves."""
        times = [self.rounds] * len(saved)
        if len(saved) == len(self.segments):
            times[-1] -= 1  # nothing follows the last round
        # A list is added up in half the time that a generator takes, and searches do this every round.
        return sum([rounds * one for rounds, one in zip(times, saved, strict=True)])

    @property
    def dram_read_bits(self) -> int:
        """Bits read from DRAM for the whole batch."""
        return self.rounds * sum(segment.dram_read_bits for segment in self.segments)

    @property
    def dram_write_bits(self) -> int:
        """Bits written to DRAM for the whole batch."""
        return self.rounds * sum(segment.dram_write_bits for segment in self.segments)

    @property
    def dram_read_bytes(self) -> int:
        return whole_bytes(self.dram_read_bits)

    @property
    def dram_write_bytes(self) -> int:
        return whole_bytes(self.dram_write_bits)

    @property
    def dram_bytes(self) -> int:
        return whole_bytes(self.dram_read_bits + self.dram_write_bits)

    @property
    def noc_hop_bytes(self) -> float:
        return self.noc_hop_bits / 8

    @property
    def noc_hop_bits(self) -> float:
        """Bits times the links that each crosses; DRAM's bits are spread evenly over its ports."""
        on_tiles = sum(int(segment.links.sum()) for segment in self.segments)
        on_whole_chip = sum(segment.whole_chip.hop_bits for segment in self.segments if segment.whole_chip)
        return self.rounds * on_tiles / len(self.chip.ports) + self.rounds * on_whole_chip

    @property
    def bubble_tile_cycles(self) -> int:
        """Tiles times cycles in which they wait: pipelines that fill and drain, uneven parts, slow DRAM."""
        return self.chip.tiles * self.cycles - self.rounds * sum(segment.busy for segment in self.segments)

    def nodes(self) -> Iterator[NodeCost]:
        """The costs of all nodes from the top down and left to right, without the root if it is a T cut."""
        waiting = list(reversed(self.segments))
        while waiting:
            cost = waiting.pop()
            yield cost
            waiting += reversed(cost.children)

    def spatial_temporal(self, producers: Producers) -> list[ChartBox]:
        """The S-T graph (SET, section 3.1.1)."""
        tree, costs = self.tree, list(self.nodes())
        taken = dict(zip(map(id, self.segments), self.segment_cycles, strict=True))
        # within a segment data comes while something else computes: only what runs then is drawn
        running = (cost.cycles if cost.runs is None else cost.runs.later.running for cost in costs)
        cycles = [taken.get(id(cost), own) for cost, own in zip(costs, running, strict=True)]
        tiles = [(cost.first_tile, cost.first_tile + cost.tiles) for cost in costs]
        if isinstance(tree, Cut) and tree.kind == "T":  # the root itself is no segment
            cycles, tiles = [self.cycles, *cycles], [(0, self.chip.tiles), *tiles]
        flow = DataFlow(tree, producers)
        again = self.transitions[-1].saved_cycles if self.rounds > 1 else 0
        period = sum(self.segment_cycles) - again
        return spatial_temporal_graph(flow, dict(enumerate(cycles)), dict(enumerate(tiles)), period)
