"""The Pareto front: charts of every pair of objectives and of three in space, and what is proven of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from results.front.pareto import Points, front_mask, hypervolume, reference_point
from results.report.colors import BASELINE_COLOR, DOMINATED_COLOR, FRONT_COLOR
from results.report.data import RunData, thinned
from results.report.html import Figure, Markup, ReportSection, element, embedded, joined, paragraph
from results.report.labels import label_positions
from results.units import Scale, percent

MANY_POINTS = 3000
"""Charts of more points are drawn by WebGL, because an SVG element for each point makes a page slow."""
WIDEST_INTERVALS = 3.0
"""Intervals that would stretch an axis by more than this factor are hidden until the reader asks for them."""
CERTAIN, OPEN = "front, certain", "front"
COUNTED = "dominated, counted"
FEW_COLOR = "rgba(152,160,170,0.18)"
"""The colour of a cell with few designs: DOMINATED_COLOR, almost transparent."""
CELLS = (96, 72)
"""The numbers of cells across and up a chart; in each, designs that are not drawn one by one are counted."""
SPACE_CELLS = 14
"""Cells along each side of the box in space."""
MOST_DISCARDED = 1000
"""The most designs discarded by their bounds that are drawn; of more designs, evenly spread ones."""
OVER_SEEDS = "least to most of the seeds"
INTERVALS, DISCARDED = "down to the proven bounds", "discarded, at their bounds"
_LEGEND_BELOW = {
    "orientation": "h",
    "yref": "container",
    "y": 0.01,
    "yanchor": "bottom",
    "x": 0,
    "font": {"size": 12},
}

Trace = dict[str, Any]


def front_section(run: RunData) -> ReportSection:
    """The charts of the front, and sentences on what they show and what is proven."""
    title = "Pareto front"
    if not run.judged:
        text = "No design is complete and feasible yet, so there is no front. The failures are listed below."
        empty = paragraph(text, class_="empty")
        left_out = paragraph(_left_out(run)) if run.left_out else Markup("")
        return ReportSection("front", title, joined([empty, left_out]))
    pairs = [pair_figure(run, x, y) for x, y in combinations(range(len(run.objectives)), 2)]
    if len(run.objectives) == 1:
        pairs = [single_figure(run)]
    if len(run.objectives) >= 3:
        pairs.append(space_figure(run))
    grid = element("div", *(element("div", f.html(), class_="panel") for f in pairs), class_="grid")
    hovers = embedded("hovers-data", {i: run.hover(i) for i in (*run.drawn, *_drawn_discarded(run))})
    texts = map(
        paragraph, filter(None, (_summary(run), _left_out(run), _certainty(run), _searched(run), _drawn(run)))
    )
    return ReportSection("front", title, joined([*texts, grid, hovers]))


def _summary(run: RunData) -> str:
    points = run.points[run.judged]
    reference, ideal = reference_point(points), points.min(axis=0)
    fraction = hypervolume(points, reference) / float(np.prod(reference - ideal))
    names = ", ".join(run.scale(name).label.lower() for name in run.objectives)
    at = ", ".join(run.scale(n).text(v) for n, v in zip(run.objectives, reference, strict=True))
    judged = "complete designs that meet the constraints" if run.left_out else "complete designs"
    return (
        f"{len(run.front):,} of {len(run.judged):,} {judged} are on the front: no other design is at "
        f"least as good in {names} and better in one. Hypervolume: {percent(fraction)} of the box between "
        f"the best value of each objective and the reference point ({at}: the worst value and 10 % of the "
        "range)."
    )


def _left_out(run: RunData) -> str:
    sentence = run.left_out_sentence
    return sentence and f"{sentence}. Their answers are stored like those of the others."


def _certainty(run: RunData) -> str:
    text = (
        f"{len(run.certain):,} of the {len(run.front):,} are certain (diamonds): no other complete design "
        "would be at least as good everywhere and better somewhere even if it reached its proven bounds. "
        f"Designs off the front that could still join it if mapped better: {len(run.candidates):,}."
    )
    if run.discarded:
        text += (
            f" Designs discarded before any solve: {len(run.discarded):,}; a finished design is at least as "
            "good as their proven lower bounds, at which they are drawn."
        )
    return text


def _searched(run: RunData) -> str:
    """A sentence on front designs whose schedules other designs' searches found; empty without any."""
    if not any(run.over_seeds(design, "cycles") for design in run.front):
        return ""
    finders = (run.tree_found_on(one) for i in run.front for one in run.networks(i).values())
    moved = sum(
        any(run.tree_found_on(one) is not None for one in run.networks(i).values()) for i in run.front
    )
    named = sorted({run.tag(finder) or run.axis_line(finder) for finder in finders if finder is not None})
    text = (
        "A design's point is the best tree of all designs that its chip can run. Thick lines, and the boxes "
        "of points, say what its own seeds found, from the least to the most. Designs on the front whose "
        f"tree was found on another design: {moved}"
    )
    return f"{text} (on {'; '.join(named)})." if named else f"{text}."


