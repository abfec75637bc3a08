"""Tables of numbers in Markdown, and how a number is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

DIGITS = 4
"""Significant digits of a number that is not a count."""


@dataclass(frozen=True)
class Table:
    """Rows under headings; ``title`` says what the rows are, where a benchmark has several tables."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"a row of {len(row)} cells under {len(self.headings)} headings: {row}")

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], title: str = "") -> Table:
        """The columns of records: heading by key; what a record lacks stays empty."""
        cells = tuple(tuple(row.get(key) for key in columns) for row in rows)
        return cls(tuple(columns.values()), cells, title)

    def markdown(self) -> Iterator[str]:
        """The table's lines."""
        if self.title:
            yield from (f"*{self.title}*", "")
        yield _line(self.headings)
        yield _line(["---"] * len(self.headings))
        for row in self.rows:
            yield _line([written(cell) for cell in row])


def written(value: Any) -> str:
    """A cell: counts in full, other numbers with four digits, nothing for what is not there."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(inner, list | tuple) for inner in value) else ", "
        return between.join(map(written, value)) if value else "none"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _number(value: float) -> str:
    """Four digits without needless zeros; powers of ten from a million on."""
    if not isfinite(value):
        return "none"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{DIGITS - 1}g}"
    if abs(value) >= 10 ** (DIGITS - 1):
        return f"{value:,.0f}"
    return f"{value:.{DIGITS}g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain_tables(found: Any, title: str = "") -> Iterator[Table]:
    """Tables of any JSON: records become rows, numbers a table of two columns, all else is gone into."""
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        yield from _records(found, title)
    elif isinstance(found, dict):
        numbers = [key for key, value in found.items() if not _nested(value)]
        if numbers:
            yield Table(("what", "value"), tuple((_words(key), found[key]) for key in numbers), title)
        if _alike(inner := {key: value for key, value in found.items() if _nested(value)}):
            rows = [{"": key} | value for key, value in inner.items()]
            yield from _records(rows, title)
            return
        for key, value in inner.items():
            yield from plain_tables(value, ", ".join(filter(None, (title, _words(key)))))


def _records(rows: list[dict[str, Any]], title: str) -> Iterator[Table]:
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if not _nested(value))
    yield Table.of(rows, {key: _words(key) for key in keys}, title)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _nested(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


def _alike(inner: dict[str, Any]) -> bool:
    """Whether these are records of one kind: dicts of equal keys with nothing nested."""
    values = list(inner.values())
    return (
        len(values) > 1
        and all(isinstance(value, dict) and not any(map(_nested, value.values())) for value in values)
        and len({frozenset(value) for value in values}) == 1
    )
