"""A design of a run explained: each layer with what binds it, its loop nest and its accesses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.explain.neighbour import BetterDesign, better_designs
from results.explain.stored_rows import rows_of
from results.front.networks import NetworkRuns, group_label
from results.report.data import RunData
from results.report.design_layers import gained_cycles
from results.store.schema.chips import SCHEDULES
from results.store.schema.rows import FusedEntry, LeafRow, LevelColumn
from results.store.schema.tables import FUSIONS, LAYERS
from results.units import percent

NOT_STORED = "not stored"
"""What binds a layer whose row has no levels: it was solved before rows had them."""
ON_TILES, MOVING = "MAC units of its tiles", "DRAM or mesh"
TOGETHER = "layers mapped together"
"""What cycles of groups are counted under whose rows were stored before they said what binds them."""
MOST_CHANGES = 5
"""The most layers that are listed of those that a better design changes."""
OF_LAYERS = ("task_id", "mapping", "levels", "compute_cycles", "bound_by", "cycles_without")
"""Columns of ``layers`` with long values: they are read for explained designs only."""
OF_GROUPS = ("task_id", "status", "solver", "energy_by_level_pj", "tree", "by_layer")
OF_SCHEDULES = ("task_id", "solver", "energy_pj", "cycles", "energy_by_part_pj", "tree", "leaves")


@dataclass(frozen=True)
class LayerExplanation:
    """One distinct layer of a network of the design; energy (pJ) and cycles are of one occurrence.

    ``runs``: how often the design's totals count it. ``bound_by``: what its cycles are due to, such as
    ``DRAM read bandwidth``; NOT_STORED where the row does not say. ``cycles_without``: what would be left if
    a cause took no time, by cause. ``full``: levels whose capacity binds. ``energy_by_level_pj``: innermost
    first. ``levels``: the column of that name, None where the row lacks it. ``nest``: the mapping as lines of
    text; ``mapping``: the same as it is stored.
    """

    name: str
    network: str
    runs: float
    status: str
    solver: str
    energy_pj: float
    cycles: int
    bound_by: str
    cycles_without: Mapping[str, int]
    full: tuple[str, ...]
    utilization: float | None
    energy_by_level_pj: Mapping[str, float]
    compute_cycles: int | None
    levels: list[LevelColumn] | None
    nest: tuple[str, ...]
    mapping: Mapping[str, Any] | None


@dataclass(frozen=True)
class GroupExplanation:
    """Layers that the study asks to map together; energies (pJ) and cycles are of one occurrence.

    ``runs``: how often the design's totals count them together; 0 where one by one they cost less, and then
    they are among the layers, too. ``unfused_energy_pj``, ``unfused_cycles``: what they cost one by one.
    ``energy_by_level_pj``: of the mapping together, innermost first. ``tree``: its loops as text, with what
    each level holds. ``bound_by``: the cycles together by what they are due to; TOGETHER where the row does
    not say.
    """

    layers: tuple[str, ...]
    network: str
    runs: float
    status: str
    solver: str
    energy_pj: float
    cycles: int
    unfused_energy_pj: float
    unfused_cycles: int
    energy_by_level_pj: Mapping[str, float]
    tree: str
    bound_by: Mapping[str, int]

    @property
    def name(self) -> str:
        return group_label(self.layers)

    @property
    def causes(self) -> str:
        """What the cycles together are due to, each cause with its part of them, the largest first."""
        total = sum(self.bound_by.values()) or 1
        ordered = sorted(self.bound_by.items(), key=lambda pair: -pair[1])
        return ", ".join(f"{cause} {percent(cycles / total)}" for cause, cycles in ordered)


@dataclass(frozen=True)
class ScheduleExplanation:
    """The schedule of one network on a chip: its tree as text, its leaves, where its energy goes."""

    network: str
    weight: float
    solver: str
    energy_pj: float
    cycles: int
    energy_by_part_pj: Mapping[str, float]
    tree: str
    leaves: tuple[LeafRow, ...]


@dataclass(frozen=True)
class DesignExplanation:
    """``metrics``: the study's objectives, and energy, cycles and area.

    ``bound_by``: cycles of all runs of all layers, by what they are due to. ``better``: the nearest designs
    that are better (see ``neighbour.py``).
    """

    design_id: str
    tag: str
    axes: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    energy_by_level_pj: Mapping[str, float]
    bound_by: Mapping[str, float]
    layers: tuple[LayerExplanation, ...]
    groups: tuple[GroupExplanation, ...]
    schedules: tuple[ScheduleExplanation, ...]
    better: tuple[BetterDesign, ...]
    changes: tuple[tuple[LayerChange, ...], ...]
    """For each of ``better``, the layers that change most."""

    @property
    def gains(self) -> dict[str, float]:
        """By cause, the cycles of all runs of all layers that would go if it took no time; the most first."""
        return gained_cycles((layer.runs, layer.cycles, layer.cycles_without) for layer in self.layers)

    @property
    def lacking(self) -> int:
        """Layers whose rows lack accesses and cycles by level: solved before rows had them."""
        return sum(layer.levels is None for layer in self.layers)


def design_named(run: RunData, name: str) -> list[int]:
    """The designs that ``name`` may mean: an id or its beginning, #3 of the report, baseline, or knee."""
    if name in ("knee", "baseline"):
        found = run.knee if name == "knee" else run.baseline
        return [] if found is None else [found]
    if name.startswith("#"):
        return [design for design in run.front if run.tag(design) == name]
    ids = [str(one) for one in run.designs["design_id"]]
    if name in ids:
        return [ids.index(name)]
    return [design for design, one in enumerate(ids) if name and one.startswith(name)]