def _drawn(run: RunData) -> str:
    """A sentence on designs that are counted in cells instead of drawn; empty where all are drawn."""
    if not len(run.counted):
        return ""
    of_front = sum(i in run.on_front for i in run.drawn)
    which = "all" if of_front == len(run.front) else f"{of_front:,}"
    return (
        f"{len(run.drawn):,} designs are drawn one by one: {which} on the front, and those just behind it, "
        "which are on the front of what is left without it, and so on. Of the other "
        f"{len(run.counted):,} the charts show how many are where: the stronger the colour, the more. "
        "archsweep pareto --csv and the Parquet files have every design."
    )


def pair_figure(run: RunData, x: int, y: int) -> Figure:
    """Two objectives: dominated designs grey, the front of all objectives marked, the pair's own a line."""
    names = (run.objectives[x], run.objectives[y])
    scales = (run.scale(names[0]), run.scale(names[1]))
    layout = {
        "xaxis": _axis(scales[0], run.points[run.judged, x]),
        "yaxis": _axis(scales[1], run.points[run.judged, y]),
        "legend": _LEGEND_BELOW,
        "margin": {"l": 64, "r": 16, "t": 32, "b": 132},
    }
    description = f"{scales[1].label} against {scales[0].label.lower()} of {len(run.judged)} designs"
    behind = [
        *_counted_cells(run, x, y),
        _staircase(run, x, y),
        *_intervals(run, x, y),
        *_over_seeds(run, x, y),
    ]
    behind += _discarded(run, x, y)
    traces = [*behind, *_point_traces(run, (x, y), "scatter")]
    return Figure(f"front-{names[0]}-{names[1]}", description, traces, layout, height=480)


def single_figure(run: RunData) -> Figure:
    """One objective: a bar for each design by its rank; of very many designs, the best ones."""
    scale, order = run.scale(run.objectives[0]), sorted(run.drawn, key=lambda i: run.points[i, 0])
    trace = {
        "type": "bar",
        "name": scale.label,
        "x": list(range(1, len(order) + 1)),
        "y": [scale.number(run.points[i, 0]) for i in order],
        "hovertext": [run.hover(i) for i in order],
        "hoverinfo": "text",
        "customdata": [run.tag(i) for i in order],
        "marker": {"color": [FRONT_COLOR if i in run.on_front else DOMINATED_COLOR for i in order]},
    }
    layout = {"xaxis": {"title": {"text": "Rank"}}, "yaxis": {"title": {"text": scale.title}}}
    described = f"{scale.label} of {'the best designs' if len(run.counted) else 'every design'}"
    return Figure(f"front-{run.objectives[0]}", described, [trace], layout)


def space_figure(run: RunData) -> Figure:
    """The first three objectives in space, to be turned."""
    scales = [run.scale(name) for name in run.objectives[:3]]
    axes = {f"{letter}axis": {"title": {"text": s.title}} for letter, s in zip("xyz", scales, strict=True)}
    layout = {
        "scene": {**axes, "camera": {"eye": {"x": 1.75, "y": -1.75, "z": 0.9}}},
        "legend": _LEGEND_BELOW | {"itemsizing": "constant"},
        "margin": {"l": 0, "r": 0, "t": 8, "b": 64},
    }
    traces = _point_traces(run, (0, 1, 2), "scatter3d")
    return Figure("front-space", "The front in three objectives", traces, layout, height=480)


def _point_traces(run: RunData, objectives: Sequence[int], kind: str) -> list[Trace]:
    drawn = frozenset(run.drawn)
    certain = [i for i in run.front if i in drawn and i in run.certain]
    open_ = [i for i in run.front if i in drawn and i not in run.certain]
    size = 6 if kind == "scatter3d" else 10
    positions = label_positions(run.points[run.judged][:, objectives], run.points[run.front][:, objectives])
    position_of = dict(zip(run.front, positions, strict=True))
    dominated = _points(run, [i for i in run.drawn if i not in run.on_front], objectives, kind, "dominated")
    dominated["marker"] = {"color": DOMINATED_COLOR, "size": size * 0.65, "opacity": 0.75}
    traces = [*(_counted_in_space(run) if kind == "scatter3d" else ()), dominated]
    for chosen, name, symbol in ((open_, OPEN, "circle"), (certain, CERTAIN, "diamond")):
        trace = _points(run, chosen, objectives, kind, name)
        trace["marker"] = {"color": FRONT_COLOR, "size": size, "symbol": symbol}
        if any(position_of[i] for i in chosen):
            trace["mode"] = "markers+text"
            trace["text"] = [run.tag(i) if position_of[i] else "" for i in chosen]
            trace["textposition"] = [position_of[i] or "top center" for i in chosen]
        traces.append(trace)
    traces += _baseline(run, objectives, kind, size)
    return [trace for trace in traces if trace["x"]]


