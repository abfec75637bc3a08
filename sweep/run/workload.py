"""What a study asks of every design, whatever kind of study it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sweep.run.design_row import Row
from sweep.study.design_space import Design
from sweep.study.study import Study
from sweep.tasks.answers import Answer
from sweep.tasks.kinds import Task


class Workload(Protocol):
    """The tasks of a design, and what their answers make of it."""

    @property
    def asked(self) -> Mapping[str, int]:
        """How many answers of each results table a design asks for, equal ones counted as often as asked."""

    def tasks(self, design: Design) -> list[Task]:
        """All that a design without an :meth:`obstacle` needs, equal tasks included."""

    def obstacle(self, design: Design) -> str:
        """Why a design cannot run some network, known before any solve; empty where it may."""

    def bounds(self, tasks: Sequence[Task]) -> tuple[float, float]:
        """Proven lower bounds on energy_pj and cycles of a design with these :meth:`tasks`."""

    def results(self, design: Design, task_ids: Sequence[str], answers: Sequence[Answer]) -> Row:
        """The columns of the design's row that follow from the answers to :meth:`tasks`, in their order."""


def solved_how(study: Study) -> Any:
    """How the study's tasks are solved, versions of solvers and models included, as plain JSON data."""
    from sweep.run.layer_workload import solve_settings
    from sweep.run.schedule_workload import schedulers_of, tile_mapper

    if study.schedule is None:
        return solve_settings(study).content
    return [tile_mapper(study).content, *(one.solves[0].content for one in schedulers_of(study))]


def workload_of(study: Study) -> Workload:
    """The study's workload; InputError for what the study names and cannot have."""
    from sweep.run.layer_workload import LayerWork, demands
    from sweep.run.schedule_workload import ScheduleWork

    return ScheduleWork(study) if study.chip else LayerWork(study, demands(study))
