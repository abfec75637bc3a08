"""Compilation where no machine code can be kept, and by many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from costmodel.compiled import entry, inlined

ROOT = Path(__file__).parents[2]


@inlined
def _twice(number: int) -> int:
    return 2 * number


def _fill_twice(values: Any) -> None:
    for place in range(values.shape[0]):
        values[place] = _twice(values[place])


def test_without_a_folder_every_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_plain, asked = numba.njit, []

    def without_folder(*args: Any, **options: Any) -> Any:
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return compile_plain(*args, **options)

    monkeypatch.setattr(numba, "njit", without_folder)
    fill = entry(_fill_twice)
    assert asked == [True, False]
    monkeypatch.undo()
    values = np.arange(5)
    fill(values)
    assert values.tolist() == [0, 2, 4, 6, 8]


MODULE = """
from costmodel.compiled import entry

@entry
def fill(values):
    for place in range(values.shape[0]):
        values[place] = 3 * place
"""
PROGRAM = "import numpy, tiny; values = numpy.zeros(3, int); tiny.fill(values); print(values.sum())"


def test_processes_share_a_cold_folder(tmp_path: Path) -> None:
    """Four processes compile at once into one empty folder; a fifth finds the machine code there."""
    (tmp_path / "tiny.py").write_text(MODULE)
    cache = tmp_path / "cache"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", PROGRAM]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = [process.communicate() for process in running]
    assert [out.strip() for out, _ in answers] == ["9"] * 4, answers
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("tiny.fill*")}
    assert kept
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout.strip() == "9"
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("tiny.fill*")} == kept
