"""Failed solves are said at the end of a run, with their reasons, and by the exit status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solvers.mapping.problem import MappingProblem
from sweep.blocks import block_work
from sweep.tasks.mapping import answer_columns
from tests.sweep.ended import Command


@pytest.mark.slow
def test_a_run_with_failed_solves_ends_with_status_1_and_the_reasons(
    write_study: Callable[..., Path],
    command_line: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns, seen = answer_columns, list[object]()

    def failing_once(problem: MappingProblem, outcome: Any) -> object:
        seen.append(problem)
        if len(seen) in (1, 2):
            raise ArithmeticError("no luck")
        return columns(problem, outcome)

    monkeypatch.setattr(block_work, "answer_columns", failing_once)
    study = write_study()
    run = ("run", str(study), "--in-process", "-o", str(study.parent / "runs" / "tiny"))
    ended = command_line(*run)
    assert ended.status == 1
    assert "2 of 4 solves failed: 2 times ArithmeticError: no luck." in ended.err
    assert "report.html" in ended.out
    assert command_line(*run).status == 0
    assert len(seen) == 6
