"""A page of measured cycles against predicted ones, and of what is left by cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from results.report.html import Figure, ReportSection, chart_text, paragraph
from results.report.page import page_of, write_page


@dataclass(frozen=True)
class MeasuredRun:
    """One run: measured and predicted cycles, and what the machine waited for."""

    name: str
    measured: float
    predicted: float
    cause: str


def write_measured(path: Path, title: str, runs: Sequence[MeasuredRun]) -> Path:
    """Write the page, whole or not at all; CannotWriteError where it cannot be written."""
    by_cause: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        by_cause[run.cause].append(run)
    causes = sorted(by_cause.items())
    ends = [min(run.measured for run in runs), max(run.measured for run in runs)]
    scatter = Figure(
        "measured",
        "Predicted cycles over measured cycles, one point a run; the line is where both are equal.",
        [
            *(
                {**_names(those), "x": [p.measured for p in those], "y": [p.predicted for p in those]}
                | _dots(cause)
                for cause, those in causes
            ),
            {"x": ends, "y": ends, "mode": "lines", "name": "equal", "line": {"dash": "dot"}},
        ],
        {
            "xaxis": {"type": "log", "title": {"text": "measured cycles"}},
            "yaxis": {"type": "log", "title": {"text": "predicted cycles"}},
        },
    )
    left = Figure(
        "left",
        "Error of predicted cycles by what the machine waited for; above 0 is predicted too slow.",
        [
            {
                **_names(those),
                "y": [p.predicted / p.measured - 1 for p in those],
                "type": "box",
                "boxpoints": "all",
                "name": chart_text(cause),
            }
            for cause, those in causes
        ],
        {"yaxis": {"tickformat": "+.0%", "title": {"text": "error"}}},
    )
    sections = [
        ReportSection("measured-section", "Measured against predicted", scatter.html()),
        ReportSection("left-section", "What is left, by cause", left.html()),
    ]
    head = paragraph(f"{len(runs)} runs. Causes are what the machine waits for in most steps.")
    return write_page(page_of(title, "Predicted cycles beside measured ones.", head, sections), path)


def _names(runs: Sequence[MeasuredRun]) -> dict[str, object]:
    return {"text": [chart_text(run.name) for run in runs], "hoverinfo": "text+x+y"}


def _dots(cause: str) -> dict[str, object]:
    return {"mode": "markers", "type": "scatter", "name": chart_text(cause)}
