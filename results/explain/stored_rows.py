"""Some columns of the rows that a comparison or an explanation is about, and of no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from results.report.data import RunData
from results.store.folder import RunFolder
from results.store.schema.columns import Table


def rows_of(
    run: RunData, table: Table[Any], columns: Sequence[str], task_ids: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The rows of ``table`` with these task ids, by task id; ids that the run lacks are left out.

    ``columns`` has ``task_id`` among them.
    """
    import pyarrow
    from pyarrow import compute

    # A run has millions of rows, and a design needs some dozens: they are chosen as columns, before any of
    # them becomes a dict.
    asked = pyarrow.array(sorted(set(task_ids)), pyarrow.string())
    rows = RunFolder(run.path).read(table.name, list(columns))
    found = rows.filter(compute.is_in(rows["task_id"], value_set=asked)).to_pylist()
    return {row["task_id"]: dict(table.decode(row)) for row in found}
