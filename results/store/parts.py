"""Parts: the Parquet files of a table, each written whole before it gets its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

from results.errors import CannotWriteError, DamagedFileError
from results.store.schema.columns import StoredRow, Table

if TYPE_CHECKING:
    import pyarrow

_HIDDEN = ".unfinished-"
_SUFFIX = ".parquet"
_NUMBERED = re.compile("([0-9]{8})(-[0-9a-f]{16})?")
"""A part's name: its number and, of those that workers wrote, what tells it from others of that number."""
_MOST_PARTS = 99_999_999
"""Parts are told apart, and sorted, by numbers of eight digits."""
THREADED_ROWS = 10_000
"""Parts with more rows are read by several threads."""


def list_parts(folder: Path) -> list[Path]:
    """The finished parts of a table's folder in the order they were written."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if not path.name.startswith("."))


def next_part(folder: Path) -> Path:
    """The name of the part to write next; only the holder of the folder's lock may ask.

    Raises CannotWriteError where the numbers are used up, as in a folder with a foreign part 99999999.
    """
    numbers = [int(path.stem[:8]) for path in list_parts(folder) if _NUMBERED.fullmatch(path.stem)]
    return _numbered(folder, max(numbers, default=0) + 1)


def beside(part: Path) -> Path:
    """A new name with the number of ``part``, for a process that writes at the same time as others."""
    return part.with_name(f"{part.stem}-{uuid4().hex[:16]}{_SUFFIX}")


def part_after(part: Path) -> Path:
    """The part after one that :func:`next_part` named; raises CannotWriteError where it does."""
    return _numbered(part.parent, int(part.stem) + 1)


def _numbered(folder: Path, number: int) -> Path:
    if number > _MOST_PARTS:
        raise CannotWriteError(
            folder, f"holds part {_MOST_PARTS}, after which none can be told to be later", "Rename that part"
        )
    return folder / f"{number:08d}{_SUFFIX}"


def remove_unfinished(folder: Path) -> None:
    """Delete what a killed writer left behind; only the holder of the folder's lock may ask."""
    for path in folder.glob(f"{_HIDDEN}*"):
        path.unlink(missing_ok=True)


def to_arrow(table: Table[Any], rows: Sequence[StoredRow]) -> pyarrow.Table:
    """Rows as columns."""
    import pyarrow

    # column by column: from_pylist, which looks at the keys of every row, takes four times as long
    schema = table.arrow_schema()
    columns = [pyarrow.array([row[field.name] for row in rows], field.type) for field in schema]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def write_part(rows: pyarrow.Table, path: Path) -> None:
    """Write a part so that ``path`` is either absent or complete, whenever the process or machine dies."""
    write_whole(path, lambda file: parquet_into(rows, file))


def parquet_into(rows: pyarrow.Table, file: Path | BinaryIO) -> None:
    """Write the content of a part to a file that nobody reads yet."""
    import pyarrow
    from pyarrow import parquet

    floats = [field.name for field in rows.schema if pyarrow.types.is_floating(field.type)]
    others = [name for name in rows.column_names if name not in floats]
    # measured best of the usual codecs for such rows: zstd 3, split floats, dictionaries elsewhere
    parquet.write_table(
        rows,
        file,
        compression="zstd",
        compression_level=3,
        use_dictionary=others,
        use_byte_stream_split=floats,
        write_page_checksum=True,
    )


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a hidden file beside ``path``, force it to disk, then rename it to ``path``.

    Raises CannotWriteError when the disk is full or the folder read-only; ``path`` is then unchanged.
    """
    hidden = path.with_name(f"{_HIDDEN}{uuid4().hex}")
    try:
        write(hidden)
        _force_to_disk(hidden)
        os.replace(hidden, path)
        _force_to_disk(path.parent)
    except OSError as error:
        hidden.unlink(missing_ok=True)
        raise CannotWriteError(
            path, f"cannot write: {error}", "Free space or mend the folder, then resume the run"
        ) from error


def read_part(
    table: Table[Any], path: Path, columns: Sequence[str], coded: Collection[str] = ()
) -> pyarrow.Table:
    """These columns of a part with today's types, null where the part is older than the column.

    Text columns that are ``coded`` come as dictionary arrays, which hold each different text once.
    Raises DamagedFileError for a file that is cut short, changed, or not a part of this table, and
    FileNotFoundError for one that is gone.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        # read ahead is for remote files, and handing a small part to threads takes longer than reading it
        with (
            pyarrow.OSFile(str(path)) as source,
            parquet.ParquetFile(
                source, pre_buffer=False, page_checksum_verification=True, read_dictionary=list(coded)
            ) as file,
        ):
            present = set(file.schema_arrow.names)
            _check_ours(table, path, present)
            wanted = [name for name in columns if name in present]
            rows = file.read(columns=wanted, use_threads=file.metadata.num_rows > THREADED_ROWS)
        return _with_columns(table, rows, columns, coded)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _damaged(path, f"cannot be read as Parquet ({reason})") from error


def part_columns(path: Path) -> list[str]:
    """The columns that a part holds; raises DamagedFileError as ``read_part`` does."""
    import pyarrow
    from pyarrow import parquet

    try:
        return list(parquet.read_schema(path).names)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged(path, f"cannot be read as Parquet ({str(error).splitlines()[0]})") from error


def count_rows(path: Path) -> int:
    """The number of rows of a part, from its footer."""
    from pyarrow import parquet

    return int(parquet.read_metadata(path).num_rows)


def _with_columns(
    table: Table[Any], rows: pyarrow.Table, columns: Sequence[str], coded: Collection[str]
) -> pyarrow.Table:
    import pyarrow

    today = table.arrow_schema()
    for name in coded:
        field = pyarrow.field(name, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
        today = today.set(today.get_field_index(name), field)
    # not `field in today`, which makes an object of every field of the table each time
    positions = [today.get_field_index(name) for name in rows.schema.names]
    if rows.schema.names == list(columns) and all(
        position >= 0 and today.field(position).equals(field)
        for position, field in zip(positions, rows.schema, strict=True)
    ):
        return rows
    arrays = []
    for name in columns:
        wanted = today.field(name).type if name in today.names else None
        if name not in rows.column_names:
            arrays.append(pyarrow.nulls(len(rows), wanted or pyarrow.null()))
        elif wanted is None:
            arrays.append(rows[name])
        else:
            arrays.append(rows[name].cast(wanted))
    return pyarrow.table(arrays, names=list(columns))


def _check_ours(table: Table[Any], path: Path, present: set[str]) -> None:
    if missing := [name for name in ("schema_version", table.key) if name not in present]:
        raise _damaged(path, f"is not a part of a {table.name} table: it has no column {missing[0]}")


def _damaged(path: Path, problem: str) -> DamagedFileError:
    return DamagedFileError(
        path,
        problem,
        "Resume the run: it sets the file aside as .damaged, keeps the other rows and solves these again; "
        "or restore the file from a copy",
    )


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
