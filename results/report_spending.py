"""Where the energy and time of the front designs go: by memory level, and by layer of a chosen design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from results.report_data import RunData
from results.report_html import Figure, Markup, Section, chart_text, element, embedded, joined, paragraph
from results.report_units import TIMES, Scale, percent, scale_for

MOST_DESIGNS = 40
COLORS = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#b8a800", "#7a6fbe")
MAC_COLOR = "#8a8f98"
NOT_ITEMISED = "not itemised"

Levels = dict[str, float]


def spending_section(run: RunData) -> Section:
    """Stacked energies of the front designs and the layers of the one that the reader picks."""
    title = "Where the energy goes"
    shown = shown_designs(run)
    if not shown:
        return Section("spending", title, paragraph("No design is complete and feasible.", class_="empty"))
    names = level_names(run, shown)
    note = ""
    if len(shown) < len(run.front):
        note = f" {len(shown)} of the {len(run.front)} designs are shown, evenly spread, with the knee."
    text = f"Energy of each front design by memory level, innermost first, and MAC units.{note}"
    levels = element("div", levels_figure(run, shown, names).html(), class_="panel")
    return Section("spending", title, joined([paragraph(text), levels, _layer_chooser(run, shown, names)]))


def shown_designs(run: RunData) -> list[int]:
    """The front, or MOST_DESIGNS of it evenly spread with the knee."""
    if len(run.front) <= MOST_DESIGNS:
        return run.front
    places = {int(p) for p in np.linspace(0, len(run.front) - 1, MOST_DESIGNS - 1).round()}
    return [i for place, i in enumerate(run.front) if place in places or i == run.knee]


def level_names(run: RunData, designs: list[int]) -> list[str]:
    """Every level that a design spends energy in, innermost first, MAC units last."""
    names = dict.fromkeys(name for design in designs for name in _levels(run, design))
    return [name for name in names if name != "MAC"] + (["MAC"] if "MAC" in names else [])


def _levels(run: RunData, design: int) -> Levels:
    levels = run.designs["energy_by_level_pj"].iloc[design]
    return levels if isinstance(levels, dict) else {NOT_ITEMISED: run.value(design, "energy_pj") or 0.0}


def _color(place: int, name: str) -> str:
    return MAC_COLOR if name == "MAC" else COLORS[place % len(COLORS)]


def levels_figure(run: RunData, designs: list[int], names: list[str]) -> Figure:
    """One bar per front design, one colour per level."""
    scale = run.scale("energy_pj")
    traces = [
        {
            "type": "bar",
            "name": chart_text(name),
            "x": list(range(len(designs))),
            "y": [scale.number(_levels(run, design).get(name)) for design in designs],
            "hovertext": [_level_hover(run, design, name, scale) for design in designs],
            "hoverinfo": "text",
            "marker": {"color": _color(place, name)},
        }
        for place, name in enumerate(names)
    ]
    ticks = [run.tag(i) + (" knee" if i == run.knee else "") for i in designs]
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"tickvals": list(range(len(designs))), "ticktext": ticks, "title": {"text": "Design"}},
        "yaxis": {"title": {"text": scale.title}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "margin": {"l": 64, "r": 16, "t": 48, "b": 52},
    }
    return Figure("levels", "Energy of each front design by memory level", traces, layout, height=400)


def _level_hover(run: RunData, design: int, name: str, scale: Scale) -> str:
    energy, total = _levels(run, design).get(name), run.value(design, "energy_pj")
    share = f" ({percent(energy / total)})" if energy is not None and total else ""
    axes = ", ".join(f"{chart_text(a)} {chart_text(run.axis_text(design, a))}" for a in run.axes)
    return f"<b>Design {run.tag(design)}</b><br>{axes}<br>{chart_text(name)}: {scale.text(energy)}{share}"


def _layer_chooser(run: RunData, designs: list[int], names: list[str]) -> Markup:
    rows = {design: design_layers(run, design) for design in designs}
    every = [row for layers in rows.values() for row in layers]
    if not every:
        return paragraph("The designs of this run do not itemise their layers.", class_="empty")
    energy = scale_for("energy_pj", (sum(row["levels"].values()) for row in every))
    cycles = scale_for("cycles", (row["cycles"] for row in every))
    all_names = list(dict.fromkeys([*names, *(name for row in every for name in row["levels"])]))
    content = {
        "names": [chart_text(name) for name in all_names],
        "colors": [_color(place, name) for place, name in enumerate(all_names)],
        "titles": [energy.title, cycles.title],
        "designs": [_for_script(rows[design], all_names, energy, cycles) for design in designs],
    }
    options = [_option(run, place, design) for place, design in enumerate(designs)]
    select = element("select", *options, id="layer-design")
    label = element("label", "Layers of design ", select, class_="choice")
    hint = "Occurrences of a layer are added up. A click on a front design above picks it here too."
    place = element("div", class_="figure", id="layers", role="img", aria_label="Energy and latency by layer")
    return element("div", label, paragraph(hint), place, embedded("layers-data", content), class_="panel")


def _option(run: RunData, place: int, design: int) -> Markup:
    axes = ", ".join(f"{axis} {run.axis_text(design, axis)}" for axis in run.axes)
    chosen = "selected" if design == run.knee else None
    text = f"{run.tag(design)}: {axes}" + (" (knee)" if design == run.knee else "")
    return element("option", text, value=place, selected=chosen, data_tag=run.tag(design))


def design_layers(run: RunData, design: int) -> list[dict[str, Any]]:
    """The distinct layers of a design in network order: name, count, energy by level (pJ), cycles, remarks.

    Energies and cycles are of all occurrences in one run of the network.
    """
    networks = run.designs["networks"].iloc[design]
    if not isinstance(networks, dict):
        return []
    return [
        _layer(run, f"{network}/{layer['name']}" if len(networks) > 1 else str(layer["name"]), layer)
        for network, content in networks.items()
        for layer in content.get("layers", ())
    ]


def _layer(run: RunData, name: str, layer: Mapping[str, Any]) -> dict[str, Any]:
    count, solve = layer["count"], run.solve(layer["task_id"])
    levels = solve.get("energy_by_level_pj")
    if not isinstance(levels, dict):
        levels = {NOT_ITEMISED: layer["energy_pj"]}
    remarks = [f"solver: {solve['solver']}, {solve['status']}"] if solve else []
    if solve and solve["gap"] == solve["gap"]:
        remarks.append(f"gap: {percent(solve['gap'])}")
    if solve and solve["utilization"] == solve["utilization"]:
        remarks.append(f"MAC utilization: {percent(solve['utilization'])}")
    return {
        "name": name + (f" {TIMES}{count}" if count != 1 else ""),
        "levels": {level: count * energy for level, energy in levels.items()},
        "cycles": count * layer["cycles"],
        "remarks": remarks,
    }


def _for_script(
    layers: list[dict[str, Any]], names: list[str], energy: Scale, cycles: Scale
) -> dict[str, list[Any]]:
    hovers = [
        "<br>".join(
            [
                f"<b>{chart_text(layer['name'])}</b>",
                f"Energy: {energy.text(sum(layer['levels'].values()))}",
                f"Latency: {cycles.text(layer['cycles'])}",
                *map(chart_text, layer["remarks"]),
            ]
        )
        for layer in layers
    ]
    return {
        "layers": [chart_text(layer["name"]) for layer in layers],
        "hovers": hovers,
        "energies": [[energy.number(layer["levels"].get(name)) for layer in layers] for name in names],
        "cycles": [cycles.number(layer["cycles"]) for layer in layers],
    }
