"""What ``archsweep validate`` does: measured runs beside what the cost model says of them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.machines.measurements import predicted, read_measurements
from costmodel.mapping.timing.accuracy import Accuracy
from sweep.silicon import eyeriss
from sweep.silicon.eyeriss_rows import eyeriss_rows, has_eyeriss_rows

LATENCY = "processing_latency_ms"


@dataclass(frozen=True)
class Compared:
    """One run: measured and predicted cycles, and the component that the machine waited for.

    Of the Eyeriss chip they are milliseconds, as its tables have them, and ``figures`` are its other columns:
    by their names, measured and predicted.
    """

    id: str
    measured: float
    predicted: float
    binding: str
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The line of a run."""
        line: dict[str, Any] = {"id": self.id, "measured": self.measured, "predicted": self.predicted}
        for name, (measured, of_model) in self.figures.items():
            line[name] = {"measured": measured, "predicted": of_model}
        return line


def validate_machine(architecture: str, path: Path, page: Path | None, as_json: bool) -> None:
    """``archsweep validate``: a line a run with ``--json``, else a table of errors by what binds.

    InputError for a machine or file that cannot be read, before anything is printed.
    """
    rows = compared(architecture, path)
    if page is not None:
        draw(page, f"{architecture}: {path.name}", rows)
    if as_json:
        for row in rows:
            print(json.dumps(row.to_json()))
        print(json.dumps(errors_of(rows).to_json()), flush=True)
        return
    print_errors(rows)


def compared(architecture: str, path: Path) -> list[Compared]:
    """Every run of a file on a machine, in the file's order.

    Rows of the Eyeriss chip are recognized by their own keys; those without a layer, which are totals, are
    left out.
    """
    if has_eyeriss_rows(path):
        return _compared_on_eyeriss(architecture, path)
    found = []
    for run in read_measurements(architecture, path):
        cycles, timed = predicted(run)
        measured = int(run.cycles) if run.cycles.is_integer() else run.cycles
        found.append(Compared(run.id, measured, cycles, timed.binding if timed else "bandwidth"))
    return found


def _compared_on_eyeriss(architecture: str, path: Path) -> list[Compared]:
    machine, found = load_architecture(architecture), []
    for row in eyeriss_rows(path):
        if LATENCY not in row.measured:
            raise InputError(str(path), "a measured latency in every row with a layer", row.id, key=LATENCY)
        figures = eyeriss.predicted(row, machine)
        others = {
            name: (row.measured[name], value)
            for name, value in figures.by_name.items()
            if name != LATENCY and name in row.measured
        }
        latency = figures.processing_latency_ms
        found.append(Compared(row.id, row.measured[LATENCY], latency, figures.binding, others))
    if not found:
        raise InputError(str(path), "at least one measured row with a layer", "none")
    return found


def draw(page: Path, title: str, rows: list[Compared]) -> None:
    """Write the page of measured against predicted cycles."""
    from results.report.measured import MeasuredRun, write_measured

    write_measured(
        page, title, [MeasuredRun(row.id, row.measured, row.predicted, row.binding) for row in rows]
    )


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
    console = Console()
    console.print(table)
    names = {name: None for row in rows for name in row.figures}
    for name in names:
        pairs = [row.figures[name] for row in rows if name in row.figures]
        sizes = [abs(of_model / measured - 1) for measured, of_model in pairs]
        mean = sum(sizes) / len(sizes)
        console.print(f"{name}: {len(pairs)} rows, {mean:.1%} off in the mean, {max(sizes):.1%} at worst")
