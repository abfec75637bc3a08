"""What designs need of the answers to their tasks, as small values: a run keeps one for every task."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern
from typing import cast

from results.store.schema.rows import AnswerRow, FusionRow, LayerRow, ScheduleRow, ScratchpadRow
from solvers.schedule.chip_model import with_bands, with_reductions
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.energy_cycles import EnergyCycles
from sweep.tasks.fusion import FusionTask
from sweep.tasks.kinds import Task
from sweep.tasks.scratchpad import ScratchpadTask

_NUMBERS = ("energy_pj", "energy_bound_pj", "cycles_bound", "cpu_seconds")
_OF_ALL = ("task_id", "study", "from_study", "status", "cached", "error", "note", "cpu_seconds")
NEEDED = {
    "layers": (*_OF_ALL, *_NUMBERS, "cycles", "energy_by_level_pj"),
    "fusions": (*_OF_ALL, *_NUMBERS, "cycles", "energy_by_level_pj", "together"),
    "scratchpads": (*_OF_ALL, "plan", "bound_bytes"),
    "schedules": (
        *(*_OF_ALL, "objective", "energy_pj", "cycles", "energy_bound_pj", "cycles_bound"),
        *("dram_bytes", "noc_hop_bytes", "energy_by_part_pj", "state"),
        *("network_content", "batch", "params", "tree", "tree_from", "refined_from"),
    ),
    "programs": (*_OF_ALL, "schedule_id"),
    "tile_costs": _OF_ALL,
    "codesigns": _OF_ALL,
}
"""By table, the columns of a stored row that a run reads.

