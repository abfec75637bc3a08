"""Processes that need the same machine code at the same time make each part of it once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = """
from costmodel.compiled import entry

@entry
def double(values):
    for place in range(len(values)):
        values[place] *= 2

@entry
def triple(values):
    for place in range(len(values)):
        values[place] *= 3
"""
PROCESS = """
import json, sys, time
import numpy as np
from costmodel.compilation import Silent, listen
from costmodel.divided_compiling import Call, any_missing, compile_divided
import kernels

class Told(Silent):
    def begins(self, function, folder):
        made.append(function.rpartition(".")[2])
        if sys.argv[1:] == ["forever"]:
            print("compiling", flush=True)
            time.sleep(600)
        time.sleep(1.0)  # longer than the other process takes to get here

values = np.ones(2)
parts = [(Call(function, (values,)),) for function in (kernels.double, kernels.triple)]
made, missing = [], any_missing(parts)
listen(Told())
print("ready", flush=True)
sys.stdin.readline()
compile_divided(parts)
left = any_missing(parts)
kernels.double(values)
kernels.triple(values)
print(json.dumps({"made": made, "missing": missing, "left": left, "values": values.tolist()}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "process.py").write_text(PROCESS)
    return tmp_path


def _process(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """One that waits for a line before it compiles."""
    path = os.pathsep.join((str(ROOT), str(folder)))
    process = subprocess.Popen(
        [sys.executable, folder / "process.py", *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _told(process: subprocess.Popen[str]) -> dict[str, object]:
    told: dict[str, object] = json.loads(process.communicate("\n")[0].splitlines()[-1])
    return told


@pytest.mark.slow
def test_two_processes_make_each_part_once_and_a_third_nothing(folder: Path) -> None:
    processes = [_process(folder), _process(folder)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [_told(process) for process in processes]
    assert sorted(str(one["made"]) for one in told) == ["['double']", "['triple']"]
    told.append(_told(_process(folder)))
    assert told[2]["made"] == []
    assert [one["missing"] for one in told] == [True, True, False]
    assert all(one["left"] is False and one["values"] == [6.0, 6.0] for one in told)


@pytest.mark.slow
def test_what_a_killed_process_had_claimed_is_made_by_another(folder: Path) -> None:
    killed, other = _process(folder, "forever"), _process(folder)
    assert killed.stdin is not None
    assert killed.stdout is not None
    killed.stdin.write("\n")
    killed.stdin.flush()
    assert killed.stdout.readline() == "compiling\n"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert _told(other)["made"] == ["double", "triple"]


@pytest.mark.slow
def test_without_a_folder_nothing_is_made_ahead(folder: Path) -> None:
    (folder / "cache").write_text("in the way of a folder")
    told = _told(_process(folder))
    assert (told["missing"], told["left"]) == (False, False)
    assert told["made"] == ["double", "triple"]  # by the calls themselves
