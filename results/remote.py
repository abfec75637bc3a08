"""A run folder that lives behind a URI: pulled before a run, mirrored while it writes.

``s3://``, ``gs://``, ``file://`` and whatever else pyarrow.fs knows (``fsspec+PROTOCOL://`` for
fsspec's). The run itself writes to a folder of this machine, so a slow or broken store delays no solve. One
run at a time may write to a URI.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from results.errors import CannotWriteError, ResultsError
from results.names import path_inside
from results.parts import list_parts
from results.schema import TABLES
from results.store import LOCK_FILE

MIRROR_SECONDS = 2.0
"""How soon a finished part is on its way to the URI."""
JOURNALS = tuple(f"{table}/.journal" for table in TABLES)
"""Rows on their way into a part, where a writer keeps such a file."""
WHOLE_FILES = (LOCK_FILE, "report.html", "optuna.journal")
"""Of the journal of trials a copy made meanwhile may end in half a record, which a resumed run mends."""
OBJECT_STORES = ("s3", "gcs", "abfs")
"""Stores where a file appears only once it is whole; elsewhere it is written beside and renamed."""


def is_uri(output: str) -> bool:
    """Whether this names a place behind a URI; else it is a path of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", output) is not None


@dataclass
class RemoteFolder:
    """The run folder at ``uri``; raises CannotWriteError for one that cannot be used."""

    uri: str
    _pushed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and time of each file that the URI holds as this machine has it."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        import pyarrow
        from pyarrow.fs import FileSystem

        if "@" in urlsplit(self.uri).netloc:
            raise CannotWriteError(
                self._shown, "a URI with credentials", "Give them by the environment or the machine's role"
            )
        try:
            self._fs, path = FileSystem.from_uri(self.uri)
        except (pyarrow.ArrowException, ImportError, ValueError, OSError) as error:
            raise self._trouble(error) from error
        self._path: str = path.rstrip("/")

    @property
    def _shown(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self.uri).partition("?")[0]

    def _trouble(self, error: Exception) -> CannotWriteError:
        remedy = "Check the URI, the bucket and the credentials of the environment"
        return CannotWriteError(self._shown, f"cannot be used: {' '.join(str(error).split())}", remedy)

    def names(self) -> list[str]:
        """The finished result files that are there, relative to the URI."""
        return [name for name in self._all_names() if name not in JOURNALS]

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
        place that cannot be read.
        """
        try:
            names = self._all_names()
            for name in names:
                path = path_inside(folder, name, self._shown)
                path.parent.mkdir(parents=True, exist_ok=True)
                self._download(name, path)
        except OSError as error:
            raise self._trouble(error) from error
        self._pushed = {name: _stamp(folder / name) for name in names}
        return names

    def _download(self, name: str, target: Path) -> None:
        with self._fs.open_input_stream(f"{self._path}/{name}") as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)

    def check_writable(self) -> None:
        """Write and delete a small file, so that nothing is solved for a place that takes nothing."""
        try:
            self._upload(".probe", b"")
            self._fs.delete_file(f"{self._path}/.probe")
        except OSError as error:
            raise self._trouble(error) from error

    def push(self, folder: Path) -> None:
        """Make the URI equal to ``folder``: new and changed files first, then deletions."""
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
        # what was gone by the listing had been joined into one of its parts; what goes later waits
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
        """The rows that are in no part yet, unless a part came meanwhile, which is to go first."""
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
            return
        parent, _, base = target.rpartition("/")
        self._fs.create_dir(parent, recursive=True)
        hidden = f"{parent}/.unfinished-{base}"
        self._write(hidden, content)
        self._fs.move(hidden, target)

    def _write(self, target: str, content: bytes) -> None:
        with self._fs.open_output_stream(target) as stream:
            stream.write(content)


class _Mirror(threading.Thread):
    """Pushes a folder again and again until it is told to end; a failed push is tried again."""

    def __init__(self, remote: RemoteFolder, folder: Path) -> None:
        super().__init__(name="mirror", daemon=True)
        self._remote, self._folder = remote, folder
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(MIRROR_SECONDS):
            with suppress(ResultsError):  # the last push says what is wrong, if it still is
                self._remote.push(self._folder)

    def end(self) -> None:
        self._ending.set()
        self.join()


@contextmanager
def mirrored(uri: str, name: str) -> Iterator[Path]:
    """A new local run folder that holds what ``uri`` has, and whose results ``uri`` has when the block ends.

    Parts are on their way a few seconds after they are written. Raises CannotWriteError before the block for
    a URI that cannot be used, and after it, naming the local folder that is then kept, for one that could
    not be written.
    """
    remote = RemoteFolder(uri)
    place = Path(tempfile.mkdtemp(prefix="archsweep-"))
    folder = place / name
    try:
        folder.mkdir()
        remote.pull(folder)
        remote.check_writable()
        mirror = _Mirror(remote, folder)
        mirror.start()
    except BaseException:
        shutil.rmtree(place)
        raise
    try:
        yield folder
    finally:
        mirror.end()
        _last_push(remote, folder)
        shutil.rmtree(place)


def _last_push(remote: RemoteFolder, folder: Path) -> None:
    try:
        remote.push(folder)
    except CannotWriteError as error:
        remedy = f"{error.remedy}; the results are kept in {folder}"
        raise CannotWriteError(error.where, error.problem, remedy) from error


def _finished(folder: Path) -> list[Path]:
    """Parts first: the lock file and the report describe rows that are there."""
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
