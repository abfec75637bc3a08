"""Rows of one table as they travel from a worker to the writer of a run folder: encoded where they are made.

The writer of a folder is one process, and a cluster has thousands that make rows. So whoever makes rows
checks and encodes them, and the writer stores what it is sent without looking at any single row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from results.store.parts import parquet_into, to_arrow
from results.store.schema.columns import StoredRow
from results.store.schema.tables import table_named

if TYPE_CHECKING:
    import pyarrow

PART_ROWS = 256
"""From so many rows on, a batch is a part of its own. Fewer lie in the journal until more have come: a file
for each of them would cost more than its rows."""


@dataclass(frozen=True)
class RowBatch:
    """``rows`` encoded rows of a table.

    ``parquet`` is the content of a whole part, of a batch of at least PART_ROWS rows. A smaller batch has
    ``lines``, the rows as the journal has them, and ``columns``, the same rows as an Arrow stream. ``part``:
    the name of the part that a worker has written already; then the batch has no rows itself. ``attempts``:
    how often its solves were begun, where the rows do not say so yet.
    """

    table: str
    rows: int
    parquet: bytes = b""
    lines: bytes = b""
    columns: bytes = b""
    part: str = ""
    attempts: int = 1

    @staticmethod
    def of(table: str, rows: Sequence[StoredRow]) -> RowBatch:
        """The batch of these rows, which ``Table.encode`` made."""
        return _packed(table, to_arrow(table_named(table), rows), rows)

    @staticmethod
    def joined(batches: Sequence[RowBatch]) -> RowBatch:
        """The rows of batches of one table."""
        from pyarrow import concat_tables

        (table,) = {batch.table for batch in batches}
        columns = concat_tables(batch.arrow() for batch in batches)
        if len(columns) >= PART_ROWS:
            return _packed(table, columns, ())
        lines = b"".join(batch.lines for batch in batches)
        return RowBatch(table, len(columns), lines=lines, columns=arrow_stream(columns))

    def begun(self, attempts: int) -> RowBatch:
        """The same batch, with how often its solves were begun, which only the driver knows."""
        return self if attempts == 1 else replace(self, attempts=attempts)

    def arrow(self) -> pyarrow.Table:
        """The rows as columns."""
        from pyarrow import ipc, parquet

        if self.parquet:
            return parquet.read_table(BytesIO(self.parquet))
        return ipc.open_stream(self.columns).read_all()

    def with_attempts(self, attempts: int) -> RowBatch:
        """The same rows with this number in the column ``attempts``.

        A worker cannot know that an earlier one was lost with the same item; only the driver does.
        """
        from pyarrow import array

        rows = self.arrow()
        position = rows.schema.get_field_index("attempts")
        column = array([attempts] * len(rows), rows.schema.field(position).type)
        changed = rows.set_column(position, "attempts", column)
        return _packed(self.table, changed, [StoredRow(row) for row in changed.to_pylist()])


def _packed(table: str, columns: pyarrow.Table, rows: Sequence[StoredRow]) -> RowBatch:
    # Either a part or journal lines: a part is stored as it is, lines are appended until enough have come.
    batch = RowBatch(table, len(columns))
    if len(columns) >= PART_ROWS:
        whole = BytesIO()
        parquet_into(columns, whole)
        return replace(batch, parquet=whole.getvalue())
    return replace(batch, lines=b"".join(map(journal_line, rows)), columns=arrow_stream(columns))


def arrow_stream(columns: pyarrow.Table) -> bytes:
    """A table as bytes."""
    from pyarrow import BufferOutputStream, ipc

    sink = BufferOutputStream()
    with ipc.new_stream(sink, columns.schema) as writer:
        writer.write_table(columns)
    return bytes(sink.getvalue())


def arrow_table(stream: bytes) -> pyarrow.Table:
    """The table of :func:`arrow_stream`."""
    from pyarrow import ipc

    return ipc.open_stream(stream).read_all()


def journal_line(row: StoredRow) -> bytes:
    """A row as one line of a journal."""
    return json.dumps(row, default=_time, separators=(",", ":")).encode() + b"\n"


def _time(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
