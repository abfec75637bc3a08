"""Some columns of the rows that a comparison or an explanation is about, and of no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.report.data import RunData
from results.store.folder import RunFolder
from results.store.schema.columns import RowT, Table


def rows_of(
    run: RunData, table: Table[RowT], columns: Sequence[str], task_ids: Iterable[str]
) -> dict[str, RowT]:
    """The rows of ``table`` with these task ids, by task id; ids that the run lacks are left out.

    ``columns`` has ``task_id`` among them.
    """
    # A run has millions of rows, and a design needs some dozens: they are chosen as columns, part by part,
    # before any of them becomes a dict.
    found = RunFolder(run.path).read_some(table.name, set(task_ids), columns).to_pylist()
    return {row["task_id"]: table.decode(row) for row in found}
