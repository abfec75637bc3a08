"""What the report shows of a run: its designs, front, solves and lock file, read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from results.front.certainty import certain_members, objective_bounds, possible_members
from results.front.networks import NetworkRuns, networks_of
from results.front.pareto import (
    AXIS_PREFIX,
    Points,
    check_objectives,
    design_frame,
    front_mask,
    knee,
    objective_columns,
    objective_points,
)
from results.report.html import chart_text
from results.store.folder import RunFolder
from results.store.schema.chips import SCHEDULES, TILE_COSTS
from results.store.schema.columns import Table
from results.store.schema.rows import NetworkEntry, ScheduleRow, ScratchpadRow, TileCostRow
from results.store.schema.tables import DESIGNS, LAYERS, SCRATCHPADS
from results.units import NOTHING, TIMES, Scale, percent, scale_for

if TYPE_CHECKING:
    import pandas

DEFAULT_OBJECTIVES = ("energy_pj", "cycles", "area_um2")
_HEAVY = ("layer_shape", "architecture", "params", "mapping", "levels")
SCHEDULE_CHART = ("tree", "spatial_temporal", "search")
"""The columns of a schedule that are read for the few that are drawn."""
OF_TILE_BATCHES = (
    "task_id",
    "status",
    "cached",
    "cpu_seconds",
    "tile_parts",
    "solver",
    "attempts",
    "error",
    "note",
)


@dataclass(frozen=True)
class RunData:
    """A run as the report sees it.

    ``designs``: see ``pareto.design_frame``; ``layers``: rows without their largest columns;
    ``scratchpads``: whole rows, by graph and budget; ``schedules``: by task id, rows without their largest
    columns; ``tile_batches``: rows of ``tile_costs`` without the costs; ``points``: objectives of each
    design, NaN where it is not judged; ``front``: row numbers of the front designs in ``designs``, by their
    first objective, the best first.
    """

    path: Path
    designs: pandas.DataFrame
    layers: pandas.DataFrame
    scratchpads: tuple[ScratchpadRow, ...]
    schedules: Mapping[str, ScheduleRow]
    tile_batches: tuple[TileCostRow, ...]
    lock: Mapping[str, Any]
    objectives: tuple[str, ...]
    damaged: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, objectives: tuple[str, ...] | None = None) -> RunData:
        """Read a run folder; objectives None: the study's own. Raises a ResultsError as RunFolder does."""
        run = RunFolder(path).check()
        lock = run.read_lock_file()
        chosen = objectives or study_objectives(lock)
        check_objectives(chosen)
        kept = [name for name in LAYERS.names() if name not in _HEAVY]
        designs = design_frame(run)
        layers = _decoded_frame(LAYERS, _used(run.read("layers", kept).to_pylist(), designs), kept)
        damaged = tuple(sorted(file.name for file in path.glob("*/*.damaged")))
        plans, schedules = _planned(run, designs), _scheduled(run, designs)
        batches = tuple(run.read_rows(TILE_COSTS, OF_TILE_BATCHES))
        return cls(path, designs, layers, plans, schedules, batches, lock, chosen, damaged)

    @cached_property
    def points(self) -> Points:
        return objective_points(self.designs, self.objectives)

    @cached_property
    def bounds(self) -> Points:
        """The proven lower bound of each objective of each design; -inf where there is none."""
        return objective_bounds(self.designs, self.objectives)

    @cached_property
    def certain(self) -> frozenset[int]:
        """Designs that are on the front whatever better mappings other designs may have."""
        return frozenset(int(i) for i in np.flatnonzero(certain_members(self.points, self.bounds)))

    @cached_property
    def candidates(self) -> list[int]:
        """Designs off the front that could still join it, by their proven bounds."""
        possible = np.flatnonzero(possible_members(self.points, self.bounds))
        return [int(i) for i in possible if int(i) not in self.on_front]

    @cached_property
    def discarded(self) -> list[int]:
        """Designs that their lower bounds ruled out before any solve."""
        return [int(i) for i in np.flatnonzero(self.designs["status"].eq("dominated"))]

    @cached_property
    def baseline(self) -> int | None:
        """The design that the study compares others with, None where it names none."""
        named = np.flatnonzero(self.designs["baseline"].eq(True).fillna(False))
        return int(named[0]) if len(named) else None

    @cached_property
    def judged(self) -> list[int]:
        return [int(i) for i in np.flatnonzero(np.isfinite(self.points).all(axis=1))]

    @cached_property
    def front(self) -> list[int]:
        on_front = np.flatnonzero(front_mask(self.points))
        return sorted((int(i) for i in on_front), key=lambda i: (tuple(self.points[i]), i))

    @cached_property
    def on_front(self) -> frozenset[int]:
        return frozenset(self.front)

    @cached_property
    def knee(self) -> int | None:
        """The design nearest to the ideal point, None without a front."""
        return self.front[knee(self.points[self.front])] if self.front else None

    @cached_property
    def axes(self) -> list[str]:
        return [n.removeprefix(AXIS_PREFIX) for n in self.designs.columns if n.startswith(AXIS_PREFIX)]

    @cached_property
    def _front_numbers(self) -> dict[int, int]:
        return {design: number for number, design in enumerate(self.front)}

    @cached_property
    def _scales(self) -> dict[str, Scale]:
        names = [column.name for column in objective_columns()]
        return {name: scale_for(name, self.designs[name].astype("float64").dropna()) for name in names}

    def tag(self, design: int) -> str:
        """The number of a front design in this report, such as #3; of others only the baseline has a name."""
        if design in self._front_numbers:
            return f"#{self._front_numbers[design] + 1}"
        return "baseline" if design == self.baseline else ""

    @cached_property
    def _axis_values(self) -> list[dict[str, Any]]:
        return [axes or {} for axes in self.designs["axes"]]

    def axis_text(self, design: int, axis: str) -> str:
        """The value of an axis; a list such as [8, 12] is shown as 8×12."""
        value = self._axis_values[design].get(axis)
        if isinstance(value, list):
            return TIMES.join(str(part) for part in value)
        return NOTHING if value is None else str(value)

    def axis_line(self, design: int) -> str:
        """All axes of a design in one line, or its id when it has none."""
        if not self.axes:
            return str(self.designs["design_id"].iloc[design])
        return ", ".join(f"{axis} {self.axis_text(design, axis)}" for axis in self.axes)

    @cached_property
    def solves(self) -> pandas.DataFrame:
        """How every solve ended, of whatever kind: status, cached, cpu_seconds."""
        import pandas

        columns = ["status", "cached", "cpu_seconds"]
        rows = [*self.layers[columns].to_dict("records"), *self.scratchpads]
        rows += [*self.schedules.values(), *self.tile_batches]
        return pandas.DataFrame(rows, columns=columns).astype({"cpu_seconds": "float64"})

    @cached_property
    def _layer_rows(self) -> dict[str, int]:
        return {task_id: row for row, task_id in enumerate(self.layers["task_id"])}

    def solve(self, task_id: str) -> dict[str, Any]:
        """The ``layers`` row of a task, empty when the run has none."""
        row = self._layer_rows.get(task_id)
        return {} if row is None else dict(self.layers.iloc[row])

    def networks(self, design: int) -> dict[str, NetworkRuns]:
        """What a design's row says of each network, by its name; empty for a design without answers."""
        return networks_of(self.designs["networks"].iloc[design])

    @cached_property
    def planned_for(self) -> dict[str, list[NetworkRuns]]:
        """The networks that a row of ``scratchpads`` is the plan of, by its task id, each once."""
        found: dict[str, dict[str, NetworkRuns]] = {}
        for design in range(len(self.designs)):
            for name, network in self.networks(design).items():
                if task_id := network.one_run.get("scratchpad"):
                    found.setdefault(task_id, {})[name] = network
        return {task_id: list(networks.values()) for task_id, networks in found.items()}

    @cached_property
    def weighted(self) -> list[NetworkRuns]:
        """The networks of the designs, the same of each, where one of them runs more or less than once."""
        every = {name: one for i in self.judged for name, one in self.networks(i).items()}
        return list(every.values()) if any(one.weight != 1 for one in every.values()) else []

    def over_seeds(self, design: int, column: str) -> tuple[float, float] | None:
        """The least and the most of ``energy_pj``, ``cycles`` or ``latency_seconds`` over a design's seeds.

        It is what its own searches found, for all runs of its networks: the sum of each network's least, and
        of each one's most. None for other columns, and where some network has no search with a schedule.
        """
        per_cycle = 1.0
        if column == "latency_seconds":
            latency, cycles = self.value(design, column), self.value(design, "cycles")
            column, per_cycle = "cycles", latency / cycles if latency and cycles else 1.0
        if column not in ("energy_pj", "cycles"):
            return None
        least = most = 0.0
        for network in self.networks(design).values():
            values = [
                float(value)
                for seed in network.one_run.get("seeds", ())
                if (value := cast(dict[str, Any], self.schedules.get(seed, {})).get(column)) is not None
            ]
            if not values:
                return None
            least += network.weight * min(values) * per_cycle
            most += network.weight * max(values) * per_cycle
        return (least, most) if most else None

    @cached_property
    def _finders(self) -> dict[str, int]:
        """By id of a schedule that a search found, the first design that asked for it."""
        found: dict[str, int] = {}
        for design in range(len(self.designs)):
            for network in self.networks(design).values():
                entry = network.one_run
                for task_id in (*entry.get("seeds", ()), *entry.get("refinements", ())):
                    found.setdefault(task_id, design)
        return found

    def tree_found_on(self, network: NetworkRuns) -> int | None:
        """The design for whose chip a network's tree was found; None where it is of its own search."""
        return self.searched_for(network.one_run.get("tree_from"))

    def searched_for(self, task_id: str | None) -> int | None:
        """The design that asked for a search, by the id of its task; None without an id."""
        return self._finders.get(task_id or "")

    def schedule_charts(self, task_ids: Iterable[str]) -> dict[str, ScheduleRow]:
        """SCHEDULE_CHART of these rows of ``schedules``, by task id."""
        import pyarrow
        from pyarrow import compute

        asked = pyarrow.array(sorted(set(task_ids)), pyarrow.string())
        rows = RunFolder(self.path).read("schedules", ["task_id", *SCHEDULE_CHART])
        found = rows.filter(compute.is_in(rows["task_id"], value_set=asked)).to_pylist()
        return {row["task_id"]: SCHEDULES.decode(row) for row in found}

    @cached_property
    def spaces(self) -> list[str]:
        """The sentences that name the spaces of mappings searched, the most common first."""
        named = Counter(
            space["name"] for space in self.layers["space"] if isinstance(space, dict) and "name" in space
        )
        return sorted(named, key=lambda name: (-named[name], name))

    @cached_property
    def _metrics(self) -> dict[str, list[float]]:
        names = DESIGNS.names("int", "float")
        return {name: self.designs[name].astype("float64").tolist() for name in names}

    def value(self, design: int, column: str) -> float | None:
        """A metric of a design as a float, None where it has none."""
        value = self._metrics[column][design]
        return value if value == value else None

    def scale(self, column: str) -> Scale:
        """One scale per objective column, the same in the whole report."""
        return self._scales[column]

    def hover(self, design: int) -> str:
        """Lines for a hover box: number, axes, metrics with bounds."""
        if design not in self._hovers:
            self._hovers[design] = self._hover(design)
        return self._hovers[design]

    @cached_property
    def _hovers(self) -> dict[int, str]:
        return {}

    def _hover(self, design: int) -> str:
        lines = [f"<b>Design {self.tag(design)}</b>".replace(" <", "<")]
        lines[0] += " (baseline)" if design == self.baseline and design in self.on_front else ""
        lines += [f"{chart_text(axis)}: {chart_text(self.axis_text(design, axis))}" for axis in self.axes]
        metrics = dict.fromkeys((*self.objectives, "energy_pj", "cycles", "area_um2"))
        for name in metrics:
            scale = self.scale(name)
            lines.append(f"{scale.label}: {scale.text(self.value(design, name))}")
        for name in ("energy_pj", "cycles"):
            if (over := self.over_seeds(design, name)) is not None:
                scale = self.scale(name)
                lines.append(f"{scale.label} over its seeds: {scale.text(over[0])} to {scale.text(over[1])}")
        for network in self.networks(design).values():
            if (finder := self.tree_found_on(network)) is not None:
                on = self.tag(finder) or self.axis_line(finder)
                lines.append(f"Tree of {chart_text(network.name)} found on: {chart_text(on)}")
        for name, label in (("energy_gap", "Energy"), ("cycles_gap", "Latency")):
            if (gap := self.value(design, name)) is not None:
                lines.append(f"{label} above its lower bound: {percent(gap)}")
        return "<br>".join(lines)


