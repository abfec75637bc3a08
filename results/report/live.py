"""A page that follows a run while it goes: the same charts and tables as the report, drawn again and again.

The page asks for :func:`live_state` every two seconds, which is made of the run's small file
(:mod:`results.store.run_progress`) and of no rows.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np

from results.front.pareto import front_mask, reference_point
from results.front.progress import running_hypervolume
from results.report.colors import DOMINATED_COLOR, FRONT_COLOR
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
from results.report.page_shell import page_shell
from results.store.run_progress import FrontStep, RunProgress
from results.units import TIMES, Scale, digits, percent, scale_for, seconds

SILENT_SECONDS = 30.0
"""After so long without a word from a run the page says so: it may have been killed."""


def live_page(name: str) -> str:
    """The page, which fills itself from ``state`` beside its own address; plotly.js included."""
    parts = (
        ReportSection("charts", "Front and hypervolume", element("div", class_="grid", id="grid")),
        *(
            ReportSection(f"{key}-now", title, element("div", id=key))
            for key, title in (
                ("front", "On the front, so far"),
                ("slowest", "Slowest solves"),
                ("failures", "Failed solves"),
            )
        ),
    )
    lost = "This page's command does not answer: it has ended, or the connection is lost."
    without = "This page follows the run with JavaScript."
    main = [
        element("div", id="headline", aria_live="polite"),
        element("p", lost, class_="warning", id="lost", hidden=""),
        *(part.html() for part in parts),
        element("noscript", paragraph(without, class_="warning")),
    ]
    scripts = "report.js", "live.js"
    return page_shell("archsweep watch", name, joined(main), scripts=scripts, connects=True)


def live_state(run: RunProgress | None, now: float | None = None) -> dict[str, Any]:
    """What the page shows: HTML by the id of its element, figures by theirs, and whether the run has ended.

    ``run`` None: nothing has begun yet. ``now``: the time, in seconds since 1970; None: this moment.
    """
    if run is None:
        waiting = paragraph("The run has not begun: nothing is in its folder yet.", class_="empty")
        return {"parts": {"headline": waiting}, "figures": {}, "ended": False}
    figures = [*_front_figures(run), *_hypervolume_figure(run)]
    return {
        "parts": {
            "headline": joined([_cards(run), *_warnings(run, time.time() if now is None else now)]),
            "front": _front_table(run),
            "slowest": _slowest_table(run),
            "failures": _failures_table(run),
        },
        "figures": {
            figure.key: {"data": figure.traces, "layout": figure.layout, "label": figure.description}
            for figure in figures
        },
        "ended": run.state != "running",
    }


def _cards(run: RunProgress) -> Markup:
    designs = run.designs or {}
    finished = sum(designs.values())
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(designs.items()) if count)
    left = ""
    if run.seconds_left is not None and run.state == "running":
        left = f"about {seconds(run.seconds_left)} left"
    cards = [
        ("State", run.state, f"for {seconds(max(run.seen - run.began, 0.0))}"),
        ("Designs", f"{finished:,}", f"of {run.planned:,} at most; {counts}" if counts else ""),
        ("On the front", f"{len(_front(run)):,}", f"it grew {len(run.steps):,} times"),
        ("Solves", f"{run.done:,}", f"of {run.solves:,} known of; {left}".rstrip("; ")),
        ("From the store", f"{run.cached:,}", percent(run.cached / run.done) if run.done else ""),
        ("Failed solves", f"{run.failed:,}", percent(run.failed / run.done) if run.failed else ""),
        ("Rate", f"{digits(run.rate) if run.rate else 0}", "solves a second, over the last minute"),
        ("Workers", f"{run.busy:,}", f"answered in the last minute, {run.workers:,} so far"),
    ]
    shown = []
    for name, value, remark in cards:
        bad = "bad" if name == "Failed solves" and run.failed else None
        parts = [element("dt", name), element("dd", value, class_=bad)]
        shown.append(element("div", *parts, element("dd", remark, class_="remark")))
    return element("dl", *shown, class_="cards")


def _warnings(run: RunProgress, now: float) -> list[Markup]:
    silent = now - run.seen
    if run.state != "running" or silent < SILENT_SECONDS:
        return []
    text = (
        f"Nothing was heard of the run for {seconds(silent)}. If it was killed, the same command goes on "
        "from what is stored."
    )
    return [paragraph(text, class_="warning")]


def _front(run: RunProgress) -> list[FrontStep]:
    """The steps that are still on the front, by their first objective. A later row of a design counts."""
    latest = list({step.design_id: step for step in run.steps}.values())
    if not latest:
        return []
    on_front = front_mask([step.values for step in latest])
    return sorted((latest[int(i)] for i in np.flatnonzero(on_front)), key=lambda step: step.values)


def _scales(run: RunProgress) -> list[Scale]:
    return [scale_for(name, [worst]) for name, worst in zip(run.objectives, run.worst, strict=True)]


def _axis_line(step: FrontStep) -> str:
    """All axes of a design in one line, or its id where it has none."""
    shown = {
        axis: TIMES.join(map(str, value)) if isinstance(value, list) else str(value)
        for axis, value in step.axes.items()
    }
    return ", ".join(f"{axis} {value}" for axis, value in shown.items()) or step.design_id


def _hover(run: RunProgress, step: FrontStep) -> str:
    named = zip(_scales(run), step.values, strict=True)
    lines = [chart_text(_axis_line(step)), *(f"{scale.label}: {scale.text(v)}" for scale, v in named)]
    return "<br>".join([*lines, f"design {step.finished:,}, after {seconds(step.seconds)}"])


def _front_figures(run: RunProgress) -> list[Figure]:
    """Every pair of objectives: the front of now, and what was on it before."""
    if not run.steps:
        return []
    front = _front(run)
    # by identity: a design that was finished twice has two steps, of which only the later is on the front
    now = {id(step) for step in front}
    groups = (
        ("was on the front", [step for step in run.steps if id(step) not in now], DOMINATED_COLOR, 7),
        ("front", front, FRONT_COLOR, 11),
    )
    scales, figures = _scales(run), []
    for x, y in combinations(range(len(run.objectives)), 2):
        traces = [
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [scales[x].number(step.values[x]) for step in steps],
                "y": [scales[y].number(step.values[y]) for step in steps],
                "hovertext": [_hover(run, step) for step in steps],
                "hoverinfo": "text",
                "marker": {"color": color, "size": size},
            }
            for name, steps, color, size in groups
            if steps
        ]
        layout = {
            "xaxis": {"title": {"text": scales[x].title}},
            "yaxis": {"title": {"text": scales[y].title}},
            "margin": {"l": 64, "r": 16, "t": 24, "b": 52},
            "showlegend": False,
        }
        key = f"front-{run.objectives[x]}-{run.objectives[y]}"
        figures.append(Figure(key, f"{scales[y].label} against {scales[x].label.lower()}", traces, layout))
    return figures


def _hypervolume_figure(run: RunProgress) -> list[Figure]:
    """The hypervolume against designs finished, each step of the front a step."""
    # a single step makes no line
    if len(run.steps) < 2:
        return []
    points = np.array([step.values for step in run.steps])
    reference = reference_point(np.array([run.best, run.worst]))
    box = float(np.prod(reference - np.array(run.best)))
    reached = 100 * running_hypervolume(points, reference) / box
    finished = sum((run.designs or {}).values())
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [*(step.finished for step in run.steps), finished],
        # six digits draw the same line in less text, which the page asks for every two seconds
        "y": [float(f"{y:.6g}") for y in (*reached, reached[-1])],
        "line": {"shape": "hv", "width": 2, "color": FRONT_COLOR},
        "marker": {"size": 5, "color": FRONT_COLOR},
        "hovertext": [*(_hover(run, step) for step in run.steps), "now"],
        "hoverinfo": "text",
        "showlegend": False,
    }
    layout = {
        "xaxis": {"title": {"text": "Designs finished"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "Hypervolume (%)"}, "rangemode": "tozero"},
        "margin": {"l": 64, "r": 16, "t": 24, "b": 52},
    }
    return [Figure("hypervolume", "Hypervolume against designs finished", [trace], layout)]


def _front_table(run: RunProgress) -> Markup:
    front = _front(run)
    if not front:
        return paragraph("No design is complete and feasible yet.", class_="empty")
    scales = _scales(run)
    rows = [
        [
            _axis_line(step),
            *(number_cell(scale.text(v), v) for scale, v in zip(scales, step.values, strict=True)),
        ]
        for step in front
    ]
    return table(["Design", *(scale.label for scale in scales)], rows, "Designs on the front, so far")


def _slowest_table(run: RunProgress) -> Markup:
    if not run.slowest:
        return paragraph("Nothing was solved yet.", class_="empty")
    rows = [
        [one.what, number_cell(seconds(one.wall_seconds), one.wall_seconds), one.worker]
        for one in run.slowest
    ]
    return table(["Solve", "Wall time", "Worker"], rows, "The slowest solves, so far")


def _failures_table(run: RunProgress) -> Markup:
    if not run.failures:
        return paragraph("None.", class_="empty")
    rows = [[one.what, one.error] for one in reversed(run.failures)]
    return table(["Solve", "Why it failed"], rows, "The latest failed solves")
