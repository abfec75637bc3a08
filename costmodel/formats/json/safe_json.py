"""JSON from untrusted files, whole or one value per line, plain or gzipped; size and depth are bounded."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from costmodel.errors import InputError
from costmodel.formats.yaml.safe_yaml import names_a_file, read_bytes

MOST_BYTES = 64 * 1024 * 1024
GZIPPED = b"\x1f\x8b"
"""How gzip files begin."""


def load_json(path: str | Path) -> Any:
    """The content of a JSON file (gzipped when it starts as gzip does), at most 64 MiB unpacked.

    Raises InputError naming the file for what cannot be read or is not JSON.
    """
    where = str(path)
    data = read_bytes(path, MOST_BYTES)
    if data[:2] == GZIPPED:
        data = _unpacked(data, where)
    return json_of(data, where)


def json_of(data: bytes, where: str) -> Any:
    """The bytes of a JSON file as plain data; ``where`` is what errors call it."""
    try:
        return parse_json(data.decode("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise InputError(where, "UTF-8 text", f"a byte that is not, at offset {error.start}") from None


def json_lines(path: Path, most_line_bytes: int) -> Iterator[tuple[str, Any]]:
    """The value of every line of a file that is not empty, after where it stands: file and line.

    A gzipped file is unpacked. Raises InputError naming the file and line for a line that is longer than
    ``most_line_bytes``, is not JSON in UTF-8 or cannot be read.
    """
    for number, line in _lines(path, most_line_bytes):
        where = f"{path}:{number}"
        try:
            value = parse_json(line, where)
        except InputError as error:
            raise error.at(where) from None  # the text has one line: its number within it says nothing
        yield where, value


def _lines(path: Path, most_line_bytes: int) -> Iterator[tuple[int, str]]:
    """Every line that is not empty, with its number."""
    if path.exists() and not names_a_file(path):
        # reading from a pipe could wait forever
        raise InputError(
            str(path), "a file that can be read", "a folder" if path.is_dir() else "no plain file"
        )
    number = 0
    try:
        with _opened(path) as file:
            while raw := file.readline(most_line_bytes + 1):
                number += 1
                if len(raw) > most_line_bytes:
                    expected = f"a line of at most {most_line_bytes:,} bytes"
                    raise InputError(f"{path}:{number}", expected, "a longer one")
                if raw.strip():
                    yield number, raw.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}:{number + 1}", "a whole gzip file", str(error)) from None
    except UnicodeDecodeError as error:
        found = f"a byte that is not, at offset {error.start}"
        raise InputError(f"{path}:{number}", "UTF-8 text", found) from None
    except OSError as error:
        raise InputError(str(path), "a file that can be read", error.strerror or str(error)) from None


def first_json_object(path: Path, most_line_bytes: int) -> dict[str, Any]:
    """The object in the first line of a file; empty if the file cannot be read, or begins with anything else.

    Enough to tell what a file holds: whoever reads it then judges every line.
    """
    if not names_a_file(path):
        return {}
    try:
        _, first = next(json_lines(path, most_line_bytes), ("", {}))
    except InputError:
        return {}
    return first if isinstance(first, dict) else {}


def keys_of_json_file(path: Path) -> frozenset[str]:
    """The keys of the object in a ``.json`` or ``.json.gz`` file; none if it is anything else."""
    if not path.name.endswith((".json", ".json.gz")) or not names_a_file(path):
        return frozenset()
    try:
        content = load_json(path)
    except InputError:
        return frozenset()
    return frozenset(content) if isinstance(content, dict) else frozenset()


def parse_json(text: str, where: str) -> Any:
    """JSON text as plain data; ``where`` is what errors call it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        location = f"{where}:{error.lineno}"
        raise InputError(location, "valid JSON", f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise InputError(where, "JSON of ordinary depth", "hundreds of nested brackets") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise InputError(where, "valid JSON", str(error)) from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == GZIPPED
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _unpacked(data: bytes, where: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(where, "a whole gzip file", str(error)) from None
    if len(unpacked) > MOST_BYTES:
        raise InputError(where, f"at most {MOST_BYTES:,} bytes unpacked", "a larger file")
    return unpacked
