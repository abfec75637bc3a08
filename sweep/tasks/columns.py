"""What a worker sends back: the columns of a results row that its solve decides, or requests for costs."""

from __future__ import annotations

from typing import Any, TypedDict, final

from results.store.schema.rows import (
    CodesignColumns,
    FusionColumns,
    MappingColumns,
    ProgramColumns,
    ProofColumns,
    ScheduleColumns,
    ScratchpadColumns,
    TileCostColumns,
)
from solvers.outcome import Outcome


def proof_columns(outcome: Outcome[Any]) -> ProofColumns:
    """How a solve with one objective ended, what it found and proved, and the seconds that it took."""
    return {
        "status": str(outcome.status),
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "cpu_seconds": outcome.cpu_seconds,
        "wall_seconds": outcome.wall_seconds,
        "note": outcome.note or None,
    }


@final
class CostRequests(TypedDict):
    """Instead of a schedule: the costs without which its solver cannot go on, and the seconds so far."""

    needs: list[list[int]]
    cpu_seconds: float
    wall_seconds: float


AnswerColumns = (
    MappingColumns
    | FusionColumns
    | ScheduleColumns
    | ProgramColumns
    | CostRequests
    | ScratchpadColumns
    | CodesignColumns
    | TileCostColumns
)
