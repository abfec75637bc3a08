"""What failed, is infeasible or was discarded, each with its reason, and the limits that searches reached."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from results.report.data import RunData
from results.report.html import Cell, Markup, ReportSection, element, joined, paragraph, table
from results.units import byte_text

if TYPE_CHECKING:
    import pandas

LONGEST_TABLE = 200
LIMIT = re.compile(r"limit of [\d,]+ [^;]+ reached: [^;]+")
"""What a solver's note says of a limit, one of its sentences between semicolons."""


def failures_section(run: RunData) -> ReportSection:
    """Failed solves and designs with their errors, then infeasible and discarded designs with the reason."""
    parts = []
    failed = _failed_solves(run) + _failed_designs(run)
    if failed:
        parts.append(paragraph("A failed solve is tried again when the study is resumed."))
        parts.append(_limited(["What", "Name", "Attempts", "Error"], failed, "Failures"))
    else:
        parts.append(paragraph("Nothing failed.", class_="empty"))
    if infeasible := _infeasible(run):
        listed = _limited(["What", "Name", "", "Reason"], infeasible, "Infeasible designs and solves")
        summary = element("summary", f"{len(infeasible)} infeasible designs and solves")
        parts.append(element("details", summary, listed))
    if discarded := [_design(run, i, "note") for i in run.discarded]:
        listed = _limited(["What", "Name", "", "Reason"], discarded, "Designs discarded by their bounds")
        summary = element("summary", f"Discarded before any solve, by their bounds: {len(discarded)}")
        parts.append(element("details", summary, listed))
    if reached := _limits(run):
        listed = _limited(["Solves", "Limit"], reached, "Limits that searches reached")
        summary = element(
            "summary", f"Limits that searches reached, each proving or finding less: {len(reached)}"
        )
        parts.append(element("details", summary, listed))
    return ReportSection("failures", "Failures", joined(parts))


def _limits(run: RunData) -> list[list[Cell]]:
    """How many solves reached each limit, by the sentence in their notes; the most frequent first."""
    notes = [*run.layers["note"]]
    notes += [row["note"] for row in (*run.scratchpads, *run.schedules.values(), *run.tile_batches)]
    found: Counter[str] = Counter()
    for note in notes:
        if isinstance(note, str):
            found.update(set(LIMIT.findall(note)))
    return [[Cell(str(count), number=True), Cell(sentence)] for sentence, count in found.most_common()]


def _limited(headers: list[str], rows: list[list[Cell]], caption: str) -> Markup:
    shown = table(headers, rows[:LONGEST_TABLE], caption)
    if len(rows) <= LONGEST_TABLE:
        return shown
    return joined([shown, paragraph(f"The first {LONGEST_TABLE} of {len(rows)} are shown.")])


def _failed_solves(run: RunData) -> list[list[Cell]]:
    bad = ("failed", "unknown")
    rows = run.layers[run.layers["status"].isin(bad)]
    found = [_row("solve", _name(r), r.attempts, r.error or r.note) for r in _tuples(rows)]
    plans = [r for r in run.scratchpads if r["status"] in bad]
    found += [_row("scratchpad", _graph(r), r["attempts"], r["error"] or r["note"]) for r in plans]
    schedules = [r for r in run.schedules.values() if r["status"] in bad]
    found += [_row("schedule", _seed(r), r["attempts"], r["error"] or r["note"]) for r in schedules]
    batches = [r for r in run.tile_batches if r["status"] in bad]
    return found + [
        _row("tile costs", _tile_parts(r), r["attempts"], r["error"] or r["note"]) for r in batches
    ]


def _failed_designs(run: RunData) -> list[list[Cell]]:
    failed = [i for i, status in enumerate(run.designs["status"]) if status == "failed"]
    return [_design(run, i, "error") for i in failed]


def _design(run: RunData, design: int, reason: str) -> list[Cell]:
    return _row("design", run.axis_line(design), float("nan"), run.designs[reason].iloc[design])


def _infeasible(run: RunData) -> list[list[Cell]]:
    designs = [i for i, status in enumerate(run.designs["status"]) if status == "infeasible"]
    found = [_design(run, i, "note") for i in designs]
    solves = run.layers[run.layers["status"] == "infeasible"]
    found += [_row("solve", _name(r), float("nan"), r.note) for r in _tuples(solves)]
    plans = [r for r in run.scratchpads if r["status"] == "infeasible"]
    found += [_row("scratchpad", _graph(r), float("nan"), r["note"]) for r in plans]
    schedules = [r for r in run.schedules.values() if r["status"] == "infeasible"]
    return found + [_row("schedule", _seed(r), float("nan"), r["note"]) for r in schedules]


def _name(row: Any) -> str:
    return f"{row.layer_name} (task {row.task_id[:8]})"


def _graph(row: Mapping[str, Any]) -> str:
    return f"{row['graph']} in {byte_text(row['budget_bytes'])} (task {row['task_id'][:8]})"


def _seed(row: Mapping[str, Any]) -> str:
    return f"{row['network']}, seed {row['seed']} (task {row['task_id'][:8]})"


def _tile_parts(row: Mapping[str, Any]) -> str:
    return f"{row['tile_parts']} parts of layers by {row['solver']} (task {row['task_id'][:8]})"


def _tuples(rows: pandas.DataFrame) -> list[Any]:
    return list(rows.itertuples(index=False))


def _row(what: str, name: object, attempts: float | None, text: object) -> list[Cell]:
    tried = "" if attempts is None or attempts != attempts else f"{attempts:.0f}"
    shown = text if isinstance(text, str) else ""
    return [Cell(what), Cell(name), Cell(tried, number=True), Cell(element("pre", shown))]
