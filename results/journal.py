"""The journal of a table: each row is in a file at once, long before enough of them make a part."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from results.columns import Table
from results.errors import CannotWriteError, WrongRowError


class Journal:
    """``FOLDER/.journal``: one JSON line a row that is in no part yet; for the holder of the lock only.

    A row is with the operating system when ``append`` returns: it outlives the process, however that dies,
    though not a power cut. Opening reads what an earlier process left; a line that was cut short is skipped.
    """

    def __init__(self, folder: Path, table: Table) -> None:
        path = folder / ".journal"
        self._times = [column.name for column in table.columns if column.kind == "timestamp"]
        self._path = path
        try:
            self.left = [row for line in _lines(path) if (row := self._decoded(table, line)) is not None]
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise CannotWriteError(path, f"cannot open: {error.strerror}", "Mend the folder") from error

    def append(self, row: Mapping[str, Any]) -> None:
        """Store an encoded row; raises CannotWriteError when it cannot be written whole."""
        line = json.dumps(row, default=datetime.isoformat, separators=(",", ":")).encode() + b"\n"
        try:
            if os.write(self._descriptor, line) == len(line):
                return
            reason = "no space left"
        except OSError as error:
            reason = str(error.strerror)
        raise CannotWriteError(self._path, f"cannot write: {reason}", "Free space, then resume the run")

    def clear(self) -> None:
        """Forget all rows: they are in a part now."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        os.close(self._descriptor)

    def _decoded(self, table: Table, line: bytes) -> dict[str, Any] | None:
        """The row of a line; None if it was cut short or is no row of this version of the table."""
        try:
            row = json.loads(line)
            for name in self._times:
                row[name] = None if row[name] is None else datetime.fromisoformat(row[name])
            del row["schema_version"]
            table.encode(table.decode(row))
        except (ValueError, KeyError, TypeError, AttributeError, WrongRowError):
            return None
        return {**row, "schema_version": table.version}


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.is_file() else []
