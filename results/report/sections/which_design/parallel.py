"""Parallel coordinates: every design as a line across its axes and objectives, the front highlighted."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from results.report.colors import FRONT_COLOR
from results.report.data import RunData, thinned
from results.report.html import Figure, ReportSection, chart_text, element, joined, paragraph

MOST_LINES = 4000
MOST_TICKS = 12
PALE = "#c3c9d0"


def parallel_section(run: RunData) -> ReportSection | None:
    """One line a design; absent where the study varies nothing or nothing is complete."""
    if not run.axes or not run.judged:
        return None
    others = array("q", (i for i in run.judged if i not in run.on_front))
    front = thinned(run.front, MOST_LINES)
    shown = [*thinned(others, MOST_LINES - len(front)), *front]
    text = (
        "Each line is a complete design, from the values of its axes to its objectives; the front is "
        "coloured. Draw along a vertical line to keep the designs that pass there; click it to have all back."
    )
    if len(shown) < len(run.judged):
        among = "the whole front" if len(front) == len(run.front) else f"{len(front)} of the front"
        text += f" {len(shown)} of {len(run.judged)} designs are shown, {among} among them."
    panel = element("div", _figure(run, shown).html(), class_="panel")
    return ReportSection("parallel", "Axes and objectives", joined([paragraph(text), panel]))


def _figure(run: RunData, shown: list[int]) -> Figure:
    dimensions = [_axis(run, axis, shown) for axis in run.axes]
    dimensions += [_objective(run, index, shown) for index in range(len(run.objectives))]
    trace = {
        "type": "parcoords",
        "line": {
            "color": [1 if i in run.on_front else 0 for i in shown],
            "colorscale": [[0, PALE], [1, FRONT_COLOR]],
            "cmin": 0,
            "cmax": 1,
        },
        "dimensions": dimensions,
        "labelside": "top",
    }
    layout = {"margin": {"l": 70, "r": 60, "t": 60, "b": 24}}
    description = f"{len(shown)} designs as lines across axes and objectives"
    return Figure("parallel-lines", description, [trace], layout, height=440)


def _axis(run: RunData, axis: str, shown: list[int]) -> dict[str, Any]:
    """The axis' values at equal distances, from small to large where they are numbers."""
    values = run.tried(axis)
    position_of = {text: index for index, text in enumerate(values)}
    ticks = sorted({int(t) for t in np.linspace(0, len(values) - 1, min(len(values), MOST_TICKS)).round()})
    dimension: dict[str, Any] = {
        "label": chart_text(axis),
        "values": [position_of[run.axis_text(i, axis)] for i in shown],
        "tickvals": ticks,
        "ticktext": [chart_text(values[tick]) for tick in ticks],
    }
    # a single value would leave the line without an extent
    return dimension | {"range": [-0.5, 0.5] if len(values) == 1 else [0, len(values) - 1]}


def _objective(run: RunData, index: int, shown: list[int]) -> dict[str, Any]:
    scale = run.scale(run.objectives[index])
    return {"label": scale.title, "values": [scale.number(run.points[i, index]) for i in shown]}
