"""A run folder that workers write parts into themselves, where they see the same folder as the driver.

On one machine, and on clusters with a common file system, a worker's rows need not travel: it writes them to
the folder, and says so. Where it does not see the folder, its rows go to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from results.errors import CannotWriteError
from results.store.parts import beside, write_whole
from results.store.row_batch import RowBatch

MARK = ".shared"
"""Beside the lock file as long as a writer shares the folder; its text is the writer's token."""


@dataclass(frozen=True)
class SharedFolder:
    """What a worker is told of a run folder.

    ``token`` is what the folder's mark says: another folder of the same path, as on a machine without the
    common file system, has no such mark, nor has this one once its writer has ended. ``number`` is that of
    all parts that workers write, which the writer gives to none of its own.
    """

    path: Path
    token: str
    number: int

    @property
    def is_seen(self) -> bool:
        """Whether this process sees the folder and its writer still has it."""
        try:
            return (self.path / MARK).read_bytes() == self.token.encode()
        except OSError:
            return False

    def stored(self, batch: RowBatch) -> RowBatch:
        """The batch without its rows, once they are in a part here; as it is where they cannot be.

        The driver then stores them, or finds and says what keeps it from that.
        """
        if not batch.parquet or not self.is_seen:
            return batch
        part = beside(self.path / batch.table / f"{self.number:08d}")
        try:
            write_whole(part, lambda file: file.write_bytes(batch.parquet))
        except CannotWriteError:
            return batch
        return replace(batch, parquet=b"", part=part.name)
