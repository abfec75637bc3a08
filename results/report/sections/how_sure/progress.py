"""Hypervolume over time: against designs finished and against CPU seconds."""

from __future__ import annotations

import numpy as np

from results.front.progress import SearchProgress, progress
from results.report.colors import FRONT_COLOR
from results.report.data import RunData
from results.report.html import Figure, ReportSection, element, joined, paragraph
from results.units import digits, percent, seconds

ALMOST = 0.99
"""The fraction of the final hypervolume; the text says when it was reached."""


def progress_section(run: RunData) -> ReportSection | None:
    """The hypervolume of the front found so far; absent before two designs are finished."""
    if len(run.judged) < 2:
        return None
    going = progress(run.designs, run.points)
    figures = [_figure(run, going, by_designs) for by_designs in (True, False)]
    grid = element("div", *(element("div", f.html(), class_="panel") for f in figures), class_="grid")
    title = "Hypervolume over time"
    return ReportSection("progress", title, joined([paragraph(_summary(run, going)), grid]))


def _summary(run: RunData, going: SearchProgress) -> str:
    at = ", ".join(run.scale(n).text(v) for n, v in zip(run.objectives, going.reference, strict=True))
    reached = int(np.argmax(going.fractions >= ALMOST * going.fractions[-1]))
    return (
        f"Hypervolume of the designs found so far, as a fraction of the box between the best value of each "
        f"objective in this run and the reference point ({at}: the worst value and 10 % of the range). "
        f"{percent(ALMOST)} of the final value was reached after {reached + 1} of {len(going.order)} designs "
        f"and {seconds(going.cpu_seconds[reached])} of {seconds(going.cpu_seconds[-1])} of CPU time. Designs "
        "that are infeasible, discarded or failed count as finished; answers from the store cost no time."
    )


def _figure(run: RunData, going: SearchProgress, by_designs: bool) -> Figure:
    count = len(going.order)
    steps = np.flatnonzero(np.diff(going.fractions, prepend=-1.0, append=-1.0)[:-1])
    steps = np.union1d(steps, [count - 1])
    across = steps + 1 if by_designs else going.cpu_seconds[steps]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [float(f"{x:.6g}") for x in across],
        "y": [float(f"{100 * y:.6g}") for y in going.fractions[steps]],
        "line": {"shape": "hv", "width": 2, "color": FRONT_COLOR},
        "marker": {"size": 5, "color": FRONT_COLOR},
        "hovertext": [_hover(run, going, int(step)) for step in steps],
        "hoverinfo": "text",
        "customdata": [run.tag(int(going.order[step])) for step in steps],
        "showlegend": False,
    }
    title = "Designs finished" if by_designs else "CPU time of solves (s)"
    layout = {
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "Hypervolume (%)"}, "rangemode": "tozero"},
        "margin": {"l": 64, "r": 16, "t": 32, "b": 52},
    }
    key = "progress-designs" if by_designs else "progress-seconds"
    return Figure(key, f"Hypervolume against {title.lower()}", [trace], layout, height=320)


def _hover(run: RunData, going: SearchProgress, step: int) -> str:
    return (
        f"{step + 1} designs, {digits(going.cpu_seconds[step])} s: {percent(going.fractions[step])}<br>"
        f"{run.hover(int(going.order[step]))}"
    )
