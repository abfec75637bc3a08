"""Files of fused mappings (JSON lines, each with a ``problem`` and a ``mapping``), and what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from costmodel.formats.evaluated_files import EvaluatedFile, Line, Lines
from costmodel.formats.json.fusion_json import (
    evaluation_to_json,
    fused_mapping_from_json,
    problem_from_json,
)
from costmodel.formats.json.json_fields import field
from costmodel.formats.json.safe_json import first_json_object, json_lines
from costmodel.mapping.fused.checker import violations
from costmodel.mapping.fused.evaluate import evaluate_fused
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import FusedProblem

MOST_LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class FusedCase:
    """One line of a file: a problem, a mapping, and its name (the line's ``id``, or where it stands)."""

    name: str
    problem: FusedProblem
    mapping: FusedMapping

    def line(self) -> Line:
        """The object that ``archsweep evaluate --json`` prints: the costs, or the ``violations``."""
        if reasons := violations(self.problem, self.mapping):
            return {"id": self.name, "violations": reasons}
        evaluation = evaluate_fused(self.problem, self.mapping)
        return {"id": self.name, **evaluation_to_json(self.problem, evaluation)}


def is_fused_file(path: Path) -> bool:
    """Whether a file holds fused mappings: JSON lines with a mapping and a problem of einsums."""
    first = first_json_object(path, MOST_LINE_BYTES)
    if "mapping" not in first:
        return False
    problem = first.get("problem")
    return isinstance(problem, dict) and "einsums" in problem


def read_fused_cases(path: Path) -> Iterator[FusedCase]:
    """The cases of a file, plain or gzipped; InputError names the line and key that are wrong."""
    for where, data in json_lines(path, MOST_LINE_BYTES):
        problem = problem_from_json(field(data, "problem", dict, where), f"{where}: problem")
        mapping = fused_mapping_from_json(field(data, "mapping", dict, where), f"{where}: mapping")
        yield FusedCase(str(data.get("id", where)), problem, mapping)


def _lines(path: Path) -> Lines:
    for case in read_fused_cases(path):
        line = case.line()
        yield line, _text(line)


def _text(line: Line) -> str:
    if "violations" in line:
        return f"{line['id']}  {'; '.join(line['violations'])}"
    peak = " ".join(map(str, line["peak"][:-1]))
    return f"{line['id']}  {line['cycles']} cycles  {line['energy_pj']:.6g} pJ  {peak} words at most"


FUSED_FILES = EvaluatedFile("fused mappings", is_fused_file, _lines)
