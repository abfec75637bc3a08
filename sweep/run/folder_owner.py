"""Which study a run folder belongs to: the one of that name, and no other.

An edited study goes on in its folder: the hash of the resolved study tells its designs from earlier ones. A
study of another name is refused there, for it would replace the lock file, and of a design that both studies
have only the later row would stay.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from costmodel.errors import InputError
from results.errors import DamagedFileError
from results.store.folder import RunFolder


def named_in_lock(folder: Path) -> str | None:
    """The name of the study in a folder's lock file; None where there is none that can be read."""
    try:
        study = RunFolder(folder).read_lock_file().get("study")
    except DamagedFileError:
        return None
    name = study.get("name") if isinstance(study, dict) else None
    return name if isinstance(name, str) else None


def check_lock_file(folder: Path, study: str, shown: str = "") -> None:
    """Raises InputError where ``folder`` has the lock file of a study that is not called ``study``.

    ``shown`` is what the user calls the folder, such as its URI.
    """
    name = named_in_lock(folder)
    _check(shown or str(folder), study, () if name is None else (name,))


def check_rows(folder: Path, study: str) -> None:
    """The same from the rows of ``designs``, where no lock file can be read.

    Raises DamagedFileError for a part that cannot be read. Opening the folder to write to it sets such parts
    aside, so after that there are none.
    """
    if named_in_lock(folder) is None:
        _check(str(folder), study, set(RunFolder(folder).read("designs", ["study"])["study"].to_pylist()))


def _check(shown: str, study: str, names: Collection[str]) -> None:
    if names and study not in names:
        raise InputError(
            shown,
            f"a folder for study {study}",
            f"the results of study {', '.join(sorted(names))}",
            "Name another folder with --output; in one beside it, stored answers are used again. Or give the "
            "study the name that the folder's has.",
        )
