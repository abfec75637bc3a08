"""What workers send back: by kind of task, the columns of a results row that its solve decides.

A worker's answer travels as plain data, so these are typed dictionaries. Their keys are columns of the tables
in ``results/store/schema``, which a test holds; what a solve did not find is left out.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from typing import Any, TypedDict, final


class SolveColumns(TypedDict, total=False):
    """Of every solve: how it ended, and the CPU and wall seconds that it took."""

    status: str
    cpu_seconds: float
    wall_seconds: float
    note: str | None


class ProofColumns(SolveColumns, total=False):
    """Of every solve with one objective: what was found, and the proven bound on it."""

    objective: float | None
    bound: float | None
    gap: float | None


class MappingColumns(ProofColumns, total=False):
    """A ``layers`` row: energies in pJ, bounds on energy and cycles whatever was minimised."""

    energy_bound_pj: float
    cycles_bound: float
    program_proven: bool | None
    solved_by: str | None
    space: dict[str, Any]
    energy_pj: float
    cycles: int
    edp_pj_cycles: float
    utilization: float
    useful_utilization: float
    energy_by_level_pj: dict[str, float]
    mapping: dict[str, Any]


@final
class ScheduleColumns(ProofColumns, total=False):
    """A ``schedules`` row: energies in pJ, traffic in bytes and in bytes times hops."""

    energy_bound_pj: float
    cycles_bound: float
    energy_pj: float
    cycles: int
    edp_pj_cycles: float
    dram_bytes: int
    noc_hop_bytes: int
    utilization: float
    energy_by_part_pj: dict[str, float]
    tree: str
    spatial_temporal: list[dict[str, Any]]
    search: list[ReadOnlyDict[str, Any]]
    state: dict[str, Any] | None
    """Of an epoch that is not the last: the search state from which the next epoch goes on."""


@final
class CostRequests(TypedDict):
    """In place of a schedule: the costs without which its solver cannot go on, and the seconds so far."""

    needs: list[list[int]]
    cpu_seconds: float
    wall_seconds: float


class ScratchpadColumns(SolveColumns, total=False):
    """A ``scratchpads`` row."""

    objective_bytes: int | None
    bound_bytes: float | None
    gap: float | None
    plan: dict[str, Any] | None


class TileCostColumns(SolveColumns, total=False):
    """A ``tile_costs`` row: for each tile part its numbers, energy in pJ, cycles, whether proven."""

    costs: list[list[Any]]


AnswerColumns = MappingColumns | ScheduleColumns | CostRequests | ScratchpadColumns | TileCostColumns
