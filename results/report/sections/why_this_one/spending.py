"""Where the energy of the front designs goes, by memory level."""

from __future__ import annotations

from results.report.colors import level_color
from results.report.data import RunData
from results.report.design_layers import NOT_ITEMISED
from results.report.html import Figure, ReportSection, chart_text, element, joined, paragraph
from results.units import Scale, percent

Levels = dict[str, float]


def spending_section(run: RunData) -> ReportSection:
    """Stacked energies of the front designs and the baseline."""
    title = "Where the energy goes"
    shown = run.shown
    if not shown:
        return ReportSection(
            "spending", title, paragraph("No design is complete and feasible.", class_="empty")
        )
    names = level_names(run, shown)
    note = ""
    of_front = [i for i in shown if i in run.on_front]
    if len(of_front) < len(run.front):
        note = f" {len(of_front)} of the {len(run.front)} designs are shown, evenly spread, with the knee."
    parts = "part of the chip" if run.schedules else "memory level, innermost first, and MAC units"
    runs = " and ".join(network.label for network in run.weighted)
    of_runs = f", of all runs that the study's weights ask for ({runs})" if runs else ""
    text = f"Energy of each front design by {parts}{of_runs}.{note}"
    levels = element("div", levels_figure(run, shown, names).html(), class_="panel")
    return ReportSection("spending", title, joined([paragraph(text), levels]))


def level_names(run: RunData, designs: list[int]) -> list[str]:
    """Every level that a design spends energy in, innermost first, MAC units last."""
    names = dict.fromkeys(name for design in designs for name in _levels(run, design))
    return [name for name in names if name != "MAC"] + (["MAC"] if "MAC" in names else [])


def _levels(run: RunData, design: int) -> Levels:
    levels = run.detail(design).get("energy_by_level_pj")
    return levels if isinstance(levels, dict) else {NOT_ITEMISED: run.value(design, "energy_pj") or 0.0}


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
            "marker": {"color": level_color(index, name)},
        }
        for index, name in enumerate(names)
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
    fraction = f" ({percent(energy / total)})" if energy is not None and total else ""
    axes = chart_text(run.axis_line(design))
    return f"<b>Design {run.tag(design)}</b><br>{axes}<br>{chart_text(name)}: {scale.text(energy)}{fraction}"
