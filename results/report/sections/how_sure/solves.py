"""The quality of solves and their time, the winners within portfolios, and the mapping spaces."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from results.report.colors import COLORS
from results.report.data import RunData
from results.report.design_layers import found_by, spaces_text
from results.report.html import (
    Cell,
    Figure,
    Markup,
    ReportSection,
    chart_text,
    element,
    joined,
    paragraph,
    table,
)
from results.units import NOTHING, percent, seconds

if TYPE_CHECKING:
    import pandas

STATUSES = ("optimal", "feasible", "infeasible", "unknown", "failed")
BINS = 24


def solves_section(run: RunData) -> ReportSection | None:
    """Status counts, gaps and seconds, by solver; absent where only chips were scheduled."""
    title = "Solver quality"
    solves = run.layers.rows
    if solves.empty and run.schedules:
        return None
    if solves.empty:
        return ReportSection("solves", title, paragraph("No solve has finished.", class_="empty"))
    text = (
        "Optimal: no mapping is better by the cost model, which is proven. Program proven: the solver's own, "
        "simpler program was solved to optimality. Gap: (objective - lower bound) / objective. Times are CPU "
        "time; an answer from the store has the time of its original solve, which this run did not spend and "
        "which is not in the time spent. Each layer's gap is among the certificates of its design above."
    )
    met = [status for status in STATUSES if solves["status"].eq(status).any()]
    headers = ["Solver", "Objective", "Solves", "Cached", *map(str.capitalize, met), "Program proven"]
    headers += ["Median gap", "Largest gap", "Median time", "Longest time", "Time spent"]
    groups = list(solves.groupby(["solver", "objective_name"], sort=True, observed=True))
    rows = [_solver_cells(names, group, met) for names, group in groups]
    figures = [figure for figure in (gap_figure(run), seconds_figure(run)) if figure is not None]
    panels = [element("div", figure.html(), class_="panel") for figure in figures]
    grid = element("div", *panels, class_="grid") if panels else Markup("")
    tables = [table(headers, rows, "Solves by solver"), *_portfolio(run)]
    if run.spaces:
        tables.append(paragraph(f"Bounds and optima hold for a space. {spaces_text(run)}"))
    return ReportSection("solves", title, joined([paragraph(text), *tables, grid]))


def _portfolio(run: RunData) -> list[Markup]:
    """How often each member of a portfolio found the mapping that was kept; nothing without a portfolio."""
    rows = run.layers.rows[_has_finder(run.layers.rows)]
    if rows.empty:
        return []
    headers = [
        "Portfolio",
        "Found by",
        "Wins",
        "Of all solves",
        "Proven optimal",
        "Median gap",
        "Median time",
    ]
    totals = rows["solver"].value_counts()
    cells = []
    for (solver, member), group in rows.groupby(["solver", "solved_by"], sort=True, observed=True):
        fraction, proven = len(group) / totals[solver], int(group["status"].eq("optimal").sum())
        gap, time = (_median_and_most(group[name].dropna())[0] for name in ("gap", "cpu_seconds"))
        row = [Cell(solver), Cell(member), Cell(len(group), sort=len(group), number=True)]
        row += [Cell(percent(fraction), sort=fraction, number=True), Cell(proven, sort=proven, number=True)]
        row += [Cell(percent(gap), sort=gap, number=True)]
        cells.append([*row, Cell(NOTHING if time is None else seconds(time), sort=time, number=True)])
    caption = "Wins of the members of a portfolio"
    return [
        paragraph("Which member of the portfolio found the mapping that was kept:"),
        table(headers, cells, caption),
    ]


def _solver_cells(names: tuple[str, str], rows: pandas.DataFrame, statuses: list[str]) -> list[Cell]:
    cached = rows["cached"].eq(True)
    counts = [int(rows["status"].eq(status).sum()) for status in statuses]
    proven = rows["program_proven"].dropna().astype(bool)
    gaps, times = rows["gap"].dropna(), rows["cpu_seconds"].dropna()
    spent = rows["cpu_seconds"][~cached].sum()
    fractions = [proven.mean() if len(proven) else None, *_median_and_most(gaps)]
    cells = [Cell(names[0]), Cell(names[1])]
    cells += [Cell(number, sort=number, number=True) for number in (len(rows), int(cached.sum()), *counts)]
    cells += [Cell(percent(fraction), sort=fraction, number=True) for fraction in fractions]
    for duration in (*_median_and_most(times), float(spent)):
        text = NOTHING if duration is None else seconds(duration)
        cells.append(Cell(text, sort=duration, number=True))
    return cells


def _median_and_most(values: pandas.Series) -> tuple[float | None, float | None]:
    return (float(values.median()), float(values.max())) if len(values) else (None, None)


def gap_figure(run: RunData) -> Figure | None:
    """Solves by gap, or None when no solve has one."""
    rows = run.layers.rows
    rows = rows[np.isfinite(rows["gap"].to_numpy(dtype="float64"))]
    if rows.empty:
        return None
    edges = np.linspace(0, max(float(rows["gap"].max()), 0.01), BINS + 1)
    layout = {
        "xaxis": {"title": {"text": "Gap to the proven lower bound (%)"}},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(run, rows, "gap", edges * 100.0, "%")
    return Figure("gaps", "Number of solves by gap", traces, layout | _stacked(), height=340)


def seconds_figure(run: RunData) -> Figure | None:
    """Solves by CPU seconds on a logarithmic axis, or None when no solve has a time."""
    rows = run.layers.rows[run.layers.rows["cpu_seconds"] > 0]
    if rows.empty:
        return None
    low, high = float(rows["cpu_seconds"].min()), float(rows["cpu_seconds"].max())
    edges = np.geomspace(low * 0.999, max(high, low * 2) * 1.001, BINS + 1)
    layout = {
        "xaxis": {"title": {"text": "CPU time of a solve (s)"}, "type": "log"},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(run, rows, "cpu_seconds", edges, "s")
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
    run: RunData, rows: pandas.DataFrame, column: str, edges: Any, unit: str
) -> list[dict[str, Any]]:
    """One bar trace a solver or member, ``edges`` in ``unit``; a percentage is 100 times the column."""
    every = sorted(_finders(run.layers.rows).cat.categories)
    colors = {finder: COLORS[index % len(COLORS)] for index, finder in enumerate(every)}
    shown = rows.assign(finder=_finders(rows), shown=rows[column] * (100.0 if unit == "%" else 1.0))
    ranges = [f"{a:.3g} to {b:.3g} {unit}" for a, b in pairwise(edges)]
    traces = []
    for finder, group in shown.groupby("finder", sort=True, observed=True)["shown"]:
        counts, _ = np.histogram(np.clip(group, edges[0], edges[-1]), bins=edges)
        hovers = [
            f"{chart_text(finder)}<br>{text}: {n} solves" for text, n in zip(ranges, counts, strict=True)
        ]
        traces.append(
            {
                "type": "bar",
                "name": chart_text(finder),
                "x": [float(f"{x:.6g}") for x in (edges[:-1] + edges[1:]) / 2],
                "width": [float(f"{x:.6g}") for x in np.diff(edges)],
                "y": [int(count) for count in counts],
                "hovertext": hovers,
                "hoverinfo": "text",
                "marker": {"color": colors[finder]},
            }
        )
    return traces


def _has_finder(rows: pandas.DataFrame) -> pandas.Series:
    """Which solves were answered by a member of a portfolio."""
    return rows["solved_by"].notna() & rows["solved_by"].ne("")


def _finders(rows: pandas.DataFrame) -> pandas.Series:
    """``layers.found_by`` of each solve, as categories: there are few of them."""
    import pandas

    texts = [rows[name].cat.categories.tolist() for name in ("solver", "solved_by")]
    # the number of a pair, where no member is one more: numbers are grouped many times as fast as texts
    members = len(texts[1]) + 1
    pairs = rows["solver"].cat.codes.astype("int64") * members + rows["solved_by"].cat.codes + 1
    met = np.flatnonzero(np.bincount(pairs, minlength=1))
    named = [
        found_by({"solver": texts[0][pair // members], "solved_by": ["", *texts[1]][pair % members]})
        for pair in met.tolist()
    ]
    # without a member a solver has one name, whether the row says so with null or with an empty text
    names, number = np.unique(named, return_inverse=True) if named else (np.array([]), np.array([], int))
    codes = number[np.searchsorted(met, pairs)]
    return pandas.Series(pandas.Categorical.from_codes(codes, names.tolist()), index=rows.index)
