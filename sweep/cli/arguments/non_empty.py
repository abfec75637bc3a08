"""Words of a command line that may not be empty, as ``--output "$FOLDER"`` is where nobody set FOLDER.

And what names a file must be a name that a file can have.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer

MOST_NAME_BYTES, MOST_PATH_BYTES = 255, 4095
"""The longest name of a file in its folder, and the longest path, that Linux and macOS both take."""


def stated(text: str | None) -> str | None:
    """The text of an option or argument; refused where it is empty, None where it was left out."""
    if text is not None and not text.strip():
        raise typer.BadParameter(f"expected a text, found {text!r}. Leave the option out for its default.")
    return nameable(text)


def each_stated(texts: list[str]) -> list[str]:
    """The texts of an argument that takes several, each as :func:`stated`."""
    for text in texts:
        stated(text)
    return texts


def nameable(text: str | None) -> str | None:
    """The text, which may be the name of a file; refused where it is longer than any file's name."""
    if text is not None and "://" not in text:
        longest = max(len(os.fsencode(part)) for part in text.split("/"))
        if longest > MOST_NAME_BYTES or len(os.fsencode(text)) > MOST_PATH_BYTES:
            found = f"{text[:40]}..., {len(text)} characters"
            expected = f"at most {MOST_NAME_BYTES} bytes in each folder and {MOST_PATH_BYTES} in all"
            raise typer.BadParameter(f"expected a name that a file can have, {expected}, found {found}.")
    return text


def stated_path(text: str) -> Path:
    """The same as a path; an empty one would be the current folder, which is written as `.`."""
    if not text.strip():
        raise typer.BadParameter(f"expected a path, found {text!r}. The current folder is `.`")
    nameable(text)
    return Path(text)
