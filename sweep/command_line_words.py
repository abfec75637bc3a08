"""Words of a command line that may not be empty, as ``--output "$FOLDER"`` is where nobody set FOLDER."""

from __future__ import annotations

from pathlib import Path

import typer


def stated(text: str | None) -> str | None:
    """The text of an option or argument; refused where it is empty, None where it was left out."""
    if text is not None and not text.strip():
        raise typer.BadParameter(f"expected a text, found {text!r}. Leave the option out for its default.")
    return text


def stated_path(text: str) -> Path:
    """The same as a path; an empty one would be the current folder, which is written as `.`."""
    if not text.strip():
        raise typer.BadParameter(f"expected a path, found {text!r}. The current folder is `.`")
    return Path(text)
