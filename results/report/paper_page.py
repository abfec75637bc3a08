"""A page of a paper's figures: our tables and charts, and what is not reproduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results.report.html import (
    Cell,
    Figure,
    Markup,
    ReportSection,
    chart_text,
    joined,
    number_cell,
    paragraph,
    table,
)
from results.report.page import page_of, write_page


@dataclass(frozen=True)
class PaperChart:
    """Bars of ``quantity``: for each label one of every series."""

    quantity: str
    labels: tuple[str, ...]
    series: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class PaperSection:
    """One figure of the paper; without rows its remarks say why there are none."""

    name: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    remarks: tuple[str, ...]
    chart: PaperChart | None = None


def write_paper_page(path: Path, title: str, sections: Sequence[PaperSection]) -> Path:
    """Write the page, whole or not at all; CannotWriteError where it cannot be written."""
    parts = [_section(section, number) for number, section in enumerate(sections)]
    head = paragraph("Every number is counted by the cost model; remarks say what of the paper is missing.")
    return write_page(page_of(title, "The paper's figures from our studies.", head, parts), path)


def _section(section: PaperSection, number: int) -> ReportSection:
    parts: list[Markup] = []
    if section.chart is not None:
        parts.append(_figure(section.chart, f"figure{number}").html())
    if section.rows:
        rows = [tuple(_cell(value) for value in row) for row in section.rows]
        parts.append(table(section.headers, rows, section.name))
    parts += [paragraph(remark) for remark in section.remarks]
    return ReportSection(f"section{number}", section.name, joined(parts))


def _cell(value: str | float) -> Cell | object:
    return value if isinstance(value, str) else number_cell(f"{value:.4g}", value)


def _figure(chart: PaperChart, key: str) -> Figure:
    traces = [
        {
            "type": "bar",
            "name": chart_text(name),
            "x": [chart_text(label) for label in chart.labels],
            "y": list(values),
        }
        for name, values in chart.series.items()
    ]
    return Figure(key, chart.quantity, traces, {"yaxis": {"title": {"text": chart_text(chart.quantity)}}})
