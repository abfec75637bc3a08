"""What a run reads of stored rows: every column that designs need, and no missing one taken for 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from results.store.schema.tables import ANSWER_TABLES, TABLES
from sweep.run.ledgers.epoch_ledger import EpochLedger
from sweep.tasks.summaries import NEEDED, FusionSummary, MappingSummary, ScheduleSummary, ScratchpadSummary

NO_TENSORS: Any = SimpleNamespace(planned=SimpleNamespace(graph=SimpleNamespace(tensors=())))
READERS: dict[str, Callable[[Any], object]] = {
    "layers": MappingSummary.of,
    "fusions": FusionSummary.of,
    "scratchpads": lambda row: ScratchpadSummary.of(row, NO_TENSORS),
    "schedules": ScheduleSummary.of,
}


class Recording(Mapping[str, Any]):
    """A row that has every column of its table as null but the status, and remembers what was read of it."""

    def __init__(self, table: str) -> None:
        self.row = dict.fromkeys(TABLES[table].names()) | {"status": "unknown"}
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.row[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.row)

    def __len__(self) -> int:
        return len(self.row)


@pytest.mark.parametrize("table", list(READERS))
def test_what_designs_read_of_a_row_is_looked_up(table: str) -> None:
    row = Recording(table)
    READERS[table](row)
    assert len(row.read) > 5
    assert row.read <= set(NEEDED[table])


def test_where_searches_go_on_from_is_looked_up() -> None:
    row, task = (
        Recording("schedules"),
        SimpleNamespace(id="a", epoch=SimpleNamespace(number=0, count=2), before=()),
    )
    EpochLedger().answered(task, row)  # type: ignore[arg-type]
    assert row.read == {"state"}
    assert row.read <= set(NEEDED["schedules"])


def test_the_columns_are_those_of_all_answer_tables() -> None:
    assert set(NEEDED) == {table.name for table in ANSWER_TABLES}
    for table in ANSWER_TABLES:
        assert set(NEEDED[table.name]) <= set(table.names())
        assert {"study", "from_study", "cached", "status", "error"} <= set(NEEDED[table.name])
