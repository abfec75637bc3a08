"""Scratchpad plans: the off-chip traffic of each with its proven bound, and a map of the memory over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from results.report.data import RunData
from results.report.html import (
    Cell,
    Markup,
    ReportSection,
    chart_text,
    element,
    embedded,
    joined,
    paragraph,
    table,
)
from results.store.schema.rows import ScratchpadRow
from results.units import NOTHING, byte_scale, byte_text, percent, seconds

MOST_PLANS = 24
MOST_BLOCKS = 6000
"""The most blocks of a map, so that a browser draws it at once; of more blocks the largest are drawn."""
LONGEST_TABLE = 200


class MemoryBlock(NamedTuple):
    """Bytes [address, address + size) over the timesteps [start, end), of a tensor or of parameters."""

    name: str
    start: int
    end: int
    address: int
    size: int
    arrives: bool
    """Retrieved at ``start``."""
    leaves: bool
    """Spilled at ``end``."""
    parameters: bool = False


def memory_section(run: RunData) -> ReportSection | None:
    """Absent where the study plans no scratchpad."""
    rows = run.scratchpads
    if not rows:
        return None
    text = (
        "Off-chip traffic of each operator graph in a scratchpad of the given capacity: all spills and "
        "retrievals, without the first load of inputs and the last store of outputs. No plan in that "
        "scratchpad moves less than the proven bound."
    )
    if run.weighted:
        runs = " and ".join(network.label for network in run.weighted)
        text += f" Traffic and bound are of all runs that the study's weights ask for ({runs}), maps of one."
    planned = [use for row in rows for use in _uses(run, row)]
    headers = ["Graph", "Scratchpad", "Status", "Off-chip traffic", "Proven bound", "Gap"]
    headers += ["Solver", "CPU time", "Setting"]
    parts = [paragraph(text), table(headers, map(_cells, planned[:LONGEST_TABLE]), "Scratchpad plans")]
    if len(planned) > LONGEST_TABLE:
        parts.append(paragraph(f"The first {LONGEST_TABLE} of {len(planned)} are shown."))
    drawn = [row for row in rows if next(blocks(row), None) is not None]
    if drawn:
        parts.append(_chooser(drawn[:MOST_PLANS], len(drawn)))
    return ReportSection("memory", "Scratchpad memory", joined(parts))


class PlanUse(NamedTuple):
    """A plan, and one of the networks whose graph it plans; networks with equal graphs share a plan."""

    row: ScratchpadRow
    label: str
    weight: float

    def of_runs(self, size: float | None) -> float | None:
        """Bytes of all runs of the network that the design's totals count, from those of one run."""
        return None if size is None else self.weight * size


def _uses(run: RunData, row: ScratchpadRow) -> list[PlanUse]:
    """One use for each network of the plan; a single one, named after the graph, where no design has it."""
    networks = run.planned_for.get(row["task_id"], ())
    uses = [PlanUse(row, network.label, network.weight) for network in networks]
    return uses or [PlanUse(row, row["graph"] or NOTHING, 1.0)]


def _cells(use: PlanUse) -> list[Cell]:
    row = use.row
    traffic, bound = use.of_runs(row["objective_bytes"]), use.of_runs(row["bound_bytes"])
    gap, spent = row["gap"], row["cpu_seconds"]
    return [
        Cell(use.label),
        Cell(byte_text(row["budget_bytes"]), sort=row["budget_bytes"], number=True),
        Cell(row["status"]),
        Cell(byte_text(traffic), sort=traffic, number=True),
        Cell(byte_text(bound), sort=bound, number=True),
        Cell(percent(gap), sort=gap, number=True),
        Cell(row["solver"]),
        Cell(NOTHING if spent is None else seconds(spent), sort=spent, number=True),
        Cell(_setting(row)),
    ]


def _setting(row: ScratchpadRow) -> str:
    """What is switched on, and sizes: `parameters, 8-bit elements, blocks of whole 64 B`."""
    setting = row["setting"] if isinstance(row["setting"], dict) else {}
    words = [name.replace("_", " ") for name, value in setting.items() if value is True]
    if bits := setting.get("bits_per_element"):
        words.append(f"{bits}-bit elements")
    if (alignment := setting.get("alignment_bytes", 1)) > 1:
        words.append(f"blocks of whole {byte_text(alignment)}")
    return ", ".join(words)


