"""Compilation where no machine code can be kept, and by many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import machine_code
from costmodel.compiled import called, entry, inlined

ROOT = Path(__file__).parents[2]


@inlined
def _twice(number: int) -> int:
    return 2 * number


def _fill_twice(values: Any) -> None:
    for place in range(values.shape[0]):
        values[place] = _twice(values[place])


def test_without_a_folder_every_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_folders", lambda path: [Path("/dev/null")])
    fill = entry(_fill_twice)
    values = np.arange(5)
    fill(values)
    assert values.tolist() == [0, 2, 4, 6, 8]
    assert fill.stats.cache_path is None  # type: ignore[attr-defined]


@inlined
def _tripled(number: int) -> int:
    return 3 * number


@called
def _six_times(number: int) -> int:
    return 2 * _tripled(number)


def test_helpers_get_machine_code_in_their_callers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_folders", lambda path: [Path("/dev/null")])

    def fill_six_times(values: Any) -> None:
        for place in range(values.shape[0]):
            values[place] = _six_times(values[place]) + _tripled(1)

    fill = entry(fill_six_times)
    values = np.arange(4)
    fill(values)
    assert values.tolist() == [3, 9, 15, 21]

    def has_machine_code(function: Any) -> list[bool]:
        compiled = [(one.library, one.fndesc.llvm_func_name) for one in function.overloads.values()]
        return [library._codegen._engine.is_symbol_defined(name) for library, name in compiled]

    assert has_machine_code(fill) == [True]
    assert set(has_machine_code(_six_times) + has_machine_code(_tripled)) == {False}


MODULE = """
from costmodel.compiled import entry

@entry
def fill(values):
    for place in range(values.shape[0]):
        values[place] = 3 * place
"""
PROGRAM = "import numpy, tiny; values = numpy.zeros(3, int); tiny.fill(values); print(values.sum())"


@pytest.mark.slow
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


KERNEL = """
from costmodel.compiled import entry
from tinypackage.helper import FACTOR, scaled
from tinypackage import unused

@entry
def fill(values):
    for place in range(values.shape[0]):
        values[place] = scaled(place) + FACTOR
"""
HELPER = """
from costmodel.compiled import inlined

FACTOR = 1

@inlined
def scaled(place):
    return 3 * place
"""
FILLED = (
    "import numpy; from tinypackage import kernel; v = numpy.zeros(3, int); kernel.fill(v); print(v.sum())"
)


def checkout(folder: Path, helper: str = HELPER) -> Path:
    package = folder / "tinypackage"
    package.mkdir(parents=True)
    files = {"__init__": "", "kernel": KERNEL, "helper": helper, "unused": "from tinypackage import kernel"}
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return folder


def filled(checkout: Path, home: Path) -> str:
    """What the kernel of a checkout answers in a process of its own, with ``home`` as the user's cache."""
    environment = os.environ | {"XDG_CACHE_HOME": str(home), "PYTHONPATH": f"{ROOT}{os.pathsep}{checkout}"}
    environment.pop("NUMBA_CACHE_DIR", None)
    run = subprocess.run([sys.executable, "-c", FILLED], env=environment, capture_output=True, text=True)
    return run.stdout.strip() or run.stderr


def kept(home: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in home.rglob("*.nb*")}


@pytest.mark.slow
def test_equal_checkouts_share_machine_code_and_changed_helpers_renew_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert filled(checkout(tmp_path / "one"), home) == "12"
    first = kept(home)
    assert first
    assert filled(checkout(tmp_path / "two"), home) == "12"
    assert kept(home) == first
    unused, lately = (home / "archsweep" / "machine_code" / name for name in ("unused", "lately"))
    for folder, days in ((unused, 61), (lately, 59)):
        folder.mkdir()
        os.utime(folder, (time.time() - days * 86400,) * 2)
    # the kernel's own file is the same: what it inlines and what constants it has are not
    assert filled(checkout(tmp_path / "three", HELPER.replace("3 *", "5 *")), home) == "18"
    assert filled(checkout(tmp_path / "four", HELPER.replace("FACTOR = 1", "FACTOR = 2")), home) == "15"
    assert set(kept(home)) > set(first)
    assert (unused.is_dir(), lately.is_dir()) == (False, True)
    assert not [*tmp_path.glob("*/tinypackage/__pycache__/*.nb*")]


def test_the_digest_has_imports_of_imports_but_not_what_annotations_import() -> None:
    kernel = ROOT / "solvers" / "mapping" / "exact" / "kernels" / "bound_kernel.py"
    found = machine_code._closure("solvers.mapping.exact.kernels.bound_kernel", kernel)
    assert {"costmodel.compiled", "solvers.mapping.exact.kernels.words_kernel"} < set(found)
    assert "solvers.mapping.exact.tables" in found  # the fields of its argument types
    assert "solvers.mapping.problem" not in found
