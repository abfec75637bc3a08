"""``archsweep evaluate`` of files known by their content: RA trees, layer schemes, schedules on chips."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.conventions.nn_dataflow.cases import evaluated_line as scheme_line
from costmodel.conventions.nn_dataflow.cases import is_scheme_file, read_schemes
from costmodel.conventions.set_isca2023.cases import evaluated_line as tree_line
from costmodel.conventions.set_isca2023.cases import is_tree_file, read_trees
from sweep.schedule_file import is_schedule_file, read_schedule

Line = dict[str, Any]
Lines = Iterator[tuple[Line, str]]
"""What a case is with ``--json``, and for people."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file: ``what`` it holds, how it is known, and the lines of its cases."""

    what: str
    knows: Callable[[Path], bool]
    lines: Callable[[Path], Lines]

    def print_all(self, paths: Iterable[Path], as_json: bool) -> None:
        """One line a case, in the order of the files; status 1 if one cannot run or does not fit."""
        failed = False
        for path in paths:
            for line, text in self.lines(path):
                failed |= "not_possible" in line
                print(json.dumps(line) if as_json else text, flush=True)
        if failed:
            raise SystemExit(1)


def _trees(path: Path) -> Lines:
    """RA trees, as the released SET evaluator counts them."""
    for case in read_trees(path):
        line = tree_line(case)
        yield line, _counts(f"{case.graph.name} batch {case.batch}", line)


def _schemes(path: Path) -> Lines:
    """Layer schemes, as nn-dataflow counts them."""
    for case in read_schemes(path):
        line = scheme_line(case)
        yield line, _scheme(line)


def _schedules(path: Path) -> Lines:
    """One schedule, as the chip model counts it."""
    case = read_schedule(path)
    line = case.line()
    yield line, _counts(f"{case.graph.name} batch {case.tree.batch} on {case.chip.name}", line)


def _counts(name: str, line: Line) -> str:
    if "not_possible" in line:
        return f"{name}  {line['not_possible']}"
    return (
        f"{name}  {line['latency_cycles']} cycles  {line['energy_pj']:.6g} pJ  "
        f"{line['dram_bytes']} DRAM bytes  {line['noc_hop_bytes']} hop bytes"
    )


def _scheme(line: Line) -> str:
    name = f"{line['net']}/{line['layer']}"
    if "not_possible" in line:
        return f"{name}  {line['not_possible']}"
    dram = sum(line["access"]["DRAM"].values())
    return f"{name}  {line['time_cycles']} cycles  energy {line['energy_j']:.6g}  {dram:.0f} DRAM words"


FILE_KINDS = (
    FileKind("RA trees", is_tree_file, _trees),
    FileKind("nn-dataflow's schemes", is_scheme_file, _schemes),
    FileKind("schedules", is_schedule_file, _schedules),
)
