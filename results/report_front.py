"""The front: every pair of objectives as a chart, and three of them in space."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from results.pareto import Points, front_mask, hypervolume, reference_point
from results.report_data import CERTAIN_GAP, RunData
from results.report_html import Figure, Section, element, joined, paragraph
from results.report_units import Scale, percent

FRONT_COLOR, DOMINATED_COLOR = "#0d8b9b", "#98a0aa"
MANY_POINTS = 3000
"""From here on charts are drawn by WebGL, because an SVG element per point makes a page slow."""
LABEL_SHIFTS = {
    "top center": (0.0, 0.055),
    "middle right": (0.06, 0.0),
    "bottom center": (0.0, -0.055),
    "middle left": (-0.06, 0.0),
}
"""Where the name of a point may stand, and how far its middle is from the point, in shares of the chart."""
MOST_NAMES = 60
LABEL_SIZE = (0.055, 0.05)
"""Width and height of a name and its margin, in shares of the chart."""

Trace = dict[str, Any]


def front_section(run: RunData) -> Section:
    """Charts of the front over all designs."""
    title = "Pareto front"
    if not run.judged:
        text = "No design is complete and feasible yet, so there is no front. The failures are listed below."
        return Section("front", title, paragraph(text, class_="empty"))
    pairs = [pair_figure(run, x, y) for x, y in combinations(range(len(run.objectives)), 2)]
    if len(run.objectives) == 1:
        pairs = [single_figure(run)]
    if len(run.objectives) >= 3:
        pairs.append(space_figure(run))
    grid = element("div", *(element("div", f.html(), class_="panel") for f in pairs), class_="grid")
    return Section("front", title, joined([paragraph(_summary(run)), grid]))


def _summary(run: RunData) -> str:
    points = run.points[run.judged]
    reference, ideal = reference_point(points), points.min(axis=0)
    share = hypervolume(points, reference) / float(np.prod(reference - ideal))
    names = ", ".join(run.scale(name).label.lower() for name in run.objectives)
    at = ", ".join(run.scale(n).text(v) for n, v in zip(run.objectives, reference, strict=True))
    return (
        f"{len(run.front)} of {len(run.judged)} complete designs are on the front: no other design is at "
        f"least as good in {names} and better in one. Hypervolume: {percent(share)} of the box between the "
        f"best value of each objective and the reference point ({at}: the worst value and 10 % of the range)."
    )


def pair_figure(run: RunData, x: int, y: int) -> Figure:
    """Two objectives: dominated designs grey, the front of all objectives marked, the pair's own a line."""
    names = (run.objectives[x], run.objectives[y])
    scales = (run.scale(names[0]), run.scale(names[1]))
    layout = {
        "xaxis": _axis(scales[0], run.points[run.judged, x]),
        "yaxis": _axis(scales[1], run.points[run.judged, y]),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 64, "r": 16, "t": 56, "b": 52},
    }
    description = f"{scales[1].label} against {scales[0].label.lower()} of {len(run.judged)} designs"
    traces = [_staircase(run, x, y), *_point_traces(run, (x, y), "scatter")]
    return Figure(f"front-{names[0]}-{names[1]}", description, traces, layout)


def single_figure(run: RunData) -> Figure:
    """One objective: every design by its rank."""
    scale, order = run.scale(run.objectives[0]), sorted(run.judged, key=lambda i: run.points[i, 0])
    trace = {
        "type": "bar",
        "name": scale.label,
        "x": list(range(1, len(order) + 1)),
        "y": [scale.number(run.points[i, 0]) for i in order],
        "hovertext": [run.hover(i) for i in order],
        "hoverinfo": "text",
        "marker": {"color": [FRONT_COLOR if i in run.front else DOMINATED_COLOR for i in order]},
    }
    layout = {"xaxis": {"title": {"text": "Rank"}}, "yaxis": {"title": {"text": scale.title}}}
    return Figure(f"front-{run.objectives[0]}", f"{scale.label} of every design", [trace], layout)


