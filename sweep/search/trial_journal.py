"""The file in which Optuna keeps its trials, and how it is mended after a driver was killed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results.errors import CannotWriteError, DamagedFileError

NAME = "optuna.journal"
"""In the run folder; ``optuna-dashboard --storage-class JournalFileStorage FILE`` shows it."""


def journal_in(folder: Path, resume: bool) -> Path:
    """The path of a run folder's journal; without ``resume`` an earlier journal is removed first."""
    path = folder / NAME
    if not resume:
        path.unlink(missing_ok=True)
    return path


def mend(path: Path) -> int:
    """Cut off the last lines where they are no whole records; returns the number of bytes cut off.

    Optuna writes each record as one line of JSON and refuses a file whose last line is not whole. A killed
    driver, a full disk or a copy made during a write leave such a file. The whole records before are kept; a
    warning says what was cut off. Only the holder of the run folder's lock may call this. Raises
    DamagedFileError where an earlier line is no record, CannotWriteError where the file cannot be cut.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0
    except OSError as error:  # a folder, or a file that may not be read
        problem = f"cannot be read: {error.strerror}"
        raise DamagedFileError(
            path, problem, "Remove or mend it: trials start anew, answers are kept"
        ) from error
    # ``rest``, after the last line end, is empty or a torn record
    *ended, rest = content.split(b"\n")
    whole = len(ended)
    while whole and not _is_record(ended[whole - 1]):
        whole -= 1
    for number, line in enumerate(ended[:whole], start=1):
        if not _is_record(line):
            raise DamagedFileError(
                path, f"line {number} is no record", "Remove the file: trials start anew, answers are kept"
            )
    torn = sum(len(line) + 1 for line in ended[whole:]) + len(rest)
    if torn:
        try:
            os.truncate(path, path.stat().st_size - torn)
        except OSError as error:
            raise CannotWriteError(path, f"cannot be mended: {error.strerror}", "Mend the folder") from error
        warnings.warn(
            f"{path}: the last {torn} bytes are no records of trials, or a part of one, and were cut off; "
            "the trials that they held are proposed again",
            stacklevel=2,
        )
    return torn


def append_records(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add records of Optuna's, whole or not at all; raises CannotWriteError where they cannot be written."""
    lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
    try:
        with path.open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            if file.write(lines) == len(lines):
                return
            # only a part was written: take it back, or the next record would continue its line
            file.truncate(before)
            reason = "no space left"
    except OSError as error:
        reason = str(error.strerror)
    raise CannotWriteError(path, f"cannot write: {reason}", "Free space, then resume the run")


def _is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("op_code"), int)
