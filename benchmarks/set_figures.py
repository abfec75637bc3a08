"""Charts in the form of SET's Figs 8, 10 and 11 from plain rows, as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

PATTERNS = {"layer_pipeline": "LP", "layer_sequential": "LS", "set": "SET"}
COLORS = {
    "LP": "#4477aa",
    "LS": "#ccbb44",
    "SET": "#aa3377",
    "random": "#bbbbbb",
    "uniform": "#ee6677",
    "search": "#228833",
}


@dataclass(frozen=True)
class PatternRow:
    """What one pattern reaches in one case with one seed: pJ, cycles and the objective's value."""

    platform: str
    network: str
    batch: int
    pattern: str
    seed: int
    energy_pj: float
    cycles: int
    value: float


@dataclass(frozen=True)
class TreePoint:
    """A tree of a network's space: ``drawn`` by a random walk, uniformly or on a search's way.

    ``depth`` is the leaves' mean.
    """

    network: str
    drawn: str
    depth: float
    energy_pj: float
    cycles: int
    dram_bytes: int
    noc_hop_bytes: float
    dram_fraction: float


def write_figures(path: Path, rows: Sequence[PatternRow], points: Sequence[TreePoint]) -> None:
    """Write all charts that there are rows for into the HTML file ``path``."""
    figures = [
        ("Patterns (Fig. 8)", patterns_figure(rows)),
        ("Variance over seeds (Fig. 10)", variance_figure(rows)),
    ]
    if points:
        figures.append(("Shape of the space (Fig. 11)", space_figure(points)))
    write_page(path, "SET", figures)


def write_page(path: Path, title: str, figures: Sequence[tuple[str, Any]]) -> None:
    """Write the charts under their heads as one HTML page that needs nothing from elsewhere."""
    from plotly.io import to_html

    parts = [
        f"<h2>{escape(head)}</h2>" + to_html(figure, full_html=False, include_plotlyjs=number == 0)
        for number, (head, figure) in enumerate(figures)
    ]
    page = "\n".join([f"<!doctype html><meta charset='utf-8'><title>{escape(title)}</title>", *parts])
    path.write_text(page, encoding="utf-8")


def patterns_figure(rows: Sequence[PatternRow]) -> Any:
    """Medians over seeds of energy and delay of every case, relative to SET's."""
    from plotly.graph_objects import Bar, Figure
    from plotly.subplots import make_subplots

    figure: Figure = make_subplots(rows=2, cols=1, shared_xaxes=True, subplot_titles=("energy", "delay"))
    cases = list(dict.fromkeys((row.platform, row.network, row.batch) for row in rows))
    labels = [f"{platform} {network} b{batch}" for platform, network, batch in cases]
    for pattern, name in PATTERNS.items():
        for row, key in enumerate(("energy_pj", "cycles"), 1):
            heights = [_median(rows, case, pattern, key) / _median(rows, case, "set", key) for case in cases]
            bar = Bar(x=labels, y=heights, name=name, marker_color=COLORS[name], showlegend=row == 1)
            figure.add_trace(bar, row=row, col=1)
    return figure.update_layout(barmode="group", height=600, yaxis_title="of SET's", yaxis2_title="of SET's")


def variance_figure(rows: Sequence[PatternRow]) -> Any:
    """Every seed's objective, relative to the median of the better of LP and LS."""
    from plotly.graph_objects import Box, Figure

    figure = Figure()
    for case in dict.fromkeys((row.platform, row.network, row.batch) for row in rows):
        base = min(
            _median(rows, case, pattern, "value") for pattern in ("layer_pipeline", "layer_sequential")
        )
        mine = [row for row in rows if (row.platform, row.network, row.batch) == case]
        values = [row.value / base for row in mine if row.pattern == "set"]
        label = f"{case[0]} {case[1]} b{case[2]}"
        figure.add_trace(Box(y=values, name=label, boxpoints="all", marker_color=COLORS["SET"]))
    return figure.update_layout(height=450, showlegend=False, yaxis_title="objective / better of LP and LS")


def space_figure(points: Sequence[TreePoint]) -> Any:
    """Energy and delay over depth, traffic, and DRAM's fraction of the time, of trees that can run."""
    from plotly.graph_objects import Figure, Scatter
    from plotly.subplots import make_subplots

    networks = list(dict.fromkeys(point.network for point in points))
    pairs = (
        ("depth", "energy_pj"),
        ("depth", "cycles"),
        ("dram_bytes", "noc_hop_bytes"),
        ("energy_pj", "cycles"),
    )
    titles = [f"{network}: {y} over {x}" for network in networks for x, y in pairs]
    figure: Figure = make_subplots(rows=len(networks), cols=len(pairs), subplot_titles=titles)
    for row, network in enumerate(networks, 1):
        for column, (x, y) in enumerate(pairs, 1):
            for drawn in ("random", "uniform", "search"):
                mine = [point for point in points if (point.network, point.drawn) == (network, drawn)]
                marker = {"size": 4, "color": COLORS[drawn]}
                if (column, drawn) == (len(pairs), "random"):
                    marker |= {"color": [point.dram_fraction for point in mine], "colorscale": "Viridis"}
                xs, ys = ([getattr(point, key) for point in mine] for key in (x, y))
                trace = Scatter(
                    x=xs, y=ys, mode="markers", name=drawn, marker=marker, showlegend=row == column == 1
                )
                figure.add_trace(trace, row=row, col=column)
    return figure.update_layout(height=380 * len(networks))


def _median(rows: Sequence[PatternRow], case: tuple[str, str, int], pattern: str, key: str) -> float:
    from statistics import median

    values: list[float] = [
        getattr(row, key)
        for row in rows
        if (row.platform, row.network, row.batch) == case and row.pattern == pattern
    ]
    return median(values)
