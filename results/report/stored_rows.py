"""What the report reads of a run's rows: of all solves what is counted, of few designs and solves the rest.

A run of half a million designs rests on ten million solves. Counts need some columns of every solve, which
are read part by part, each different text once. Architectures, networks and mappings are a hundred times as
large, and are read for the designs that the page shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import of_study
from results.store.digests import Digests
from results.store.folder import RunFolder
from results.store.schema.columns import RowT, Table
from results.store.schema.tables import LAYERS

if TYPE_CHECKING:
    import pandas
    import pyarrow

DESIGN_DETAILS = ("architecture", "chip", "networks", "energy_by_level_pj")
"""The columns of ``designs`` that are read for the designs that are shown."""
LIMIT = re.compile(r"limit of [\d,]+ [^;]+ reached: [^;]+")
"""What a solver's note says of a limit, one of its sentences between semicolons."""
UNSOLVED = ("failed", "unknown", "infeasible")
COUNTED = ("solver", "solved_by", "objective_name", "status", "space", "cached", "program_proven")
MEASURED = ("gap", "cpu_seconds")
_TEXTS = ("solver", "solved_by", "objective_name", "status", "space", "note")
_OF_UNSOLVED = ("task_id", "layer_name", "status", "attempts", "error", "note")
_LARGE = ("layer_shape", "architecture", "params", "mapping", "levels")
OF_A_SOLVE = tuple(name for name in LAYERS.names() if name not in _LARGE)
_TASK = '"task_id":"'
"""Before the id of each task in the stored column ``networks``: quotes of a name in it are escaped."""


class StoredRows(Generic[RowT]):
    """Some columns of rows of a table by their key, each read once, when it is asked for first."""

    def __init__(self, run: RunFolder, table: Table[RowT], columns: Sequence[str]) -> None:
        self._run, self._table, self._columns = run, table, tuple(columns)
        self._rows: dict[str, RowT] = {}

    def load(self, keys: Iterable[str]) -> None:
        """Read the rows with these keys together: one by one each would cost a look at all keys."""
        if missing := set(keys) - self._rows.keys():
            names = dict.fromkeys((self._table.key, *self._columns))
            for row in self._run.read_some(self._table.name, missing, list(names)).to_pylist():
                self._rows[row[self._table.key]] = self._table.decode(row)
                missing.discard(row[self._table.key])
            self._rows |= {key: self._table.decode({}) for key in missing}

    def __getitem__(self, key: str) -> RowT:
        """The row with this key; empty where the run has none."""
        self.load([key])
        return self._rows[key]


@dataclass(frozen=True)
class SolveCounts:
    """The rows of ``layers`` that the designs rest on.

    ``rows``: COUNTED and MEASURED of each, texts as categories. ``unsolved``: _OF_UNSOLVED of those without
    an answer, by their task. ``limits``: how many reached each limit, by the sentence in their notes.
    """

    rows: pandas.DataFrame
    unsolved: pandas.DataFrame
    limits: Counter[str]

    @staticmethod
    def read(run: RunFolder, study_id: str | None) -> SolveCounts:
        """Counts of the solves that designs of this study name; of all solves while there is no design."""
        try:
            return _counts(run, study_id)
        except FileNotFoundError:
            # a writer joined small parts meanwhile; its joined part holds their rows
            return _counts(run, study_id)


def limits_in(notes: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each limit was reached, from different notes and how often each was made."""
    found: Counter[str] = Counter()
    for note, count in notes:
        for sentence in set(LIMIT.findall(note)):
            found[sentence] += count
    return found


def _counts(run: RunFolder, study_id: str | None) -> SolveCounts:
    import pyarrow

    columns = tuple(dict.fromkeys((*COUNTED, *MEASURED, *_OF_UNSOLVED)))
    limits: Counter[str] = Counter()
    counted: list[pyarrow.Table] = []
    unsolved: list[pyarrow.Table] = []
    for rows in run.batches("layers", columns, _TEXTS, _rested_on(run, study_id)):
        notes = rows["note"].value_counts().to_pylist()
        limits += limits_in((one["values"], one["counts"]) for one in notes if one["values"] is not None)
        counted.append(rows.select([*COUNTED, *MEASURED]))
        if (left := _with_status(rows, UNSOLVED)) is not None:
            unsolved.append(left)
    empty = LAYERS.arrow_schema().empty_table()
    frame = _as_frame(counted or [empty.select([*COUNTED, *MEASURED])])
    without = pyarrow.concat_tables(unsolved or [empty.select(list(_OF_UNSOLVED))]).sort_by("task_id")
    return SolveCounts(frame, without.to_pandas(), limits)


def _rested_on(
    run: RunFolder, study_id: str | None
) -> Callable[[pyarrow.ChunkedArray], NDArray[np.bool_]] | None:
    """Tells which solves the designs rest on, none of a study's earlier forms; None before any design."""
    pieces = [
        _tasks_in(of_study(rows, study_id)["networks"])
        for rows in run.batches("designs", ("study_id", "networks"))
    ]
    used = Digests.joined(pieces)
    return (lambda keys: Digests.of(keys).are_in(used)) if len(used) else None


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


def _with_status(rows: pyarrow.Table, statuses: Sequence[str]) -> pyarrow.Table | None:
    """_OF_UNSOLVED of the rows with one of these statuses; None where there are none."""
    import pyarrow
    from pyarrow import compute

    chosen = compute.is_in(rows["status"].cast(pyarrow.string()), value_set=pyarrow.array(statuses))
    if not compute.any(chosen).as_py():
        return None
    schema = pyarrow.schema([LAYERS.arrow_schema().field(name) for name in _OF_UNSOLVED])
    return rows.select(list(_OF_UNSOLVED)).filter(chosen).cast(schema)


def _as_frame(pieces: Sequence[pyarrow.Table]) -> pandas.DataFrame:
    import pandas
    import pyarrow
    from pyarrow import compute

    rows = pyarrow.concat_tables(pieces).unify_dictionaries()
    cached = compute.fill_null(rows["cached"], False)
    rows = rows.set_column(rows.schema.get_field_index("cached"), "cached", cached)
    nullable = {pyarrow.bool_(): pandas.BooleanDtype()}
    texts = [name for name in COUNTED if name in _TEXTS]
    frame: pandas.DataFrame = rows.to_pandas(categories=texts, types_mapper=nullable.get)
    return frame.astype({"cached": bool})
