"""Where a run's results go: a folder of this machine, or a URI, which a local folder mirrors."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from costmodel.errors import InputError
from results.errors import CannotWriteError, ResultsError, UnsafeNameError
from results.report.page import write_report
from results.store.folder import RunFolder
from results.store.names import path_inside
from results.store.remote.run_folder import RemoteFolder, is_uri, mirrored
from results.store.remote.unsent import unsent_folders
from sweep.run.folder_owner import check_lock_file
from sweep.run.session import run_folder
from sweep.study.study import Study

COPIED_FROM = ".copied-from"
"""The file that says, in a local copy of a run, which URI it is of: only such a folder is overwritten."""


@contextmanager
def written_to(study: Study, output: str | None) -> Iterator[Path]:
    """The folder to run the study in.

    For a URI it is a local mirror: it begins with what lies there, and what the run adds is sent there. At a
    Ctrl-C the report is drawn first, while all rows are here.
    """
    if output is not None and is_uri(output):
        with mirrored(output, study.name) as folder:
            check_lock_file(folder, study.name, output)
            try:
                yield folder
            except KeyboardInterrupt:
                # the report of what is there, for drawing it later would need a copy of all rows
                with suppress(ResultsError):
                    write_report(folder)
                raise
    else:
        yield _local(study, output)


@contextmanager
def read_from(study: Study, output: str | None) -> Iterator[Path]:
    """The study's run folder, for reading; of a URI a copy that is removed after the block."""
    if output is not None and is_uri(output):
        _warn_of_left(output)
        with tempfile.TemporaryDirectory(prefix="archsweep-") as temporary:
            folder = Path(temporary) / study.name
            folder.mkdir()
            RemoteFolder(output).pull(folder)
            check_lock_file(folder, study.name, output)
            yield folder
    else:
        folder = _local(study, output)
        check_lock_file(folder, study.name)
        yield folder


@contextmanager
def run_at(location: str) -> Iterator[Path]:
    """The folder of a finished run, for reading; of a URI a copy that is removed after the block."""
    if not is_uri(location):
        yield Path(location)
        return
    with tempfile.TemporaryDirectory(prefix="archsweep-") as temporary:
        yield brought_home(location, Path(temporary) / name_of(location))


def brought_home(uri: str, folder: Path) -> Path:
    """Copy the results at a URI into ``folder``, and return it.

    Raises InputError if there are none, or if ``folder`` holds other results, which the copy would replace.
    """
    copied = folder / COPIED_FROM
    if folder.is_dir() and RunFolder(folder).exists() and _text(copied) != uri:
        raise InputError(
            str(folder), f"a new folder, or a copy of {uri}", "other results", "Name another with --output."
        )
    _warn_of_left(uri)
    remote = RemoteFolder(uri)
    if not remote.names():
        raise InputError(uri, "the results of a run", "none")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copied.write_text(uri, encoding="utf-8")
    except OSError as error:
        problem = f"cannot make the folder: {error.strerror}"
        raise CannotWriteError(folder, problem, "Name another folder with --output") from error
    remote.pull(folder)
    return folder


def _warn_of_left(uri: str) -> None:
    """Warn of results on this machine that have not been sent to the URI yet."""
    for folder in unsent_folders(uri):
        warnings.warn(
            f"{folder} holds results that may not be at the URI yet: a run is sending them, or the next run "
            "to the URI on this machine does",
            stacklevel=2,
        )


def name_of(uri: str) -> str:
    """The last part of the URI's path: the study's name, unless somebody chose another.

    Raises InputError for a last part that names no folder, such as ``..``.
    """
    name = uri.partition("?")[0].rstrip("/").rpartition("/")[2]
    try:
        path_inside(Path("runs"), name, uri)
    except UnsafeNameError as error:
        raise InputError(uri, "a URI that ends with the name of a run", name, str(error)) from None
    return name


def _local(study: Study, output: str | None) -> Path:
    """The run folder on this machine; InputError for an empty ``output`` and for one that is a file."""
    if output is not None and not output.strip():
        raise InputError(
            "--output", "a folder or its URI", repr(output), "Leave it out for runs/STUDY; . is this folder."
        )
    folder = run_folder(study, None if output is None else Path(output).expanduser())
    if folder.exists() and not folder.is_dir():
        raise InputError("--output", "a folder", f"the file {folder}", "Name another.")
    return folder


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
