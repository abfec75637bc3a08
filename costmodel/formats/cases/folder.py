"""Folders of Timeloop cases: ``archs.json``, ``shapes.json`` and a case a line in ``*.jsonl[.gz]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.cases.architecture import architecture_from_json
from costmodel.formats.cases.mapping import mapping_from_json, mapping_to_json
from costmodel.formats.cases.problem import Shape, builtin_shapes, layer_from_problem
from costmodel.formats.json.json_fields import field
from costmodel.formats.json.safe_json import json_lines, load_json
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer

__all__ = [
    "Case",
    "architecture_from_json",
    "evaluated_line",
    "layer_from_problem",
    "mapping_from_json",
    "mapping_to_json",
    "read_architectures",
    "read_cases",
    "read_shapes",
]

MOST_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Case:
    """One line of a cases file: a mapping without violations, and the whole ``record`` it came from."""

    id: str
    architecture: Architecture
    layer: Layer
    mapping: Mapping
    where: str
    record: dict[str, Any] = dataclass_field(repr=False, compare=False)


def read_architectures(path: str | Path) -> dict[str, Architecture]:
    """The architectures of an ``archs.json`` by name."""
    data = load_json(path)
    if not isinstance(data, dict):
        raise InputError(str(path), "an object of architectures by name", data)
    return {name: architecture_from_json(name, value, f"{path}: {name}") for name, value in data.items()}


def read_shapes(path: str | Path) -> dict[str, Shape]:
    """The problem shapes of a ``shapes.json`` by name; looked into when a problem uses one."""
    data = load_json(path)
    if not isinstance(data, dict):
        raise InputError(str(path), "an object of shapes by name", data)
    return {name: field(data, name, dict, str(path)) for name in data}


def read_cases(path: str | Path) -> Iterator[Case]:
    """The cases of a file, or of all ``.jsonl`` and ``.jsonl.gz`` files of a folder in order of their names.

    ``archs.json`` and ``shapes.json`` beside the cases come before the library and the built-in shapes.
    Raises InputError with file and line when it comes to a line that is not a case.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    files = (
        sorted(f for f in folder.iterdir() if f.name.endswith((".jsonl", ".jsonl.gz")))
        if Path(path).is_dir()
        else [Path(path)]
    )
    if not files:
        remedy = f"Name Timeloop's files one by one: {path}/*.yaml" if any(folder.glob("*.yaml")) else ""
        raise InputError(str(path), "a folder with .jsonl or .jsonl.gz files", "none in it", remedy)
    find = _finder(folder / "archs.json")
    shapes = builtin_shapes()
    if (folder / "shapes.json").exists():
        shapes |= read_shapes(folder / "shapes.json")
    for file in files:
        for where, record in json_lines(file, MOST_LINE_BYTES):
            yield _case(record, where, find, shapes)


def _finder(own: Path) -> Callable[[str], Architecture]:
    """A function from an architecture's name to the architecture: of the folder, else of the library.

    It remembers what it has loaded, since a folder has thousands of cases on a few architectures.
    """
    known = read_architectures(own) if own.exists() else {}

    @cache
    def find(name: str) -> Architecture:
        if name in known:
            return known[name]
        from costmodel.formats.architectures import architecture_names, load_architecture

        names = [*known, *(name for name in architecture_names() if name not in known)]
        if name not in names:
            raise InputError("", f"one of {', '.join(names)}", name, did_you_mean(name, names), key="arch")
        return load_architecture(name)

    return find


def _case(record: Any, where: str, find: Callable[[str], Architecture], shapes: dict[str, Shape]) -> Case:
    """The case of one line. Errors get the file and line, unless they name another file (``archs.json``)."""
    name = field(record, "arch", str, where)
    try:
        architecture = find(name)
    except InputError as error:
        raise error if error.where else error.at(where) from None
    layer = layer_from_problem(field(record, "problem", dict, where), f"{where}: problem", shapes)
    mapping = mapping_from_json(architecture, layer, field(record, "mapping", dict, where), where)
    return Case(field(record, "id", str, where), architecture, layer, mapping, where, record)


def evaluated_line(case: Case) -> dict[str, Any]:
    """The case's line of ``archsweep evaluate --json``: counts per instance, levels outermost first."""
    evaluation = evaluate(case.architecture, case.layer, case.mapping)
    return {
        "id": case.id,
        "cycles": evaluation.cycles,
        "energy_pj": evaluation.energy_pj,
        "levels": [
            {
                "name": level.name,
                "tensors": {
                    name: {
                        "reads": traffic.reads,
                        "fills": traffic.fills,
                        "updates": traffic.updates,
                        "instances": traffic.instances,
                    }
                    for name, traffic in level.tensors.items()
                },
            }
            for level in reversed(evaluation.levels)
        ],
    }
