"""Answers change only with the version, by which stored answers are reused: some dozens a solver, frozen."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests import thorough
from tests.solvers.golden.cases import cases
from tests.solvers.golden.frozen import COST_MODEL, NAMES, changed, complaint, frozen, now
from tests.thorough import how_many

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_frozen_ones_or_the_version_is_another(name: str) -> None:
    """Every other case of a solver is enough to see a change; a thorough run solves them all."""
    before, after = frozen().get(name), now(name, every=how_many(2, thorough=1))
    if before is not None and name != COST_MODEL and not thorough.asked:
        asked = after["answers"].keys()
        before["answers"] = {case: known for case, known in before["answers"].items() if case in asked}
    assert not (wrong := complaint(name, before, after)), wrong


@pytest.mark.parametrize("name", NAMES)
def test_there_are_some_dozens_and_most_have_an_objective(name: str) -> None:
    answers = frozen()[name]["answers"]
    assert len(answers) >= 24
    if name != COST_MODEL:
        assert answers.keys() == {case.name for case in cases(name)}
        assert sum(answer["objective"] is not None for answer in answers.values()) >= 20


BEFORE: dict[str, Any] = {"version": "1", "answers": {"a": {"objective": 1.0}, "b": {"objective": 2.0}}}


def edited(version: str = "1", **answers: Any) -> dict[str, Any]:
    after = deepcopy(BEFORE)
    after["version"] = version
    after["answers"] |= answers
    return after


def test_what_is_said_of_a_difference() -> None:
    other = {"objective": 2.0000000000000004}
    assert complaint("exact", BEFORE, edited()) == ""
    assert "raise VERSION of solvers.mapping.exact and run" in complaint("exact", BEFORE, edited(b=other))
    assert "the first: b: was" in complaint("exact", BEFORE, edited(b=other))
    assert "MODEL_VERSION in costmodel/__init__.py" in complaint(COST_MODEL, BEFORE, edited(b=other))
    assert "has version 2, its golden answers are of 1" in complaint("exact", BEFORE, edited("2", b=other))
    assert "other ones than those frozen" in complaint("exact", BEFORE, edited(c=other))
    assert "no golden answers" in complaint("exact", None, edited())
    assert changed(BEFORE, edited(b=other, c=other)) == ["b"]


def test_answers_are_frozen_by_a_program_that_knows_all_names() -> None:
    program = Path(__file__).parent / "freeze.py"
    ended = subprocess.run([sys.executable, program, "nobody"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert all(name in ended.stdout for name in ("nobody", *NAMES))
