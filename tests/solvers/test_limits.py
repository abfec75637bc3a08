"""Every solver notes its limits, and docs/limits.md lists every limit with its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from costmodel.limits import limit_reached
from solvers.catalogue import CATALOGUE, Entry
from solvers.outcome import Outcome, Status, noting_limits, with_limits

HOUSE = Path(__file__).parents[2]
PAGE = (HOUSE / "docs" / "limits.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|`]+) \| `([\w.]+)` \| ([\d,]+) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_solver_notes_its_limits(entry: Entry) -> None:
    assert entry.load().solve.__code__ is noting_limits(_found).__code__


def _found(status: Status, narrows: bool, note: str) -> Outcome[str]:
    limit_reached("things", 3, "some are missing", narrows=narrows)
    answered = status in (Status.OPTIMAL, Status.FEASIBLE)
    solution, value = ("it", 1.0) if answered else (None, None)
    return Outcome(status, solution, value, None, 0.0, 0.0, note)


SENTENCE = "limit of 3 things reached: some are missing"


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("narrows", [False, True])
@pytest.mark.parametrize("note", ["why", f"member: {SENTENCE}"])
def test_a_note_says_it_once_and_only_where_it_matters(status: Status, narrows: bool, note: str) -> None:
    said = narrows or status in (Status.FEASIBLE, Status.UNKNOWN)
    expected = f"why; {SENTENCE}" if said and note == "why" else note
    assert noting_limits(_found)(status, narrows, note).note == expected


def test_who_asks_another_solver_says_its_limits_too() -> None:
    def asking(status: Status) -> Outcome[str]:
        noting_limits(_found)(status, False, "why")
        return Outcome(Status.UNKNOWN, None, None, None, 0.0, 0.0)

    assert noting_limits(asking)(Status.FEASIBLE).note == SENTENCE
    # what the other has proven was not kept from anything
    assert noting_limits(asking)(Status.OPTIMAL).note == ""
    plain: Outcome[str] = Outcome(Status.UNKNOWN, None, None, None, 0.0, 0.0)
    assert with_limits(plain, []) is plain


def reports() -> Iterator[tuple[str, str]]:
    """Of every call of ``limit_reached`` in the house its file and what is counted."""
    for package in ("costmodel", "solvers"):
        for path in sorted((HOUSE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "limit_reached":
                    assert isinstance(node.args[0], ast.Constant), path
                    yield str(path.relative_to(HOUSE)), str(node.args[0].value)


@pytest.mark.slow
def test_every_limit_that_is_reported_is_in_the_docs() -> None:
    found = list(reports())
    assert len(found) == len(ROWS) == len(set(ROWS))
    assert sorted(what for _, what in found) == sorted(what for what, _, _ in ROWS)


@pytest.mark.parametrize(("place", "value"), [(place, value) for _, place, value in ROWS])
def test_the_docs_have_the_values_of_limits(place: str, value: str) -> None:
    names = place.split(".")
    depth = next(number for number, name in enumerate(names) if not name.islower())
    found: Any = reduce(getattr, names[depth:], import_module(".".join(names[:depth])))
    assert (found if isinstance(found, int) else len(found)) == int(value.replace(",", ""))
