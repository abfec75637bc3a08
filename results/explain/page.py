"""The page of ``archsweep explain``: designs of a run, layer by layer, with the report's components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

from results.explain.design import (
    DesignExplanation,
    LayerChange,
    LayerExplanation,
    block_loops,
    layer_changes,
    leaf_bound_by,
)
from results.report.colors import COLORS, level_color
from results.report.data import RunData
from results.report.html import (
    Cell,
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
from results.report.page import page_of, write_page
from results.units import NOTHING, TIMES, digits, percent, scale_for

MOST_NESTS = 12
"""Loop nests that are drawn: those of the layers that take most of the design's energy and cycles."""
LACKING = (
    "{count} of {all} layers were solved before rows held accesses and cycles by level. What binds them is "
    "not known; `archsweep run --fresh` into a new folder solves them again."
)


def write_explanation(run: RunData, designs: Sequence[DesignExplanation], path: Path) -> Path:
    """Write the page of one design, or of two side by side, whole or not at all."""
    sections = [section for number, one in enumerate(designs) for section in _sections(run, one, number)]
    if len(designs) == 2:
        changes = layer_changes(designs[0].layers, designs[1].layers)
        text = "Layers that cost something else, the second design over the first, the largest change first."
        between = joined([paragraph(text), changes_table(changes)])
        sections.insert(0, ReportSection("between", "One against the other", between))
    names = " and ".join(_name(one) for one in designs)
    title = f"{run.path.name}: {names}"
    head = element("dl", *(_card(run, one) for one in designs), class_="cards")
    page = page_of(title, "Why these designs cost what they do.", head, sections)
    return write_page(page, path)


def _name(design: DesignExplanation) -> str:
    return design.tag or design.design_id[:8]


def _card(run: RunData, design: DesignExplanation) -> Markup:
    energy = run.scale("energy_pj").text(design.metrics["energy_pj"])
    cycles = run.scale("cycles").text(design.metrics["cycles"])
    axes = ", ".join(f"{axis} {text}" for axis, text in design.axes.items())
    parts = [element("dt", f"Design {_name(design)}"), element("dd", f"{energy}, {cycles}")]
    return element("div", *parts, element("dd", axes, class_="remark"))


def _sections(run: RunData, design: DesignExplanation, number: int) -> list[ReportSection]:
    key, name = f"design{number}", _name(design)
    found = [ReportSection(f"{key}-binds", f"{name}: what binds", _binding(design, key))]
    if design.layers:
        found.append(ReportSection(f"{key}-energy", f"{name}: where energy goes", _energy(design, key)))
        found.append(ReportSection(f"{key}-nests", f"{name}: loop nests and accesses", _nests(design, key)))
    if design.groups:
        found.append(ReportSection(f"{key}-groups", f"{name}: layers mapped together", _groups(design)))
    if design.schedules:
        found.append(ReportSection(f"{key}-schedules", f"{name}: schedules", _schedules(design)))
    found.append(ReportSection(f"{key}-better", f"{name}: what is better nearby", _better(design)))
    return found


def _binding(design: DesignExplanation, key: str) -> Markup:
    """Cycles by what they are due to, then a line a layer."""
    parts: list[Markup] = []
    if design.lacking:
        text = LACKING.format(count=design.lacking, all=len(design.layers))
        parts.append(paragraph(text, class_="warning"))
    total = sum(design.bound_by.values())
    rows = [
        (binder, number_cell(f"{cycles:,.0f}", cycles), number_cell(percent(cycles / total), cycles / total))
        for binder, cycles in design.bound_by.items()
    ]
    parts.append(table(("Bound by", "Cycles", "Of all"), rows, "Cycles by what they are due to"))
    if gains := design.gains:
        freed = [
            (
                cause,
                number_cell(f"{cycles:,.0f}", cycles),
                number_cell(percent(cycles / total), cycles / total),
            )
            for cause, cycles in gains.items()
        ]
        title = "Cycles that would go if one cause took no time"
        parts.append(paragraph(f"{title}:"))
        parts.append(table(("Without", "Cycles less", "Of all"), freed, title))
    if design.layers:
        parts.append(_cycles_figure(design, key).html())
        headers = ("Layer", "Runs", "Status", "Energy", "Cycles", "Bound by", "Full levels", "Utilization")
        parts.append(table(headers, [_layer_row(layer) for layer in design.layers], "Layers"))
    return joined(parts)


