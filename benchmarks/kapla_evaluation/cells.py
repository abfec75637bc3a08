"""A file of what has been solved: a line a cell, written as soon as it is there, so that runs can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Found = dict[str, Any]


def content_key(*parts: object) -> str:
    """The same text for the same content: of frozen values, whose ``repr`` tells all of them."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:24]


class CellFile:
    """Cells by key, of every earlier run on the same ``path``; of several the last one counts.

    A line that a kill cut off is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Found] = {}
        self.solved = 0
        """How many cells this run had to solve."""
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.split("\n")[:-1]:
            cell = json.loads(line)
            self._found[cell["key"]] = cell["found"]
        if text and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")

    def get(
        self, key: str, title: str, solve: Callable[[], Found], enough: Callable[[Found], bool] | None = None
    ) -> Found:
        """What was found under ``key``, if need be by ``solve``; ``title`` is for who reads the file.

        What is known must be ``enough``; None: anything is.
        """
        known = self._found.get(key)
        if known is not None and (enough is None or enough(known)):
            return known
        found = solve()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "title": title, "found": found}) + "\n")
        self._found[key] = found
        self.solved += 1
        return found
