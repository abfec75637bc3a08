"""The journal of a table: each row is in a file at once, long before enough of them make a part."""

from __future__ import annotations

import json
import os
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

from results.errors import CannotWriteError, DamagedFileError, WrongRowError
from results.store.row_batch import journal_line
from results.store.schema.columns import StoredRow, Table

NAME = ".journal"
DAMAGED = ".journal.damaged"
"""Beside the journal: its whole lines that are no rows of this version, for whoever wants to look."""


class Journal:
    """``FOLDER/.journal``: one JSON line a row that is in no part yet; for the holder of the lock only.

    A row is with the operating system when ``append`` returns: it outlives the process, however that dies,
    though not a power cut. Opening reads the rows that an earlier process left (``left``). It cuts off a last
    line without an end, whose row was never acknowledged, for the next row would continue that line. Whole
    lines that are no rows are set aside in ``.journal.damaged``, with a warning.
    """

    def __init__(self, folder: Path, table: Table[Any]) -> None:
        self._path = folder / NAME
        try:
            whole = _whole_lines(self._path)
            self.left, damaged = _rows_and_rest(table, whole)
            if damaged:
                _set_aside(self._path, damaged)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._descriptor, len(whole))
        except OSError as error:
            raise CannotWriteError(self._path, f"cannot open: {error.strerror}", "Mend the folder") from error

    def append(self, row: StoredRow) -> None:
        """Store a row; raises CannotWriteError when it cannot be written whole."""
        self.append_lines(journal_line(row))

    def append_lines(self, lines: bytes) -> None:
        """Store rows that are lines already, all or none; raises CannotWriteError as ``append`` does."""
        try:
            before = os.fstat(self._descriptor).st_size
            if os.write(self._descriptor, lines) == len(lines):
                return
            # the next row must not continue the beginning of these
            os.ftruncate(self._descriptor, before)
            reason = "no space left"
        except OSError as error:
            reason = str(error.strerror)
        raise CannotWriteError(self._path, f"cannot write: {reason}", "Free space, then resume the run")

    def clear(self) -> None:
        """Forget all rows: they are in a part now."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        os.close(self._descriptor)


def journalled_rows(folder: Path, table: Table[Any]) -> list[StoredRow]:
    """The rows in the journal of a table's ``folder``, in the order of their writing.

    Anybody may read, while the holder of the lock writes: a row that is being written is not among them.
    Raises DamagedFileError for a journal that may not be read.
    """
    path = folder / NAME
    try:
        return _rows_and_rest(table, _whole_lines(path))[0]
    except OSError as error:
        raise DamagedFileError(path, f"cannot be read: {error.strerror}", "Mend the folder") from error


def _whole_lines(path: Path) -> bytes:
    """A journal without what follows its last line end: the beginning of a row; empty if there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def _rows_and_rest(table: Table[Any], whole: bytes) -> tuple[list[StoredRow], list[bytes]]:
    """The rows of a journal's whole lines, and the lines that are none."""
    rows, rest = list[StoredRow](), list[bytes]()
    for line in whole.split(b"\n")[:-1]:
        row = _row_of(table, line)
        if row is None:
            rest.append(line)
        else:
            rows.append(row)
    return rows, rest


def _row_of(table: Table[Any], line: bytes) -> StoredRow | None:
    """The row of a line; None if it is no row of this version of the table."""
    try:
        row = json.loads(line)
        for name in table.names("timestamp"):
            row[name] = None if row[name] is None else datetime.fromisoformat(row[name])
        del row["schema_version"]
        table.encode(table.decode(row))  # checks every value; the journal holds what it makes already
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, WrongRowError):
        return None
    return StoredRow({**row, "schema_version": table.version})


def _set_aside(path: Path, lines: list[bytes]) -> None:
    aside = path.with_name(DAMAGED)
    with aside.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    warnings.warn(
        f"{path}: {len(lines)} lines are no rows of this version; they are set aside in {aside.name}, and "
        "their tasks are solved again",
        stacklevel=5,
    )
