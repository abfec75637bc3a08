"""What the report counts of the solves that the designs rest on, in memory that hardly grows with them.

A run of half a million designs rests on ten million solves. Their rows are read part by part, and twice. The
first time they are counted, and the ranges of gaps and times are found. The second time gaps and times are
counted by the bars of the charts, and the few are kept among which a median is. What stays from row to row is
eight bytes a solve while its key is compared with those that designs name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import of_study
from results.store.digests import Digests
from results.store.folder import RunFolder, StoredBatches, while_joined
from results.store.schema.tables import LAYERS

if TYPE_CHECKING:
    import pyarrow

LIMIT = re.compile(r"limit of [\d,]+ [^;]+ reached: [^;]+")
"""What a solver's note says of a limit, one of its sentences between semicolons."""
UNSOLVED = ("failed", "unknown", "infeasible")
MOST_UNSOLVED = 200
"""Solves without an answer that are kept of each status, to be listed."""
BARS = 24
ROWS_AT_A_TIME = 1 << 16
"""Rows that are counted together: parts are small, and each array operation has a price of its own."""
_COUNTED = ("solver", "solved_by", "objective_name", "status", "space", "cached", "program_proven")
_MEASURED = ("gap", "cpu_seconds")
_GROUPED = ("solver", "solved_by", "objective_name")
_TEXTS = ("solver", "solved_by", "objective_name", "status", "space", "note")
_OF_UNSOLVED = ("task_id", "layer_name", "status", "attempts", "error", "note")
_TASK = '"task_id":"'
"""Before the id of each task in the stored column ``networks``: quotes of a name in it are escaped."""
_LEADING = 20
"""Bits by which numbers are counted for their median: sign, exponent and the eight bits after the point, so
that one count is of numbers that differ by less than 0.4 %."""

Numbers = NDArray[np.float64]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Ended:
    """How solves ended: by status, how many the store answered, and CPU seconds that the others took."""

    statuses: Mapping[str, int]
    cached: int
    spent_seconds: float

    @property
    def solves(self) -> int:
        return sum(self.statuses.values())

    @staticmethod
    def of(rows: Iterable[Mapping[str, Any]]) -> Ended:
        """Of rows that are at hand."""
        rows = list(rows)
        spent = sum(row["cpu_seconds"] or 0.0 for row in rows if not row["cached"])
        return Ended(Counter(row["status"] for row in rows), sum(bool(row["cached"]) for row in rows), spent)

    def __add__(self, other: Ended) -> Ended:
        return Ended(
            Counter(self.statuses) + Counter(other.statuses),
            self.cached + other.cached,
            self.spent_seconds + other.spent_seconds,
        )


@dataclass(frozen=True)
class MedianAndMost:
    """The median and the largest of some numbers, None where there are none."""

    median: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class SolvesAlike:
    """Solves of one kind. ``said``: how many say whether the solver's own program was proven, ``proven``: of
    how many it was. ``gaps``: as fractions; ``seconds``: of CPU time."""

    ended: Ended
    said: int
    proven: int
    gaps: MedianAndMost
    seconds: MedianAndMost


@dataclass(frozen=True)
class SolveHistogram:
    """How many numbers are between each two ``edges``, by solver and member; only those that have any."""

    edges: Numbers
    counts: Mapping[Pair, NDArray[np.int64]]


@dataclass(frozen=True)
class SolveCounts:
    """The rows of ``layers`` that the designs rest on.

    ``by_objective``: by solver and what it minimised; ``by_member``: by solver and the member of a portfolio
    that found the answer, "" where there is none. ``gaps``: as percentages, ``seconds``: of CPU time; None
    where no solve has any. ``spaces``: how many have each space of mappings, as stored. ``unsolved``: the
    first MOST_UNSOLVED of each of these statuses, by their task. ``limits``: how many reached each limit, by
    the sentence in their notes.
    """

    ended: Ended
    by_objective: Mapping[Pair, SolvesAlike]
    by_member: Mapping[Pair, SolvesAlike]
    gaps: SolveHistogram | None
    seconds: SolveHistogram | None
    spaces: Counter[str]
    unsolved: Sequence[Mapping[str, Any]]
    limits: Counter[str]

    @staticmethod
    def read(run: RunFolder, study_id: str | None) -> SolveCounts:
        """Counts of the solves that designs of this study name; of all solves while there is no design."""
        return while_joined(lambda: _counts(run, study_id))


