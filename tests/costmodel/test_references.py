"""Named tuples as arguments of compiled functions: read through nested ones, and written through arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from costmodel import machine_code
from costmodel.compiled import called, entry, inlined


@pytest.fixture(autouse=True)
def kept_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What tests compile is kept out of the user's folder."""
    monkeypatch.setattr(machine_code, "_folders", lambda path: [tmp_path])


class Inner(NamedTuple):
    values: Any
    scale: float


class Outer(NamedTuple):
    factor: int
    inner: Inner
    totals: Any


@inlined
def _scaled(inner: Any, place: int) -> float:
    scaled: float = inner.values[place] * inner.scale
    return scaled


@called
def _add(outer: Any, row: int) -> None:
    for place in range(outer.inner.values.shape[0]):
        outer.totals[row, place] += outer.factor * _scaled(outer.inner, place)


def _add_twice(outer: Any) -> float:
    for row in range(outer.totals.shape[0]):
        _add(outer, row)
        _add(outer, row)
    return _scaled(outer.inner, 0)


def tables(factor: int = 3) -> Outer:
    return Outer(factor, Inner(np.array([1.0, 2.0, 4.0]), 0.5), np.zeros((2, 3)))


def test_fields_of_nested_tuples_are_read_and_their_arrays_written() -> None:
    add_twice, outer = entry(_add_twice), tables()
    assert add_twice(outer) == 0.5
    assert outer.totals.tolist() == [[3.0, 6.0, 12.0]] * 2
    add_twice(tables(factor=5))  # numbers of a tuple are no part of its type
    assert len(add_twice.signatures) == 1  # type: ignore[attr-defined]
    assert add_twice(outer._replace(factor=-3)) == 0.5
    assert not outer.totals.any()


def test_a_tuple_of_other_types_is_compiled_for_anew() -> None:
    add_twice, outer = entry(_add_twice), tables()
    add_twice(outer)
    whole = outer._replace(inner=Inner(np.array([1, 2, 4]), 0.5))
    whole.totals[:] = 0.0
    assert add_twice(whole) == 0.5
    assert whole.totals.tolist() == [[3.0, 6.0, 12.0]] * 2
    assert len(add_twice.signatures) == 2  # type: ignore[attr-defined]


def test_a_field_of_no_number_or_array_is_an_error() -> None:
    with pytest.raises(TypingError):
        entry(_add_twice)(tables()._replace(factor="three"))  # type: ignore[arg-type]


def test_an_entry_is_not_called_by_compiled_code() -> None:
    add_twice = entry(_add_twice)

    def around(outer: Any) -> float:
        return add_twice(outer)

    with pytest.raises(TypingError, match="_add_twice is an entry, which only Python code calls"):
        entry(around)(tables())


def test_imports_after_functions_and_words_in_docstrings_are_seen() -> None:
    late = "import a\ndef f(): pass\nfrom b import c\n"
    worded = '"""Of a\nclass of words."""\nimport a\nclass A: pass\n'
    early = "import a\nif TYPE_CHECKING:\n    import b\n\n@c\ndef f():\n    import d\n"
    found = [
        [type(line).__name__ for line in machine_code._beginning(text).body] for text in (late, worded, early)
    ]
    assert found == [
        ["Import", "FunctionDef", "ImportFrom"],
        ["Expr", "Import", "ClassDef"],
        ["Import", "If"],
    ]


@pytest.mark.slow
def test_where_numba_is_told_not_to_compile_an_entry_stays_python() -> None:
    """``NUMBA_DISABLE_JIT``, which numba reads when it is imported."""
    code = "from costmodel.compiled import entry; print(entry(lambda one: type(one).__name__)('text'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "str\n"
