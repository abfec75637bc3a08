"""Where rows are: for each value of one column of a table, the parts of a store and the rows in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from results.store.digests import Digests
from results.store.part_listing import StoredPart
from results.store.schema.tables import ANSWERED

if TYPE_CHECKING:
    import pyarrow

RANKING = ("status", "cached", "finished_at")
"""What decides which of several rows of one task is its answer."""
COPIED = 1 << 62
"""Added to the rank of a copied row: more than the microseconds of any time, so that it comes last."""
ROW_BITS = 32
LAST_ROW = (1 << ROW_BITS) - 1
ROWS_AT_A_TIME = 10_000

RowPosition = tuple[StoredPart, int]
"""A part, and the number of a row in it."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """One entry for each answered row, all arrays of one length.

    ``digests``: of the row's value in the indexed column. ``ranks``: the microsecond since 1970 at which the
    row was finished, and COPIED more for a copied row, so that the least rank is the answer to take.
    ``positions``: the number of the part in the upper 32 bits, LAST_ROW minus the number of the row in the
    lower ones. So of rows with equal ranks the least position is the last row of the first part.
    """

    digests: Digests
    ranks: NDArray[np.int64]
    positions: NDArray[np.uint64]

    @staticmethod
    def of(parts: Sequence[tuple[int, pyarrow.Table]], column: str) -> _Entries:
        """Entries of the answered rows of these parts, each with its number."""
        from pyarrow import array, compute, concat_tables, int64

        lengths = [len(rows) for _, rows in parts]
        numbers = np.repeat([number for number, _ in parts], lengths)
        positions = _positions(numbers, LAST_ROW - np.concatenate([np.arange(length) for length in lengths]))
        rows = concat_tables([rows for _, rows in parts]).combine_chunks()
        answered = compute.is_in(rows["status"], value_set=array(ANSWERED)).to_numpy()
        finished = rows["finished_at"].cast(int64()).fill_null(0).to_numpy()
        # A copy may be newer than the original in time, but says nothing that the original does not.
        ranks = finished + np.where(rows["cached"].fill_null(False).to_numpy(), COPIED, 0)
        return _Entries(Digests.of(rows[column]), ranks, positions).at(answered)

    @staticmethod
    def none() -> _Entries:
        return _Entries(Digests.joined([]), np.empty(0, np.int64), np.empty(0, np.uint64))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.digests.high, self.digests.low, self.ranks, self.positions

    def extend(self, others: Iterable[_Entries]) -> None:
        """Take the others in, and order all by digest, those of one digest from the best rank on.

        Columns grow in place and are ordered one after the other. Pieces that are joined at the end, or all
        columns ordered together, take as much memory again.
        """
        before = len(self.ranks)
        for other in others:
            for column, more in zip(self.columns, other.columns, strict=True):
                length = len(column)
                column.resize(length + len(more), refcheck=False)
                column[length:] = more
        if len(self.ranks) == before:
            return
        order = np.argsort(self.digests.high)
        for column in self.columns:
            column[:] = column[order]
        high = self.digests.high
        same = np.zeros(len(high) + 1, dtype=bool)
        same[1:-1] = high[1:] == high[:-1]
        # most ids have one row: only those with several are ordered by all that orders them
        many = np.flatnonzero(same[1:] | same[:-1])
        if len(many):
            some = self.at(many)
            by = np.lexsort((some.positions, some.ranks, some.digests.low, some.digests.high))
            for column, ordered in zip(self.columns, some.at(by).columns, strict=True):
                column[many] = ordered

    def at(self, chosen: NDArray[Any]) -> _Entries:
        """The entries that a mask or numbers choose."""
        digests = Digests(self.digests.high[chosen], self.digests.low[chosen])
        return _Entries(digests, self.ranks[chosen], self.positions[chosen])

    def renumbered(self, numbers: NDArray[np.int64]) -> _Entries:
        """The entries after parts got other numbers: part n is ``numbers[n]`` now, dropped if that is -1."""
        given = numbers[(self.positions >> ROW_BITS).astype(np.int64)]
        kept = given >= 0
        known = self if kept.all() else self.at(kept)
        positions = _positions(given[kept], known.positions & LAST_ROW)
        return _Entries(known.digests, known.ranks, positions)


class ColumnIndex:
    """The positions of answered rows by their value in ``column``, in 32 bytes a row, whatever the value is.

    ``read`` gives the columns of a part, or None for one that cannot be read. Values are kept as digests of
    128 bits: whoever reads a row compares the value itself.
    """

    def __init__(
        self, column: str, read: Callable[[StoredPart, Sequence[str]], pyarrow.Table | None]
    ) -> None:
        self._column, self._read = column, read
        self._parts: tuple[StoredPart, ...] = ()
        self._entries = _Entries.none()

    def update(self, parts: Iterable[StoredPart]) -> None:
        """Index these ``parts`` and no others; only those that are new are read."""
        parts = tuple(sorted(parts, key=lambda part: (part.run, part.name)))
        numbers = {part: number for number, part in enumerate(parts)}
        kept = np.array([numbers.get(part, -1) for part in self._parts], np.int64)
        known = self._entries.renumbered(kept) if self._parts else _Entries.none()
        # A part never changes once it is written, so what was read of it stays right.
        known_parts = set(self._parts)
        added = (
            (number, rows)
            for part, number in numbers.items()
            if part not in known_parts
            if (rows := self._read(part, (self._column, *RANKING))) is not None
        )
        # while it grows it is in no order: whoever interrupts that leaves an index of nothing
        self._entries, self._parts = _Entries.none(), ()
        known.extend(_Entries.of(batch, self._column) for batch in _batches(added))
        self._entries, self._parts = known, parts

    def holds(self, values: Iterable[str]) -> set[str]:
        """Those of the values that have answered rows."""
        wanted = list(values)
        first, end = self._ranges(wanted)
        return {wanted[number] for number in np.flatnonzero(first < end).tolist()}

    def best(self, values: Iterable[str]) -> dict[str, RowPosition]:
        """For each value that has answered rows, the position of the row that ranks first."""
        wanted = list(values)
        first, end = self._ranges(wanted)
        positions = self._entries.positions
        return {
            value: self._position(positions[low])
            for value, low, high in zip(wanted, first.tolist(), end.tolist(), strict=True)
            if low < high
        }

    def __len__(self) -> int:
        """How many answered rows there are."""
        return len(self._entries.ranks)

    def best_in(self, values: Sequence[str], run: str) -> list[tuple[StoredPart, NDArray[np.int64]]]:
        """As :meth:`best`, but a row of the run folder ``run`` comes first: by part, the numbers of its rows.

        As arrays, for a run asks for millions of values.
        """
        first, end = self._ranges(list(values))
        first, end = first[first < end], end[first < end]
        own = [number for number, part in enumerate(self._parts) if part.run == run]
        begin, beyond = (own[0] << ROW_BITS, (own[-1] + 1) << ROW_BITS) if own else (0, 0)
        chosen = self._entries.positions[first]
        for number in np.flatnonzero(end - first > 1).tolist():
            rows = self._entries.positions[first[number] : end[number]]
            mine = rows[(rows >= begin) & (rows < beyond)]
            chosen[number] = mine[0] if len(mine) else rows[0]
        # rows that were written together are mostly asked for together: few parts have them all
        parts = (chosen >> ROW_BITS).astype(np.int64)
        rows = (LAST_ROW - (chosen & LAST_ROW)).astype(np.int64)
        return [(self._parts[part], np.sort(rows[parts == part])) for part in np.unique(parts).tolist()]

    def every(self, values: Iterable[str]) -> list[RowPosition]:
        """The positions of all answered rows with one of the values, in the order of their writing."""
        first, end = self._ranges(list(values))
        ranges = [self._entries.positions[low:high] for low, high in zip(first, end, strict=True)]
        found = [self._position(position) for positions in ranges for position in positions]
        return sorted(found)

    def _ranges(self, values: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each value, the numbers of its first entry and of the one after its last."""
        wanted, known = Digests.of_texts(values), self._entries.digests
        # Entries are sorted by digest, so those of one value are a range: two bisections find it.
        first = np.searchsorted(known.high, wanted.high, "left")
        end = np.searchsorted(known.high, wanted.high, "right")
        # Two values may have the upper bits in common: the lower ones say where each has its entries.
        inside = np.flatnonzero(first < end)
        other = known.low[first[inside]] != wanted.low[inside]
        other |= known.low[end[inside] - 1] != wanted.low[inside]
        for number in inside[other].tolist():
            low = known.low[first[number] : end[number]]
            mine = wanted.low[number]
            begin = first[number]
            first[number] = begin + np.searchsorted(low, mine, "left")
            end[number] = begin + np.searchsorted(low, mine, "right")
        return first, end

    def _position(self, position: int | np.uint64) -> RowPosition:
        number, back = divmod(int(position), 1 << ROW_BITS)
        return self._parts[number], LAST_ROW - back


def _batches(
    parts: Iterable[tuple[int, pyarrow.Table]],
) -> Iterator[list[tuple[int, pyarrow.Table]]]:
    """The parts in batches of at least ROWS_AT_A_TIME rows, but for the last: most parts are small, and
    entries of a batch take as many calls as those of a part."""
    batch, length = list[tuple[int, "pyarrow.Table"]](), 0
    for number, rows in parts:
        batch.append((number, rows))
        length += len(rows)
        if length >= ROWS_AT_A_TIME:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _positions(numbers: NDArray[np.int64], backs: NDArray[Any]) -> NDArray[np.uint64]:
    """Numbers of parts in the upper half of the bits, below them how far rows are from LAST_ROW."""
    upper: NDArray[np.uint64] = numbers.astype(np.uint64) << np.uint64(ROW_BITS)
    return upper | backs.astype(np.uint64)
