"""What a column and a table are, and how rows become stored rows and back.

A row is what a run or a worker hands to the store: a mapping, or a dataclass with a field for each column. A
stored row is what ``Table.encode`` makes of it once it has checked every column; journals and parts take
stored rows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from json import JSONEncoder, loads
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NewType, Protocol, TypeVar, cast

from results.errors import WrongRowError

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["string", "int", "float", "bool", "json", "timestamp"]


class RowValue(Protocol):
    """A dataclass with a field for each column that it gives."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Row = Mapping[str, Any] | RowValue
"""What a writer may give: any mapping, for ``Table.encode`` checks every column of it."""

RowT = TypeVar("RowT", bound=Mapping[str, Any])
"""What readers of a table get: one of the typed dictionaries in ``rows.py``."""

StoredRow = NewType("StoredRow", dict[str, Any])
"""A row as it is stored, with every column of its table: JSON as text, times in UTC, null where it has none.

Only ``Table.encode`` makes one, and the journal of what it made.
"""

StoredColumns = NewType("StoredColumns", dict[str, Any])
"""Some columns of a row as they are stored, which many rows may have in common."""


@dataclass(frozen=True)
class Column:
    """One column; ``kind`` json takes plain Python values and is stored as JSON text."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class Table(Generic[RowT]):
    """A table of a run folder with rows of type ``RowT``; of rows with the same ``key`` the last counts."""

    name: str
    key: str
    meaning: str
    columns: tuple[Column, ...]
    version: int

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """The columns of these kinds, or all."""
        return tuple(column.name for column in self.columns if not kinds or column.kind in kinds)

    def arrow_schema(self) -> pyarrow.Schema:
        """The Parquet schema of a part written today."""
        return self._arrow_schema

    @cached_property
    def _arrow_schema(self) -> pyarrow.Schema:
        import pyarrow

        types = _arrow_types()
        return pyarrow.schema([(column.name, types[column.kind]) for column in self.columns])

    def encode(self, row: Row) -> StoredRow:
        """The stored form of a row; absent optional columns are null, ``schema_version`` is filled in.

        Raises WrongRowError for an unknown column, a missing required one, or a value of the wrong type.
        """
        columns, values = self.by_name, _values(row)
        if unknown := [name for name in values if name not in columns or name == "schema_version"]:
            raise WrongRowError(self.name, f"unknown column {unknown[0]!r}", f"Known: {', '.join(columns)}")
        missing = [name for name, column in columns.items() if column.required and values.get(name) is None]
        if missing:
            raise WrongRowError(
                self.name, f"a row without {', '.join(missing)}", "Give every required column"
            )
        encoded = {name: self._encoded(column, values.get(name)) for name, column in columns.items()}
        encoded["schema_version"] = self.version
        return StoredRow(encoded)

    def encode_part(self, values: Mapping[str, Any]) -> StoredColumns:
        """The stored form of some columns; ``joined`` makes rows of such parts.

        Raises WrongRowError as :meth:`encode` does, but not for what is missing.
        """
        columns = self.by_name
        if unknown := [name for name in values if name not in columns or name == "schema_version"]:
            raise WrongRowError(self.name, f"unknown column {unknown[0]!r}", f"Known: {', '.join(columns)}")
        return StoredColumns({name: self._encoded(columns[name], value) for name, value in values.items()})

    def joined(self, *parts: StoredColumns) -> StoredRow:
        """A row of parts; where several have a column, the last of them counts.

        Raises WrongRowError for a missing required column.
        """
        row = dict(self._empty)
        for part in parts:
            row.update(part)
        if missing := [name for name in self._required if row[name] is None]:
            raise WrongRowError(
                self.name, f"a row without {', '.join(missing)}", "Give every required column"
            )
        row["schema_version"] = self.version
        return StoredRow(row)

    @cached_property
    def _empty(self) -> dict[str, Any]:
        return dict.fromkeys(self.names())

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.required)

    def decode(self, row: Mapping[str, Any]) -> RowT:
        """The Python form of a stored row, or of some of its columns: JSON text read, others as they are."""
        texts = self._json_columns
        decoded = {
            name: loads(value) if name in texts and value is not None else value
            for name, value in row.items()
        }
        # a test holds the keys of RowT to be the columns of this table
        return cast(RowT, decoded)

    @cached_property
    def _json_columns(self) -> frozenset[str]:
        return frozenset(self.names("json"))

    def _encoded(self, column: Column, value: Any) -> Any:
        if value is None:
            return None
        try:
            return _ENCODERS[column.kind](value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WrongRowError(
                self.name,
                f"column {column.name!r} expects {_EXPECTED[column.kind]}, found {value!r:.120} ({error})",
                "Convert the value before it is appended",
            ) from error


def _values(row: Row) -> Mapping[str, Any]:
    """The values of a row by column."""
    if isinstance(row, Mapping):
        return row
    return {field.name: getattr(row, field.name) for field in fields(row)}


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    if value.isascii():
        return value
    # a lone surrogate (from an undecodable file name) cannot be stored as UTF-8
    return value.encode("utf-8", "replace").decode("utf-8")


def _integer(value: Any) -> int:
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(type(value).__name__)
    if not -(2**63) <= int(value) < 2**63:
        raise OverflowError("does not fit 64 bits")
    return int(value)


def _floating(value: Any) -> float:
    if type(value) is float:  # nearly all of them: to ask for a Real takes six times as long
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(type(value).__name__)
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(type(value).__name__)
    return value


def _json(value: Any) -> str:
    if isinstance(value, str | bytes):
        raise TypeError("text, not a value")
    return _as_json(value)


_as_json = JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
"""One encoder for all values: making it takes as long as a short value. Without its bookkeeping of what it is
in, it takes half the time; a value that holds itself ends in a RecursionError instead."""


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError("no time zone" if isinstance(value, datetime) else type(value).__name__)
    return value.astimezone(UTC)


_ENCODERS = MappingProxyType(
    {
        "string": _string,
        "int": _integer,
        "float": _floating,
        "bool": _boolean,
        "json": _json,
        "timestamp": _timestamp,
    }
)
_EXPECTED = MappingProxyType(
    {
        "string": "text",
        "int": "a whole number of 64 bits",
        "float": "a number",
        "bool": "True or False",
        "json": "a dict, list or number without NaN or infinity",
        "timestamp": "a datetime with a time zone",
    }
)


def _arrow_types() -> dict[Kind, Any]:
    import pyarrow

    return {
        "string": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "json": pyarrow.string(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
    }
