"""What a study asks of every design, whatever kind of study it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from results.store.schema.rows import DesignRow
from sweep.study.designs.design_space import Design
from sweep.study.study import Study
from sweep.tasks.energy_cycles import EnergyCycles
from sweep.tasks.kinds import Task
from sweep.tasks.summaries import AnswerSummary


class DesignWorkload(Protocol):
    """The tasks of a design, and what their answers make of it."""

    @property
    def asked(self) -> Mapping[str, int]:
        """How many answers a design asks for, by their results table; equal tasks count each time."""

    def tasks(self, design: Design) -> list[Task]:
        """The tasks of a design without an :meth:`obstacle`; equal ones are listed each time."""

    def obstacle(self, design: Design) -> str:
        """Why a design cannot run some network, as far as that is known before any solve; else empty."""

    def bounds(self, tasks: Sequence[Task]) -> EnergyCycles:
        """Proven lower bounds on energy and cycles of a design with these :meth:`tasks`."""

    def broken_by_bounds(self, design: Design, tasks: Sequence[Task]) -> str:
        """Which constraints on results a design with these :meth:`tasks` breaks whatever their answers.

        With the bounds that say so; empty where it may meet all of them.
        """

    def results(self, design: Design, task_ids: Sequence[str], answers: Sequence[AnswerSummary]) -> DesignRow:
        """The columns of the design's row that follow from the answers to :meth:`tasks`, in their order."""


def tasks_of(workload: DesignWorkload, design: Design) -> list[Task]:
    """The tasks of a design; none for a design that is known to be infeasible before any solve."""
    if not design.feasible or workload.obstacle(design):
        return []
    return workload.tasks(design)


def solved_how(study: Study) -> Any:
    """How the study's tasks are solved, versions of solvers and models included, as plain JSON data."""
    from sweep.design.mapping_workload import mapping_settings
    from sweep.design.schedule_workload import schedulers_of, tile_mapping_settings

    if study.schedule is None:
        return mapping_settings(study).content
    return [tile_mapping_settings(study).content, *(one.solves[0].content for one in schedulers_of(study))]


def workload_of(study: Study) -> DesignWorkload:
    """The study's workload; InputError for what the study names and cannot have."""
    from sweep.design.mapping_workload import MappingWorkload, layer_demands
    from sweep.design.schedule_workload import ScheduleWorkload

    return ScheduleWorkload(study) if study.chip else MappingWorkload(study, layer_demands(study))
