"""Which axes matter: the share of each objective's variance that each axis explains on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from results.front.importance import Importance, NotEnoughDesignsError, importance
from results.report.data import RunData
from results.report.html import Figure, Section, chart_text, element, joined, paragraph
from results.report.sections.spending import COLORS
from results.units import percent

REST = "together or unexplained"


def importance_section(run: RunData) -> Section | None:
    """Bars by axis and objective; absent where the study varies nothing or nothing is complete."""
    if not run.axes or not run.judged:
        return None
    title = "Importance of the axes"
    axes = {axis: [run.axis_text(i, axis) for i in run.judged] for axis in run.axes}
    try:
        shares = [importance(axes, run.points[run.judged, place]) for place in range(len(run.objectives))]
    except NotEnoughDesignsError as error:
        text = f"The importance of the axes cannot be told: {error}."
        return Section("importance", title, paragraph(text, class_="empty"))
    panel = element("div", _figure(run, shares).html(), class_="panel")
    return Section("importance", title, joined([paragraph(_definition(run)), panel]))


def _definition(run: RunData) -> str:
    return (
        "Share of the variance of each objective's logarithm that one axis explains by itself. An additive "
        f"model, one effect for each value of each axis, is fitted to the {len(run.judged)} complete designs "
        "by least squares; a share is the variance of an axis' effects over its values, each counted once, "
        f'less what noise alone would give. What depends on two axes at once is in "{REST}". A search looks '
        "closer where it is good, and constraints tie axes together: shares then speak of the region that "
        "was looked at, and small ones are uncertain."
    )


def _figure(run: RunData, found: list[Importance]) -> Figure:
    names = [*run.axes, REST]
    traces: list[dict[str, Any]] = []
    for place, (objective, of_axes) in enumerate(zip(run.objectives, found, strict=True)):
        shares = [*of_axes.shares.values(), of_axes.rest]
        label = run.scale(objective).label
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": list(range(len(names))),
                "x": [round(100 * share, 3) for share in shares],
                "text": [percent(share) for share in shares],
                "textposition": "outside",
                "cliponaxis": False,
                "hovertext": [
                    f"{chart_text(name)}<br>{label}: {percent(s)}"
                    for name, s in zip(names, shares, strict=True)
                ],
                "hoverinfo": "text",
                "marker": {"color": COLORS[place % len(COLORS)]},
            }
        )
    layout = {
        "barmode": "group",
        "bargap": 0.3,
        "xaxis": {"title": {"text": "Share of the variance (%)"}, "range": [0, 108]},
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": [chart_text(name) for name in names],
            "autorange": "reversed",
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "margin": {"l": 140, "r": 24, "t": 44, "b": 52},
    }
    height = 130 + int(np.ceil(len(names) * (16 * len(found) + 14)))
    description = "Share of each objective's variance explained by each axis"
    return Figure("importance-shares", description, traces, layout, height=height)
