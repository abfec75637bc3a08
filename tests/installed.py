"""Distributions as pip leaves them in a folder: modules, data files, and metadata with entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

SOLVER = """
from dataclasses import dataclass

from costmodel.errors import InputError
from solvers.mapping.random_search import Params as Random
from solvers.mapping.random_search import solve as search

VERSION = "7"
TITLE = "random search by another name"


@dataclass(frozen=True)
class Params:
    samples: int = 100

    def __post_init__(self):
        if type(self.samples) is not int or self.samples < 1:
            raise InputError("another", "a whole number of at least 1", self.samples, key="samples")


def solve(problem, budget, params=Params()):
    return search(problem, budget, Random())
"""
"""The module of a mapping solver."""


def install(
    folder: Path,
    name: str,
    points: Mapping[str, Mapping[str, str]],
    files: Mapping[str, str],
    version: str = "1.2",
) -> Path:
    """Write a distribution into ``folder``: ``points`` are its entry points by group, ``files`` its files.

    A folder that is to be imported from still has to be put on ``sys.path``.
    """
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in some.items()) for group, some in points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    written = [*files, *(f"{metadata.name}/{own}" for own in ("METADATA", "entry_points.txt", "RECORD"))]
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in written))
    return folder


def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder at the head of ``sys.path`` for as long as the test lasts."""
    monkeypatch.syspath_prepend(str(folder))
    return folder
