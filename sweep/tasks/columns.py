"""What a worker sends back: the columns of a results row that its solve decides, or requests for costs."""

from __future__ import annotations

from typing import TypedDict, final

from results.store.schema.rows import (
    CodesignColumns,
    FusionColumns,
    MappingColumns,
    ProgramColumns,
    ScheduleColumns,
    ScratchpadColumns,
    TileCostColumns,
)


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