def _layer_row(layer: LayerExplanation) -> tuple[Cell | object, ...]:
    energy = scale_for("energy_pj", [layer.energy_pj])
    return (
        f"{layer.network}/{layer.name}",
        number_cell(digits(layer.runs), layer.runs),
        layer.status,
        number_cell(energy.text(layer.energy_pj), layer.energy_pj),
        number_cell(f"{layer.cycles:,}", float(layer.cycles)),
        layer.bound_by,
        ", ".join(layer.full) or NOTHING,
        number_cell(percent(layer.utilization), layer.utilization),
    )


def _cycles_figure(design: DesignExplanation, key: str) -> Figure:
    """A bar a layer, of the cycles of all its runs, in the colour of what binds it."""
    rows = list(range(len(design.layers)))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": chart_text(binder),
            # each layer has a bar in every trace, and of those that are stacked in its row one has a length
            "x": [layer.runs * layer.cycles if layer.bound_by == binder else 0 for layer in design.layers],
            "y": rows,
            "hovertext": [
                f"{chart_text(layer.name)}: {layer.runs * layer.cycles:,.0f} cycles, {chart_text(binder)}"
                for layer in design.layers
            ],
            "hoverinfo": "text",
            "marker": {"color": COLORS[index % len(COLORS)]},
        }
        for index, binder in enumerate(design.bound_by)
    ]
    return Figure(
        f"{key}-cycles",
        "Cycles of each layer by what binds it",
        traces,
        _bars(design, "cycles"),
        _height(rows),
    )


def _energy(design: DesignExplanation, key: str) -> Markup:
    """A bar a layer, a colour a level; then, of the design, each level's part."""
    names = list(dict.fromkeys(name for layer in design.layers for name in layer.energy_by_level_pj))
    rows = list(range(len(design.layers)))
    scale = scale_for(
        "energy_pj", [layer.runs * sum(layer.energy_by_level_pj.values()) for layer in design.layers]
    )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": chart_text(name),
            "x": [
                scale.number(layer.runs * layer.energy_by_level_pj.get(name, 0.0)) for layer in design.layers
            ],
            "y": rows,
            "marker": {"color": level_color(index, name)},
        }
        for index, name in enumerate(names)
    ]
    chart = Figure(
        f"{key}-levels", "Energy of each layer by level", traces, _bars(design, scale.title), _height(rows)
    )
    return joined([_energies(design.energy_by_level_pj, "Level", "Energy by level"), chart.html()])


def _energies(energy_pj: Mapping[str, float], what: str, caption: str) -> Markup:
    """A table of energies (pJ) by name, each with its fraction of all; ``what`` the names are of."""
    # a design whose every energy is 0 has parts of 0 %, not a division by zero
    total = sum(energy_pj.values()) or 1.0
    rows = [
        (
            name,
            number_cell(scale_for("energy_pj", [pj]).text(pj), pj),
            number_cell(percent(pj / total), pj / total),
        )
        for name, pj in energy_pj.items()
    ]
    return table((what, "Energy", "Of all"), rows, caption)


