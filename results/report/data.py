"""What the report shows of a run: its designs, front, solves and lock file, read once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from results.front.certainty import certain_members, objective_bounds, possible_members
from results.front.networks import NetworkRuns, networks_of
from results.front.pareto import (
    AXIS_PREFIX,
    Points,
    check_objectives,
    front_mask,
    knee,
    left_out_of,
    near_front,
    numbers_of,
    objective_points,
    study_of,
)
from results.report.html import chart_text
from results.report.solve_counts import Ended, SolveCounts
from results.report.stored_rows import (
    DESIGN_DETAILS,
    OF_A_SOLVE,
    REASONS,
    StoredRows,
    axis_text,
    read_designs,
)
from results.store.folder import RunFolder
from results.store.schema.chips import SCHEDULES, TILE_COSTS
from results.store.schema.rows import (
    DesignRow,
    FusionRow,
    LayerRow,
    NetworkEntry,
    ScheduleRow,
    ScratchpadRow,
    TileCostRow,
)
from results.store.schema.tables import DESIGNS, FUSIONS, LAYERS, SCRATCHPADS
from results.units import Scale, percent, scale_for, value_order

if TYPE_CHECKING:
    import pandas

DEFAULT_OBJECTIVES = ("energy_pj", "cycles", "area_um2")
MOST_SHOWN = 40
"""Designs of a front that are shown one by one with all that is stored of them."""
MOST_POINTS = 3000
"""Designs that are drawn each by itself; of more, those neither on nor near the front are counted."""
SCHEDULE_CHART = ("tree", "spatial_temporal", "search")
"""The columns of a schedule that are read for the few that are drawn."""
_OF_SCHEDULES = tuple(
    name for name in SCHEDULES.names() if name not in (*SCHEDULE_CHART, "chip", "params", "state")
)
_OF_FUSIONS = tuple(
    name for name in FUSIONS.names() if name not in ("architecture", "layer_group", "mapping", "params")
)
_NUMBERS = frozenset(LAYERS.names("int", "float"))
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

    ``designs``: see :func:`read_designs`; :meth:`detail` has DESIGN_DETAILS of one; ``layers``: see
    :class:`SolveCounts`; ``of_layers``: the rows that :meth:`solve` gives; ``scratchpads``: whole rows,
    by graph and budget; ``fusions`` and ``schedules``: by task id, rows without their largest columns;
    ``tile_batches``: rows of ``tile_costs`` without the costs; ``points``: objectives of each design, NaN
    where it is not judged; ``front``: row numbers of the front designs in ``designs``, by their first
    objective, the best first.
    """

    path: Path
    designs: pandas.DataFrame
    details: StoredRows[DesignRow]
    of_layers: StoredRows[LayerRow]
    fusions: Mapping[str, FusionRow]
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
        designs = read_designs(run, study_of(run))
        details = StoredRows(run, DESIGNS, DESIGN_DETAILS)
        solves = StoredRows(run, LAYERS, OF_A_SOLVE)
        plans, schedules = run.read_rows(SCRATCHPADS), run.read_rows(SCHEDULES, _OF_SCHEDULES)
        if plans or schedules:
            # what is planned or scheduled is told by the designs that name it: all are asked
            details.load(designs["design_id"])
            networks = [details[one]["networks"] or {} for one in designs["design_id"]]
            entries = [entry for one in networks for entry in one.values()]
            plans, schedules = _planned(plans, entries), _scheduled(schedules, entries)
        damaged = tuple(sorted(file.name for file in path.glob("*/*.damaged")))
        batches = tuple(run.read_rows(TILE_COSTS, OF_TILE_BATCHES))
        by_id = {row["task_id"]: row for row in schedules}
        fused = {row["task_id"]: row for row in run.read_rows(FUSIONS, _OF_FUSIONS)}
        return cls(path, designs, details, solves, fused, tuple(plans), by_id, batches, lock, chosen, damaged)

    @cached_property
    def layers(self) -> SolveCounts:
        """What is counted of the mapping solves that the designs rest on."""
        run = RunFolder(self.path)
        return SolveCounts.read(run, study_of(run))

    def detail(self, design: int) -> DesignRow:
        """DESIGN_DETAILS of a design."""
        return self.details[self.design_id(design)]

    def reasons(self, designs: Iterable[int], column: str) -> list[str]:
        """The ``error`` or the ``note`` of each of these designs, empty where it has none; read together."""
        ids = [self.design_id(design) for design in designs]
        self._reasons.load(ids)
        return [str(self._reasons[design_id].get(column) or "") for design_id in ids]

    @cached_property
    def _reasons(self) -> StoredRows[DesignRow]:
        return StoredRows(RunFolder(self.path), DESIGNS, REASONS)

    def energy_by_part(self, design: int) -> dict[str, float]:
        """The energy (pJ) of one of ``drawn`` by memory level or part of the chip; empty if unknown."""
        parts = self._energies[self.design_id(design)].get("energy_by_level_pj")
        return parts if isinstance(parts, dict) else {}

    @cached_property
    def _energies(self) -> StoredRows[DesignRow]:
        """Apart from ``details``: of the thousands that are drawn the other columns would be large."""
        rows = StoredRows(RunFolder(self.path), DESIGNS, ("energy_by_level_pj",))
        rows.load(self.design_id(design) for design in self.drawn)
        return rows

    def design_id(self, design: int) -> str:
        """The id of a design, by its row number."""
        return str(self.designs["design_id"].iloc[design])

    def load(self, designs: Iterable[int]) -> None:
        """Read all that is stored of these designs and their layers together: one by one takes longer."""
        chosen = list(designs)
        self.details.load(self.design_id(design) for design in chosen)
        self.of_layers.load(
            layer["task_id"]
            for design in chosen
            for network in self.networks(design).values()
            for layer in network.one_run.get("layers", ())
        )

    @cached_property
    def shown(self) -> list[int]:
        """The front, or MOST_SHOWN of it evenly spread with the knee; then the baseline if it is complete."""
        chosen = {int(p) for p in np.linspace(0, len(self.front) - 1, MOST_SHOWN - 1).round()}
        if len(self.front) <= MOST_SHOWN:
            chosen = set(range(len(self.front)))
        named = {self.knee, self.baseline}
        shown = [i for index, i in enumerate(self.front) if index in chosen or i in named]
        if self.baseline is not None and self.baseline not in self.on_front:
            shown += [self.baseline] if np.isfinite(self.points[self.baseline]).all() else []
        self.load(shown)
        return shown

    @cached_property
    def drawn(self) -> list[int]:
        """The judged designs that charts draw each by itself: all, or MOST_POINTS on and near the front.

        Of a front of more than MOST_POINTS, evenly spread ones with those that are shown.
        """
        if len(self.judged) <= MOST_POINTS:
            return list(self.judged)
        front = thinned(self.front, MOST_POINTS)
        near = near_front(self.points, MOST_POINTS - len(front))
        return sorted({*front, *self.shown, *near.tolist()})

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """The judged designs that charts only count."""
        judged = np.array(np.isfinite(self.points).all(axis=1))
        judged[self.drawn] = False
        return np.flatnonzero(judged)

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
    def candidates(self) -> array[int]:
        """Designs off the front that could still join it, by their proven bounds."""
        possible = possible_members(self.points, self.bounds)
        possible[self.front] = False
        return _rows(possible)

    @cached_property
    def discarded(self) -> array[int]:
        """Designs that their lower bounds ruled out before any solve."""
        return _rows(self.designs["status"].eq("dominated"))

    @cached_property
    def left_out(self) -> array[int]:
        """Designs whose answers break a constraint of the study."""
        broken = self.designs["status"].eq("complete") & self.designs["feasible"].eq(False).fillna(False)
        return _rows(broken)

    @cached_property
    def left_out_sentence(self) -> str:
        """How many these are and what they break, as ``archsweep pareto`` says it; empty where none is."""
        return left_out_of(RunFolder(self.path)) if self.left_out else ""

    @cached_property
    def baseline(self) -> int | None:
        """The design that the study compares others with, None where it names none."""
        named = np.flatnonzero(self.designs["baseline"].eq(True).fillna(False))
        return int(named[0]) if len(named) else None

    @cached_property
    def judged(self) -> array[int]:
        """Complete designs that meet the constraints of the study."""
        return _rows(np.isfinite(self.points).all(axis=1))

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
        return {}

    def tag(self, design: int) -> str:
        """The number of a front design in this report, such as #3; ``baseline``; or empty for any other."""
        if design in self._front_numbers:
            return f"#{self._front_numbers[design] + 1}"
        return "baseline" if design == self.baseline else ""

    def axis_text(self, design: int, axis: str) -> str:
        """The value of an axis; a list such as [8, 12] is shown as 8×12."""
        texts, numbers = self.axis_numbers(axis)
        return str(texts[numbers[design]])

    def axis_numbers(self, axis: str) -> tuple[list[str], NDArray[Any]]:
        """The different texts of an axis, and of each design the number of its text."""
        if axis not in self._axes:
            column = self.designs[f"{AXIS_PREFIX}{axis}"].cat if axis in self.axes else None
            # an axis of another run
            unknown = [axis_text(None)], np.broadcast_to(np.int8(0), len(self.designs))
            self._axes[axis] = (
                unknown if column is None else (list(column.categories), column.codes.to_numpy())
            )
        return self._axes[axis]

    @cached_property
    def _axes(self) -> dict[str, tuple[list[str], NDArray[Any]]]:
        return {}

    def tried(self, axis: str) -> list[str]:
        """The different texts of an axis among the judged designs, values from small to large."""
        texts, numbers = self.axis_numbers(axis)
        return sorted((texts[number] for number in np.unique(numbers[self.judged])), key=value_order)

    def axis_line(self, design: int) -> str:
        """All axes of a design in one line, or its id when it has none."""
        if not self.axes:
            return str(self.designs["design_id"].iloc[design])
        return ", ".join(f"{axis} {self.axis_text(design, axis)}" for axis in self.axes)

    @cached_property
    def ended(self) -> Ended:
        """How all solves ended, of whatever kind."""
        others = [*self.fusions.values(), *self.scratchpads, *self.schedules.values(), *self.tile_batches]
        return self.layers.ended + Ended.of(others)

    def solve(self, task_id: str) -> Mapping[str, Any]:
        """The ``layers`` row of a task, NaN for numbers that it lacks; empty when the run has none."""
        row = self.of_layers[task_id]
        return {n: float("nan") if value is None and n in _NUMBERS else value for n, value in row.items()}

    def networks(self, design: int) -> dict[str, NetworkRuns]:
        """What a design's row says of each network, by its name; empty for a design without answers."""
        return networks_of(self.detail(design).get("networks"))

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
        every = {name: one for i in self.shown for name, one in self.networks(i).items()}
        weights = {(name, one.weight) for i in self.shown for name, one in self.networks(i).items()}
        # where batches vary, designs run a phase as often for a request, but share the runs differently
        alike = len(weights) == len(every)
        return list(every.values()) if alike and any(one.weight != 1 for one in every.values()) else []

    def over_seeds(self, design: int, column: str) -> tuple[float, float] | None:
        """The least and the most of ``energy_pj``, ``cycles`` or ``latency_seconds`` over a design's seeds.

        It is what its own searches found, for all runs of its networks: the sum of each network's least, and
        of each one's most. None for other columns, and where some network has no search with a schedule.
        """
        per_cycle = 1.0
        if column == "latency_seconds":
            latency, cycles = self.value(design, column), self.value(design, "cycles")
            column, per_cycle = "cycles", latency / cycles if latency and cycles else 1.0
        if column not in ("energy_pj", "cycles") or not self.schedules:
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
        for design in range(len(self.designs)) if self.schedules else ():
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
        named: Counter[str] = Counter()
        for text, count in self.layers.spaces.items():
            space = loads(text)
            if isinstance(space, dict) and "name" in space:
                named[space["name"]] += count
        return sorted(named, key=lambda name: (-named[name], name))

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A metric of every design, NaN where a design has none."""
        if column not in self._numbers:
            self._numbers[column] = numbers_of(self.designs, column)
        return self._numbers[column]

    @cached_property
    def _numbers(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def value(self, design: int, column: str) -> float | None:
        """A metric of a design as a float, None where it has none."""
        value = float(self.numbers(column)[design])
        return value if value == value else None

    def scale(self, column: str) -> Scale:
        """One scale per objective column, the same in the whole report."""
        if column not in self._scales:
            values = np.abs(self.numbers(column))
            self._scales[column] = scale_for(column, [float(values[np.isfinite(values)].max(initial=0.0))])
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
        for network in self.networks(design).values() if self.schedules else ():
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


def _rows(chosen: Any) -> array[int]:
    """The numbers of the rows that a mask chooses: eight bytes each, where a list takes forty."""
    return array("q", np.flatnonzero(chosen).astype(np.int64).tobytes())


def thinned(designs: Sequence[int], most: int) -> list[int]:
    """The designs, or ``most`` of them evenly spread."""
    if len(designs) <= most:
        return list(designs)
    return [int(designs[int(index)]) for index in np.linspace(0, len(designs) - 1, max(most, 0)).round()]


def _planned(rows: Sequence[ScratchpadRow], entries: Sequence[NetworkEntry]) -> list[ScratchpadRow]:
    """The scratchpad plans that the designs rest on, or all where no design names one."""
    used = {entry["scratchpad"] for entry in entries if "scratchpad" in entry}
    kept = [row for row in rows if row["task_id"] in used] if used else rows
    return sorted(kept, key=lambda row: (row["graph"] or "", row["budget_bytes"], row["task_id"]))


def _scheduled(rows: Sequence[ScheduleRow], entries: Sequence[NetworkEntry]) -> list[ScheduleRow]:
    """The schedules that the designs rest on, of searches and of known trees; or all, without any."""
    used = {
        task_id
        for entry in entries
        for ids in (entry.get("seeds"), entry.get("refinements"), entry.get("costings"))
        for task_id in ids or ()
    }
    return [row for row in rows if not used or row["task_id"] in used]