def study_objectives(lock: Mapping[str, Any]) -> tuple[str, ...]:
    """The objectives that the lock file's study names, or the usual three."""
    study = lock.get("study")
    named = study.get("objectives") if isinstance(study, Mapping) else None
    return tuple(str(name) for name in named) if isinstance(named, list) and named else DEFAULT_OBJECTIVES


def _decoded_frame(table: Table[Any], rows: list[dict[str, Any]], columns: list[str]) -> pandas.DataFrame:
    import pandas

    frame = pandas.DataFrame([table.decode(row) for row in rows], columns=columns)
    floats = [name for name in table.names("float", "int") if name in columns]
    frame[floats] = frame[floats].astype("float64")
    return frame.sort_values(table.key, ignore_index=True)


def _used(layers: list[dict[str, Any]], designs: pandas.DataFrame) -> list[dict[str, Any]]:
    """The solves that the designs rest on, none of a study's earlier forms; all of them before any design."""
    used = {layer["task_id"] for network in _networks(designs) for layer in network.get("layers", ())}
    return [row for row in layers if row["task_id"] in used] if used else layers


def _planned(run: RunFolder, designs: pandas.DataFrame) -> tuple[ScratchpadRow, ...]:
    """The scratchpad plans that the designs rest on, or all where no design names one."""
    rows = run.read_rows(SCRATCHPADS)
    used = {n["scratchpad"] for n in _networks(designs) if "scratchpad" in n}
    kept = [row for row in rows if row["task_id"] in used] if used else rows
    return tuple(sorted(kept, key=lambda row: (row["graph"] or "", row["budget_bytes"], row["task_id"])))


def _scheduled(run: RunFolder, designs: pandas.DataFrame) -> dict[str, ScheduleRow]:
    """The schedules that the designs rest on, of searches and of known trees; or all, without any."""
    light = [name for name in SCHEDULES.names() if name not in (*SCHEDULE_CHART, "chip", "params", "state")]
    used = {
        task_id
        for network in _networks(designs)
        for ids in (network.get("seeds"), network.get("refinements"), network.get("costings"))
        for task_id in ids or ()
    }
    rows = run.read_rows(SCHEDULES, light)
    return {row["task_id"]: row for row in rows if not used or row["task_id"] in used}


def _networks(designs: pandas.DataFrame) -> Iterator[NetworkEntry]:
    """What the designs say of their networks, one after the other."""
    for networks in designs["networks"]:
        yield from (networks or {}).values()