def _baseline(run: RunData, objectives: Sequence[int], kind: str, size: int) -> list[Trace]:
    """A ring around the baseline, whose point is drawn as well, on or off the front."""
    if run.baseline is None or run.baseline not in run.judged:
        return []
    trace = _points(run, [run.baseline], objectives, kind, "baseline")
    ring = {"symbol": "circle-open", "size": size * 1.8, "color": BASELINE_COLOR, "line": {"width": 2.5}}
    return [trace | {"marker": ring}]


def _points(run: RunData, chosen: list[int], objectives: Sequence[int], kind: str, name: str) -> Trace:
    drawn_by = "scattergl" if kind == "scatter" and len(run.judged) > MANY_POINTS else kind
    trace: Trace = {"type": drawn_by, "mode": "markers", "name": name, "hoverinfo": "text"}
    for letter, objective in zip("xyz", objectives, strict=False):
        scale = run.scale(run.objectives[objective])
        trace[letter] = [scale.number(run.points[i, objective]) for i in chosen]
    # a design is in several charts; its hover box is on the page once
    trace["meta"] = {"hovers": chosen}
    trace["customdata"] = [run.tag(i) for i in chosen]
    return trace


def _intervals(run: RunData, x: int, y: int) -> list[Trace]:
    """For each front design a line from its point down to the proven bound of either objective."""
    pair = [x, y]
    found, bounds = run.points[run.front][:, pair], run.bounds[run.front][:, pair]
    if not ((found > bounds) & (bounds > 0)).any():
        return []
    scales = [run.scale(run.objectives[objective]) for objective in pair]
    ends: list[list[float | None]] = [[], []]
    for point, bound in zip(found, bounds, strict=True):
        for moved in (0, 1):
            if bound[moved] > 0:  # on a logarithmic axis nothing else can be drawn
                end = np.where(np.arange(2) == moved, bound, point)
                for column, scale, a, b in zip(ends, scales, point, end, strict=True):
                    column += [scale.number(a), scale.number(b), None]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": INTERVALS,
            "x": ends[0],
            "y": ends[1],
            "line": {"width": 1, "color": FRONT_COLOR},
            "opacity": 0.55,
            "hoverinfo": "skip",
            "visible": True if _narrow(run.points[run.judged][:, pair], bounds) else "legendonly",
        }
    ]


def _over_seeds(run: RunData, x: int, y: int) -> list[Trace]:
    """Through each front point a line along either objective, over what the seeds of its design found.

    The point itself is the best tree of all designs, so it may lie below its own seeds.
    """
    pair = [x, y]
    scales = [run.scale(run.objectives[objective]) for objective in pair]
    ends: list[list[float | None]] = [[], []]
    widest = run.points[run.judged][:, pair].max(axis=0)
    low, high = run.points[run.judged][:, pair].min(axis=0), widest.copy()
    for design in run.front:
        for moved in (0, 1):
            over = run.over_seeds(design, run.objectives[pair[moved]])
            if over is None or over[0] == over[1]:
                continue
            widest[moved] = max(widest[moved], over[1])
            for axis in (0, 1):
                at = run.points[design, pair[axis]]
                a, b = over if axis == moved else (at, at)
                ends[axis] += [scales[axis].number(a), scales[axis].number(b), None]
    if not ends[0]:
        return []
    narrow = bool((widest - low <= WIDEST_INTERVALS * (high - low)).all())
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": OVER_SEEDS,
            "x": ends[0],
            "y": ends[1],
            "line": {"width": 3, "color": FRONT_COLOR},
            "opacity": 0.3,
            "hoverinfo": "skip",
            "visible": True if narrow else "legendonly",
        }
    ]


def _narrow(judged: Points, bounds: Points) -> bool:
    low, high = judged.min(axis=0), judged.max(axis=0)
    reach = np.minimum(low, np.where(bounds > 0, bounds, np.inf).min(axis=0))
    return bool((high - reach <= WIDEST_INTERVALS * (high - low)).all())


