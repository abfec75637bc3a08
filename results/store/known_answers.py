"""Answers that earlier runs already hold: solved tasks looked up by their content hash."""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from results.errors import DamagedFileError
from results.store.answer_index import RANKING, ColumnIndex, RowPosition
from results.store.journal import NAME, journalled_rows
from results.store.part_listing import PartListing, StoredPart
from results.store.parts import read_part, to_arrow
from results.store.row_batch import arrow_stream, arrow_table
from results.store.schema.columns import RowT, StoredColumns, Table
from results.store.schema.rows import LayerRow
from results.store.schema.tables import ANSWERED, LAYERS

if TYPE_CHECKING:
    import pyarrow

NOT_PART_OF_AN_ANSWER = ("schema_version", "layer_shape", "architecture", "params")
"""Columns left out by ``find``: the task that asks holds the same values itself."""
LOOKING_FRACTION = 0.02
"""The largest fraction of the time that passes which may go into looking for new parts."""
CACHE_BYTES = 64 << 20
"""Bytes of parts that are kept in memory for the next look-up."""


def answer_columns(table: Table[Any] = LAYERS) -> tuple[str, ...]:
    """What ``find`` gives of a table unless asked for other columns."""
    return tuple(name for name in table.names() if name not in NOT_PART_OF_AN_ANSWER)


class FoundAnswer(NamedTuple):
    """An answer of the store: the columns that were needed, decoded; all columns that were read, as they are
    stored; and whether the row is in the folder of the run that asks."""

    row: LayerRow
    stored: StoredColumns
    held: bool


@dataclass(frozen=True)
class FoundAnswers:
    """Answered rows of ``layers`` as they travel to a worker: Arrow streams, empty where there are no rows.

    ``held`` are rows that the folder of the run has, of which designs need few columns. ``others`` are rows
    of other runs, with all columns of an answer.
    """

    held: bytes = b""
    others: bytes = b""

    def by_id(self, needed: Sequence[str]) -> dict[str, FoundAnswer]:
        """The rows by their task; of each the ``needed`` columns are decoded."""
        found: dict[str, FoundAnswer] = {}
        for stream, held in ((self.others, False), (self.held, True)):
            for stored in arrow_table(stream).to_pylist() if stream else []:
                row = LAYERS.decode({name: stored[name] for name in needed})
                found[stored["task_id"]] = FoundAnswer(row, StoredColumns(stored), held)
        return found


class AnswersAtHand:
    """Found answers in memory, to send some of them on at a time."""

    def __init__(self, found: FoundAnswers) -> None:
        self._tables = [arrow_table(stream) if stream else None for stream in (found.held, found.others)]
        self._rows: list[dict[str, int]] = [
            {} if table is None else {task_id: n for n, task_id in enumerate(table["task_id"].to_pylist())}
            for table in self._tables
        ]
        """For each of the tables, the numbers of its rows by their task."""

    def of(self, task_ids: Sequence[str]) -> FoundAnswers | None:
        """Those of these tasks; None where there are none."""
        import pyarrow

        streams = []
        for table, rows in zip(self._tables, self._rows, strict=True):
            chosen = [rows[task_id] for task_id in task_ids if task_id in rows]
            taken = None if table is None or not chosen else table.take(pyarrow.array(chosen))
            streams.append(b"" if taken is None else arrow_stream(taken))
        return FoundAnswers(*streams) if any(streams) else None


