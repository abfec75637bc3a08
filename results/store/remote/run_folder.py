"""A run folder that lives behind a URI: pulled before a run, mirrored while it writes.

``s3://``, ``gs://``, ``file://`` and whatever else pyarrow.fs knows (``fsspec+PROTOCOL://`` for
fsspec's). The run itself writes to a folder of this machine, so a slow or broken store delays no solve. One
run at a time may write to a URI.
"""

from __future__ import annotations

import re
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from results.errors import CannotWriteError, NotSentError
from results.store.folder import LOCK_FILE
from results.store.names import path_inside
from results.store.parts import list_parts
from results.store.remote.background import Background
from results.store.remote.file_systems import OBJECT_STORES, connect
from results.store.remote.mirror import Mirror
from results.store.remote.unsent import claimed_folder, shown, working_folder
from results.store.run_progress import PROGRESS_FILE, RunProgress
from results.store.schema.tables import TABLES

MIRROR_SECONDS = 2.0
"""How soon a finished part is on its way to the URI."""
END_SECONDS = 30.0
"""How long a run that is done waits for a URI that takes nothing."""
STOP_SECONDS = 10.0
"""How long a run that is stopped goes on sending: a scheduler that stops one kills it some 30 s later."""
JOURNALS = tuple(f"{table}/.journal" for table in TABLES)
"""The journals of all tables: rows that are in no part yet."""
WHOLE_FILES = (LOCK_FILE, PROGRESS_FILE, "report.html", "optuna.journal")
"""Files besides parts and journals. A copy of the journal of trials may end in half a record, if a trial is
being written; a resumed run mends that."""


