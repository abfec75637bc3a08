"""Layers that are mapped together: what that is worth on each design, and the tree of loops of each group."""

from __future__ import annotations

from html import escape

from results.front.networks import NetworkRuns, group_label
from results.report.data import RunData
from results.report.html import Cell, Markup, ReportSection, element, joined, number_cell, paragraph, table
from results.store.schema.rows import FusedEntry
from results.units import NOTHING, TIMES, percent, scale_for, seconds

LONGEST_TABLE = 200
HEADERS = (
    "Design",
    "Layers",
    "Mapped together",
    "Energy",
    "One by one",
    "Latency",
    "One by one",
    "Status",
    "Gap",
    "CPU time",
)
TEXT = (
    "Layers that share loops or keep tensors on the chip for one another, where that costs less than every "
    "layer mapped by itself, by what the mappings minimise. Energy and latency are of one occurrence; "
    "status and gap are of the mapping together, and no mapping of its space is below the proven bound."
)

Group = tuple[int, NetworkRuns, FusedEntry]
"""A design, one of its networks, and a group of layers of it."""


def fusion_section(run: RunData) -> ReportSection | None:
    """Absent where the study maps no layers together, or no design is complete."""
    groups = [
        (design, network, group)
        for design in run.shown
        for network in run.networks(design).values()
        for group in network.one_run.get("fused", ())
    ]
    if not groups:
        return None
    parts = [paragraph(TEXT), paragraph(_worth(run))]
    parts.append(table(HEADERS, [_cells(run, one) for one in groups[:LONGEST_TABLE]], "Layers together"))
    if len(groups) > LONGEST_TABLE:
        parts.append(paragraph(f"The first {LONGEST_TABLE} of {len(groups)} are shown."))
    of_knee = [one for one in groups if one[0] == run.knee]
    trees = [tree for one in of_knee if (tree := _tree(run, one)) is not None]
    if trees:
        parts.append(paragraph(f"The trees of {run.tag(of_knee[0][0])}, {run.axis_line(of_knee[0][0])}:"))
    return ReportSection("fusion", "Layers mapped together", joined([*parts, *trees]))


def _worth(run: RunData) -> str:
    """What mapping together saves on the knee of the front."""
    assert run.knee is not None, "designs are shown only where there is a front"
    found = []
    for name, without in (("energy_pj", "unfused_energy_pj"), ("cycles", "unfused_cycles")):
        now, before = run.value(run.knee, name), run.value(run.knee, without)
        if now is not None and before:
            scale = run.scale(name)
            saved = f"{percent(1 - now / before)} less" if now < before else "the same"
            found.append(f"{scale.label.lower()} {scale.text(now)} instead of {scale.text(before)} ({saved})")
    return f"On {run.tag(run.knee)}, all runs: {'; '.join(found)}."


def _cells(run: RunData, one: Group) -> list[Cell]:
    design, network, group = one
    row = run.fusions.get(group["task_id"])
    costs = []
    for name, now, before in (
        ("energy_pj", group["energy_pj"], group["unfused_energy_pj"]),
        ("cycles", float(group["cycles"]), float(group["unfused_cycles"])),
    ):
        scale = scale_for(name, [now, before])
        costs += [number_cell(scale.text(value), value) for value in (now, before)]
    gap, spent = (row["gap"], row["cpu_seconds"]) if row else (None, None)
    return [
        Cell(run.tag(design) or run.axis_line(design)),
        Cell(f"{network.label}/{group_label(group['layers'])}"),
        number_cell(f"{TIMES}{group['count']}" if group["count"] else "no", float(group["count"])),
        *costs,
        Cell(row["status"] if row else NOTHING),
        number_cell(percent(gap), gap),
        number_cell(NOTHING if spent is None else seconds(spent), spent),
    ]


def _tree(run: RunData, one: Group) -> Markup | None:
    """The loops of a group that is mapped together, with what each level holds; closed until one opens it."""
    _, network, group = one
    row = run.fusions.get(group["task_id"])
    if not group["count"] or row is None or not row["tree"]:
        return None
    title = f"{network.label}/{group_label(group['layers'])}"
    return element("details", element("summary", title), element("pre", Markup(escape(row["tree"]))))