class StoredAnswers:
    """The answers in all run folders directly below ``root``, opened once for a whole run.

    An index in memory says where each answer is (:class:`ColumnIndex`); rows are read, part by part, when
    they are asked for. Rows in the journals of runs that are under way or were killed are found, too.

    Other runs add parts meanwhile, so a look-up lists the run folders first, but not so often that listing
    takes more than LOOKING_FRACTION of the time. So a look-up costs the same beside any number of run
    folders. A part that is seen late costs at most a solve that was not needed.

    Only rows whose status is in ANSWERED are answers. Parts that cannot be read are left out with a warning.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._listings: dict[str, PartListing] = {}
        self._next_look: dict[str, float] = {}
        """By table, when it is time to look for new parts."""
        self._indices: dict[str, dict[str, ColumnIndex]] = {}
        """By table and column."""
        self._journals: dict[StoredPart, pyarrow.Table] = {}
        """The rows of journals as they were when they were indexed: the files go on."""
        self._unreadable: set[StoredPart] = set()
        self._read_last: OrderedDict[tuple[StoredPart, tuple[str, ...]], pyarrow.Table] = OrderedDict()

    def known(self, table: Table[Any], task_ids: Iterable[str]) -> set[str]:
        """Those of the tasks that have an answer; reads no rows."""
        return self._index(table, "task_id").holds(task_ids)

    def find(
        self, table: Table[RowT], task_ids: Iterable[str], columns: Sequence[str] | None = None
    ) -> dict[str, RowT]:
        """For each task that is answered, its row with JSON columns decoded.

        ``columns`` None: all but NOT_PART_OF_AN_ANSWER. Of several rows of a task, the one that was solved
        rather than copied, then the one finished first.
        """
        columns = answer_columns(table) if columns is None else columns
        answers: dict[str, RowT] = {}
        missing = set(task_ids)
        while missing:
            positions = self._index(table, "task_id").best(missing).values()
            found, gone = self._rows(table, "task_id", missing, positions, columns)
            answers |= {row["task_id"]: row for row in found}
            # what was in a part that is gone may be in another by now, or in another run
            missing = missing - answers.keys() if gone else set()
        return answers

    def settle(self, run: str) -> None:
        """Take no rows of this run folder that are not there now: its writer knows what it adds."""
        for name, listing in self._listings.items():
            listing.settle(run)
            self._update(name)

    def holds(self, table: Table[Any]) -> bool:
        """Whether there is an answer in the table at all."""
        return len(self._index(table, "task_id")) > 0

    def found(self, task_ids: Sequence[str], run: str, needed: Sequence[str]) -> FoundAnswers | None:
        """What the store has of these tasks of ``layers``, for a run into the folder ``run``; None: nothing.

        ``needed`` are the columns of rows that the folder has itself.
        """
        columns = {True: tuple(dict.fromkeys(("task_id", *needed))), False: answer_columns()}
        pieces: dict[bool, list[pyarrow.Table]] = {True: [], False: []}
        missing = set(task_ids)
        while missing:
            placed = self._index(LAYERS, "task_id").best_in(list(missing), run)
            gone = False
            for own in (True, False):
                chosen = [(part, rows) for part, rows in placed if (part.run == run) == own]
                tables, lost = self._tables(LAYERS, "task_id", missing, chosen, columns[own])
                pieces[own] += tables
                gone = gone or lost
            if not gone:
                break
            for found in (*pieces[True], *pieces[False]):
                missing.difference_update(found["task_id"].to_pylist())
        streams = [_stream(pieces[own], columns[own]) for own in (True, False)]
        return FoundAnswers(*streams) if any(streams) else None

    def matching(
        self, table: Table[RowT], column: str, values: Iterable[str], columns: Sequence[str]
    ) -> list[RowT]:
        """The answered rows whose ``column`` is one of ``values``, in the order of their writing."""
        wanted = set(values)
        while True:
            positions = self._index(table, column).every(wanted) if wanted else []
            found, gone = self._rows(table, column, wanted, positions, columns)
            if not gone:
                return found

    def _index(self, table: Table[Any], column: str) -> ColumnIndex:
        """The index of a column as the store is now, or was a moment ago."""
        before = time.perf_counter()
        listing = self._listings.setdefault(table.name, PartListing(self.root, table.name))
        indices = self._indices.setdefault(table.name, {})
        if before < self._next_look.get(table.name, 0.0) and column in indices:
            return indices[column]
        if listing.look() or column not in indices:
            read = partial(self._part, table)
            indices.setdefault(column, ColumnIndex(column, read))
            self._update(table.name)
        after = time.perf_counter()
        self._next_look[table.name] = after + (after - before) / LOOKING_FRACTION
        return indices[column]

    def _rows(
        self,
        table: Table[RowT],
        column: str,
        wanted: set[str],
        positions: Iterable[RowPosition],
        columns: Sequence[str],
    ) -> tuple[list[RowT], bool]:
        """The rows at these positions, and whether any of their parts is gone or another file by now."""
        by_part: dict[StoredPart, list[int]] = {}
        for part, number in positions:
            by_part.setdefault(part, []).append(number)
        placed = [(part, np.sort(np.array(by_part[part], np.int64))) for part in sorted(by_part)]
        tables, gone = self._tables(table, column, wanted, placed, columns)
        return [table.decode(row) for rows in tables for row in rows.to_pylist()], gone

    def _tables(
        self,
        table: Table[Any],
        column: str,
        wanted: set[str],
        placed: Iterable[tuple[StoredPart, NDArray[np.int64]]],
        columns: Sequence[str],
    ) -> tuple[list[pyarrow.Table], bool]:
        """As :meth:`_rows`, as columns: one Arrow table a part, of its rows with these ordered numbers."""
        import pyarrow

        needed = tuple(dict.fromkeys(["task_id", column, *RANKING, *columns]))
        found, gone = list[pyarrow.Table](), False
        for part, numbers in placed:
            rows = self._cached_part(table, part, needed)
            taken = None if rows is None or numbers[-1] >= len(rows) else rows.take(pyarrow.array(numbers))
            if taken is not None and _are_answers(taken, column, wanted):
                found.append(taken)
            else:
                self._forget(table.name, part)
                gone = True
        return found, gone

    def _update(self, table: str) -> None:
        """Index what is listed now, and keep no rows of a journal that is no longer as it was."""
        parts = self._listings[table].parts
        for index in self._indices[table].values():
            index.update(parts - self._unreadable)
        for journal in [part for part in self._journals if part.path.parent.name == table]:
            if journal not in parts:
                del self._journals[journal]

    def _forget(self, table: str, part: StoredPart) -> None:
        """Leave a file out as it was when it was listed; one that replaced it is another."""
        self._unreadable.add(part)
        self._listings[table].look()
        self._update(table)

    def _cached_part(
        self, table: Table[Any], part: StoredPart, columns: tuple[str, ...]
    ) -> pyarrow.Table | None:
        key = part, columns
        if key in self._read_last:
            self._read_last.move_to_end(key)
            return self._read_last[key]
        rows = self._part(table, part, columns)
        if rows is not None:
            self._read_last[key] = rows
            while len(self._read_last) > 1 and self._cached_bytes > CACHE_BYTES:
                self._read_last.popitem(last=False)
        return rows

    @property
    def _cached_bytes(self) -> int:
        return sum(rows.nbytes for rows in self._read_last.values())

    def _part(self, table: Table[Any], part: StoredPart, columns: Sequence[str]) -> pyarrow.Table | None:
        """These columns of a part; None if it is gone, or damaged, which a warning says."""
        try:
            if part.name != NAME:
                return read_part(table, part.path, columns)
            if part not in self._journals:
                self._journals[part] = to_arrow(table, journalled_rows(part.path.parent, table))
            return self._journals[part].select(list(columns))
        except FileNotFoundError:
            return None
        except DamagedFileError as error:
            warnings.warn(f"left out of the lookup: {error.where}: {error.problem}", stacklevel=2)
            return None


def _are_answers(rows: pyarrow.Table, column: str, wanted: set[str]) -> bool:
    """Whether all rows are answers with a wanted value in the column."""
    return wanted.issuperset(rows[column].to_pylist()) and set(ANSWERED).issuperset(
        rows["status"].to_pylist()
    )


def _stream(pieces: Sequence[pyarrow.Table], columns: Sequence[str]) -> bytes:
    """The rows of all pieces as one Arrow stream; empty where there are none."""
    from pyarrow import concat_tables

    return arrow_stream(concat_tables(pieces).select(list(columns))) if pieces else b""


def stored_in(store: Path | StoredAnswers | None) -> StoredAnswers | None:
    """The answers of a store that may be open already; None where there is none."""
    return StoredAnswers(store) if isinstance(store, Path) else store
