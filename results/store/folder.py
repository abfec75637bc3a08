"""A run folder on disk: one writer that appends rows, any number of readers.

    runs/STUDY/study.lock.yaml      the resolved study, versions, commit, seeds
    runs/STUDY/layers/*.parquet     parts of the `layers` table (results/store/schema/tables.py)
    runs/STUDY/designs/*.parquet    parts of the `designs` table
    runs/STUDY/fusions/*.parquet, scratchpads/, schedules/, tile_costs/  parts of the tables of these names
    runs/STUDY/report.html          results/report/page.py

Writing::

    with RunWriter(Path("runs/quickstart")) as run:     # makes the folder, takes its lock, checks it
        run.write_lock_file({"study": {...}, "versions": {...}})
        run.append("layers", {"task_id": ..., ...})     # a wrong row raises at once
        run.flush()                                     # what is buffered is on disk now

Reading::

    RunFolder(Path("runs/quickstart")).read("designs")  # a pyarrow Table, last row per design_id
    StoredAnswers(Path("runs")).find(LAYERS, task_ids)  # known_answers.py: solved tasks of all runs

Rows with the same key (task_id, design_id) are versions of one row; readers see the last written one.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload
from uuid import uuid4

from results.errors import CannotWriteError, DamagedFileError, NotARunError, ResultsError
from results.store.digests import Digests
from results.store.folder_lock import FolderLock
from results.store.journal import Journal
from results.store.parts import (
    count_rows,
    list_parts,
    next_part,
    parquet_into,
    part_after,
    part_columns,
    read_part,
    remove_unfinished,
    to_arrow,
    write_part,
    write_whole,
)
from results.store.row_batch import PART_ROWS, RowBatch
from results.store.schema.columns import Row, RowT, StoredRow, Table
from results.store.schema.tables import ANSWER_TABLES, ANSWERED, TABLES, table_named
from results.store.shared_folder import MARK, SharedFolder

if TYPE_CHECKING:
    import numpy as np
    import pyarrow
    from numpy.typing import NDArray

LOCK_FILE = "study.lock.yaml"

Found = TypeVar("Found")


@dataclass(frozen=True)
class RunFolder:
    """A run folder to read from; safe while another process writes to it."""

    path: Path

    def exists(self) -> bool:
        """Whether the folder holds a lock file or any part."""
        return (self.path / LOCK_FILE).is_file() or any(list_parts(self.path / name) for name in TABLES)

    def check(self) -> Self:
        """This folder; raises NotARunError when it holds no results."""
        if not self.exists():
            raise NotARunError(self.path, "holds no run", f"Name a folder with {LOCK_FILE} in it")
        return self

    def read(self, table: str, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """The rows of a table, the last written one per key, in the order of their writing.

        ``columns`` None: all of today's, then those that only parts of newer versions have. A part that
        cannot be read raises DamagedFileError.
        """
        described = table_named(table)
        return while_joined(lambda: _read_parts(described, list_parts(self.path / table), columns))

    def batches(
        self, table: str, columns: Sequence[str], coded: Collection[str] = ()
    ) -> Iterator[pyarrow.Table]:
        """The rows that :meth:`read` gives, a part at a time: see :meth:`StoredBatches.read`.

        Who reads them does so within :func:`while_joined`.
        """
        return self.stored_batches(table).read(columns, coded)

    def stored_batches(
        self, table: str, keep: Callable[[NDArray[np.uint64]], NDArray[np.bool_]] | None = None
    ) -> StoredBatches:
        """The rows of a table, to be read a part at a time, more than once if need be.

        ``keep`` says which rows are wanted, by the sorted and different digests of all keys
        (:attr:`Digests.high`); None: all. Of ten million ids there are two with one digest in one of 400,000
        runs, and then a row more or less is read.
        """
        import numpy as np

        described, parts = table_named(table), list_parts(self.path / table)
        digests = _sorted_digests(described, parts)
        repeated = np.unique(digests[1:][digests[1:] == digests[:-1]])
        if len(repeated):
            digests = np.unique(digests)
        unwanted = digests[:0] if keep is None else digests[~keep(digests)]
        replaced = _replaced_rows(described, parts, repeated) if len(repeated) else np.empty(0, np.int64)
        return StoredBatches(described, tuple(parts), unwanted, replaced)

    def read_some(
        self, table: str, keys: Collection[str], columns: Sequence[str] | None = None
    ) -> pyarrow.Table:
        """The rows with these keys, as :meth:`read` gives them. All others are read a part at a time."""
        import pyarrow
        from pyarrow import compute

        described = table_named(table)
        wanted = pyarrow.array(sorted(keys), pyarrow.string())

        def chosen(part: Path, columns: Sequence[str]) -> pyarrow.Table:
            rows = read_part(described, part, [described.key])
            here = compute.is_in(rows[described.key], value_set=wanted)
            if not compute.any(here).as_py():
                return rows.filter(here)
            return read_part(described, part, columns).filter(here)

        return while_joined(lambda: _read_parts(described, list_parts(self.path / table), columns, chosen))

    def answered(self, table: str) -> set[str]:
        """The tasks of an answer table whose last written row is an answer."""
        from pyarrow import array, compute

        rows = self.read(table, ["task_id", "status"])
        return set(
            rows.filter(compute.is_in(rows["status"], value_set=array(ANSWERED)))["task_id"].to_pylist()
        )

    @overload
    def read_rows(self, table: Table[RowT], columns: Sequence[str] | None = None) -> list[RowT]: ...

    @overload
    def read_rows(self, table: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]: ...

    def read_rows(self, table: Table[Any] | str, columns: Sequence[str] | None = None) -> list[Any]:
        """As ``read``, as plain Python rows with JSON columns decoded.

        The rows of a table have its type. Those of a table that only its name at run time tells have none.
        """
        described = table_named(table) if isinstance(table, str) else table
        return [described.decode(row) for row in self.read(described.name, columns).to_pylist()]

    def read_lock_file(self) -> dict[str, Any]:
        """What ``write_lock_file`` stored; empty when there is none."""
        import yaml

        path = self.path / LOCK_FILE
        if not path.is_file():
            return {}
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:  # the last of nested brackets
            raise DamagedFileError(
                path, f"is not YAML ({error})", "Resume the run to write it anew"
            ) from error
        except OSError as error:
            raise DamagedFileError(path, f"cannot be read: {error.strerror}", "Mend the folder") from error
        if not isinstance(content, dict):
            raise DamagedFileError(path, "is not a YAML mapping", "Resume the run to write it anew")
        return content


def while_joined(read: Callable[[], Found]) -> Found:
    """What ``read`` makes of the parts of a folder; read anew where a writer joined small parts meanwhile.

    Their rows are in the joined part then, which was not listed yet.
    """
    try:
        return read()
    except FileNotFoundError:
        return read()


@dataclass(frozen=True, eq=False)
class StoredBatches:
    """Rows of a table that are wanted: in ``parts``, all but those of ``unwanted`` and ``replaced``.

    ``unwanted``: the sorted digests of keys whose rows are left out. ``replaced``: the sorted numbers of rows
    whose key a later row has, counted through all parts. Both are empty for most runs, so that keys are
    compared once and not read again.
    """

    table: Table[Any]
    parts: tuple[Path, ...]
    unwanted: NDArray[np.uint64]
    replaced: NDArray[np.int64]

    def read(self, columns: Sequence[str], coded: Collection[str] = ()) -> Iterator[pyarrow.Table]:
        """These columns of the rows, a part at a time, so that no more than that is in memory.

        The text columns ``coded`` come as dictionary arrays. Raises FileNotFoundError where a writer joined
        parts meanwhile: see :func:`while_joined`.
        """
        import numpy as np
        import pyarrow

        key = self.table.key
        needed = list(dict.fromkeys([key, *columns])) if len(self.unwanted) else list(columns)
        first = 0
        for part in self.parts:
            rows = read_part(self.table, part, needed, coded)
            chosen = np.ones(len(rows), dtype=bool)
            begin, end = np.searchsorted(self.replaced, [first, first + len(rows)])
            chosen[self.replaced[begin:end] - first] = False
            if len(self.unwanted):
                chosen &= ~_among(Digests.of(rows[key]).high, self.unwanted)
            first += len(rows)
            if chosen.any():
                wanted = rows.select(list(columns))
                yield wanted if chosen.all() else wanted.filter(pyarrow.array(chosen))


@dataclass(frozen=True)
class Buffering:
    """When buffered rows become a part: at ``rows`` of them, or ``seconds`` after the first of them came."""

    rows: int = 2000
    seconds: float = 20.0

    def __post_init__(self) -> None:
        if self.rows < 1 or not self.seconds > 0:
            raise ValueError(f"expected at least 1 row and more than 0 seconds, found {self}")


class RunWriter:
    """The one writer of a run folder: takes its lock, appends rows, writes them in buffered parts.

    Rows of ANSWER_TABLES are in a journal until they are in a part, so that a killed process loses none that
    it was given. Designs are in none: a resumed run makes them again from the answers.

    Opening renames damaged parts to .damaged, with a warning; their tasks are solved again.
    Raises CannotWriteError or FolderInUseError before anything runs. Safe to use from several threads.
    """

    def __init__(self, path: Path, buffering: Buffering | None = None) -> None:
        self.path = path
        self._buffering = buffering or Buffering()
        self._guard = threading.RLock()
        self._timer: threading.Timer | None = None
        self._trouble: ResultsError | None = None
        self._closed = False
        self._rows: dict[str, list[StoredRow]] = {name: [] for name in TABLES}
        self._batches: dict[str, list[RowBatch]] = {name: [] for name in TABLES}
        """By table, the batches of rows that wait for their part beside ``_rows``."""
        self._next_part: dict[str, Path] = {}
        """By table, the part to write next, once one was written: listing thousands of parts takes long."""
        self._shared: SharedFolder | None = None
        _make_folders(path)
        self._journals: dict[str, Journal] = {}
        self._lock = FolderLock(path)
        try:
            (path / MARK).unlink(missing_ok=True)  # of a killed writer, whose workers may live on
            _check_writable(path)
            _set_damaged_aside(path)
            for table in ANSWER_TABLES:
                self._open_journal(table)
        except ResultsError:
            self._release()
            raise

    def append(self, table: str, row: Row) -> None:
        """Add a row, a mapping or a dataclass; raises WrongRowError at once if it does not fit the table.

        Also raises the CannotWriteError of an earlier part that could not be written in the background;
        its rows are kept in memory for the next try.
        """
        encoded = table_named(table).encode(row)
        with self._guard:
            if self._closed:
                raise CannotWriteError(self.path, "the writer is closed", "Append before it is closed")
            self._rows[table].append(encoded)
            if table in self._journals:
                self._journals[table].append(encoded)
            self._buffered(table)

    def append_batch(self, batch: RowBatch) -> None:
        """Add encoded rows; a batch that is a part of its own is on disk when this returns.

        Nothing is done for a batch that is in the folder already (``batch.part``). Raises CannotWriteError as
        ``append`` does.
        """
        with self._guard:
            if self._closed:
                raise CannotWriteError(self.path, "the writer is closed", "Append before it is closed")
            if batch.part:
                return
            if batch.parquet:
                self._write_whole(batch.table, lambda file: file.write_bytes(batch.parquet))
            elif batch.rows:
                # kept before it is in the journal: an interrupt between the two loses no row then
                self._batches[batch.table].append(batch)
                if batch.table in self._journals:
                    self._journals[batch.table].append_lines(batch.lines)
                self._buffered(batch.table)

    def shared(self) -> SharedFolder:
        """The folder for workers that see it: they may write parts of their own until this writer closes."""
        with self._guard:
            if self._shared is None:
                parts = [self._to_write_next(table) for table in TABLES]
                number = max(int(part.stem) for part in parts)
                for table, part in zip(TABLES, parts, strict=True):
                    # the writer's own parts come after those of workers: of two rows of a key, its counts
                    self._next_part[table] = part_after(part.with_name(f"{number:08d}{part.suffix}"))
                self._shared = SharedFolder(self.path.resolve(), uuid4().hex, number)
                token = self._shared.token
                write_whole(self.path / MARK, lambda file: file.write_text(token, encoding="utf-8"))
            return self._shared

    def waiting(self, table: str, rows: int) -> tuple[RowBatch, ...]:
        """The batches of a table without a journal that wait for their part, if they have so many rows.

        They are the caller's then, to have them joined by a worker and append what comes back.
        """
        assert table not in self._journals, "a journal may only be cleared once its rows are in a part"
        with self._guard:
            found = self._batches[table]
            if sum(batch.rows for batch in found) < rows:
                return ()
            self._batches[table] = []
            if not any(self._rows.values()) and not any(self._batches.values()):
                self._stop_timer()  # it is for rows that wait: the next one starts it again
            return tuple(found)

    def sees(self, batch: RowBatch) -> bool:
        """Whether the part that a worker says to have written is here; True for other batches."""
        return not batch.part or (self.path / batch.table / batch.part).is_file()

    def taken_back(self, batch: RowBatch) -> RowBatch:
        """A batch that a worker has written, with its rows again and no longer in the folder."""
        if not batch.part:
            return batch
        part = self.path / batch.table / batch.part
        whole = replace(batch, parquet=part.read_bytes(), part="")
        part.unlink()
        return whole

    def _buffered(self, table: str) -> None:
        """Write the rows of a table if there are enough; see to it that they are written in time."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        if len(self._rows[table]) + sum(b.rows for b in self._batches[table]) >= self._buffering.rows:
            self._write(table)
        elif self._timer is None:
            self._start_timer()

    def flush(self) -> None:
        """Write every buffered row to disk."""
        with self._guard:
            self._stop_timer()
            for table in TABLES:
                self._write(table)

    def write_lock_file(self, content: Mapping[str, Any]) -> None:
        """Store plain data (dicts, lists, text, numbers) as study.lock.yaml, whole or not at all."""
        import yaml

        text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
        write_whole(self.path / LOCK_FILE, lambda file: file.write_text(text, encoding="utf-8"))

    def close(self) -> None:
        """Flush, join small parts, free the lock; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
            if self._shared is not None:
                # before anything is read: on a file system of several machines a listing may be old, and is
                # renewed once this machine has written to the folder
                _check_writable(self.path)
            for table in TABLES:
                compact(self.path, table, min(self._buffering.rows, PART_ROWS))
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_journal(self, table: Table[Any]) -> None:
        journal = self._journals[table.name] = Journal(self.path / table.name, table)
        # what a killed process had not yet made a part of
        self._rows[table.name] = journal.left
        self._write(table.name)
        journal.clear()

    def _release(self) -> None:
        if self._shared is not None:
            (self.path / MARK).unlink(missing_ok=True)
        for journal in self._journals.values():
            journal.close()
        self._lock.release()

    def _write(self, table: str) -> None:
        # rows leave the buffer only once they are on disk, so an interrupt here repeats rows, never loses any
        if self._rows[table] or self._batches[table]:
            from pyarrow import concat_tables

            single = to_arrow(table_named(table), self._rows[table])
            rows = concat_tables([single, *(batch.arrow() for batch in self._batches[table])])
            self._write_whole(table, lambda file: parquet_into(rows, file))
            self._rows[table], self._batches[table] = [], []
            if table in self._journals:
                self._journals[table].clear()

    def _write_whole(self, table: str, write: Callable[[Path], object]) -> None:
        """Write the next part of a table; only the holder of the lock does, so that numbers are used once."""
        path = self._to_write_next(table)
        write_whole(path, write)
        self._next_part[table] = part_after(path)

    def _to_write_next(self, table: str) -> Path:
        return self._next_part.get(table) or next_part(self.path / table)

    def _start_timer(self) -> None:
        self._timer = threading.Timer(self._buffering.seconds, self._flush_in_background)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush_in_background(self) -> None:
        try:
            self.flush()
        except ResultsError as error:
            self._trouble = error


def compact(path: Path, table: str, rows_per_part: int) -> None:
    """Join the newest parts that are smaller than ``rows_per_part`` into one; the holder of the lock only.

    The joined part takes the newest one's name before the others go, so a crash in between leaves rows
    twice, in the right order, and readers count the last per key.
    """
    import pyarrow

    small: list[Path] = []
    for part in reversed(list_parts(path / table)):
        if count_rows(part) >= rows_per_part:
            break
        small.insert(0, part)
    if len(small) < 2:
        return
    described = table_named(table)
    columns = _all_columns(described.names(), small)
    pieces = [read_part(described, part, columns) for part in small]
    joined = pyarrow.concat_tables(pieces, promote_options="permissive")
    write_part(_last_per_key(joined, described.key), small[-1])
    for part in small[:-1]:
        part.unlink()


def _read_parts(
    table: Table[Any],
    parts: Sequence[Path],
    columns: Sequence[str] | None,
    read: Callable[[Path, Sequence[str]], pyarrow.Table] | None = None,
) -> pyarrow.Table:
    """The last row per key of all parts; ``read`` gives the columns of a part, or of some of its rows."""
    import pyarrow

    read = read or partial(read_part, table)

    wanted = list(columns) if columns is not None else _all_columns(table.names(), parts)
    if not parts:
        return table.arrow_schema().empty_table().select([n for n in wanted if n in table.by_name])
    needed = list(dict.fromkeys([table.key, *wanted]))
    # of thousands of parts most have none of some keys, and an empty table of all columns has its size, too
    pieces = [piece for part in parts if len(piece := read(part, needed))]
    if not pieces:
        pieces = [read_part(table, parts[-1], needed).slice(0, 0)]
    rows = pyarrow.concat_tables(pieces, promote_options="permissive")
    return _last_per_key(rows, table.key).select(wanted)


def _all_columns(today: Sequence[str], parts: Sequence[Path]) -> list[str]:
    return list(dict.fromkeys([*today, *(name for part in parts for name in part_columns(part))]))


def _last_per_key(rows: pyarrow.Table, key: str) -> pyarrow.Table:
    last = _last_rows(rows[key])
    return rows if last is None else rows.take(last)


def _sorted_digests(table: Table[Any], parts: Sequence[Path]) -> NDArray[np.uint64]:
    """A digest of 64 bits for the key of every row: eight bytes a row, where keys as text take forty."""
    import numpy as np

    # grows in place: joining an array for each part would take twice the memory
    found = bytearray()
    for part in parts:
        found += Digests.of(read_part(table, part, [table.key])[table.key]).high.tobytes()
    digests = np.frombuffer(found, np.uint64)
    digests.sort()
    return digests


def _among(digests: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which digests are among the sorted ``known`` ones, of which there is at least one."""
    import numpy as np

    found = known[np.minimum(np.searchsorted(known, digests), len(known) - 1)]
    return np.asarray(found == digests)


