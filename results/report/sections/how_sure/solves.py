"""The quality of solves and their time, the winners within portfolios, and the mapping spaces."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

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
from results.report.solve_counts import Pair, SolveHistogram, SolvesAlike
from results.units import NOTHING, percent, seconds

STATUSES = ("optimal", "feasible", "infeasible", "unknown", "failed")


def solves_section(run: RunData) -> ReportSection | None:
    """Status counts, gaps and seconds, by solver; absent where only chips were scheduled."""
    title = "Solver quality"
    counts = run.layers
    if not counts.ended.solves:
        empty = paragraph("No solve has finished.", class_="empty")
        return None if run.schedules else ReportSection("solves", title, empty)
    text = (
        "Optimal: no mapping is better by the cost model, which is proven. Program proven: the solver's own, "
        "simpler program was solved to optimality. Gap: (objective - lower bound) / objective. Times are CPU "
        "time; an answer from the store has the time of its original solve, which this run did not spend and "
        "which is not in the time spent. Each layer's gap is among the certificates of its design above."
    )
    met = [status for status in STATUSES if counts.ended.statuses.get(status)]
    headers = ["Solver", "Objective", "Solves", "Cached", *map(str.capitalize, met), "Program proven"]
    headers += ["Median gap", "Largest gap", "Median time", "Longest time", "Time spent"]
    rows = [_solver_cells(pair, counts.by_objective[pair], met) for pair in sorted(counts.by_objective)]
    figures = [figure for figure in (gap_figure(run), seconds_figure(run)) if figure is not None]
    panels = [element("div", figure.html(), class_="panel") for figure in figures]
    grid = element("div", *panels, class_="grid") if panels else Markup("")
    tables = [table(headers, rows, "Solves by solver"), *_portfolio(run)]
    if run.spaces:
        tables.append(paragraph(f"Bounds and optima hold for a space. {spaces_text(run)}"))
    return ReportSection("solves", title, joined([paragraph(text), *tables, grid]))


def _portfolio(run: RunData) -> list[Markup]:
    """How often each member of a portfolio found the mapping that was kept; nothing without a portfolio."""
    counts = run.layers.by_member
    members = {pair: counts[pair] for pair in sorted(counts) if pair[1]}
    if not members:
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
    totals: Counter[str] = Counter()
    for (solver, _), alike in members.items():
        totals[solver] += alike.ended.solves
    cells = []
    for (solver, member), alike in members.items():
        wins, proven = alike.ended.solves, alike.ended.statuses.get("optimal", 0)
        fraction, gap, time = wins / totals[solver], alike.gaps.median, alike.seconds.median
        row = [Cell(solver), Cell(member), Cell(wins, sort=wins, number=True)]
        row += [Cell(percent(fraction), sort=fraction, number=True), Cell(proven, sort=proven, number=True)]
        row += [Cell(percent(gap), sort=gap, number=True)]
        cells.append([*row, Cell(NOTHING if time is None else seconds(time), sort=time, number=True)])
    caption = "Wins of the members of a portfolio"
    return [
        paragraph("Which member of the portfolio found the mapping that was kept:"),
        table(headers, cells, caption),
    ]


def _solver_cells(names: Pair, alike: SolvesAlike, statuses: list[str]) -> list[Cell]:
    ended = alike.ended
    counts = [ended.solves, ended.cached, *(ended.statuses.get(status, 0) for status in statuses)]
    fractions = [alike.proven / alike.said if alike.said else None, alike.gaps.median, alike.gaps.most]
    cells = [Cell(names[0]), Cell(names[1])]
    cells += [Cell(number, sort=number, number=True) for number in counts]
    cells += [Cell(percent(fraction), sort=fraction, number=True) for fraction in fractions]
    for duration in (alike.seconds.median, alike.seconds.most, ended.spent_seconds):
        text = NOTHING if duration is None else seconds(duration)
        cells.append(Cell(text, sort=duration, number=True))
    return cells


def gap_figure(run: RunData) -> Figure | None:
    """Solves by gap, or None when no solve has one."""
    if run.layers.gaps is None:
        return None
    layout = {
        "xaxis": {"title": {"text": "Gap to the proven lower bound (%)"}},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(run, run.layers.gaps, "%")
    return Figure("gaps", "Number of solves by gap", traces, layout | _stacked(), height=340)


def seconds_figure(run: RunData) -> Figure | None:
    """Solves by CPU seconds on a logarithmic axis, or None when no solve has a time."""
    if run.layers.seconds is None:
        return None
    layout = {
        "xaxis": {"title": {"text": "CPU time of a solve (s)"}, "type": "log"},
        "yaxis": {"title": {"text": "Solves"}},
    }
    traces = _histogram(run, run.layers.seconds, "s")
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


def _histogram(run: RunData, bars: SolveHistogram, unit: str) -> list[dict[str, Any]]:
    """One bar trace a solver or member, in ``unit``."""
    # Colours go by all finders of the run, not by those with bars here, so that both charts agree on them.
    every = sorted({_finder(pair) for pair in run.layers.by_member})
    colors = {finder: COLORS[index % len(COLORS)] for index, finder in enumerate(every)}
    edges = bars.edges
    ranges = [f"{a:.3g} to {b:.3g} {unit}" for a, b in pairwise(edges)]
    traces = []
    for pair in sorted(bars.counts, key=_finder):
        finder, counts = _finder(pair), bars.counts[pair]
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


def _finder(pair: Pair) -> str:
    """A solver and the member of a portfolio as ``design_layers.found_by`` names them."""
    return found_by({"solver": pair[0], "solved_by": pair[1]})