Designs need most of them; later epochs need ``state``; ``study`` and ``from_study`` say who solved it;
``schedule_id`` tells observers that a row is a program's.
"""
FOUND = ("optimal", "feasible")
"""Statuses of an answer that has a solution."""


@dataclass(frozen=True, slots=True)
class MappingSummary:
    """What designs need of a ``layers`` row; energies in pJ.

    Packed, because a run may keep millions: texts are interned, for many answers have the same ones;
    ``numbers`` has 8 bytes for each of _NUMBERS, then for the energy of each storage level. ``level_names``
    are these levels, one a line.
    """

    status: str
    cycles: int
    cached: bool
    remark: str
    level_names: str
    numbers: bytes

    @classmethod
    def of(cls, row: LayerRow) -> MappingSummary:
        levels = row.get("energy_by_level_pj") or {}
        found = row.get("energy_pj"), row.get("energy_bound_pj"), row.get("cycles_bound")
        numbers = [number or 0.0 for number in (*found, row.get("cpu_seconds"))]  # as _NUMBERS says
        return cls(
            intern(row["status"]),
            row.get("cycles") or 0,
            bool(row.get("cached")),
            _remark(row),
            intern("\n".join(levels)),
            array("d", [*numbers, *levels.values()]).tobytes(),
        )

    @property
    def energy_pj(self) -> float:
        return self._number(0)

    @property
    def energy_bound_pj(self) -> float:
        return self._number(1)

    @property
    def cycles_bound(self) -> float:
        return self._number(2)

    @property
    def cost(self) -> EnergyCycles:
        return EnergyCycles(self.energy_pj, self.cycles)

    @property
    def bounds(self) -> EnergyCycles:
        """What the layer costs at least, by any mapping."""
        return EnergyCycles(self.energy_bound_pj, self.cycles_bound)

    @property
    def cpu_seconds(self) -> float:
        return self._number(3)

    def _number(self, position: int) -> float:
        return array("d", self.numbers)[position]

    @property
    def levels(self) -> Iterator[tuple[str, float]]:
        """The energy by storage level."""
        energies = array("d", self.numbers)[len(_NUMBERS) :]
        return zip(self.level_names.split("\n") if energies else [], energies, strict=True)

    @property
    def mapped(self) -> bool:
        return self.status in FOUND


@dataclass(frozen=True, slots=True)
class FusionSummary:
    """What designs need of a ``fusions`` row; without a mapping the numbers are 0, in pJ and cycles.

    ``together``: whether the layers share anything at all; where they do not, they are as good one by one.
    """

    status: str
    cached: bool
    remark: str
    cpu_seconds: float
    together: bool
    energy_pj: float
    cycles: int
    energy_bound_pj: float
    cycles_bound: float
    levels: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, row: FusionRow) -> FusionSummary:
        levels = (row.get("energy_by_level_pj") or {}).items()
        return cls(
            intern(row["status"]),
            bool(row.get("cached")),
            _remark(row),
            row.get("cpu_seconds") or 0.0,
            bool(row.get("together")),
            row.get("energy_pj") or 0.0,
            row.get("cycles") or 0,
            row.get("energy_bound_pj") or 0.0,
            row.get("cycles_bound") or 0.0,
            tuple((intern(name), pj) for name, pj in levels),
        )

    @property
    def cost(self) -> EnergyCycles:
        return EnergyCycles(self.energy_pj, self.cycles)

    @property
    def bounds(self) -> EnergyCycles:
        """What the group costs at least when its layers are mapped together."""
        return EnergyCycles(self.energy_bound_pj, self.cycles_bound)

    @property
    def mapped(self) -> bool:
        return self.status in FOUND


@dataclass(frozen=True, slots=True)
class ScratchpadSummary:
    """What designs need of a ``scratchpads`` row; without a plan the bytes moved are 0."""

    status: str
    cached: bool
    remark: str
    cpu_seconds: float
    spilled_bytes: int
    retrieved_bytes: int
    bound_bytes: float
    """Proven; 0, which is always true, where the solver proved nothing."""

    @classmethod
    def of(cls, row: ScratchpadRow, task: ScratchpadTask) -> ScratchpadSummary:
        traffic = {tensor.name: tensor.traffic_bytes for tensor in task.planned.graph.tensors}
        plan = row.get("plan") or {"tensors": {}}
        # a plan whose tensors are cut names its bands, and says their bytes
        traffic |= plan.get("traffic_bytes", {})
        tensors = plan["tensors"].items()
        return cls(
            intern(row["status"]),
            bool(row.get("cached")),
            _remark(row),
            row.get("cpu_seconds") or 0.0,
            sum(traffic[name] for name, tensor in tensors if tensor["spilled_at"] is not None),
            sum(traffic[name] * len(tensor["retrieved_at"]) for name, tensor in tensors),
            row.get("bound_bytes") or 0.0,
        )

    @property
    def planned(self) -> bool:
        return self.status in FOUND


@dataclass(frozen=True, slots=True)
class ScheduleSummary:
    """What designs need of a ``schedules`` row; without a schedule the numbers are 0."""

    status: str
    cached: bool
    remark: str
    cpu_seconds: float
    objective: float
    energy_pj: float
    cycles: int
    energy_bound_pj: float
    """Proven, as is the next; 0, which is always true, where the solver proved nothing."""
    cycles_bound: float
    dram_bytes: int
    noc_hop_bytes: int
    parts_pj: tuple[tuple[str, float], ...]
    """The energy by part of the chip."""
    layers: tuple[str, int]
    """What is scheduled: the id of the network's layers, and the batch."""
    tree: str
    """The schedule as text; empty where there is none."""
    tree_from: str
    """The id of the task that found the tree for another chip; empty for a search's own tree."""
    refined_from: str
    """The id of the task whose tree this search went on from; empty where it began with its own."""
    bands: bool
    """Whether the search tried bands of rows, and the bounds are those of schedules with bands, too."""
    reductions: bool
    """Whether the search cut input channels, and the bounds are those of such schedules, too."""

    @classmethod
    def of(cls, row: ScheduleRow) -> ScheduleSummary:
        parts = (row.get("energy_by_part_pj") or {}).items()
        return cls(
            status=intern(row["status"]),
            cached=bool(row.get("cached")),
            remark=_remark(row),
            cpu_seconds=row.get("cpu_seconds") or 0.0,
            objective=row.get("objective") or 0.0,
            energy_pj=row.get("energy_pj") or 0.0,
            cycles=row.get("cycles") or 0,
            energy_bound_pj=row.get("energy_bound_pj") or 0.0,
            cycles_bound=row.get("cycles_bound") or 0.0,
            dram_bytes=row.get("dram_bytes") or 0,
            noc_hop_bytes=row.get("noc_hop_bytes") or 0,
            parts_pj=tuple((intern(name), pj) for name, pj in parts),
            layers=(intern(row.get("network_content") or ""), row.get("batch") or 0),
            tree=intern(row.get("tree") or ""),
            tree_from=intern(row.get("tree_from") or ""),
            refined_from=intern(row.get("refined_from") or ""),
            bands=with_bands(row.get("params") or {}),
            reductions=with_reductions(row.get("params") or {}),
        )

    @property
    def scheduled(self) -> bool:
        return self.status in FOUND


AnswerSummary = MappingSummary | FusionSummary | ScratchpadSummary | ScheduleSummary


def summary_of(task: Task, row: AnswerRow) -> AnswerSummary:
    """What designs need of ``row``, a row of the task's table."""
    if isinstance(task, FusionTask):
        return FusionSummary.of(cast(FusionRow, row))
    if isinstance(task, ScratchpadTask):
        return ScratchpadSummary.of(cast(ScratchpadRow, row), task)
    if isinstance(task, ScheduleTask):
        return ScheduleSummary.of(cast(ScheduleRow, row))
    return MappingSummary.of(cast(LayerRow, row))


def _remark(row: AnswerRow) -> str:
    return intern(row.get("error") or row.get("note") or "")
