"""``archsweep evaluate`` of files known by their content: RA trees, schemes, fused mappings, schedules."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from costmodel.formats.cases.fused import FUSED_FILES
from costmodel.formats.evaluated_files import EvaluatedFile, Lines, counts_text
from costmodel.published.registration import PUBLISHED_FILES
from sweep.cli.evaluate.schedule_file import is_schedule_file, read_schedule
from sweep.cli.messages import ExitStatus


def print_all(kind: EvaluatedFile, paths: Iterable[Path], as_json: bool) -> None:
    """One line a case, in the order of the files; status 1 if one cannot run or does not fit."""
    failed = False
    for path in paths:
        for line, text in kind.lines(path):
            failed |= "not_possible" in line
            print(json.dumps(line) if as_json else text, flush=True)
    if failed:
        raise SystemExit(ExitStatus.WORK_FAILED)


def _schedules(path: Path) -> Lines:
    """One schedule, as the chip model counts it."""
    case = read_schedule(path)
    line = case.line()
    yield line, counts_text(f"{case.graph.name} batch {case.tree.batch} on {case.chip.name}", line)


FILE_KINDS = (*PUBLISHED_FILES, FUSED_FILES, EvaluatedFile("schedules", is_schedule_file, _schedules))