def _bars(design: DesignExplanation, title: str) -> dict[str, Any]:
    rows = list(range(len(design.layers)))
    names = [chart_text(layer.name) for layer in design.layers]
    return {
        "barmode": "stack",
        "xaxis": {"title": {"text": title}},
        "yaxis": {"tickvals": rows, "ticktext": names, "autorange": "reversed"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "margin": {"l": 160, "r": 16, "t": 48, "b": 52},
    }


def _height(rows: Sequence[int]) -> int:
    return 140 + 24 * len(rows)


def _nests(design: DesignExplanation, key: str) -> Markup:
    """The loop nests of the layers that cost most, as text and as a picture, with each level's accesses."""
    energy = sum(layer.runs * layer.energy_pj for layer in design.layers) or 1.0
    cycles = sum(layer.runs * layer.cycles for layer in design.layers) or 1.0
    by_cost = sorted(
        (layer for layer in design.layers if layer.mapping),
        # as parts of the design's energy and cycles, for pJ and cycles do not add up
        key=lambda layer: -layer.runs * (layer.energy_pj / energy + layer.cycles / cycles),
    )
    text = (
        "A row is a level, the outermost on top; a block is a loop, the outermost on the left, as wide as "
        "the logarithm of its bound; hatched loops run in parallel on the fan-out below the level."
    )
    parts = [paragraph(text)]
    if len(by_cost) > MOST_NESTS:
        parts.append(paragraph(f"Shown are the {MOST_NESTS} layers that cost most of {len(by_cost)}."))
    for number, layer in enumerate(by_cost[:MOST_NESTS]):
        parts.append(element("h3", f"{layer.network}/{layer.name}"))
        assert layer.mapping is not None
        parts.append(nest_figure(f"{key}-nest{number}", layer.mapping).html())
        parts.append(element("pre", "\n".join(layer.nest)))
        if layer.levels is not None:
            parts.append(accesses_table(layer))
    return joined(parts)


def nest_figure(key: str, mapping: Mapping[str, Any]) -> Figure:
    """A stored mapping as rows of blocks."""
    targets = list(dict.fromkeys(block["target"] for block in mapping["levels"]))
    dims = list(mapping["levels"][0]["factors"])
    start = dict.fromkeys(targets, 0.0)
    traces = []
    for block in mapping["levels"]:
        target = block["target"]
        for side, dim, bound in block_loops(block):
            name = f"{dim} {bound}" + (f" on {side}" if side else "")
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": [log2(bound)],
                    "base": [start[target]],
                    "y": [targets.index(target)],
                    "text": [chart_text(name)],
                    "textposition": "inside",
                    "hovertext": [f"{chart_text(target)}: {chart_text(name)}"],
                    "hoverinfo": "text",
                    "showlegend": False,
                    "marker": {
                        "color": COLORS[dims.index(dim) % len(COLORS)],
                        "pattern": {"shape": "/" if side else ""},
                        "line": {"width": 1, "color": "#ffffff"},
                    },
                }
            )
            start[target] += log2(bound)
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "log2 of the bounds"}, "rangemode": "tozero"},
        "yaxis": {
            "tickvals": list(range(len(targets))),
            "ticktext": [chart_text(target) for target in targets],
            "range": [len(targets) - 0.5, -0.5],
        },
        "margin": {"l": 120, "r": 16, "t": 8, "b": 44},
    }
    return Figure(key, "Loop nest by level", traces, layout, height=80 + 44 * len(targets))


def accesses_table(layer: LayerExplanation) -> Markup:
    """Reads, fills and updates of each level's tensors, all instances together, and their energy."""
    rows = []
    for level in reversed(layer.levels or []):
        usable = level["usable_words"]
        held = f"{level['words']:,}" + (f" of {usable:,.0f}" if usable is not None else "")
        first = True
        for name, traffic in level["tensors"].items():
            instances = traffic["instances"]
            energy = scale_for("energy_pj", [traffic["energy_pj"]])
            rows.append(
                (
                    level["name"] if first else "",
                    name,
                    number_cell(f"{instances * traffic['reads']:,}", float(instances * traffic["reads"])),
                    number_cell(f"{instances * traffic['fills']:,}", float(instances * traffic["fills"])),
                    number_cell(f"{instances * traffic['updates']:,}", float(instances * traffic["updates"])),
                    number_cell(f"{instances:,}", float(instances)),
                    number_cell(energy.text(traffic["energy_pj"]), traffic["energy_pj"]),
                    (held + (", full" if level["full"] else "")) if first else "",
                    (f"{level['cycles']:,}" + (f", {level['port']}" if level["port"] else ""))
                    if first
                    else "",
                )
            )
            first = False
    headers = (
        "Level",
        "Tensor",
        "Reads",
        "Fills",
        "Updates",
        "Instances",
        "Energy",
        "Words an instance",
        "Cycles of its bandwidth",
    )
    return table(headers, rows, "Words that each level reads and writes")