def _replaced_rows(
    table: Table[Any], parts: Sequence[Path], repeated: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The sorted numbers of rows whose key a later row has; ``repeated``: digests that several rows have."""
    import numpy as np
    import pyarrow

    keys, numbers, first = [], [], 0
    for part in parts:
        found = read_part(table, part, [table.key])[table.key]
        some = np.flatnonzero(_among(Digests.of(found).high, repeated))
        keys += found.take(pyarrow.array(some)).chunks
        numbers.append(first + some)
        first += len(found)
    last = _last_rows(pyarrow.chunked_array(keys, pyarrow.string()))
    every = np.concatenate(numbers)
    return every[:0] if last is None else np.delete(every, last)


def _last_rows(keys: pyarrow.ChunkedArray) -> NDArray[np.int64] | None:
    """The numbers of the rows that no later row has the key of, in their order; None: all rows.

    Ten million keys as Python's text would take a gigabyte, so they are compared as numbers.
    """
    import numpy as np
    import pyarrow

    ordered = np.sort(Digests.of(keys).high)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    coded = keys.cast(pyarrow.large_string()).combine_chunks().dictionary_encode()
    last = np.empty(len(coded.dictionary), dtype=np.int64)
    # where a key occurs several times, numpy keeps the number assigned last
    last[coded.indices.to_numpy()] = np.arange(len(keys))
    return np.sort(last) if len(last) < len(keys) else None


def _make_folders(path: Path) -> None:
    try:
        for name in TABLES:
            (path / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWriteError(path, f"cannot make the folder: {error.strerror}", "Choose another") from error


def _check_writable(path: Path) -> None:
    for name in TABLES:
        remove_unfinished(path / name)
        probe = path / name / ".probe"
        write_whole(probe, lambda file: file.write_bytes(b""))
        probe.unlink()


def _set_damaged_aside(path: Path) -> None:
    for name, described in TABLES.items():
        for part in list_parts(path / name):
            try:
                read_part(described, part, described.names())
            except DamagedFileError as error:
                aside = part.rename(part.with_name(f"{part.name}.damaged"))
                warnings.warn(f"set aside as {aside.name}: {error.where}: {error.problem}", stacklevel=4)
