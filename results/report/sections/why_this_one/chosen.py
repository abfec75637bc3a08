"""A design that the reader chooses: its costs beside the baseline's and by layer, with each layer's proof."""

from __future__ import annotations

from typing import Any

from results.report.colors import level_color
from results.report.data import RunData
from results.report.design_layers import (
    CERTIFICATE_HEADERS,
    LayerAxes,
    LayerTotal,
    certificate,
    chart_content,
    design_layers,
    spaces_text,
)
from results.report.html import (
    Markup,
    ReportSection,
    chart_text,
    element,
    embedded,
    joined,
    live_table,
    paragraph,
)
from results.report.sections.why_this_one.compare import (
    COMPARISON_HEADERS,
    HARDWARE_HEADERS,
    hardware_rows,
    layer_ratios,
    metric_rows,
)
from results.report.sections.why_this_one.spending import level_names
from results.units import scale_for

HINT = (
    "The knee of the front is shown first. A click on a front design in any chart above picks it here. "
    "Occurrences of a layer are added up"
)
OF_RUNS = (
    ", and so are the runs of its network that the study's weights ask for: {label}/layer is that layer in "
    "all of them. Layers and networks add up to the design's energy and latency"
)


def chosen_section(run: RunData) -> ReportSection | None:
    """A chooser of a design among those shown, and that design's costs; None without a front."""
    designs = run.shown
    if not designs:
        return None
    layers = {design: design_layers(run, design) for design in designs}
    parts = [paragraph(_hint(run)), _chooser(run, designs), _comparison(run)]
    if any(layers.values()):
        parts += [
            _empty_chart("layers", "Energy and latency by layer"),
            *_ratio_chart(run, layers),
            _certificates(run),
        ]
    elif not run.schedules:
        parts.append(paragraph("The designs of this run do not itemise their layers.", class_="empty"))
    parts.append(embedded("chosen-data", _content(run, layers)))
    return ReportSection("chosen", "One design", joined(parts))


def _hint(run: RunData) -> str:
    label = next((network.label for network in run.weighted if network.weight != 1), "")
    return f"{HINT}{OF_RUNS.format(label=label) if label else ''}."


def _chooser(run: RunData, designs: list[int]) -> Markup:
    options = [_option(run, index, design) for index, design in enumerate(designs)]
    return element("label", "Design ", element("select", *options, id="chosen-design"), class_="choice")


def _option(run: RunData, index: int, design: int) -> Markup:
    names = [name for name, known in (("knee", run.knee), ("baseline", run.baseline)) if known == design]
    text = f"{run.tag(design)}: {run.axis_line(design)}"
    text += f" ({', '.join(names)})" if names and run.tag(design) not in names else ""
    chosen = "selected" if design == run.knee else None
    return element("option", text, value=index, selected=chosen, data_tag=run.tag(design), data_design=design)


def _comparison(run: RunData) -> Markup:
    """Tables of metrics and hardware beside the baseline, or why there is none."""
    if run.baseline is None:
        text = "The study names no baseline; with `baseline:` and a value for each axis it would be compared."
        remark = paragraph(text, class_="empty")
    elif run.baseline in run.left_out:
        (why,) = run.reasons([run.baseline], "note")
        remark = paragraph(f"Baseline: {run.axis_line(run.baseline)}. It is left out: {why}.")
    elif run.baseline not in run.judged:
        status = run.designs["status"].iloc[run.baseline]
        remark = paragraph(f"The baseline ({run.axis_line(run.baseline)}) is {status}: nothing to compare.")
    else:
        remark = paragraph(f"Baseline: {run.axis_line(run.baseline)}.")
    # without a baseline two columns of dashes would read as if something had not been measured
    both = run.baseline is not None
    metrics = live_table(
        "chosen-metrics",
        COMPARISON_HEADERS[: _columns(run)],
        "The chosen design and the baseline" if both else "The chosen design",
    )
    hardware = live_table(
        "chosen-hardware", HARDWARE_HEADERS[: _columns(run)], f"The hardware of {'both' if both else 'it'}"
    )
    return joined([remark, element("div", metrics, hardware, class_="grid")])


def _columns(run: RunData) -> int | None:
    """Columns of the tables of metrics and hardware: without a baseline only names and the design's."""
    return 2 if run.baseline is None else None


def _empty_chart(key: str, description: str) -> Markup:
    chart = element("div", class_="figure", id=key, role="img", aria_label=description)
    return element("div", chart, class_="panel")


def _ratio_chart(run: RunData, layers: dict[int, list[LayerTotal]]) -> list[Markup]:
    if not layers.get(run.baseline if run.baseline is not None else -1):
        return []
    return [_empty_chart("ratios", "Energy and latency of each layer over the baseline's")]


def _certificates(run: RunData) -> Markup:
    text = (
        "What is proven of each layer's mapping, for one occurrence of the layer: no mapping in the named "
        "space is below the bound. Optimal: the found value equals the bound."
    )
    texts = [paragraph(text), *([paragraph(spaces_text(run))] if run.spaces else [])]
    rows = live_table("chosen-certificates", CERTIFICATE_HEADERS, "The layers of the chosen design")
    return element("details", element("summary", "Certificates, layer by layer"), *texts, rows)


def _content(run: RunData, layers: dict[int, list[LayerTotal]]) -> dict[str, Any]:
    """The data from which ``report.js`` fills the section when a design is chosen."""
    every = [layer for rows in layers.values() for layer in rows]
    known = level_names(run, list(layers))
    axes = LayerAxes(
        tuple(dict.fromkeys([*known, *(level for layer in every for level in layer.levels)])),
        scale_for("energy_pj", (layer.energy_pj for layer in every)),
        scale_for("cycles", (layer.cycles for layer in every)),
    )
    return {
        "names": [chart_text(level) for level in axes.levels],
        "colors": [level_color(index, level) for index, level in enumerate(axes.levels)],
        "titles": [axes.energy.title, axes.cycles.title],
        "ratioColors": ["#0072b2", "#e69f00"],
        "baseline": list(layers).index(run.baseline) if run.baseline in layers else None,
        "designs": [_design(run, design, layers, axes) for design in layers],
    }


def _design(
    run: RunData, design: int, layers: dict[int, list[LayerTotal]], axes: LayerAxes
) -> dict[str, Any]:
    mine = layers[design]
    theirs = layers.get(run.baseline, []) if run.baseline is not None else []
    return chart_content(mine, axes) | {
        "ratios": layer_ratios(mine, theirs),
        "certificates": [certificate(run, layer) for layer in mine],
        "metrics": [row[: _columns(run)] for row in metric_rows(run, design)],
        "hardware": [row[: _columns(run)] for row in hardware_rows(run, design)],
    }
