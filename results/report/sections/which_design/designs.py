"""The table of the designs on the front, each with its multiples of the knee's values."""

from __future__ import annotations

from collections.abc import Sequence

from results.report.data import RunData
from results.report.html import Cell, Markup, ReportSection, element, joined, paragraph, table
from results.units import TIMES, digits, percent

LONGEST_TABLE = 100


def designs_section(run: RunData) -> ReportSection:
    """The table. The knee is the front design that is nearest to the best value of every objective."""
    title = "Best designs"
    if not run.front:
        return ReportSection(
            "designs", title, paragraph("No design is complete and feasible.", class_="empty")
        )
    shown = run.front[:LONGEST_TABLE]
    metrics = list(dict.fromkeys((*run.objectives, "energy_pj", "cycles", "area_um2")))
    headers = ["Design", *run.axes, *(run.scale(name).title for name in metrics)]
    headers += ["Energy gap", "Latency gap"]
    text = (
        "The designs on the front, ordered by the first objective. Small numbers are multiples of the knee's "
        "values; the knee is the front design nearest to the best value of every objective. A gap of 20 % "
        "means: it is proven that no mapping saves more than 20 % of the value. Certain: the design stays on "
        "the front even if better mappings are found for the others."
    )
    if run.weighted:
        runs = " and ".join(network.label for network in run.weighted)
        text += f" Energy and latency add up all runs that the study's weights ask for: {runs}."
    if len(shown) < len(run.front):
        text += f" The first {len(shown)} of {len(run.front)} are shown; archsweep pareto --csv writes all."
    rows = [_design_cells(run, i, metrics) for i in shown]
    return ReportSection(
        "designs", title, joined([paragraph(text), table(headers, rows, "Designs on the front")])
    )


def _design_cells(run: RunData, design: int, metrics: Sequence[str]) -> list[Cell]:
    marks = [element("span", mark, class_="mark") for mark in _marks(run, design)]
    number = float(run.front.index(design))
    cells = [Cell(joined([element("b", run.tag(design)), *marks]), sort=number)]
    for axis in run.axes:
        text = run.axis_text(design, axis)
        cells.append(Cell(text, number=text.replace(".", "").isdigit()))
    for name in metrics:
        value = run.value(design, name)
        cells.append(Cell(_compared(run, design, name), sort=value, number=True))
    for name in ("energy_gap", "cycles_gap"):
        gap = run.value(design, name)
        cells.append(Cell(percent(gap), sort=gap, number=True))
    return cells


def _compared(run: RunData, design: int, name: str) -> Markup:
    value, scaled = run.value(design, name), run.scale(name).number(run.value(design, name))
    base = run.value(run.knee, name) if run.knee is not None else None
    shown = joined(["" if scaled is None else digits(scaled)])
    if not value or not base:
        return shown
    return joined([shown, " ", element("small", f"{TIMES}{value / base:.2f}")])


def _marks(run: RunData, design: int) -> list[str]:
    best = run.points[run.front].min(axis=0)
    marks = [
        f"best {run.scale(name).label.lower()}"
        for index, name in enumerate(run.objectives)
        if run.points[design, index] == best[index]
    ]
    names = {"knee": design == run.knee, "baseline": design == run.baseline, "certain": design in run.certain}
    return marks + [name for name, holds in names.items() if holds]
