"""Runs the studies of a paper's figures, and writes its tables and charts.

Each study has a run folder below the output. So a command that was killed goes on where it was, and figures
that need the same solves share them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.networks import load_network
from costmodel.workload.network import Layer, distinct_layers
from results.report.paper_page import PaperChart, PaperSection, write_paper_page
from results.store.folder import RunFolder
from results.store.parts import write_whole
from sweep.papers.paper import (
    Effort,
    FigureTable,
    LayerRows,
    Paper,
    PaperFigure,
    PaperSolves,
    PaperStudy,
)
from sweep.run.session import RuntimeChoice, run_study
from sweep.run.task_run import run_tasks
from sweep.study.identity import canonical_json
from sweep.study.study import study_of
from sweep.tasks.mapping import layer_content

SCHEDULE_COLUMNS = [
    "task_id",
    "solver",
    "seed",
    "energy_pj",
    "cycles",
    "objective",
    "gap",
    "dram_bytes",
    "noc_hop_bytes",
    "cpu_seconds",
    "note",
]
LAYER_COLUMNS = ["task_id", "layer_shape", "energy_pj", "cycles", "cpu_seconds"]
"""What every figure gets of the layers of its studies of architectures."""
ANSWERED_WITH = ("optimal", "feasible")
"""Statuses of solves that found something."""


@dataclass(frozen=True)
class Reproduced:
    """A figure and its table, None where it is not reproduced."""

    figure: PaperFigure
    table: FigureTable | None


@dataclass(frozen=True)
class Reproduction:
    """All that a command made: figures, how many solves have no answer, and where the page is."""

    figures: tuple[Reproduced, ...]
    unanswered: int
    page: Path


def reproduce(
    paper: Paper,
    figures: Sequence[PaperFigure],
    effort: Effort,
    output: Path,
    runtime: RuntimeChoice,
    say: Callable[[str], None],
) -> Reproduction:
    """Run what ``figures`` need into folders below ``output``, and write ``figure-N.csv`` and a page there.

    Raises what :func:`sweep.run.session.run_study` raises, and InputError for an output that is a file.
    """
    if output.exists() and not output.is_dir():
        raise InputError("--output", "a folder", f"the file {output}", "Name another.")
    output.mkdir(parents=True, exist_ok=True)
    wanted = {key for figure in figures for key in figure.needs}
    chosen = [study for study in paper.studies(effort) if study.key in wanted]
    rows: dict[str, LayerRows] = {}
    layers, unanswered = _layers(paper, effort), 0
    every = {layer for equal in layers.values() for layer in equal}
    for number, study in enumerate(chosen, 1):
        say(f"study {number} of {len(chosen)}: {study.key}")
        run = _run(study, output, runtime)
        if "schedule" in study.document:
            # A study of a chip has one answer a network and seed; one of an architecture has one a layer.
            rows[study.key], missing = _schedules(run)
        else:
            columns = {name for figure in figures if study.key in figure.needs for name in figure.columns}
            rows[study.key] = _rows(run, layers, sorted(columns))
            missing = len(every - rows[study.key].keys())
        unanswered += missing
    # A paper states its further solves from answers of earlier ones: Thistle's second part takes the
    # architecture that its dominant layer got. So this asks again until nothing is left to solve.
    while open_solves := _open(paper, effort, rows, wanted):
        for solves in open_solves:
            say(f"{len(solves.tasks)} solves: {solves.key}")
            rows[solves.key] = _solved(paper, solves, effort, output, runtime)
            unanswered += len(solves.tasks) - len(rows[solves.key])
    made = tuple(Reproduced(f, f.table(rows, effort) if f.table else None) for f in figures)
    for one in made:
        if one.table is not None:
            _write(output / f"figure-{one.figure.number}.csv", _csv(one.table))
    page = write_paper_page(output / "paper.html", paper.title, [_section(one) for one in made])
    return Reproduction(made, unanswered, page)


def _run(study: PaperStudy, output: Path, runtime: RuntimeChoice) -> RunFolder:
    return run_study(study_of(study.document), output / study.key, runtime)


def _open(
    paper: Paper, effort: Effort, rows: ReadOnlyDict[str, LayerRows], wanted: set[str]
) -> list[PaperSolves]:
    """The wanted solves that can be stated now and have no rows yet."""
    return [one for one in paper.solves(effort, rows) if one.key in wanted and one.key not in rows]


def _solved(
    paper: Paper, solves: PaperSolves, effort: Effort, output: Path, runtime: RuntimeChoice
) -> LayerRows:
    """The rows of those solves that have an answer, by label."""
    name = f"paper-{paper.name}-{effort}-{solves.key}"
    rows = run_tasks(name, list(solves.tasks.values()), output / solves.key, runtime)
    found = {label: rows[task.id] for label, task in solves.tasks.items()}
    return {label: dict(row) for label, row in found.items() if row["status"] in ANSWERED_WITH}


def _layers(paper: Paper, effort: Effort) -> dict[str, list[Layer]]:
    """The paper's layers by the text that identifies them in the store.

    Equal layers of several networks have one text, as they are solved once.
    """
    found: dict[str, list[Layer]] = {}
    for network in paper.networks(effort):
        for layer, _ in distinct_layers(load_network(network).layers):
            found.setdefault(canonical_json(layer_content(layer)), []).append(layer)
    return found


def _rows(run: RunFolder, layers: ReadOnlyDict[str, list[Layer]], columns: Sequence[str]) -> LayerRows:
    """The row of every layer that has an answer, with LAYER_COLUMNS and the further ``columns``."""
    found: dict[Layer, ReadOnlyDict[str, Any]] = {}
    for row in run.read("layers", [*LAYER_COLUMNS, *columns]).to_pylist():
        if row["energy_pj"] is not None:
            shape = canonical_json(json.loads(row["layer_shape"]))
            # A row has the shape, while figures ask by layer; several layers of the paper may have this
            # shape.
            found |= dict.fromkeys(layers.get(shape, ()), row)
    return found


def _schedules(run: RunFolder) -> tuple[LayerRows, int]:
    """The schedules of a study of one chip by (network, solver, seed), and how many solves have none.

    The best one of each network has its program, packed, under ``program``.
    """
    (design,) = run.read("designs", ["networks"]).to_pylist()
    entries = json.loads(design["networks"])
    asked = {task_id: name for name, entry in entries.items() for task_id in entry["seeds"]}
    # Read once into a table of ids: only the best schedule of each network has a row there.
    programs = {
        row["schedule_id"]: row["program"]
        for row in run.read("programs", ["schedule_id", "program"]).to_pylist()
        if row["program"] is not None
    }
    found: dict[tuple[str, str, int], ReadOnlyDict[str, Any]] = {}
    for row in run.read("schedules", SCHEDULE_COLUMNS).to_pylist():
        if row["task_id"] in asked and row["energy_pj"] is not None:
            program = programs.get(row["task_id"])
            label = asked[row["task_id"]], row["solver"], row["seed"]
            found[label] = row if program is None else row | {"program": program}
    return found, len(asked) - len(found)


def _csv(table: FigureTable) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.headers)
    writer.writerows(table.rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    # Whole or not at all: a figure's table that a killed command left half-written would look like a result.
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def _section(one: Reproduced) -> PaperSection:
    name = f"{one.figure.number}: {one.figure.title}"
    if one.table is None:
        return PaperSection(name, (), (), (f"Not reproduced: {one.figure.not_reproduced}",))
    bars = one.table.bars
    chart = None if bars is None else PaperChart(bars.quantity, bars.labels, bars.series)
    return PaperSection(name, one.table.headers, one.table.rows, one.table.remarks, chart)