def limits_in(notes: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each limit was reached, from different notes and how often each was made."""
    found: Counter[str] = Counter()
    for note, count in notes:
        for sentence in set(LIMIT.findall(note)):
            found[sentence] += count
    return found


def _counts(run: RunFolder, study_id: str | None) -> SolveCounts:
    rows = run.stored_batches("layers", _named_by_designs(run, study_id))
    tally = _Tally()
    for solves in _chunks(rows, tuple(dict.fromkeys((*_COUNTED, *_MEASURED, *_OF_UNSOLVED))), _TEXTS):
        tally.count(solves)
    tally.look_for_medians()
    for solves in _chunks(rows, (*_GROUPED, *_MEASURED), _GROUPED):
        tally.measure(solves)
    return tally.counts()


class _Tally:
    """Counts while they are made: :meth:`count` sees all solves first, then :meth:`measure` all once more."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._spaces: Counter[str] = Counter()
        self._limits: Counter[str] = Counter()
        self._cached, self._spent = 0, 0.0
        self._unsolved: dict[str, pyarrow.Table] = {}
        self._by_objective: defaultdict[Pair, _Alike] = defaultdict(_Alike)
        self._by_member: defaultdict[Pair, _Alike] = defaultdict(_Alike)
        self._gaps, self._seconds = _BarCounts(percentages=True), _BarCounts(percentages=False)

    def count(self, solves: pyarrow.Table) -> None:
        """The first time."""
        rows = _Columns.of(solves)
        statuses = Counter(_occurrences(solves["status"]))
        self._statuses += statuses
        self._spaces += Counter(_occurrences(solves["space"]))
        self._limits += limits_in(_occurrences(solves["note"]).items())
        self._cached += int(rows.cached.sum())
        self._spent += _sum(rows.seconds[~rows.cached])
        self._gaps.span(rows.gaps)
        self._seconds.span(rows.seconds)
        for pair, chosen in _groups(solves, "solver", "objective_name"):
            self._by_objective[pair].count(rows.at(chosen))
        for pair, chosen in _groups(solves, "solver", "solved_by"):
            self._by_member[pair].count(rows.at(chosen))
        for status in UNSOLVED:
            if statuses[status]:
                self._keep_first(solves, status)

    def look_for_medians(self) -> None:
        """Between the two times."""
        for alike in (*self._by_objective.values(), *self._by_member.values()):
            alike.gaps.look()
            alike.seconds.look()

    def measure(self, solves: pyarrow.Table) -> None:
        """The second time."""
        gaps, seconds = (_as_numbers(solves[name]) for name in _MEASURED)
        for pair, chosen in _groups(solves, "solver", "objective_name"):
            self._by_objective[pair].keep(gaps[chosen], seconds[chosen])
        for pair, chosen in _groups(solves, "solver", "solved_by"):
            self._by_member[pair].keep(gaps[chosen], seconds[chosen])
            self._gaps.add(pair, gaps[chosen])
            self._seconds.add(pair, seconds[chosen])

    def counts(self) -> SolveCounts:
        unsolved = [row for rows in self._unsolved.values() for row in rows.to_pylist()]
        return SolveCounts(
            Ended(self._statuses, self._cached, self._spent),
            {pair: alike.found() for pair, alike in self._by_objective.items()},
            {pair: alike.found() for pair, alike in self._by_member.items()},
            self._gaps.bars(),
            self._seconds.bars(),
            self._spaces,
            sorted(unsolved, key=lambda row: str(row["task_id"])),
            self._limits,
        )

    def _keep_first(self, solves: pyarrow.Table, status: str) -> None:
        """Of those with this status and those known already, the first MOST_UNSOLVED by their task."""
        import pyarrow
        from pyarrow import compute

        chosen = compute.equal(solves["status"].cast(pyarrow.string()), status)
        schema = pyarrow.schema([LAYERS.arrow_schema().field(name) for name in _OF_UNSOLVED])
        found = solves.select(list(_OF_UNSOLVED)).filter(chosen).cast(schema)
        known = self._unsolved.get(status, schema.empty_table())
        first = pyarrow.concat_tables([known, found]).sort_by("task_id").slice(0, MOST_UNSOLVED)
        # a copy, because a slice would keep all of them
        self._unsolved[status] = first.take(pyarrow.array(range(len(first)), pyarrow.int64()))


@dataclass(frozen=True)
class _Columns:
    """Solves as arrays of one length; ``proven``: 1 or 0, NaN of those that do not say; NaN: no number."""

    statuses: pyarrow.Array
    cached: NDArray[np.bool_]
    proven: Numbers
    gaps: Numbers
    seconds: Numbers

    @staticmethod
    def of(solves: pyarrow.Table) -> _Columns:
        from pyarrow import compute, float64

        return _Columns(
            _one(solves["status"]),
            compute.fill_null(solves["cached"], False).to_numpy(),
            _as_numbers(solves["program_proven"].cast(float64())),
            *(_as_numbers(solves[name]) for name in _MEASURED),
        )

    def at(self, chosen: NDArray[np.int64]) -> _Columns:
        return _Columns(
            self.statuses.take(chosen),
            self.cached[chosen],
            self.proven[chosen],
            self.gaps[chosen],
            self.seconds[chosen],
        )


@dataclass
class _Alike:
    """:class:`SolvesAlike` while they are counted."""

    statuses: Counter[str] = field(default_factory=Counter)
    cached: int = 0
    spent: float = 0.0
    said: int = 0
    proven: int = 0
    gaps: _Median = field(default_factory=lambda: _Median())
    seconds: _Median = field(default_factory=lambda: _Median())

    def count(self, rows: _Columns) -> None:
        self.statuses += Counter(_occurrences(rows.statuses))
        self.cached += int(rows.cached.sum())
        self.spent += _sum(rows.seconds[~rows.cached])
        self.said += int(np.isfinite(rows.proven).sum())
        self.proven += int(np.nansum(rows.proven))
        self.gaps.count(rows.gaps)
        self.seconds.count(rows.seconds)

    def keep(self, gaps: Numbers, seconds: Numbers) -> None:
        self.gaps.keep(gaps)
        self.seconds.keep(seconds)

    def found(self) -> SolvesAlike:
        ended = Ended(self.statuses, self.cached, self.spent)
        return SolvesAlike(ended, self.said, self.proven, self.gaps.spread(), self.seconds.spread())


class _Median:
    """The median of numbers that come twice and are not kept; NaN is no number.

    :meth:`count` counts them by their leading bits, which are in the order of the numbers. So it is known
    after the first time which count has the number in the middle, and :meth:`keep` keeps the numbers of that
    count alone. Most gaps are 0, so a count whose least number is its largest needs none to be kept.
    """

    def __init__(self) -> None:
        none = np.empty(0)
        self._bits, self._counts = none.astype(np.int64), none.astype(np.int64)
        self._least, self._most = none, none
        self._wanted = none.astype(np.int64)
        self._kept: list[Numbers] = []

    def count(self, numbers: Numbers) -> None:
        numbers = np.sort(numbers[~np.isnan(numbers)])
        if not len(numbers):
            return
        bits = _leading_bits(numbers)
        begin = np.flatnonzero(np.diff(bits, prepend=bits[0] - 1))
        end = np.append(begin[1:], len(bits))
        bits = np.concatenate([self._bits, bits[begin]])
        order = np.argsort(bits, kind="stable")
        self._bits = np.unique(bits)
        first = np.searchsorted(bits[order], self._bits)
        self._counts = np.add.reduceat(np.concatenate([self._counts, end - begin])[order], first)
        self._least = np.minimum.reduceat(np.concatenate([self._least, numbers[begin]])[order], first)
        self._most = np.maximum.reduceat(np.concatenate([self._most, numbers[end - 1]])[order], first)

    def look(self) -> None:
        """Which numbers to keep: those that share their leading bits with one in the middle."""
        middle = np.array([place for place, _ in self._middle()], dtype=np.int64)
        several = middle[self._least[middle] < self._most[middle]]
        self._wanted = np.unique(self._bits[several])

    def keep(self, numbers: Numbers) -> None:
        if len(self._wanted):
            self._kept.append(numbers[np.isin(_leading_bits(numbers), self._wanted)])

    def spread(self) -> MedianAndMost:
        if not len(self._bits):
            return MedianAndMost()
        kept = np.sort(np.concatenate([*self._kept, np.empty(0)]))
        bits = _leading_bits(kept)
        low, high = (
            float(self._least[place])
            if self._least[place] == self._most[place]
            else float(kept[np.searchsorted(bits, self._bits[place]) + number])
            for place, number in self._middle()
        )
        return MedianAndMost((low + high) / 2, float(self._most[-1]))

    def _middle(self) -> list[tuple[int, int]]:
        """Of the one or two numbers in the middle: which count has it, and how many of it are less."""
        ends = np.cumsum(self._counts)
        if not len(ends):
            return []
        ranks = ((int(ends[-1]) - 1) // 2, int(ends[-1]) // 2)
        places = [int(np.searchsorted(ends, rank, "right")) for rank in ranks]
        return [
            (place, rank - int(ends[place] - self._counts[place]))
            for place, rank in zip(places, ranks, strict=True)
        ]


class _BarCounts:
    """:class:`SolveHistogram` while it is made: the range of the numbers first, then the number in each bar.

    Gaps are finite and shown as ``percentages`` from 0 on; times are above 0, their bars equally wide on a
    logarithmic axis.
    """

    def __init__(self, percentages: bool) -> None:
        self._percentages = percentages
        self._low, self._high = np.inf, -np.inf
        self._counts: dict[Pair, NDArray[np.int64]] = {}

    def span(self, numbers: Numbers) -> None:
        shown = self._shown(numbers)
        if len(shown):
            self._low = min(self._low, float(shown.min()))
            self._high = max(self._high, float(shown.max()))

    def add(self, pair: Pair, numbers: Numbers) -> None:
        shown = self._shown(numbers)
        if len(shown):
            edges = self._edges()
            scaled = np.clip(shown * (100.0 if self._percentages else 1.0), edges[0], edges[-1])
            counts, _ = np.histogram(scaled, bins=edges)
            self._counts[pair] = self._counts.get(pair, 0) + counts

    def bars(self) -> SolveHistogram | None:
        return SolveHistogram(self._edges(), self._counts) if self._counts else None

    def _shown(self, numbers: Numbers) -> Numbers:
        return numbers[np.isfinite(numbers) if self._percentages else numbers > 0]

    def _edges(self) -> Numbers:
        if self._percentages:
            return np.linspace(0, max(self._high, 0.01), BARS + 1) * 100.0
        return np.geomspace(self._low * 0.999, max(self._high, self._low * 2) * 1.001, BARS + 1)


def _leading_bits(numbers: Numbers) -> NDArray[np.int64]:
    """The first _LEADING bits of each number, as whole numbers in the same order as the numbers."""
    bits = numbers.view(np.int64)
    # of negative numbers those with larger bits are less
    ordered = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return np.asarray(ordered >> (64 - _LEADING))


def _sum(numbers: Numbers) -> float:
    return float(np.nansum(numbers))


def _as_numbers(column: pyarrow.ChunkedArray) -> Numbers:
    """Floats, NaN for null."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _one(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    """A column of a table of one piece."""
    from pyarrow import array

    return column.chunk(0) if column.num_chunks else array([], column.type)


def _occurrences(column: pyarrow.ChunkedArray | pyarrow.Array) -> dict[str, int]:
    """How often each text occurs; null is none."""
    found = column.value_counts().to_pylist()
    return {one["values"]: one["counts"] for one in found if one["values"] is not None}


def _chunks(rows: StoredBatches, columns: Sequence[str], coded: Sequence[str]) -> Iterator[pyarrow.Table]:
    """These columns of the rows in tables of one piece, of at least ROWS_AT_A_TIME rows but for the last."""
    import pyarrow

    waiting: list[pyarrow.Table] = []

    def joined() -> pyarrow.Table:
        return pyarrow.concat_tables(waiting).unify_dictionaries().combine_chunks()

    for part in rows.read(columns, coded):
        waiting.append(part)
        if sum(map(len, waiting)) >= ROWS_AT_A_TIME:
            yield joined()
            waiting.clear()
    if waiting:
        yield joined()


def _groups(solves: pyarrow.Table, name: str, other: str) -> Iterator[tuple[Pair, NDArray[np.int64]]]:
    """By the texts in two columns, the numbers of the rows that have them; "" stands for null."""
    columns = [_one(solves[column]) for column in (name, other)]
    codes = [column.indices.fill_null(-1).to_numpy().astype(np.int64) + 1 for column in columns]
    # null has number 0, and so has the empty text
    texts = [["", *column.dictionary.to_pylist()] for column in columns]
    pairs = codes[0] * len(texts[1]) + codes[1]
    chosen: dict[Pair, list[NDArray[np.int64]]] = defaultdict(list)
    for pair in np.unique(pairs).tolist():
        first, second = divmod(pair, len(texts[1]))
        chosen[texts[0][first], texts[1][second]].append(np.flatnonzero(pairs == pair))
    for key, rows in chosen.items():
        yield key, rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows))


def _named_by_designs(
    run: RunFolder, study_id: str | None
) -> Callable[[NDArray[np.uint64]], NDArray[np.bool_]]:
    """Tells which solves the designs rest on, none of a study's earlier forms; all before any design."""

    def named(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found, none = np.zeros(len(digests), dtype=bool), True
        for rows in run.batches("designs", ("study_id", "networks")):
            tasks = np.sort(_tasks_in(of_study(rows, study_id)["networks"]).high)
            none = none and not len(tasks)
            place = np.searchsorted(digests, tasks)
            inside = place < len(digests)
            place, tasks = place[inside], tasks[inside]
            found[place[digests[place] == tasks]] = True
        return ~found if none else found

    return named


def _tasks_in(networks: pyarrow.ChunkedArray) -> Digests:
    """Digests of the ids of all mapping tasks that these stored columns name."""
    from pyarrow import compute

    texts = networks.drop_null().combine_chunks()
    if not len(texts):
        return Digests.joined([])
    pieces = compute.split_pattern(texts, _TASK)
    after = np.ones(len(pieces.values), dtype=bool)
    # what stands before the first task of a design is no task
    after[pieces.offsets.to_numpy()[:-1]] = False
    ids = compute.split_pattern(pieces.values.take(np.flatnonzero(after)), '"', max_splits=1)
    return Digests.of(compute.list_element(ids, 0))
