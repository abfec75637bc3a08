"""The layers of a design: the cost of each by memory level, and the proof of its mapping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from results.front.networks import NetworkRuns, group_label
from results.report.data import RunData
from results.report.html import chart_text
from results.report.stored_rows import OF_A_SOLVE
from results.store.schema.rows import FusedEntry
from results.store.schema.tables import LAYERS
from results.units import NOTHING, TIMES, Scale, percent, scale_for, seconds

NOT_ITEMISED = "not itemised"
"""What a layer or design spends whose row does not say by which level."""
OBJECTIVE_COLUMNS = {"energy": "energy_pj", "cycles": "cycles", "edp": "edp_pj_cycles"}
CERTIFICATE_HEADERS = (
    "Layer",
    "Status",
    "Minimised",
    "Found",
    "Proven bound",
    "Gap",
    "Found by",
    "Bound by",
    "Utilization",
    "CPU time",
    "Space",
)

_NO_NUMBERS = dict.fromkeys(LAYERS.names("int", "float"), float("nan"))


@dataclass(frozen=True)
class LayerTotal:
    """What all occurrences of one layer, in all runs of its network, cost a design.

    ``levels``: energy in pJ by storage level or part of the chip. ``solve``: the layer's row of the table
    ``layers``, empty where the run has none; of layers that are mapped together, what their row of
    ``fusions`` has of these columns.
    """

    name: str
    levels: Mapping[str, float]
    cycles: float
    solve: Mapping[str, Any]

    @property
    def energy_pj(self) -> float:
        return float(sum(self.levels.values()))


@dataclass(frozen=True)
class LayerAxes:
    """How layers' energies and cycles are drawn: the ``levels`` in their order, and the scales of both."""

    levels: tuple[str, ...]
    energy: Scale
    cycles: Scale


def design_layers(run: RunData, design: int) -> list[LayerTotal]:
    """The distinct layers of a design in network order; their energies and cycles add up to the design's.

    ``decode ×50/attn ×12`` is 12 occurrences of attn in each of 50 runs. Layers that are mapped together are
    one entry, behind those that are mapped by themselves.
    """
    networks = run.networks(design)
    named = len(networks) > 1 or any(network.weight != 1 for network in networks.values())
    found = []
    for network in networks.values():
        prefix, one_run = f"{network.label}/" if named else "", network.one_run
        found += [_layer(run, network, prefix, one) for one in one_run.get("layers", ()) if one["count"]]
        found += [_together(run, network, prefix, one) for one in one_run.get("fused", ()) if one["count"]]
    return found


def _layer(run: RunData, network: NetworkRuns, prefix: str, layer: Mapping[str, Any]) -> LayerTotal:
    count, solve = layer["count"], run.solve(layer["task_id"])
    runs = network.weight * count
    levels = solve.get("energy_by_level_pj")
    if not isinstance(levels, dict):
        levels = {NOT_ITEMISED: layer["energy_pj"]}
    return LayerTotal(
        f"{prefix}{layer['name']}" + (f" {TIMES}{count}" if count != 1 else ""),
        {level: runs * energy for level, energy in levels.items()},
        runs * layer["cycles"],
        solve,
    )


def _together(run: RunData, network: NetworkRuns, prefix: str, group: FusedEntry) -> LayerTotal:
    """A group of layers that are mapped together, as one layer."""
    row, count = run.fusions.get(group["task_id"]), group["count"]
    runs = network.weight * count
    levels = (row and row["energy_by_level_pj"]) or {NOT_ITEMISED: group["energy_pj"]}
    return LayerTotal(
        f"{prefix}{group_label(group['layers'])}" + (f" {TIMES}{count}" if count != 1 else ""),
        {level: runs * energy for level, energy in levels.items()},
        runs * group["cycles"],
        # what only rows of single layers have is unknown here
        {**dict.fromkeys(OF_A_SOLVE), **_NO_NUMBERS, **row} if row else {},
    )


def gained_cycles(layers: Iterable[tuple[float, float, Mapping[str, float]]]) -> dict[str, float]:
    """By cause, the cycles of all runs that would go if it took no time; the most first.

    ``layers``: runs of each, cycles of one, and by cause the cycles that would be left of these without it.
    """
    gained: dict[str, float] = defaultdict(float)
    for runs, cycles, without in layers:
        for cause, left in without.items():
            gained[cause] += runs * (cycles - left)
    return dict(sorted(gained.items(), key=lambda pair: -pair[1]))


