"""A study small enough to solve in a test, and ways to run it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from sweep.cli.main import main
from sweep.study.study import Study, load_study
from tests.sweep.ended import Command, Ended

TESTS = Path(__file__).parents[1]
TINY = """
name: tiny
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 4 KiB]}
  SRAM.fanout: {choices: [[2, 2], [4, 2]]}
mapping: {solver: random_search, objective: edp, iterations: 400, wall_seconds: 20}
"""
PROBLEM = (TESTS / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a study file beside a small problem, returns its path."""

    def write(text: str = TINY) -> Path:
        (tmp_path / "problem.yaml").write_text(PROBLEM)
        path = tmp_path / "tiny.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def tiny(write_study: Callable[..., Path]) -> Study:
    return load_study(str(write_study()))


@pytest.fixture
def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Runs ``archsweep`` in an empty folder, in this process."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["archsweep", *arguments])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return Ended(status, printed.out, printed.err)

    return command


@pytest.fixture
def in_process() -> Iterator[Callable[[Callable[[Any], Any]], InProcessRuntime]]:
    """Runtimes in this process for any work, closed at the end."""
    opened: list[InProcessRuntime] = []

    def make(work: Callable[[Any], Any]) -> InProcessRuntime:
        opened.append(InProcessRuntime(work, RuntimeSettings()))
        return opened[-1]

    yield make
    for runtime in opened:
        runtime.close()
