"""Charts in the form of KAPLA's Figs 7 to 11 from what ``kapla_paper.py`` found, as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from set_figures import write_page

from kapla_evaluation.layers import PARTS

COLORS = dict(zip(PARTS, ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#bbbbbb"), strict=True))
METHOD_COLORS = {"S": "#bbbbbb", "R": "#ccbb44", "M": "#228833", "K": "#aa3377"}

Part = Mapping[str, Any]


def write_figures(path: Path, found: Mapping[str, Part]) -> None:
    """Write a chart of each part that has one; ``found`` by the parts' names."""
    figures = []
    for name, part in found.items():
        if "networks" not in part:
            continue
        energy = all(one["objective"] == "energy" for one in part["networks"])
        draw = breakdown_figure if energy else totals_figure
        figures.append((f"{name}: {part['title']}, layer by layer", draw(part)))
    write_page(path, "KAPLA", figures)


def breakdown_figure(part: Part) -> Any:
    """Energy by component of every network and method, over what S found in all (Figs 7, 9, 10)."""
    from plotly.graph_objects import Bar, Figure

    bars = [
        (network["network"], method, [pj / network["methods"]["S"]["total"] for pj in one["parts_pj"]])
        for network in part["networks"]
        for method, one in network["methods"].items()
        if one["parts_pj"]
    ]
    labels = [[name for name, _, _ in bars], [method for _, method, _ in bars]]
    figure = Figure()
    for index, component in enumerate(PARTS):
        heights = [fractions[index] for _, _, fractions in bars]
        figure.add_trace(Bar(x=labels, y=heights, name=component, marker_color=COLORS[component]))
    return figure.update_layout(barmode="stack", height=450, yaxis_title="energy over S")


def totals_figure(part: Part) -> Any:
    """The objective of every network and method, over what S found in all (Fig 8)."""
    from plotly.graph_objects import Bar, Figure

    names = [network["network"] for network in part["networks"]]
    figure = Figure()
    for method in part["networks"][0]["methods"]:
        totals = [network["methods"][method]["total"] for network in part["networks"]]
        bases = [network["methods"]["S"]["total"] for network in part["networks"]]
        heights = [None if one is None else one / base for one, base in zip(totals, bases, strict=True)]
        figure.add_trace(Bar(x=names, y=heights, name=method, marker_color=METHOD_COLORS[method]))
    return figure.update_layout(barmode="group", height=450, yaxis_title="cycles over S")
