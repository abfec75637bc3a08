"""The table of folders in CONTRIBUTING.md names every folder, and how many lines each has, about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\w+)/` \| (\d+) \| (`.+) \|$", re.MULTILINE)
TOLD = {
    package: (int(lines), {name: float(count) for name, count in re.findall(r"`(\w+)/` ([\d.]+)", inside)})
    for package, lines, inside in ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
}
DATA_ONLY = {"studies"}
"""Folders of files that are no Python."""


def thousands(folder: Path) -> float:
    """Lines of Python below the folder, in thousands."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py")) / 1000


@pytest.mark.parametrize("package", ["costmodel", "solvers", "sweep", "clusters", "results"])
def test_the_table_has_every_folder_with_its_lines(package: str) -> None:
    lines, told = TOLD[package]
    there = {path.parent.name: thousands(path.parent) for path in ROOT.glob(f"{package}/*/__init__.py")}
    assert told.keys() == there.keys() - DATA_ONLY
    # a visitor needs the order of size; who adds a fifth to a folder writes its new size
    assert {name: told[name] for name in told} == pytest.approx(
        {name: there[name] for name in told}, rel=0.2, abs=0.15
    )
    assert lines == pytest.approx(thousands(ROOT / package), rel=0.1, abs=0.6)