def is_uri(output: str) -> bool:
    """Whether this is a URI; else it is a path of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", output) is not None


@dataclass
class RemoteFolder:
    """The run folder at ``uri``; raises CannotWriteError for one that cannot be used."""

    uri: str
    _pushed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and time of each file that the URI holds as this machine has it."""
    sent: int = 0
    """Files that have gone there so far."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        import pyarrow

        if "@" in urlsplit(self.uri).netloc:
            raise CannotWriteError(
                self.shown, "a URI with credentials", "Give them by the environment or the machine's role"
            )
        try:
            self._fs, self._path = Background(lambda: connect(self.uri)).value()
        except (pyarrow.ArrowException, ImportError, ValueError, OSError) as error:
            raise self._trouble(error) from error
        if not self._path:
            raise CannotWriteError(
                self.shown, "names no bucket or folder", "Write one, as in s3://bucket/runs"
            )

    @property
    def shown(self) -> str:
        """The URI for people, without options."""
        return shown(self.uri)

    def _trouble(self, error: Exception) -> CannotWriteError:
        remedy = "Check the URI, the bucket and the credentials of the environment"
        return CannotWriteError(self.shown, f"cannot be used: {' '.join(str(error).split())}", remedy)

    def names(self) -> list[str]:
        """The finished result files that are there, relative to the URI.

        Raises CannotWriteError for a URI that cannot be looked into.
        """
        try:
            return [name for name in Background(self._all_names).value() if name not in JOURNALS]
        except OSError as error:
            raise self._trouble(error) from error

    def _all_names(self) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        found = []
        for below in ("", *TABLES):
            folder = f"{self._path}/{below}".rstrip("/")
            for info in self._fs.get_file_info(FileSelector(folder, allow_not_found=True)):
                name = f"{below}/{info.base_name}".lstrip("/")
                if info.type == FileType.File and _is_result(name):
                    found.append(name)
        return sorted(found)

    def pull(self, folder: Path) -> list[str]:
        """Copy what is there into ``folder``, which is new; returns the names.

        Raises UnsafeNameError for a name there that could lead out of the folder, CannotWriteError for a
        URI that cannot be read.
        """
        try:
            names = Background(lambda: self._downloaded(folder)).value()
        except OSError as error:
            raise self._trouble(error) from error
        self._pushed = {name: _stamp(folder / name) for name in names}
        return names

    def _downloaded(self, folder: Path) -> list[str]:
        names = self._all_names()
        for name in names:
            path = path_inside(folder, name, self.shown)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._download(name, path)
        return names

    def _download(self, name: str, target: Path) -> None:
        with self._fs.open_input_stream(f"{self._path}/{name}") as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)

    def progress(self) -> RunProgress | None:
        """How the run that writes there is going, or went; None where none has said so.

        Raises CannotWriteError for a URI that cannot be read, DamagedFileError for a file that is no such.
        """

        def fetched() -> bytes | None:
            try:
                with self._fs.open_input_stream(f"{self._path}/{PROGRESS_FILE}") as stream:
                    content: bytes = stream.read()
                    return content
            except FileNotFoundError:
                return None

        try:
            content = Background(fetched).value()
        except OSError as error:
            raise self._trouble(error) from error
        return None if content is None else RunProgress.parsed(content, f"{self.shown}/{PROGRESS_FILE}")

    def check_writable(self) -> None:
        """Write and delete a small file, so that nothing is solved for a URI that takes nothing."""
        try:
            Background(self._probe).value()
        except OSError as error:
            raise self._trouble(error) from error

    def _probe(self) -> None:
        self._upload(".probe", b"")
        self._fs.delete_file(f"{self._path}/.probe")

    def push(self, folder: Path) -> None:
        """Make the URI equal to ``folder``: new and changed files first, then deletions.

        May wait as long as the file system does. Raises CannotWriteError at the first file that cannot go.
        """
        with self._guard:
            try:
                self._push(folder)
            except OSError as error:
                raise self._trouble(error) from error

    def _push(self, folder: Path) -> None:
        listed = _finished(folder)
        for path in listed:
            with suppress(FileNotFoundError):  # joined into a later part just now
                self._push_file(folder, path)
        # Deletions come after the parts, so that every row is at the URI at every moment: a part that is not
        # listed was joined into one that is, and that one is at the URI by now. A part that is joined after
        # the listing is deleted by the next push.
        here = {path.relative_to(folder).as_posix() for path in listed}
        for name in sorted(self._pushed.keys() - here - set(JOURNALS)):
            self._fs.delete_file(f"{self._path}/{name}")
            del self._pushed[name]
        self._push_journals(folder)

    def _push_file(self, folder: Path, path: Path) -> None:
        name, stamp = path.relative_to(folder).as_posix(), _stamp(path)
        if self._pushed.get(name) != stamp:
            self._upload(name, path.read_bytes())
            self._pushed[name] = stamp

    def _push_journals(self, folder: Path) -> None:
        """Send the journals, unless a part was written since the listing.

        A writer empties a journal once its rows are in a part. Were the emptied journal sent before that
        part, the URI would lack the rows; so it waits for the next push.
        """
        for name in JOURNALS:
            path = folder / name
            if not path.is_file():
                continue
            stamp, content = _stamp(path), path.read_bytes()
            known = self._pushed.get(name)
            if known == stamp or (known is None and not content):
                continue
            if not self._holds_all(_finished(folder), folder):
                continue
            self._upload(name, content)
            self._pushed[name] = stamp

    def _holds_all(self, paths: list[Path], folder: Path) -> bool:
        return all(self._pushed.get(path.relative_to(folder).as_posix()) == _stamp(path) for path in paths)

    def _upload(self, name: str, content: bytes) -> None:
        target = f"{self._path}/{name}"
        if self._fs.type_name in OBJECT_STORES:
            self._write(target, content)
            self.sent += 1
            return
        parent, _, base = target.rpartition("/")
        self._fs.create_dir(parent, recursive=True)
        hidden = f"{parent}/.unfinished-{base}"
        self._write(hidden, content)
        self._fs.move(hidden, target)
        self.sent += 1

    def _write(self, target: str, content: bytes) -> None:
        with self._fs.open_output_stream(target) as stream:
            stream.write(content)


@contextmanager
def mirrored(uri: str, name: str) -> Iterator[Path]:
    """A run folder of this machine that holds what ``uri`` has, and whose results ``uri`` has afterwards.

    The folder belongs to the URI (results/store/remote/unsent.py): rows that an earlier run could not send
    are in it, too.
    Parts are on their way a few seconds after they are written; warnings say when they do not arrive.
    Raises before the block CannotWriteError for a URI that cannot be used, and FolderInUseError while another
    run of this machine writes to it; after it NotSentError, which names the folder, then kept. A run that
    ends with Ctrl-C or SIGTERM takes no longer than STOP_SECONDS to send what it has.
    """
    remote = RemoteFolder(uri)
    with claimed_folder(uri) as state:
        remote.check_writable()
        folder = working_folder(state, name, remote.pull)
        mirror = Mirror(
            lambda: remote.push(folder), lambda: remote.sent, remote.shown, str(folder), MIRROR_SECONDS
        )
        mirror.start()
        try:
            yield folder
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            unsent = _sent_or_why(mirror, stopped)
            if unsent is not None and stopped:
                raise unsent from error
            if unsent is not None:
                warnings.warn(str(unsent), stacklevel=3)
            else:
                shutil.rmtree(folder)
            raise
        if (unsent := _sent_or_why(mirror, stopped=False)) is not None:
            raise unsent
        shutil.rmtree(folder)


def _sent_or_why(mirror: Mirror, stopped: bool) -> NotSentError | None:
    """Send what is left; None once the URI has everything. Being stopped again ends it at once."""
    try:
        reason = mirror.finish(STOP_SECONDS if stopped else END_SECONDS, in_all=stopped)
    except KeyboardInterrupt:
        if not stopped:
            unsent = _sent_or_why(mirror, stopped=True)
            if unsent is None:
                raise
            return unsent
        reason = "it was stopped while it sent them"
    if not reason:
        return None
    return NotSentError(
        mirror.uri,
        f"not all results are there ({reason})",
        "The next run to this URI on this machine sends what is missing; until then the results are kept in "
        f"{mirror.kept_in}",
    )


def _finished(folder: Path) -> list[Path]:
    """The files to send, parts first: lock file and report speak of rows, which must be there by then."""
    parts = [part for table in TABLES for part in list_parts(folder / table)]
    return parts + [folder / name for name in WHOLE_FILES if (folder / name).is_file()]


def _is_result(name: str) -> bool:
    if "/" not in name:
        return name in WHOLE_FILES
    base = name.rpartition("/")[2]
    return name in JOURNALS or (base.endswith(".parquet") and not base.startswith("."))


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
