"""Files that a command writes beside its answer: refused before any solve where no file can be."""

from __future__ import annotations

from pathlib import Path

from costmodel.errors import InputError


def check_file_to_write(option: str, path: Path | None) -> None:
    """InputError for a path where no file can be, said before anything is solved for it."""
    if path is None:
        return
    try:
        found = "a folder" if path.is_dir() else "" if path.parent.is_dir() else f"no folder {path.parent}"
    except (OSError, ValueError) as error:
        found = str(error)
    if found:
        raise _not_writable(option, path, found)


def write_file(option: str, path: Path, text: str) -> None:
    """Write the file that ``option`` asked for; InputError where the system refuses."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_writable(option, path, error.strerror or str(error)) from None


def _not_writable(option: str, path: Path, found: str) -> InputError:
    return InputError(option, "a file that can be written", f"{path}: {found}", "Name a file in a folder")
