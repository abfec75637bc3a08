"""The importance of the axes: the fraction of each objective's variance that each axis explains by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from results.front.importance import Importance, NotEnoughDesignsError, importance
from results.report.colors import COLORS
from results.report.data import RunData
from results.report.html import Figure, ReportSection, chart_text, element, joined, paragraph
from results.units import percent

REST = "together or unexplained"


def importance_section(run: RunData) -> ReportSection | None:
    """Bars by axis and objective; absent where the study varies nothing or nothing is complete."""
    if not run.axes or not run.judged:
        return None
    title = "Importance of the axes"
    axes = {axis: _texts(run, axis) for axis in run.axes}
    try:
        fractions = importance(axes, list(run.points[run.judged].T))
    except NotEnoughDesignsError as error:
        text = f"The importance of the axes cannot be told: {error}."
        return ReportSection("importance", title, paragraph(text, class_="empty"))
    panel = element("div", _figure(run, fractions).html(), class_="panel")
    return ReportSection("importance", title, joined([paragraph(_definition(run)), panel]))


def _texts(run: RunData, axis: str) -> list[str]:
    """The value of the axis of each judged design."""
    texts, numbers = run.axis_numbers(axis)
    return [texts[number] for number in numbers[run.judged]]


def _definition(run: RunData) -> str:
    return (
        "How much of the variance of each objective's logarithm one axis explains by itself, as a fraction. "
        f"A model with one effect for each value of each axis is fitted to the {len(run.judged)} complete "
        "designs by least squares. The fraction of an axis is the variance of its effects, every value "
        "counted once, less what noise would give, over that of all axes and the rest. What depends on two "
        f'axes at once is in "{REST}". A search tries more designs where they are good, and constraints tie '
        "axes together: fractions hold for the designs that were tried, and small ones are uncertain."
    )


def _figure(run: RunData, found: list[Importance]) -> Figure:
    names = [*run.axes, REST]
    traces: list[dict[str, Any]] = []
    for index, (objective, of_axes) in enumerate(zip(run.objectives, found, strict=True)):
        fractions = [*of_axes.fractions.values(), of_axes.rest]
        label = run.scale(objective).label
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": list(range(len(names))),
                "x": [round(100 * fraction, 3) for fraction in fractions],
                "text": [percent(fraction) for fraction in fractions],
                "textposition": "outside",
                "cliponaxis": False,
                "hovertext": [
                    f"{chart_text(name)}<br>{label}: {percent(s)}"
                    for name, s in zip(names, fractions, strict=True)
                ],
                "hoverinfo": "text",
                "marker": {"color": COLORS[index % len(COLORS)]},
            }
        )
    layout = {
        "barmode": "group",
        "bargap": 0.3,
        "xaxis": {"title": {"text": "Fraction of the variance (%)"}, "range": [0, 108]},
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": [chart_text(name) for name in names],
            "autorange": "reversed",
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "margin": {"l": 140, "r": 24, "t": 44, "b": 52},
    }
    height = 130 + int(np.ceil(len(names) * (16 * len(found) + 14)))
    description = "Fraction of each objective's variance explained by each axis"
    return Figure("importance-fractions", description, traces, layout, height=height)
