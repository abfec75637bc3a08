"""The copy of a job's run folder on this machine: what was brought home, and what a run here made of it."""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from clusters.jobs.job_pack import result_files
from costmodel.errors import InputError
from results.errors import CannotWriteError, UnsafeNameError
from results.store.names import path_inside
from results.store.parts import write_whole
from results.store.schema.tables import TABLES

ORIGIN_FILE = ".origin.json"
"""In a folder that was brought home: where from, and the digests of its files as they came."""
RESULT_NAME = re.compile(rf"(?:(?:{'|'.join(TABLES)})/)?[A-Za-z0-9_][A-Za-z0-9_.-]*\.(?:parquet|yaml)")
RECORD_SECONDS = 2.0
"""How often ORIGIN_FILE is written while files come: to write it after every file would take minutes."""


@dataclass
class HomeCopy:
    """The result files in ``folder``, which a job at ``address`` has written on its head.

    ``here`` has the SHA-256 of every result file of the folder by its name. A file that was changed since it
    came (a run of this machine went on in the folder) is neither overwritten nor deleted. Names in
    ORIGIN_FILE are compared with those of files that are here and never become paths themselves.
    """

    folder: Path
    address: str
    job: str
    here: dict[str, str] = field(init=False)
    _brought: dict[str, str] = field(init=False)
    """The digest of each file as it came."""
    _recorded: float = field(init=False, default=-inf)
    """When ORIGIN_FILE was written last, by the monotonic clock."""

    def __post_init__(self) -> None:
        self._brought = _recorded_digests(self.folder)
        try:
            self.here = {name: _digest((self.folder / name).read_bytes()) for name in _names_in(self.folder)}
        except OSError as error:
            raise CannotWriteError(self.folder, f"cannot read: {error}", "Name another folder") from error

    def take(self, name: str, content: bytes) -> str:
        """Write a file that the head sent; returns its digest.

        Raises InputError for a name that no result file has, whatever it leads to, and for a file that a
        run of this machine has changed; CannotWriteError where the folder cannot be written.
        """
        # A file may be replaced if it is new here, has the same content already, or is still as it was
        # brought.
        path, digest = self._checked(name), _digest(content)
        if self.here.get(name, digest) not in (digest, self._brought.get(name)):
            raise InputError(
                str(path),
                "the file as it was brought home, or as the head has it",
                "other content: a run of this machine has written here since, or the file is damaged",
                "Name another folder with --output; nothing was overwritten",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if time.monotonic() - self._recorded > RECORD_SECONDS:
                self._write_record()
            # whole or not at all: a run of this machine may read the folder meanwhile
            hidden = path.with_name(f".incoming-{path.name}")
            hidden.write_bytes(content)
            hidden.replace(path)
        except OSError as error:
            raise CannotWriteError(
                path, f"cannot write: {error}", "Free space or name another folder"
            ) from error
        self.here[name] = self._brought[name] = digest
        return digest

    def keep_only(self, names: Collection[str]) -> None:
        """Delete what came home before and is not among ``names``: the head joined it into others."""
        for name in self.here.keys() - set(names):
            if self._brought.get(name) == self.here[name]:
                (self.folder / name).unlink(missing_ok=True)
                del self.here[name]
        self._brought = {name: self.here[name] for name in names if name in self.here}
        self.record()

    def record(self) -> None:
        """Write down what has come, if anything has."""
        if self._brought:
            self._write_record()

    def _write_record(self) -> None:
        content = {"address": self.address, "job": self.job, "files": self._brought}
        text = json.dumps(content, indent=1)
        write_whole(self.folder / ORIGIN_FILE, lambda file: file.write_text(text, encoding="utf-8"))
        self._recorded = time.monotonic()

    def _checked(self, name: str) -> Path:
        """The path of a result file. The head is another machine, so a name that it sends is not trusted."""
        try:
            path = path_inside(self.folder, name, self.address)
        except UnsafeNameError as error:
            raise InputError("cluster", "the names of result files", name, str(error)) from None
        if not RESULT_NAME.fullmatch(name):
            raise InputError("cluster", "the names of result files", name)
        return path


def _names_in(folder: Path) -> list[str]:
    return [Path(name).as_posix() for name in result_files(str(folder))]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _recorded_digests(folder: Path) -> dict[str, str]:
    """What ORIGIN_FILE says, or nothing, with a warning, where it is damaged: what differs is then kept."""
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return {}
    try:
        digests = _digests_in(json.loads(path.read_text(encoding="utf-8")), folder, str(path))
    except (ValueError, RecursionError, OSError) as error:
        warnings.warn(
            f"{path} is damaged ({' '.join(str(error).split())[:300]}). It is written anew; files here that "
            "differ from the head's are not overwritten",
            stacklevel=4,
        )
        return {}
    return digests


def _digests_in(document: Any, folder: Path, source: str) -> dict[str, str]:
    """The digests by name of a parsed ORIGIN_FILE; ValueError for what none can say."""
    digests = document.get("files") if isinstance(document, dict) else None
    if not isinstance(digests, dict):
        raise ValueError("expected an object with the key 'files'")
    for name, digest in digests.items():
        path_inside(folder, name, source)
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"expected the SHA-256 of {name!r}, found {digest!r:.80}")
    return digests
