"""How good and how dear the solves were, and what failed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from results.report_data import RunData
from results.report_html import Cell, Figure, Markup, Section, chart_text, element, joined, paragraph, table
from results.report_spending import COLORS
from results.report_units import NOTHING, percent, seconds

if TYPE_CHECKING:
    import pandas

STATUSES = ("optimal", "feasible", "infeasible", "unknown", "failed")
LONGEST_TABLE = 200
BINS = 24


def solves_section(run: RunData) -> Section:
    """Status counts, gaps and seconds, by solver."""
    title = "Solver quality"
    if run.layers.empty:
        return Section("solves", title, paragraph("No solve has finished.", class_="empty"))
    text = (
        "Optimal: proven on the cost model. Program proven: the solver's own, simpler program was solved to "
        "proven optimality. Gap: (objective - lower bound) / objective. Seconds are CPU time; answers from "
        "the store are counted with the time of their original solve, which this run did not spend."
    )
    met = [status for status in STATUSES if run.layers["status"].eq(status).any()]
    headers = ["Solver", "Objective", "Solves", "Cached", *map(str.capitalize, met), "Program proven"]
    headers += ["Median gap", "Largest gap", "Median time", "Longest time", "Time spent"]
    groups = list(run.layers.groupby(["solver", "objective_name"], sort=True))
    rows = [_solver_cells(names, group, met) for names, group in groups]
    figures = [figure for figure in (gap_figure(run), seconds_figure(run)) if figure is not None]
    panels = [element("div", figure.html(), class_="panel") for figure in figures]
    grid = element("div", *panels, class_="grid") if panels else Markup("")
    return Section("solves", title, joined([paragraph(text), table(headers, rows, "Solves by solver"), grid]))


def _solver_cells(names: tuple[str, str], rows: pandas.DataFrame, statuses: list[str]) -> list[Cell]:
    cached = rows["cached"].eq(True)
    counts = [int(rows["status"].eq(status).sum()) for status in statuses]
    proven = rows["program_proven"].dropna().astype(bool)
    gaps, times = rows["gap"].dropna(), rows["cpu_seconds"].dropna()
    spent = rows["cpu_seconds"][~cached].sum()
    shares = [proven.mean() if len(proven) else None, *_median_and_most(gaps)]
    cells = [Cell(names[0]), Cell(names[1])]
    cells += [Cell(number, sort=number, number=True) for number in (len(rows), int(cached.sum()), *counts)]
    cells += [Cell(percent(share), sort=share, number=True) for share in shares]
    for duration in (*_median_and_most(times), float(spent)):
        text = NOTHING if duration is None else seconds(duration)
        cells.append(Cell(text, sort=duration, number=True))
    return cells


def _median_and_most(values: pandas.Series) -> tuple[float | None, float | None]:
    return (float(values.median()), float(values.max())) if len(values) else (None, None)


def gap_figure(run: RunData) -> Figure | None:
    """Solves by gap, or None when no solve has one."""
    rows = run.layers[np.isfinite(run.layers["gap"].to_numpy(dtype="float64"))]
    if rows.empty:
        return None
    edges = np.linspace(0, max(float(rows["gap"].max()), 0.01), BINS + 1)
    layout = {
        "xaxis": {"title": {"text": "Gap to the proven lower bound (%)"}},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(rows, "gap", edges, 100.0, "%")
    return Figure("gaps", "Number of solves by gap", traces, layout | _stacked(), height=340)


def seconds_figure(run: RunData) -> Figure | None:
    """Solves by CPU seconds on a logarithmic axis, or None when no solve has a time."""
    rows = run.layers[run.layers["cpu_seconds"] > 0]
    if rows.empty:
        return None
    low, high = float(rows["cpu_seconds"].min()), float(rows["cpu_seconds"].max())
    edges = np.geomspace(low * 0.999, max(high, low * 2) * 1.001, BINS + 1)
    layout = {
        "xaxis": {"title": {"text": "CPU time of a solve (s)"}, "type": "log"},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(rows, "cpu_seconds", edges, 1.0, "s")
    return Figure("seconds", "Number of solves by CPU seconds", traces, layout | _stacked(), height=340)


def _stacked() -> dict[str, Any]:
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return {
        "barmode": "stack",
        "bargap": 0.05,
        "legend": legend,
        "showlegend": True,
        "margin": {"l": 56, "r": 16, "t": 44, "b": 52},
    }


def _histogram(
    rows: pandas.DataFrame, column: str, edges: Any, factor: float, unit: str
) -> list[dict[str, Any]]:
    shown = edges * factor
    traces = []
    for place, (solver, group) in enumerate(rows.groupby("solver", sort=True)):
        counts, _ = np.histogram(np.clip(group[column], edges[0], edges[-1]), bins=edges)
        ranges = [f"{a:.3g} to {b:.3g} {unit}" for a, b in pairwise(shown)]
        traces.append(
            {
                "type": "bar",
                "name": chart_text(solver),
                "x": [float(f"{x:.6g}") for x in (shown[:-1] + shown[1:]) / 2],
                "width": [float(f"{x:.6g}") for x in np.diff(shown)],
                "y": [int(count) for count in counts],
                "hovertext": [
                    f"{chart_text(solver)}<br>{text}: {n} solves"
                    for text, n in zip(ranges, counts, strict=True)
                ],
                "hoverinfo": "text",
                "marker": {"color": COLORS[place % len(COLORS)]},
            }
        )
    return traces


def failures_section(run: RunData) -> Section:
    """Failed solves and designs with their errors, then designs that are infeasible with the reason."""
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
    return Section("failures", "Failures", joined(parts))


def _limited(headers: list[str], rows: list[list[Cell]], caption: str) -> Markup:
    shown = table(headers, rows[:LONGEST_TABLE], caption)
    if len(rows) <= LONGEST_TABLE:
        return shown
    return joined([shown, paragraph(f"The first {LONGEST_TABLE} of {len(rows)} are shown.")])


def _failed_solves(run: RunData) -> list[list[Cell]]:
    rows = run.layers[run.layers["status"].isin(["failed", "unknown"])]
    return [_row("solve", _name(r), r.attempts, r.error or r.note) for r in _tuples(rows)]


def _failed_designs(run: RunData) -> list[list[Cell]]:
    rows = [i for i, status in enumerate(run.designs["status"]) if status == "failed"]
    errors = run.designs["error"]
    return [_row("design", run.axis_line(i), float("nan"), errors.iloc[i]) for i in rows]


def _infeasible(run: RunData) -> list[list[Cell]]:
    designs = [i for i, status in enumerate(run.designs["status"]) if status == "infeasible"]
    notes = run.designs["note"]
    found = [_row("design", run.axis_line(i), float("nan"), notes.iloc[i]) for i in designs]
    solves = run.layers[run.layers["status"] == "infeasible"]
    return found + [_row("solve", _name(r), float("nan"), r.note) for r in _tuples(solves)]


def _name(row: Any) -> str:
    return f"{row.layer_name} (task {row.task_id[:8]})"


def _tuples(rows: pandas.DataFrame) -> list[Any]:
    return list(rows.itertuples(index=False))


def _row(what: str, name: object, attempts: float, text: object) -> list[Cell]:
    tried = "" if attempts != attempts else f"{attempts:.0f}"
    shown = text if isinstance(text, str) else ""
    return [Cell(what), Cell(name), Cell(tried, number=True), Cell(element("pre", shown))]
