"""What the report reads of a run's designs: of all of them what decides and is counted, of few the rest.

Architectures, networks and mappings are a hundred times as large as what is counted, and are read for the
designs that the page shows. Solves are counted by ``solve_counts.py``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from json import loads
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import AXIS_PREFIX, AxisNames, of_study
from results.store.folder import RunFolder, while_joined
from results.store.schema.columns import RowT, Table
from results.store.schema.tables import DESIGNS, LAYERS
from results.units import NOTHING, TIMES

if TYPE_CHECKING:
    import pandas
    import pyarrow

DESIGN_DETAILS = ("architecture", "chip", "networks", "energy_by_level_pj")
"""The columns of ``designs`` that are read for the designs that are shown."""
REASONS = ("error", "note")
"""The columns of ``designs`` that say why one has no answer, or is left out."""
_LARGE = ("layer_shape", "architecture", "params", "mapping", "levels")
OF_A_SOLVE = tuple(name for name in LAYERS.names() if name not in _LARGE)
_STATES = ("status", "feasible", "baseline", "finished_at")
_NUMBERS = DESIGNS.names("int", "float")
_MISSING = np.float64("nan").tobytes()


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


def axis_text(value: Any) -> str:
    """The value of an axis as the page shows it; a list such as [8, 12] is shown as 8×12."""
    if isinstance(value, list):
        return TIMES.join(str(part) for part in value)
    return NOTHING if value is None else str(value)


def read_designs(run: RunFolder, study_id: str | None) -> pandas.DataFrame:
    """Every design of this study, ordered by id: what decides and what is counted, in few bytes a design.

    ``design_id``; ``status`` as categories; ``feasible``, ``baseline`` and ``finished_at``; for every axis a
    column ``axis.NAME`` with the text of its value, as categories; and numbers as floats, NaN where a design
    has none. Columns of numbers that no design has are not there: ``pareto.numbers_of`` knows.
    """
    return while_joined(lambda: _designs(run, study_id))


def _designs(run: RunFolder, study_id: str | None) -> pandas.DataFrame:
    import pandas
    import pyarrow
    from pyarrow import compute

    states = ["design_id", *_STATES]
    pieces: list[pyarrow.Table] = []
    # these grow in place: arrays of the parts, to be joined at the end, take twice the memory
    numbers: dict[str, bytearray] = {}
    axes = _AxisTexts()
    for part in run.batches("designs", (*states, "study_id", "axes", *_NUMBERS), ("status",)):
        rows = of_study(part, study_id)
        pieces.append(rows.select(states))
        axes.add(rows["design_id"].to_pylist(), rows["axes"].to_pylist())
        for name in _NUMBERS:
            if rows[name].null_count < len(rows):
                before = sum(map(len, pieces)) - len(rows)
                numbers.setdefault(name, bytearray(_MISSING * before))
            if name in numbers:
                numbers[name] += np.asarray(rows[name].to_numpy(), dtype=np.float64).tobytes()
    if not pieces:
        pieces = [DESIGNS.arrow_schema().empty_table().select(states)]
    rows = pyarrow.concat_tables(pieces).unify_dictionaries()
    del pieces
    order = compute.sort_indices(rows["design_id"]).to_numpy().astype(np.int64)
    compact = {pyarrow.string(): pandas.StringDtype("pyarrow"), pyarrow.bool_(): pandas.BooleanDtype()}
    frame = rows.take(pyarrow.array(order)).to_pandas(types_mapper=compact.get)
    content = dict(frame.items()) | {"status": frame["status"].astype("category")}
    content["status"] = content["status"].cat.remove_unused_categories()
    content |= axes.columns(order)
    for name in list(numbers):
        content[name] = np.frombuffer(numbers.pop(name), np.float64)[order]
    # Arrow would keep what it read all parts into
    pyarrow.default_memory_pool().release_unused()
    return pandas.DataFrame(content, copy=False)


class _AxisTexts:
    """Axes of designs that come a part at a time: of each axis, the number of its text for every design."""

    def __init__(self) -> None:
        self._designs = 0
        self._texts: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, array[int]] = {}
        self._names = AxisNames()

    def add(self, ids: Sequence[str], stored: Sequence[str | None]) -> None:
        """Designs by their ids, with their column ``axes``."""
        values = [loads(text) or {} if text is not None else {} for text in stored]
        for design_id, axes in zip(ids, values, strict=True):
            self._names.add(design_id, axes)
        for name in dict.fromkeys([*self._texts, *(name for axes in values for name in axes)]):
            texts = self._texts.setdefault(name, {})
            if name not in self._numbers:
                missing = texts.setdefault(axis_text(None), len(texts)) if self._designs else 0
                self._numbers[name] = array("i", [missing]) * self._designs
            self._numbers[name].extend(
                texts.setdefault(axis_text(axes.get(name)), len(texts)) for axes in values
            )
        self._designs += len(ids)

    def columns(self, order: NDArray[np.int64]) -> dict[str, Any]:
        """A column of categories for each axis, of the designs in this order."""
        import pandas

        found = {}
        for name in self._names.ordered():
            numbers = np.frombuffer(self._numbers[name], np.int32)[order]
            categories = pandas.Categorical.from_codes(numbers, list(self._texts[name]))
            found[f"{AXIS_PREFIX}{name}"] = pandas.Series(categories)
        return found
