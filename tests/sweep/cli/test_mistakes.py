"""A wrong value in a user's file is answered with file, whole key, what is expected, what was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

import costmodel.formats.architectures
import costmodel.formats.chips
from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from costmodel.formats.networks import load_network
from sweep.forecast.plan import plan
from sweep.study.study import load_study

DATA = Path(__file__).parents[2] / "data"
MISTAKES = yaml.safe_load((DATA / "mistakes" / "mistakes.yaml").read_text(encoding="utf-8"))

STUDY = {
    "name": "tiny",
    "networks": ["problem.yaml"],
    "architecture": "architecture.yaml",
    "axes": {"SRAM.size": {"choices": ["2 KiB", "4 KiB"]}},
    "mapping": {"solver": "random_search", "iterations": 40},
}
STUDY_OF_CHIPS = {
    "name": "tiny",
    "networks": ["alexnet"],
    "chip": "chip.yaml",
    "axes": {"mesh": {"choices": ["2x2", "4x4"]}},
    "schedule": {"solver": "set"},
    "mapping": {"solver": "cosa"},
}
GRAPH = {
    "name": "small",
    "tensors": [
        {"name": "x", "shape": [1, 3, 8, 8], "kind": "input"},
        {"name": "w", "shape": [4, 3, 3, 3], "kind": "parameter"},
        {"name": "y", "shape": [1, 4, 6, 6], "kind": "output"},
    ],
    "ops": [
        {
            "name": "conv",
            "type": "conv2d",
            "inputs": ["x", "w"],
            "outputs": ["y"],
            "attrs": {"stride": [1, 1]},
        }
    ],
}


def library(folder: Path, name: str) -> Any:
    return yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))


FILES: dict[str, tuple[str, Any, Callable[[str], object]]] = {
    "study": ("study.yaml", STUDY, lambda path: plan(load_study(path))),
    "study of chips": ("study.yaml", STUDY_OF_CHIPS, lambda path: plan(load_study(path))),
    "architecture": (
        "architecture.yaml",
        library(costmodel.formats.architectures.FOLDER, "eyeriss"),
        load_architecture,
    ),
    "chip": ("chip.yaml", library(costmodel.formats.chips.FOLDER, "set-edge"), load_chip),
    "graph": ("graph.json", GRAPH, load_network),
}
"""What is made wrong: the file's name, its right content, and how it is read."""


def changed(document: Any, mistake: dict[str, Any]) -> Any:
    """A copy of the document with the mistake's value, or nothing, at its path."""
    document = owner = deepcopy(document)
    *path, last = mistake["at"]
    for part in path:
        owner = owner.setdefault(part, {}) if isinstance(owner, dict) else owner[part]
    if "value" in mistake:
        owner[last] = mistake["value"]
    else:
        del owner[last]
    return document


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files as they should be, the current one."""
    problem = (DATA / "problems" / "gemm.yaml").read_text(encoding="utf-8")
    (tmp_path / "problem.yaml").write_text(problem)
    for name, document, _ in FILES.values():
        (tmp_path / name).write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, document: Any) -> None:
    dump = json.dumps if name.endswith(".json") else yaml.safe_dump
    Path(name).write_text(dump(document))


@pytest.mark.parametrize("kind", FILES)
def test_the_files_are_right_before_they_are_made_wrong(kind: str, beside: Path) -> None:
    name, document, read = FILES[kind]
    written(name, document)
    read(name)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake['in']}-{mistake['key']}")
def test_the_answer_names_file_key_expectation_and_value(mistake: dict[str, Any], beside: Path) -> None:
    name, document, read = FILES[mistake["in"]]
    written(name, changed(document, mistake))
    with pytest.raises(InputError) as caught:
        read(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: {mistake['key']}: expected {mistake['expected']}")
    assert f", found {mistake['found']}" in message
    assert mistake.get("remedy", "") in message


def test_the_table_is_of_many_different_mistakes() -> None:
    different = {(m["in"], m["key"], m["expected"], m["found"]) for m in MISTAKES}
    assert len(different) == len(MISTAKES) > 120
    assert {m["in"] for m in MISTAKES} == set(FILES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("networks: [problem.yaml", "study.yaml:"),
        ("name: a\nname: b\n", "study.yaml:2: expected every key once, found 'name' again"),
    ],
)
def test_what_is_no_yaml_is_answered_with_file_and_line(text: str, message: str, beside: Path) -> None:
    Path("study.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_study("study.yaml")
    assert str(caught.value).startswith(message)


def test_a_mistake_in_a_file_that_a_study_names_is_that_files_own(beside: Path) -> None:
    name, document, _ = FILES["architecture"]
    written(name, changed(document, {"at": ["levels", 1, "fanout"], "value": [0, 2]}))
    written("study.yaml", STUDY)
    with pytest.raises(InputError, match=r"architecture.yaml: levels.SRAM.fanout\[0\]: expected at least 1"):
        plan(load_study("study.yaml"))