def blocks(row: ScratchpadRow) -> Iterator[MemoryBlock]:
    """The blocks of a plan in the order of its tensors; none where the row has no plan or no sizes."""
    plan = row["plan"]
    if not isinstance(plan, dict):
        return
    # a plan whose tensors are cut has the sizes of the bands that it cut them into
    sizes = plan.get("block_bytes", row["block_bytes"])
    if not isinstance(sizes, dict):
        return
    for name, tensor in plan.get("tensors", {}).items():
        for index, residency in enumerate(tensor["residency"]):
            start, end, address = (residency[key] for key in ("start", "end", "address"))
            # A tensor is written out once, at the end of its first residency: from then on DRAM has it, and
            # dropping it again moves no byte.
            arrives, leaves = start in tensor["retrieved_at"], index == 0 and end == tensor["spilled_at"]
            yield MemoryBlock(name, start, end, address, sizes.get(name, 0), arrives, leaves)
    steps = {operator: step for step, operator in enumerate(plan["order"])}
    for operator, address in plan.get("parameters", {}).items():
        size = (row["parameter_bytes"] or {}).get(operator, 0)
        step = steps[operator]
        yield MemoryBlock(f"parameters of {operator}", step, step + 1, address, size, False, False, True)


def _chooser(rows: list[ScratchpadRow], known: int) -> Markup:
    busiest = max(rows, key=lambda row: row["objective_bytes"] or 0)
    options = [_option(index, row, row is busiest) for index, row in enumerate(rows)]
    label = element("label", "Memory map of ", element("select", *options, id="memory-plan"), class_="choice")
    text = (
        "Each rectangle is a tensor: across, the steps that it is in the scratchpad; up, its addresses. "
        "Parameters are grey. A triangle that points up is a spill, one that points down a retrieval."
    )
    if known > len(rows):
        text += f" The first {len(rows)} of {known} plans can be chosen."
    if any(sum(1 for _ in blocks(row)) > MOST_BLOCKS for row in rows):
        text += f" Of a plan with more than {MOST_BLOCKS} blocks the largest are drawn."
    chart = element("div", class_="figure", id="memory-map", role="img", aria_label="Addresses over time")
    content = embedded("memory-data", [map_content(row) for row in rows])
    return element("div", label, paragraph(text), chart, content, class_="panel")


def _option(index: int, row: ScratchpadRow, selected: bool) -> Markup:
    text = f"{row['graph']}, {byte_text(row['budget_bytes'])}, {_setting(row)}".rstrip(", ")
    return element("option", text, value=index, selected="selected" if selected else None)


def map_content(row: ScratchpadRow) -> dict[str, Any]:
    """The data that ``report.js`` draws for a plan: blocks as columns, addresses scaled to one unit."""
    found, plan = list(blocks(row)), row["plan"] or {}
    tensors = {name: index for index, name in enumerate(dict.fromkeys(block.name for block in found))}
    if len(found) > MOST_BLOCKS:
        found = sorted(found, key=lambda block: -block.size)[:MOST_BLOCKS]
    scale = byte_scale(row["budget_bytes"])
    return {
        "unit": scale.unit,
        "budget": scale.number(row["budget_bytes"]),
        "order": [chart_text(name) for name in plan.get("order", ())],
        "names": [chart_text(block.name) for block in found],
        "texts": [f"{block.size:,} bytes at {block.address:,}" for block in found],
        "starts": [block.start for block in found],
        "ends": [block.end for block in found],
        "addresses": [scale.number(block.address) for block in found],
        "sizes": [scale.number(block.size) for block in found],
        # the page takes a negative number for grey
        "colors": [-1 if block.parameters else tensors[block.name] for block in found],
        "spills": [index for index, block in enumerate(found) if block.leaves],
        "retrievals": [index for index, block in enumerate(found) if block.arrives],
    }