def space_figure(run: RunData) -> Figure:
    """The first three objectives in space, to be turned."""
    scales = [run.scale(name) for name in run.objectives[:3]]
    axes = {f"{letter}axis": {"title": {"text": s.title}} for letter, s in zip("xyz", scales, strict=True)}
    layout = {
        "scene": {**axes, "camera": {"eye": {"x": 1.75, "y": -1.75, "z": 0.9}}},
        "legend": {"orientation": "h", "y": 1, "x": 0, "itemsizing": "constant"},
        "margin": {"l": 0, "r": 0, "t": 8, "b": 0},
    }
    traces = _point_traces(run, (0, 1, 2), "scatter3d")
    return Figure("front-space", "The front in three objectives", traces, layout)


def _point_traces(run: RunData, objectives: Sequence[int], kind: str) -> list[Trace]:
    dominated = [i for i in run.judged if i not in set(run.front)]
    certain = [i for i in run.front if run.certain(i)]
    open_ = [i for i in run.front if i not in set(certain)]
    size = 6 if kind == "scatter3d" else 10
    places = label_places(run.points[run.judged][:, objectives], run.points[run.front][:, objectives])
    place_of = dict(zip(run.front, places, strict=True))
    traces = [_points(run, dominated, objectives, kind, "dominated")]
    traces[0]["marker"] = {"color": DOMINATED_COLOR, "size": size * 0.65, "opacity": 0.75}
    for chosen, name, symbol in ((open_, "front", "circle"), (certain, _certain_name(), "diamond")):
        if chosen:
            trace = _points(run, chosen, objectives, kind, name)
            trace["marker"] = {"color": FRONT_COLOR, "size": size, "symbol": symbol}
            if any(places):
                trace["mode"] = "markers+text"
                trace["text"] = [run.tag(i) if place_of[i] else "" for i in chosen]
                trace["textposition"] = [place_of[i] or "top center" for i in chosen]
            traces.append(trace)
    return [trace for trace in traces if trace["x"]]


def label_places(judged: Points, front: Points) -> list[str]:
    """For each front point, a place for its name that hides no earlier name or front point; "" for none.

    The first two of the objectives count; the chart is taken to span the ``judged`` points. A front of more
    than MOST_NAMES points gets no names: the hover box has them.
    """
    if len(front) > MOST_NAMES:
        return [""] * len(front)
    low, span = judged[:, :2].min(axis=0), np.ptp(judged[:, :2], axis=0)
    spots = [tuple(spot) for spot in (front[:, :2] - low) / np.where(span > 0, span, 1.0)]
    taken, places = list(spots), []
    for x, y in spots:
        free = ""
        for place, (right, up) in LABEL_SHIFTS.items():
            middle = (x + right, y + up)
            if not any(_overlap(middle, other) for other in taken if other != (x, y)):
                free = place
                taken.append(middle)
                break
        places.append(free)
    return places


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(abs(p - q) < size for p, q, size in zip(a, b, LABEL_SIZE, strict=True))


def _certain_name() -> str:
    return f"front, proven within {percent(CERTAIN_GAP)}"


def _points(run: RunData, chosen: list[int], objectives: Sequence[int], kind: str, name: str) -> Trace:
    drawn_by = "scattergl" if kind == "scatter" and len(run.judged) > MANY_POINTS else kind
    trace: Trace = {"type": drawn_by, "mode": "markers", "name": name, "hoverinfo": "text"}
    for letter, objective in zip("xyz", objectives, strict=False):
        scale = run.scale(run.objectives[objective])
        trace[letter] = [scale.number(run.points[i, objective]) for i in chosen]
    trace["hovertext"] = [run.hover(i) for i in chosen]
    trace["customdata"] = [run.tag(i) for i in chosen]
    return trace


def _staircase(run: RunData, x: int, y: int) -> Trace:
    pair = run.points[:, [x, y]]
    steps = pair[front_mask(pair)]
    steps = steps[np.lexsort((steps[:, 1], steps[:, 0]))]
    scales = (run.scale(run.objectives[x]), run.scale(run.objectives[y]))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "front of these two",
        "x": [scales[0].number(v) for v in steps[:, 0]],
        "y": [scales[1].number(v) for v in steps[:, 1]],
        "line": {"shape": "hv", "width": 1.5, "dash": "dot", "color": FRONT_COLOR},
        "hoverinfo": "skip",
    }


def _axis(scale: Scale, values: Any) -> dict[str, Any]:
    wide = values.min() > 0 and values.max() / values.min() > 50
    return {"title": {"text": scale.title}} | ({"type": "log"} if wide else {})
