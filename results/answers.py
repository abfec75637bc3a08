"""Answers that earlier runs already hold: solved tasks looked up by their content hash."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.columns import Table
from results.errors import DamagedFileError
from results.parts import list_parts, read_part
from results.schema import ANSWERED, LAYERS

if TYPE_CHECKING:
    import pyarrow

NOT_PART_OF_AN_ANSWER = ("schema_version", "layer_shape", "architecture", "params")
"""Columns left out by ``find_answers``: the task that asks holds the same values itself."""

_RANKING = ("task_id", "status", "cached", "finished_at")


def answer_columns(table: Table = LAYERS) -> tuple[str, ...]:
    """What ``find_answers`` gives of a table unless asked for other columns."""
    return tuple(name for name in table.names() if name not in NOT_PART_OF_AN_ANSWER)


def find_answers(
    root: Path,
    task_ids: Iterable[str],
    columns: Sequence[str] | None = None,
    table: Table = LAYERS,
) -> dict[str, dict[str, Any]]:
    """For each task solved in a run folder directly below ``root``, its row with JSON columns decoded.

    ``table``: one of ``schema.ANSWER_TABLES``; ``columns`` None: all but NOT_PART_OF_AN_ANSWER.
    Only rows whose status is in ``schema.ANSWERED``; of several, the one that was solved rather than
    copied, then the one finished first. Parts that cannot be read are left out with a warning. Reads
    four columns of every part, the others only where a task was found.
    """
    wanted = set(task_ids)
    columns = answer_columns(table) if columns is None else columns
    home: dict[str, tuple[Any, Path]] = {}
    for part in _parts_below(root, table) if wanted else ():
        for row in _matching(table, part, wanted, ()):
            if row["task_id"] not in home or _rank(row) < home[row["task_id"]][0]:
                home[row["task_id"]] = (_rank(row), part)
    chosen: dict[Path, set[str]] = {}
    for task_id, (_, part) in home.items():
        chosen.setdefault(part, set()).add(task_id)
    answers: dict[str, dict[str, Any]] = {}
    for part, task_ids in chosen.items():
        for row in sorted(_matching(table, part, task_ids, columns), key=_rank, reverse=True):
            answers[row["task_id"]] = table.decode(row)
    return answers


def find_matching(
    root: Path, table: Table, column: str, values: Iterable[str], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Answered rows of the run folders directly below ``root`` whose ``column`` is one of ``values``."""
    wanted = set(values)
    rows = (
        row
        for part in (_parts_below(root, table) if wanted else ())
        for row in _matching(table, part, wanted, columns, column)
    )
    return [table.decode(row) for row in rows]


def _rank(row: dict[str, Any]) -> tuple[bool, Any]:
    return bool(row["cached"]), row["finished_at"]


def _parts_below(root: Path, table: Table) -> list[Path]:
    return [part for run in sorted(root.glob("*/")) for part in list_parts(run / table.name)]


def _matching(
    table: Table, part: Path, wanted: set[str], columns: Sequence[str], key: str = "task_id"
) -> list[dict[str, Any]]:
    import pyarrow
    from pyarrow import compute

    rows = _read_or_warn(table, part, tuple(dict.fromkeys([*_RANKING, key, *columns])))
    if rows is None:
        return []
    asked = compute.is_in(rows[key], value_set=pyarrow.array(wanted, pyarrow.string()))
    answered = compute.is_in(rows["status"], value_set=pyarrow.array(ANSWERED))
    return list(rows.filter(compute.and_(asked, answered)).to_pylist())


def _read_or_warn(table: Table, part: Path, columns: Sequence[str]) -> pyarrow.Table | None:
    try:
        return read_part(table, part, columns)
    except FileNotFoundError:
        return None  # joined with others by its writer a moment ago: solving again is the safe side
    except DamagedFileError as error:
        warnings.warn(f"left out of the lookup: {error.where}: {error.problem}", stacklevel=2)
        return None
