"""Names of files that a store, a cluster or another file gives: checked before they become paths."""

from __future__ import annotations

import re
from pathlib import Path

from results.errors import UnsafeNameError

MOST_BYTES = 255
"""The longest name of one file or folder that usual file systems take, in bytes of UTF-8."""


def path_inside(folder: Path, name: object, source: str) -> Path:
    """The path of ``name`` below ``folder``; what ``source`` names may lie nowhere else.

    ``name`` is relative, with ``/`` between its parts, as in ``layers/00000001.parquet``. Nothing needs to
    exist. Raises UnsafeNameError, which quotes ``source``, for any other name: no text, empty, absolute or
    with a drive; with ``..``, control characters or a backslash; one that no file system takes; or one that
    leads out of the folder over a symbolic link.
    """
    reason = _fault(name) if isinstance(name, str) else "is no text"
    path = folder / str(name) if not reason else folder
    if not reason and not _stays_in(folder, path):
        reason = "leads out of the folder over a link"
    if reason:
        raise UnsafeNameError(
            source,
            f"the name of a file, {str(name)[:200]!r}, {reason}",
            f"Expected a file in the folder ({folder}), as layers/00000001.parquet; no such file was touched",
        )
    return path


def _fault(name: str) -> str:
    """What is wrong with the text, whatever it names; empty where nothing is."""
    parts = name.split("/")
    if not name:
        return "is empty"
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "is no relative path"
    if "\\" in name or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "has a backslash or a control character"
    if any(part in ("", ".", "..") for part in parts):
        return "has a part that names no file: '', '.' or '..'"
    if any(len(part.encode("utf-8", "replace")) > MOST_BYTES for part in parts):
        return f"has a part of more than {MOST_BYTES} bytes"
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        return "is not written in UTF-8"
    return ""


def _stays_in(folder: Path, path: Path) -> bool:
    """Whether the path, all links followed, lies below the folder, all links followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links that lead to each other
        return False