def _groups(design: DesignExplanation) -> Markup:
    """Groups of layers with what they cost one by one, and the trees of those that are mapped together."""
    rows = []
    for group in design.groups:
        scale = scale_for("energy_pj", [group.energy_pj, group.unfused_energy_pj])
        rows.append(
            (
                f"{group.network}/{group.name}",
                number_cell(digits(group.runs) if group.runs else "none", group.runs),
                group.status,
                number_cell(scale.text(group.energy_pj), group.energy_pj),
                number_cell(scale.text(group.unfused_energy_pj), group.unfused_energy_pj),
                number_cell(f"{group.cycles:,}", float(group.cycles)),
                number_cell(f"{group.unfused_cycles:,}", float(group.unfused_cycles)),
                group.causes,
            )
        )
    headers = (
        "Layers",
        "Runs together",
        "Status",
        "Energy",
        "One by one",
        "Cycles",
        "One by one",
        "Together bound by",
    )
    parts = [table(headers, rows, "Layers mapped together")]
    for group in design.groups:
        if group.runs and group.tree:
            parts += [element("h3", f"{group.network}/{group.name}"), element("pre", group.tree)]
    return joined(parts)


def _schedules(design: DesignExplanation) -> Markup:
    parts: list[Markup] = []
    headers = ("Layer", "Tiles", "Runs", "Cycles of a run", "Of these its slowest tile computes", "Bound by")
    for schedule in design.schedules:
        parts.append(element("h3", f"{schedule.network}, by {schedule.solver}"))
        rows = [
            (
                leaf["layer"],
                f"{leaf['tiles'][0]} to {leaf['tiles'][1] - 1}",
                number_cell(f"{leaf['runs']:,}", float(leaf["runs"])),
                number_cell(f"{leaf['cycles']:,}", float(leaf["cycles"])),
                number_cell(f"{leaf['tile_cycles']:,}", float(leaf["tile_cycles"])),
                leaf_bound_by(leaf),
            )
            for leaf in schedule.leaves
        ]
        parts.append(_energies(schedule.energy_by_part_pj, "Part", "Energy by part of the chip"))
        parts.append(table(headers, rows, "Leaves of the schedule"))
        parts.append(element("pre", schedule.tree))
    return joined(parts)


def _better(design: DesignExplanation) -> Markup:
    if not design.better:
        return paragraph("No design of the run is better in anything.", class_="empty")
    parts: list[Markup] = []
    for better, changes in zip(design.better, design.changes, strict=True):
        change = ", ".join(f"{axis} {here} to {there}" for axis, (here, there) in better.axes.items())
        ratios = ", ".join(
            f"{name} {TIMES}{digits(ratio)}" for name, ratio in better.ratios.items() if ratio is not None
        )
        parts.append(element("h3", f"Better in {better.better_in}: {better.tag or better.design_id[:8]}"))
        parts.append(paragraph(f"{change or 'no axis'}: {ratios}"))
        parts.append(changes_table(changes))
    return joined(parts)


def changes_table(changes: Sequence[LayerChange]) -> Markup:
    """Layers whose cost changes, with what binds them before and after."""
    rows = [
        (
            f"{change.network}/{change.name}",
            number_cell(f"{TIMES}{digits(change.energy_ratio)}", change.energy_ratio),
            number_cell(f"{TIMES}{digits(change.cycles_ratio)}", change.cycles_ratio),
            _from_to(*change.bound_by),
            _from_to(*(", ".join(full) or NOTHING for full in change.full)),
        )
        for change in changes
    ]
    headers = ("Layer", "Energy", "Cycles", "Bound by", "Full levels")
    return table(headers, rows, "Layers whose cost changes")


def _from_to(here: str, there: str) -> str:
    return here if here == there else f"{here} → {there}"
