"""Failed, infeasible and discarded designs and solves with their reasons, and the limits of searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.report.data import RunData
from results.report.html import Cell, Markup, ReportSection, element, joined, paragraph, table
from results.report.solve_counts import MOST_UNSOLVED, limits_in
from results.units import byte_text

LONGEST_TABLE = MOST_UNSOLVED


def failures_section(run: RunData) -> ReportSection:
    """Failed solves and designs with their errors, then those that are infeasible, left out or discarded."""
    parts = []
    failed = _solves(run, ("failed", "unknown")) + _designs(run, "failed", "error")
    if failed.count:
        parts.append(paragraph("A failed solve is tried again when the study is resumed."))
        parts.append(_limited(["What", "Name", "Attempts", "Error"], failed, "Failures"))
    else:
        parts.append(paragraph("Nothing failed.", class_="empty"))
    infeasible = _designs(run, "infeasible", "note") + _solves(run, ("infeasible",))
    if infeasible.count:
        listed = _limited(["What", "Name", "", "Reason"], infeasible, "Infeasible designs and solves")
        summary = element("summary", f"{infeasible.count} infeasible designs and solves")
        parts.append(element("details", summary, listed))
    if run.left_out:
        broken = _listed(run, run.left_out, "note")
        listed = _limited(["What", "Name", "", "Reason"], broken, "Designs that break a constraint")
        summary = element("summary", f"Left out by constraints on results: {len(run.left_out)}")
        parts.append(element("details", summary, listed))
    if (discarded := _designs(run, "dominated", "note")).count:
        listed = _limited(["What", "Name", "", "Reason"], discarded, "Designs discarded by their bounds")
        summary = element("summary", f"Discarded before any solve, by their bounds: {discarded.count}")
        parts.append(element("details", summary, listed))
    if (reached := _limits(run)).count:
        listed = _limited(["Solves", "Limit"], reached, "Limits that searches reached")
        summary = element(
            "summary", f"Limits that searches reached, each proving or finding less: {reached.count}"
        )
        parts.append(element("details", summary, listed))
    return ReportSection("failures", "Failures", joined(parts))


@dataclass(frozen=True)
class Listed:
    """The first LONGEST_TABLE rows of a table of ``count`` rows; no cells are made for the others."""

    rows: list[list[Cell]]
    count: int

    def __add__(self, other: Listed) -> Listed:
        return Listed((self.rows + other.rows)[:LONGEST_TABLE], self.count + other.count)


def _limits(run: RunData) -> Listed:
    """How many solves reached each limit, by the sentence in their notes; the most frequent first."""
    rows = (*run.fusions.values(), *run.scratchpads, *run.schedules.values(), *run.tile_batches)
    notes = Counter(row["note"] for row in rows if isinstance(row["note"], str))
    found = run.layers.limits + limits_in(notes.items())
    cells = [[Cell(str(count), number=True), Cell(sentence)] for sentence, count in found.most_common()]
    return Listed(cells[:LONGEST_TABLE], len(cells))


def _limited(headers: list[str], listed: Listed, caption: str) -> Markup:
    shown = table(headers, listed.rows, caption)
    if listed.count <= LONGEST_TABLE:
        return shown
    return joined([shown, paragraph(f"The first {LONGEST_TABLE} of {listed.count} are shown.")])


def _solves(run: RunData, statuses: tuple[str, ...]) -> Listed:
    """The solves of all kinds that ended with one of these statuses."""
    layers = [row for row in run.layers.unsolved if row["status"] in statuses]
    count = sum(run.layers.ended.statuses.get(status, 0) for status in statuses)
    found = Listed([_said("solve", _name(row), row) for row in layers[:LONGEST_TABLE]], count)
    kinds: tuple[tuple[str, Callable[[Any], str], Sequence[Any]], ...] = (
        ("layers together", _group, [*run.fusions.values()]),
        ("scratchpad", _graph, run.scratchpads),
        ("schedule", _seed, [*run.schedules.values()]),
        ("tile costs", _tile_parts, run.tile_batches),
    )
    for what, name, every in kinds:
        ended = [row for row in every if row["status"] in statuses]
        found += Listed([_said(what, name(row), row) for row in ended[:LONGEST_TABLE]], len(ended))
    return found


def _said(what: str, name: str, row: Mapping[str, Any]) -> list[Cell]:
    """The row of a solve without an answer.

    It has the number of attempts, unless the solve is infeasible, as one attempt proves that.
    """
    proven = row["status"] == "infeasible"
    texts = [row["note"]] if proven else [row["error"], row["note"]]
    return _row(what, name, None if proven else row["attempts"], next(filter(None, texts), ""))


def _designs(run: RunData, status: str, reason: str) -> Listed:
    """The designs of this status; ``reason`` is the column that says why."""
    return _listed(run, np.flatnonzero(run.designs["status"].eq(status)).tolist(), reason)


def _listed(run: RunData, designs: Sequence[int], reason: str) -> Listed:
    shown = designs[:LONGEST_TABLE]
    texts = run.reasons(shown, reason)
    cells = [_row("design", run.axis_line(i), None, why) for i, why in zip(shown, texts, strict=True)]
    return Listed(cells, len(designs))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['layer_name']} (task {row['task_id'][:8]})"


def _group(row: Mapping[str, Any]) -> str:
    return f"{row['group_name']} (task {row['task_id'][:8]})"


def _graph(row: Mapping[str, Any]) -> str:
    return f"{row['graph']} in {byte_text(row['budget_bytes'])} (task {row['task_id'][:8]})"


def _seed(row: Mapping[str, Any]) -> str:
    return f"{row['network']}, seed {row['seed']} (task {row['task_id'][:8]})"


def _tile_parts(row: Mapping[str, Any]) -> str:
    return f"{row['tile_parts']} parts of layers by {row['solver']} (task {row['task_id'][:8]})"


def _row(what: str, name: object, attempts: int | None, text: str) -> list[Cell]:
    tried = "" if attempts is None else f"{attempts}"
    return [Cell(what), Cell(name), Cell(tried, number=True), Cell(element("pre", text))]
