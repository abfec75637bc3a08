"""Runs one benchmark after the other, keeps their records in a folder, and goes on where it was."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from record import ROOT, Record, commit

from report.suite import Effort, Entry

REPORTED = 200
"""Characters of a failure that are told."""


@dataclass(frozen=True)
class Session:
    """Where records lie, how much is run, and whose records are taken as they are.

    ``keep`` takes any finished record of the same arguments, else only those of the same clean commit.
    """

    folder: Path
    effort: Effort
    inputs: Mapping[str, Path]
    keep: bool = False
    wall_minutes: float = 30.0

    def finished(self, entry: Entry) -> Record | None:
        """A record of these arguments that need not be made anew."""
        record = read(self.folder, entry)
        if record is None or record.arguments != tuple(self.words(entry)):
            return None
        now = commit()
        same = record.surroundings.commit == now and not now.endswith("+")
        return record if self.keep or same else None

    def words(self, entry: Entry) -> list[str]:
        written = {name: str(path) for name, path in self.inputs.items()}
        return [word.format(**written) for word in shlex.split(entry.arguments(self.effort))]

    def run(self, entry: Entry) -> Record | str:
        """The record of a new run, or in one line why there is none."""
        path = self.folder / f"{entry.name}.json"
        path.unlink(missing_ok=True)
        self.inputs["scratch"].mkdir(parents=True, exist_ok=True)
        program = str(ROOT / "benchmarks" / f"{entry.program}.py")
        command = [sys.executable, program, *self.words(entry), "--json", str(path)]
        with (self.folder / f"{entry.name}.log").open("w", encoding="utf-8") as log:
            status = _status(command, log, 60 * self.wall_minutes)
        if path.is_file() and isinstance(status, int):
            record = replace(Record.read(path), status=status)
            record.write(path)
            return record
        return self._failure(entry, status)

    def _failure(self, entry: Entry, status: int | str) -> str:
        """One line, which is also kept for a later reading of the folder."""
        lines = (self.folder / f"{entry.name}.log").read_text(encoding="utf-8").strip().splitlines()
        last = lines[-1][:REPORTED] if lines else "it printed nothing"
        reason = status if isinstance(status, str) else f"it ended with status {status}: {last}"
        _failed(self.folder, entry).write_text(reason + "\n", encoding="utf-8")
        return reason


def read(folder: Path, entry: Entry) -> Record | None:
    """The entry's record; None where there is none.

    Errors: ``ValueError`` for a file that is no record.
    """
    path = folder / f"{entry.name}.json"
    return Record.read(path) if path.is_file() else None


def told(folder: Path, entry: Entry) -> Record | str:
    """The entry's record, or why there is none."""
    record, failed = read(folder, entry), _failed(folder, entry)
    if record is not None:
        return record
    return failed.read_text(encoding="utf-8").strip() if failed.is_file() else "it was not run"


def _failed(folder: Path, entry: Entry) -> Path:
    return folder / f"{entry.name}.failed"


def _status(command: list[str], log: TextIO, wall_seconds: float) -> int | str:
    """The exit status, or what ended the run; this checkout's packages come first."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            return process.wait(wall_seconds)
        except subprocess.TimeoutExpired:
            return f"it was ended after {wall_seconds / 60:g} minutes"
        finally:
            if process.poll() is None:  # too long, or interrupted: with all that it started
                os.killpg(process.pid, signal.SIGKILL)