def chart_content(layers: list[LayerTotal], axes: LayerAxes) -> dict[str, list[Any]]:
    """The data that ``report.js`` draws for a design's layers: energies by level, cycles, hover boxes."""
    return {
        "layers": [chart_text(layer.name) for layer in layers],
        "hovers": [_hover(layer, axes) for layer in layers],
        "energies": [
            [axes.energy.number(layer.levels.get(level)) for layer in layers] for level in axes.levels
        ],
        "cycles": [axes.cycles.number(layer.cycles) for layer in layers],
    }


def _hover(layer: LayerTotal, axes: LayerAxes) -> str:
    solve = layer.solve
    lines = [f"<b>{chart_text(layer.name)}</b>", f"Energy: {axes.energy.text(layer.energy_pj)}"]
    lines.append(f"Latency: {axes.cycles.text(layer.cycles)}")
    if solve:
        lines.append(chart_text(f"solver: {found_by(solve)}, {solve['status']}"))
        lines += [f"bound by {chart_text(bound_by(solve))}"] if bound_by(solve) != NOTHING else []
        lines += [f"gap: {percent(solve['gap'])}"] if solve["gap"] == solve["gap"] else []
        lines += [f"MAC utilization: {_utilization(solve)}"] if _utilization(solve) != NOTHING else []
    return "<br>".join(lines)


def found_by(solve: Mapping[str, Any]) -> str:
    """The solver; for a portfolio also the member that found the mapping."""
    member = solve["solved_by"]
    return f"{solve['solver']}: {member}" if isinstance(member, str) and member else str(solve["solver"])


def bound_by(solve: Mapping[str, Any]) -> str:
    """The resource that bounds the cycles, and the fraction of them that would go without that bound."""
    cause, without = solve.get("bound_by"), solve.get("cycles_without")
    if not isinstance(cause, str) or not isinstance(without, Mapping):
        return NOTHING  # no answer, or one of a version whose rows did not say
    return f"{cause} ({percent(1 - without[cause] / solve['cycles'])} fewer cycles without)"


def spaces_text(run: RunData) -> str:
    """The mapping spaces to which certificates refer, numbered where there are several; empty without any."""
    if len(run.spaces) < 2:
        return "".join(f"Space of mappings searched (1): {name}." for name in run.spaces)
    listed = "; ".join(f"({number}) {name}" for number, name in enumerate(run.spaces, 1))
    return f"Spaces of mappings searched: {listed}."


def _space_number(run: RunData, solve: Mapping[str, Any]) -> str:
    space = solve["space"]
    return (
        str(run.spaces.index(space["name"]) + 1) if isinstance(space, dict) and "name" in space else NOTHING
    )


def _utilization(solve: Mapping[str, Any]) -> str:
    """The fraction of MAC units that are busy, and, where padding keeps some of them busy, the useful one."""
    busy, useful = solve["utilization"], solve["useful_utilization"]
    if useful != useful or useful == busy:
        return percent(busy)
    return f"{percent(busy)}, useful {percent(useful)}"


def certificate(run: RunData, layer: LayerTotal) -> list[Any]:
    """The cells under CERTIFICATE_HEADERS: text, or [text, the number to sort by]."""
    solve = layer.solve
    if not solve:
        return [layer.name, "not in this run", *[""] * (len(CERTIFICATE_HEADERS) - 2)]
    return [
        layer.name,
        str(solve["status"]),
        str(solve["objective_name"]),
        _objective(solve, "objective"),
        _objective(solve, "bound"),
        _sortable(percent(solve["gap"]), solve["gap"]),
        found_by(solve),
        bound_by(solve),
        _sortable(_utilization(solve), solve["utilization"]),
        _sortable(_seconds(solve["cpu_seconds"]), solve["cpu_seconds"]),
        _space_number(run, solve),
    ]


def _objective(solve: Mapping[str, Any], column: str) -> list[Any]:
    value = solve[column]
    unit = OBJECTIVE_COLUMNS.get(str(solve["objective_name"]), "")
    return _sortable(scale_for(unit, [value]).text(value), value)


def _seconds(value: float) -> str:
    return NOTHING if value != value else seconds(value)


def _sortable(text: str, number: float) -> list[Any]:
    return [text, number if number == number and abs(number) != float("inf") else None]
