"""The files that hold a table's rows in all run folders of a store, as they are at this moment."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from results.store.journal import NAME
from results.store.parts import list_parts

SETTLED_NS = 2_000_000_000
"""A folder's time of change says nothing of changes within one tick of its file system's clock, which is at
most this long; a folder that had changed so shortly before it was listed is listed again."""


@dataclass(frozen=True, slots=True, order=True)
class StoredPart:
    """A file of rows as it was when it was listed: a file that was replaced since is another value.

    Parts order by the name of their run folder, then by their own: the order of their writing.
    """

    run: str
    name: str
    stamp: tuple[int, int, int]
    """Inode, bytes, and time of the last change in ns."""
    path: Path = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A table's folder in one run folder."""

    parts: tuple[StoredPart, ...]
    changed_ns: int
    """The folder's time of change when it was listed, and when that was."""
    listed_ns: int

    def holds(self, changed_ns: int) -> bool:
        """Whether a folder with this time of change still has these parts."""
        return changed_ns == self.changed_ns and self.listed_ns - self.changed_ns > SETTLED_NS


class PartListing:
    """The files with a table's rows in the run folders directly below ``root``: finished parts and journals.

    Other runs add parts, join them and are deleted meanwhile. A look asks every run folder for its time of
    change, and lists those again that changed. A journal is listed with the parts, for a run that is killed
    leaves answers in it; what is appended to it later is seen once it is in a part.
    """

    def __init__(self, root: Path, table: str) -> None:
        self._root, self._table = root, table
        self._folders: dict[str, _Listed] = {}
        self._settled: set[str] = set()
        """Run folders that are not listed again."""
        self.parts: frozenset[StoredPart] = frozenset()

    def settle(self, run: str) -> None:
        """Look once more, and from then on take no part of this run folder that is not there now.

        Whoever writes the folder knows what it adds, and need not read it again.
        """
        self._settled.discard(run)
        self.look()
        self._settled.add(run)

    def look(self) -> bool:
        """Bring ``parts`` up to date; returns whether they have changed."""
        folders = {name: listed for name in self._runs() if (listed := self._listed(name)) is not None}
        changed = folders.keys() != self._folders.keys() or any(
            listed.parts != self._folders[name].parts for name, listed in folders.items()
        )
        self._folders = folders
        if changed:
            self.parts = frozenset(part for listed in folders.values() for part in listed.parts)
        return changed

    def _runs(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except OSError:  # there is no store yet, or none that may be read
            return []

    def _listed(self, run: str) -> _Listed | None:
        """The parts of a run folder; None if it has no folder for the table that may be read."""
        folder = self._root / run / self._table
        try:
            changed_ns = os.stat(folder).st_mtime_ns
            before = self._folders.get(run)
            if run in self._settled:
                return before
            if before is not None and before.holds(changed_ns):
                return before
            listed_ns = time.time_ns()
            # the journal first: its rows go into a part, and are not to be missed in both
            paths = [folder / NAME, *list_parts(folder)]
        except OSError:
            return None
        stamped = (_stamped(run, path) for path in paths)
        return _Listed(tuple(part for part in stamped if part is not None), changed_ns, listed_ns)


def _stamped(run: str, path: Path) -> StoredPart | None:
    """None for a file without rows, or one that is gone since: the next look sees the part that has them."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not status.st_size:
        return None
    return StoredPart(run, path.name, (status.st_ino, status.st_size, status.st_mtime_ns), path)
