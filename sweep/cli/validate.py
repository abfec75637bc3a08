"""What ``archsweep validate`` does: measured runs beside what the cost model says of them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from costmodel.formats.measurements import predicted, read_measurements
from costmodel.mapping.timing.accuracy import Accuracy


@dataclass(frozen=True)
class Compared:
    """One run: measured and predicted cycles, and the component that the machine waited for."""

    id: str
    measured: float
    predicted: int
    binding: str


def validate_machine(architecture: str, path: Path, page: Path | None, as_json: bool) -> None:
    """``archsweep validate``: a line a run with ``--json``, else a table of errors by what binds.

    InputError for a machine or file that cannot be read, before anything is printed.
    """
    rows = compared(architecture, path)
    if page is not None:
        from results.report.measured import Point, write_measured

        points = [Point(row.id, row.measured, row.predicted, row.binding) for row in rows]
        write_measured(page, f"{architecture}: {path.name}", points)
    if as_json:
        for row in rows:
            print(json.dumps({"id": row.id, "measured": row.measured, "predicted": row.predicted}))
        print(json.dumps(errors_of(rows).to_json()), flush=True)
        return
    print_errors(rows)


def compared(architecture: str, path: Path) -> list[Compared]:
    """Every run of a file on a machine, in the file's order."""
    found = []
    for run in read_measurements(architecture, path):
        cycles, timed = predicted(run)
        measured = int(run.cycles) if run.cycles.is_integer() else run.cycles
        found.append(Compared(run.id, measured, cycles, timed.binding if timed else "bandwidth"))
    return found


def errors_of(rows: list[Compared]) -> Accuracy:
    return Accuracy.of([row.measured for row in rows], [row.predicted for row in rows])


def print_errors(rows: list[Compared]) -> None:
    """A table of errors: one line for each component that binds, then all."""
    by_binding: dict[str, list[Compared]] = defaultdict(list)
    for row in rows:
        by_binding[row.binding].append(row)
    table = Table(box=SIMPLE_HEAD)
    table.add_column("waits for")
    for header in ("rows", "MAPE", "median", "Spearman", "geomean of predicted / measured"):
        table.add_column(header, justify="right")
    for name, those in [*sorted(by_binding.items()), ("all", rows)]:
        errors = errors_of(those)
        rank = "" if errors.spearman is None else f"{errors.spearman:.4f}"
        table.add_row(
            name,
            str(errors.rows),
            f"{errors.mape:.1%}",
            f"{errors.median_ape:.1%}",
            rank,
            f"{errors.geomean_ratio:.3f}",
        )
    Console().print(table)
