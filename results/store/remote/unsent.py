"""Where a run whose results go to a URI keeps them on this machine, until the URI has them.

    STATE/archsweep/runs/s3-bucket-runs-study-1a2b3c4d5e6f/     one folder for each URI, locked by its run
        study/                                                  the run folder

STATE is ``$XDG_STATE_HOME``, by default ``~/.local/state``. A run folder is deleted once all of it is at the
URI. Where one is left, because the URI took nothing or the run was killed, the next run to the same URI
begins with what the URI holds and the rows of the folder that the URI lacks.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from results.errors import CannotWriteError, FolderInUseError
from results.store.folder import LOCK_FILE, RunFolder, RunWriter
from results.store.folder_lock import FolderLock
from results.store.parts import next_part, write_part
from results.store.schema.columns import Table
from results.store.schema.tables import TABLES

if TYPE_CHECKING:
    import pyarrow

TRIALS = "optuna.journal"


def shown(uri: str) -> str:
    """The URI for people: without credentials, which nobody else should read, and without options."""
    return re.sub(r"//[^/@]*@", "//", uri).partition("?")[0]


def state_folder_of(uri: str) -> Path:
    """The folder of this machine that belongs to ``uri``; it need not exist."""
    parts = urlsplit(uri)
    options = urlencode(sorted(parse_qsl(parts.query)))
    same = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}?{options}"
    digest = hashlib.sha256(same.encode("utf-8", "replace")).hexdigest()[:12]
    readable = re.sub("[^A-Za-z0-9]+", "-", shown(uri)).strip("-")[:80]
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "archsweep" / "runs" / f"{readable}-{digest}"


def unsent_folders(uri: str) -> list[Path]:
    """Run folders of this machine that are on their way to ``uri``, or were left behind."""
    return [path for path in sorted(state_folder_of(uri).glob("[!.]*")) if RunFolder(path).exists()]


@contextmanager
def claimed_folder(uri: str) -> Iterator[Path]:
    """The state folder of ``uri``, of this process only.

    Raises FolderInUseError while another run of this machine writes to the URI, CannotWriteError where the
    folder cannot be made.
    """
    state = state_folder_of(uri)
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(state)
    except FolderInUseError as error:
        raise FolderInUseError(shown(uri), error.problem, "Wait for it, or end it") from error
    except OSError as error:
        remedy = "Set XDG_STATE_HOME to a folder that can keep results on their way to a URI"
        raise CannotWriteError(state, f"cannot be made: {error.strerror}", remedy) from error
    try:
        yield state
    finally:
        lock.release()


def working_folder(state: Path, name: str, pull: Callable[[Path], object]) -> Path:
    """The run folder ``name`` in a claimed state folder: what ``pull`` copies, and rows left by earlier runs.

    Rows of earlier runs are in a whole folder at every moment, whenever this process is killed: the copy is
    made in ``.incoming``, and the earlier folder is ``.replaced`` until the copy has its name.
    """
    folder, incoming, replaced = state / name, state / ".incoming", state / ".replaced"
    if replaced.exists() and not folder.exists():
        replaced.rename(folder)
    for path in (replaced, incoming):
        if path.exists():
            shutil.rmtree(path)
    incoming.mkdir()
    try:
        pull(incoming)
    except BaseException:  # Ctrl-C, too: half a copy must not be taken for one by the next run
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    if folder.exists():
        _add_newer(folder, incoming)
        folder.rename(replaced)
    incoming.rename(folder)
    if replaced.exists():
        shutil.rmtree(replaced)
    return folder


def _add_newer(left: Path, folder: Path) -> None:
    """Add what a run folder that was left has and ``folder`` lacks, or has in an earlier version."""
    for path in (left, folder):
        RunWriter(path).close()  # rows that are in a journal become parts, damaged parts are set aside
    rows = sum(_add_rows(table, left, folder) for table in TABLES.values())
    trials = _add_trials(left / TRIALS, folder / TRIALS)
    if not (folder / LOCK_FILE).exists() and (left / LOCK_FILE).exists():
        shutil.copyfile(left / LOCK_FILE, folder / LOCK_FILE)
    if rows or trials:
        warnings.warn(
            f"{rows} rows{' and trials' if trials else ''} of an earlier run, not at the URI, are taken up",
            stacklevel=6,
        )


def _add_rows(table: Table[Any], left: Path, folder: Path) -> int:
    import pyarrow

    there = RunFolder(folder).read(table.name, [table.key, "finished_at"])
    known = dict(zip(there[table.key].to_pylist(), there["finished_at"].to_pylist(), strict=True))
    rows = RunFolder(left).read(table.name)
    keys, times = rows[table.key].to_pylist(), rows["finished_at"].to_pylist()
    newer = [key not in known or time > known[key] for key, time in zip(keys, times, strict=True)]
    added: pyarrow.Table = rows.filter(pyarrow.array(newer, pyarrow.bool_()))
    if len(added):
        write_part(added, next_part(folder / table.name))
    return len(added)


def _add_trials(left: Path, path: Path) -> bool:
    """Take over a journal of trials that goes on where the one at the URI ends; whether there was one."""
    if not left.is_file():
        return False
    ahead, there = left.read_bytes(), path.read_bytes() if path.is_file() else b""
    whole = there[: there.rfind(b"\n") + 1]
    if ahead.startswith(whole) and len(ahead) > len(whole):
        path.write_bytes(ahead)
        return True
    if not whole.startswith(ahead):
        warnings.warn(
            f"{left.name} at the URI is of another run: trials of the earlier run here that it lacks are "
            "proposed again, their answers are kept",
            stacklevel=7,
        )
    return False