def _discarded(run: RunData, x: int, y: int) -> list[Trace]:
    drawable = [i for i in _drawn_discarded(run) if (run.bounds[i, [x, y]] > 0).all()]
    if not drawable:
        return []
    every = int((run.bounds[run.discarded][:, [x, y]] > 0).all(axis=1).sum())
    some = f" ({len(drawable):,} of {every:,})" if len(drawable) < every else ""
    scales = (run.scale(run.objectives[x]), run.scale(run.objectives[y]))
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"{DISCARDED}{some}",
            "x": [scales[0].number(run.bounds[i, x]) for i in drawable],
            "y": [scales[1].number(run.bounds[i, y]) for i in drawable],
            "meta": {"hovers": drawable},
            "hoverinfo": "text",
            "marker": {"symbol": "x-thin", "size": 7, "line": {"width": 1.2, "color": DOMINATED_COLOR}},
        }
    ]


def _drawn_discarded(run: RunData) -> list[int]:
    return thinned(run.discarded, MOST_DISCARDED)


def _counted_cells(run: RunData, x: int, y: int) -> list[Trace]:
    """The numbers of undrawn designs in each cell of the chart, as a heat map."""
    if not len(run.counted):
        return []
    scales = [run.scale(run.objectives[objective]) for objective in (x, y)]
    points = run.points[run.counted]
    # On a logarithmic axis the edges are logarithmic, too, so that all cells are equally wide on the screen.
    edges = [
        _edges(points[:, objective], cells, logarithmic=_wide(run.points[run.judged, objective]))
        for objective, cells in zip((x, y), CELLS, strict=True)
    ]
    counts, _, _ = np.histogram2d(points[:, x], points[:, y], bins=edges)
    across, up = ([scale.number(edge) for edge in ends] for scale, ends in zip(scales, edges, strict=True))
    return [
        {
            "type": "heatmap",
            "name": COUNTED,
            "x": across,
            "y": up,
            "z": [[float(f"{np.log10(n):.3g}") if n else None for n in row] for row in counts.T],
            "hovertext": [[f"{int(n):,} designs, dominated" if n else "" for n in row] for row in counts.T],
            "hoverinfo": "text",
            "hoverongaps": False,
            "showscale": False,
            "showlegend": True,
            "colorscale": [[0, FEW_COLOR], [1, DOMINATED_COLOR]],
            "zmin": 0,
            "zmax": float(f"{max(np.log10(counts.max()), 1.0):.3g}"),
        }
    ]


def _edges(values: Points, cells: int, logarithmic: bool) -> Points:
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.linspace(low - 0.5 * abs(low), low + 0.5 * abs(low), 2) if low else np.array([-0.5, 0.5])
    found = np.geomspace(low, high, cells + 1) if logarithmic else np.linspace(low, high, cells + 1)
    # Without this, rounding could leave the outermost designs outside of all cells.
    found[[0, -1]] = low, high
    return np.asarray(found)


def _counted_in_space(run: RunData) -> list[Trace]:
    """The same in space: a mark at the mean of the designs of each cell; more designs make it larger."""
    if not len(run.counted):
        return []
    points = run.points[run.counted][:, :3]
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    cells = np.minimum((points - low) / np.where(span > 0, span, 1.0) * SPACE_CELLS, SPACE_CELLS - 1)
    number = cells.astype(np.int64) @ (SPACE_CELLS ** np.arange(points.shape[1]))
    _, inverse, counts = np.unique(number, return_inverse=True, return_counts=True)
    scales = [run.scale(name) for name in run.objectives[:3]]
    trace: Trace = {"type": "scatter3d", "mode": "markers", "name": COUNTED, "hoverinfo": "text"}
    for letter, scale, column in zip("xyz", scales, points.T, strict=False):
        middles = np.bincount(inverse, column) / counts
        trace[letter] = [scale.number(float(middle)) for middle in middles]
    sizes = [float(f"{2 + 1.6 * np.log10(n):.3g}") for n in counts]
    trace["hovertext"] = [f"{n:,} designs, dominated" for n in counts.tolist()]
    return [
        trace | {"marker": {"color": DOMINATED_COLOR, "size": sizes, "opacity": 0.35, "line": {"width": 0}}}
    ]


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


def _axis(scale: Scale, values: Points) -> dict[str, Any]:
    return {"title": {"text": scale.title}} | ({"type": "log"} if _wide(values) else {})


def _wide(values: Points) -> bool:
    """Whether values spread so far that their axis is logarithmic."""
    return bool(values.min() > 0 and values.max() / values.min() > 50)
