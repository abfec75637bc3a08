"""The page of ``archsweep compare``: runs beside one another, with the report's components."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from results.explain.runs import ComparedRun, RunComparison, union_front
from results.report.colors import COLORS
from results.report.data import RunData
from results.report.html import (
    Figure,
    Markup,
    ReportSection,
    chart_text,
    element,
    joined,
    number_cell,
    paragraph,
    table,
)
from results.report.page import page_of, write_page
from results.units import TIMES, digits, percent, scale_for

MOST_ROWS = 200
"""Rows of a table; the first ones are the largest differences."""


def write_comparison(runs: Mapping[str, RunData], comparison: RunComparison, path: Path) -> Path:
    """Write the page, whole or not at all."""
    sections = [
        ReportSection("fronts", "Fronts", _fronts(runs, comparison)),
        ReportSection("sides", "Designs that changed sides", _changed(comparison)),
        ReportSection("causes", "Why layers cost something else", _causes(comparison)),
        ReportSection("layers", "Layer by layer", _layers(comparison)),
    ]
    head = element("dl", *(_card(run) for run in comparison.runs), class_="cards")
    title = " and ".join(run.name for run in comparison.runs)
    page = page_of(title, "Runs beside one another.", head, sections)
    return write_page(page, path)


def _card(run: ComparedRun) -> Markup:
    remark = f"{run.front:,} of {run.judged:,} designs on its front"
    parts = [element("dt", run.name), element("dd", percent(run.of_best))]
    return element("div", *parts, element("dd", f"of the hypervolume of all; {remark}", class_="remark"))


def _fronts(runs: Mapping[str, RunData], comparison: RunComparison) -> Markup:
    """The fronts on one picture over the first two objectives, and how many of each are on that of all."""
    union = union_front(runs)
    rows = [
        (
            run.name,
            number_cell(f"{run.judged:,}", run.judged),
            number_cell(f"{run.front:,}", run.front),
            number_cell(f"{len(union[run.name]):,}", len(union[run.name])),
            number_cell(f"{run.hypervolume:.6g}", run.hypervolume),
            number_cell(percent(run.of_best), run.of_best),
        )
        for run in comparison.runs
    ]
    headers = ("Run", "Judged", "On its front", "On the front of all", "Hypervolume", "Of all runs' together")
    reference = ", ".join(
        f"{name} {value:.6g}" for name, value in zip(comparison.objectives, comparison.reference, strict=True)
    )
    text = f"Hypervolumes are under one reference point: {reference}."
    return joined(
        [table(headers, rows, "Fronts of the runs"), paragraph(text), _picture(runs, comparison).html()]
    )


def _picture(runs: Mapping[str, RunData], comparison: RunComparison) -> Figure:
    # a study with one objective is drawn on the diagonal
    names = (*comparison.objectives, comparison.objectives[0])[:2]
    scales = [
        scale_for(name, [run.value(design, name) for run in runs.values() for design in run.judged])
        for name in names
    ]
    traces: list[dict[str, Any]] = []
    for index, (label, run) in enumerate(runs.items()):
        color = COLORS[index % len(COLORS)]
        others = [design for design in run.judged if design not in run.on_front]
        for designs, mode, suffix in ((run.front, "front", ""), (others, "others", ", off its front")):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": chart_text(f"{label}{suffix}"),
                    "x": [scales[0].number(run.value(design, names[0])) for design in designs],
                    "y": [scales[1].number(run.value(design, names[1])) for design in designs],
                    "hovertext": [f"{chart_text(label)}<br>{run.hover(design)}" for design in designs],
                    "hoverinfo": "text",
                    "marker": {
                        "color": color,
                        "size": 10 if mode == "front" else 5,
                        "opacity": 1.0 if mode == "front" else 0.35,
                        "symbol": ("circle", "square", "diamond", "cross")[index % 4],
                    },
                }
            )
    layout = {
        "xaxis": {"title": {"text": scales[0].title}},
        "yaxis": {"title": {"text": scales[1].title}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 72, "r": 16, "t": 48, "b": 52},
    }
    return Figure("fronts-figure", "The designs and fronts of all runs", traces, layout, height=480)


def _changed(comparison: RunComparison) -> Markup:
    if not comparison.changed:
        return paragraph("No design that two runs share is on the front of one of them only.", class_="empty")
    rows = [
        (
            ", ".join(f"{axis} {text}" for axis, text in one.axes.items()) or "the one design",
            one.runs[0] if one.on_front[0] else one.runs[1],
            one.runs[1] if one.on_front[0] else one.runs[0],
            *(f"{TIMES}{digits(there / here)}" if here else "" for here, there in one.values.values()),
        )
        for one in comparison.changed[:MOST_ROWS]
    ]
    ratios = [f"{name}, second over first" for name in comparison.objectives]
    headers = ("Design", "On the front of", "Not on that of", *ratios)
    return table(headers, rows, "Designs that are on the front of one run only")


def _causes(comparison: RunComparison) -> Markup:
    if not comparison.differences:
        return paragraph("Every layer that two runs share costs the same in both.", class_="empty")
    rows = [
        (
            "; ".join(causes),
            number_cell(f"{len(some):,}", len(some)),
            _range([one.energy_ratio for one in some]),
            _range([one.cycles_ratio for one in some]),
        )
        for causes, some in comparison.by_cause.items()
    ]
    return table(("Cause", "Layers of designs", "Energy", "Cycles"), rows, "Differences by their cause")


def _range(ratios: list[float]) -> str:
    return f"{TIMES}{digits(min(ratios))} to {TIMES}{digits(max(ratios))}"


def _layers(comparison: RunComparison) -> Markup:
    rows = [
        (
            " → ".join(one.runs),
            ", ".join(f"{axis} {text}" for axis, text in one.axes.items()),
            f"{one.network}/{one.name}",
            one.status[0] if one.status[0] == one.status[1] else " → ".join(one.status),
            number_cell(f"{TIMES}{digits(one.energy_ratio)}", one.energy_ratio),
            number_cell(f"{TIMES}{digits(one.cycles_ratio)}", one.cycles_ratio),
            "; ".join(one.causes),
        )
        for one in comparison.differences[:MOST_ROWS]
    ]
    text = f"The {len(rows):,} largest of {len(comparison.differences):,} differences."
    headers = ("Runs", "Design", "Layer", "Status", "Energy", "Cycles", "Cause")
    return joined([paragraph(text), table(headers, rows, "Layers that cost something else")])
