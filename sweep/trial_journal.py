"""The file in which Optuna keeps its trials: what a killed driver may leave of it, and how that is mended."""

from __future__ import annotations

import json
import os
from pathlib import Path

from results.errors import CannotWriteError, DamagedFileError

NAME = "optuna.journal"
"""In the run folder; ``optuna-dashboard --storage-class JournalFileStorage FILE`` shows it."""


def journal_in(folder: Path, resume: bool) -> Path:
    """The journal of a run folder; removed first if its trials shall not be gone on with."""
    path = folder / NAME
    if not resume:
        path.unlink(missing_ok=True)
    return path


def mend(path: Path) -> int:
    """Cut off the last lines where they are no whole records; returns how many bytes went.

    Optuna writes one line of JSON a record and refuses a file that does not end with a whole one, as a killed
    driver, a full disk or a copy made meanwhile leaves it. Every earlier record is kept: what was being
    written has not happened. For the holder of the run folder's lock only. Raises DamagedFileError where
    records before the last lines cannot be read, CannotWriteError where the file cannot be cut.
    """
    if not path.is_file():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = len(lines)
    while whole and not _is_record(lines[whole - 1]):
        whole -= 1
    for number, line in enumerate(lines[:whole], start=1):
        if not _is_record(line):
            raise DamagedFileError(
                path, f"line {number} is no record", "Remove the file: trials start anew, answers are kept"
            )
    torn = sum(map(len, lines[whole:]))
    if torn:
        try:
            os.truncate(path, path.stat().st_size - torn)
        except OSError as error:
            raise CannotWriteError(path, f"cannot be mended: {error.strerror}", "Mend the folder") from error
    return torn


def _is_record(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