def explained(run: RunData, design: int) -> DesignExplanation:
    """All that the rows of the run say of one design, which has answers."""
    layers = design_layers_explained(run, design)
    better = better_designs(run, design)
    groups, schedules = _groups(run, design), _schedules(run, design)
    binders: dict[str, float] = defaultdict(float)
    for layer in layers:
        binders[layer.bound_by] += layer.runs * layer.cycles
    for group in groups:
        if group.runs:
            for cause, cycles in group.bound_by.items():
                binders[cause] += group.runs * cycles
    for schedule in schedules:
        for leaf in schedule.leaves:
            binders[leaf_bound_by(leaf)] += schedule.weight * leaf["runs"] * leaf["cycles"]
    energies = run.detail(design).get("energy_by_level_pj")
    metrics = dict.fromkeys((*run.objectives, "energy_pj", "cycles", "area_um2"))
    return DesignExplanation(
        run.design_id(design),
        run.tag(design),
        {axis: run.axis_text(design, axis) for axis in run.axes},
        {name: run.value(design, name) for name in metrics},
        energies if isinstance(energies, Mapping) else {},
        dict(sorted(binders.items(), key=lambda pair: -pair[1])),
        layers,
        groups,
        schedules,
        better,
        tuple(
            layer_changes(layers, design_layers_explained(run, one.design), MOST_CHANGES) for one in better
        ),
    )


def design_layers_explained(run: RunData, design: int) -> tuple[LayerExplanation, ...]:
    """The distinct layers of a design that were mapped one by one; empty for a design of a chip study."""
    entries = [
        (network, layer)
        for network in run.networks(design).values()
        for layer in network.one_run.get("layers", ())
        if layer["count"]  # what is mapped together with others is not mapped by itself
    ]
    run.of_layers.load(layer["task_id"] for _, layer in entries)
    # mappings and accesses are long, so RunData does not hold them for all layers of the run
    heavy = rows_of(run, LAYERS, OF_LAYERS, (layer["task_id"] for _, layer in entries))
    return tuple(_layer(run, network, layer, heavy.get(layer["task_id"], {})) for network, layer in entries)


def _layer(
    run: RunData, network: NetworkRuns, layer: Mapping[str, Any], row: Mapping[str, Any]
) -> LayerExplanation:
    solve, levels = run.solve(layer["task_id"]), row.get("levels")
    energies = solve.get("energy_by_level_pj")
    utilization = solve.get("utilization")
    mapping = row.get("mapping")
    return LayerExplanation(
        layer["name"],
        network.name,
        network.weight * layer["count"],
        str(solve.get("status", "")),
        str(solve.get("solver", "")),
        float(layer["energy_pj"]),
        int(layer["cycles"]),
        row.get("bound_by") or NOT_STORED,
        row.get("cycles_without") or {},
        tuple(level["name"] for level in levels or () if level["full"]),
        float(utilization) if utilization is not None and utilization == utilization else None,
        energies if isinstance(energies, Mapping) else {},
        row.get("compute_cycles"),
        levels,
        nest_lines(mapping) if mapping else (),
        mapping,
    )


def leaf_bound_by(leaf: LeafRow) -> str:
    """What a leaf's cycles are due to: its slowest tile computes for all of them, or data has to be moved."""
    return ON_TILES if leaf["cycles"] <= leaf["tile_cycles"] else MOVING


@dataclass(frozen=True)
class LayerChange:
    """A layer of one design beside that of another: ratios there over here, and what binds [here, there]."""

    name: str
    network: str
    energy_ratio: float
    cycles_ratio: float
    bound_by: tuple[str, str]
    full: tuple[tuple[str, ...], tuple[str, ...]]


