"""Failed solves are said at the end of a run, with their reasons, and by the exit status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import sweep.tasks.kinds
from tests.sweep.ended import Command


def test_a_run_with_failed_solves_ends_with_status_1_and_the_reasons(
    write_study: Callable[..., Path],
    command_line: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solve, seen = sweep.tasks.kinds.RUN["mapping"], list[object]()

    def failing_once(content: Mapping[str, Any]) -> object:
        seen.append(content)
        if len(seen) in (1, 2):
            raise ArithmeticError("no luck")
        return solve(content)

    monkeypatch.setitem(sweep.tasks.kinds.RUN, "mapping", failing_once)
    study = write_study()
    run = ("run", str(study), "--in-process", "-o", str(study.parent / "runs" / "tiny"))
    ended = command_line(*run)
    assert ended.status == 1
    assert "2 of 4 solves failed: 2 times ArithmeticError: no luck." in ended.err
    assert "report.html" in ended.out
    assert command_line(*run).status == 0
    assert len(seen) == 6