def layer_changes(
    here: Sequence[LayerExplanation], there: Sequence[LayerExplanation], most: int | None = None
) -> tuple[LayerChange, ...]:
    """The layers that both have and that cost something else, those whose cost changes most first.

    The change is that of energy and of cycles, each as a fraction of all layers' here.
    """
    others = {(layer.network, layer.name): layer for layer in there}
    energy = sum(layer.runs * layer.energy_pj for layer in here) or 1.0
    cycles = sum(layer.runs * layer.cycles for layer in here) or 1.0
    found: list[tuple[float, LayerChange]] = []
    for layer in here:
        other = others.get((layer.network, layer.name))
        if other is None or not layer.energy_pj or not layer.cycles:
            continue  # a layer without work has no ratios
        more_energy, more_cycles = other.energy_pj - layer.energy_pj, other.cycles - layer.cycles
        if not more_energy and not more_cycles:
            continue
        change = LayerChange(
            layer.name,
            layer.network,
            other.energy_pj / layer.energy_pj,
            other.cycles / layer.cycles,
            (layer.bound_by, other.bound_by),
            (layer.full, other.full),
        )
        # a large ratio of a layer that hardly counts explains nothing: the change of all layers' sums does
        weight = layer.runs * (abs(more_energy) / energy + abs(more_cycles) / cycles)
        found.append((weight, change))
    found.sort(key=lambda pair: -pair[0])
    return tuple(change for _, change in found[:most])


def nest_lines(mapping: Mapping[str, Any]) -> tuple[str, ...]:
    """A stored mapping as a loop nest, the outermost level first; loops further in stand further right.

    Layouts that are not the machine's own stand before it."""
    kept = {entry["target"]: entry["keep"] for entry in mapping["bypass"]}
    lines = [f"{role} lie as {' '.join(dims)}" for role, dims in mapping.get("layouts", {}).items()]
    depth = 0
    for block in mapping["levels"]:
        if block["type"] == "temporal":
            lines.append(
                f"{'  ' * depth}{block['target']}: {', '.join(kept[block['target']]) or 'keeps nothing'}"
            )
        for side, dim, bound in block_loops(block):
            where = f"on {side} " if side else ""
            lines.append(f"{'  ' * depth}{'parallel ' if side else 'for '}{dim} {where}in {bound}")
            depth += 1
    lines.append(f"{'  ' * depth}multiply and accumulate")
    return tuple(lines)


def block_loops(block: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """The loops of a stored block, the outermost first: side of the fan-out or "", dim, bound above 1."""
    split = block.get("split")
    sides = {
        dim: ("" if split is None else "x" if index < split else "y")
        for index, dim in enumerate(block["permutation"])
    }
    loops = [(sides[dim], dim, block["factors"][dim]) for dim in reversed(block["permutation"])]
    return [loop for loop in loops if loop[2] > 1]


def _groups(run: RunData, design: int) -> tuple[GroupExplanation, ...]:
    asked = [
        (network, group)
        for network in run.networks(design).values()
        for group in network.one_run.get("fused", ())
    ]
    if not asked:
        return ()
    rows = rows_of(run, FUSIONS, OF_GROUPS, (group["task_id"] for _, group in asked))
    return tuple(_group(network, group, rows.get(group["task_id"], {})) for network, group in asked)


def _group(network: NetworkRuns, group: FusedEntry, row: Mapping[str, Any]) -> GroupExplanation:
    return GroupExplanation(
        tuple(group["layers"]),
        network.name,
        network.weight * group["count"],
        str(row.get("status", "")),
        str(row.get("solver", "")),
        float(group["energy_pj"]),
        int(group["cycles"]),
        float(group["unfused_energy_pj"]),
        int(group["unfused_cycles"]),
        row.get("energy_by_level_pj") or {},
        row.get("tree") or "",
        _group_bound_by(row.get("by_layer") or {}) or {TOGETHER: int(group["cycles"])},
    )


def _group_bound_by(by_layer: Mapping[str, Any]) -> dict[str, int]:
    """The cycles of a group by what they are due to; empty for a row that does not say."""
    found: dict[str, int] = defaultdict(int)
    pipelines = by_layer.get("pipelines", ())
    # stages of a pipeline run at the same time, so their own cycles are not the group's
    stages = {name for pipeline in pipelines for name in pipeline["layers"]}
    layers = (layer for name, layer in by_layer.get("layers", {}).items() if name not in stages)
    for part in (*layers, *pipelines):
        for cause, cycles in part.get("bound_by", {}).items():
            found[cause] += cycles
    return dict(found)


def _schedules(run: RunData, design: int) -> tuple[ScheduleExplanation, ...]:
    chosen = {
        name: (network, network.one_run["schedule"])
        for name, network in run.networks(design).items()
        if network.one_run.get("schedule")
    }
    if not chosen:
        return ()
    rows = rows_of(run, SCHEDULES, OF_SCHEDULES, (task_id for _, task_id in chosen.values()))
    return tuple(_schedule(network, rows[task_id]) for network, task_id in chosen.values() if task_id in rows)


def _schedule(network: NetworkRuns, row: Mapping[str, Any]) -> ScheduleExplanation:
    return ScheduleExplanation(
        network.name,
        network.weight,
        row["solver"],
        float(row["energy_pj"] or 0.0),
        int(row["cycles"] or 0),
        row["energy_by_part_pj"] or {},
        row["tree"] or "",
        tuple(row["leaves"] or ()),
    )
