"""Runs beside one another: their fronts, designs that changed sides, why layers cost something else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from results.explain.causes import causes_of
from results.explain.stored_rows import rows_of
from results.front.networks import group_label
from results.front.pareto import front_mask, hypervolume, reference_point
from results.report.data import RunData
from results.store.schema.chips import SCHEDULES
from results.store.schema.tables import FUSIONS, LAYERS

ASKED = (
    "task_id",
    "solver",
    "solver_version",
    "params",
    "objective_name",
    "status",
    "energy_pj",
    "cycles",
)
OF_LAYERS = (*ASKED, "layer_shape", "architecture", "space")
OF_GROUPS = (*ASKED, "layer_group", "longest", "recompute", "pipelined", "architecture")
OF_SCHEDULES = (*ASKED, "network_content", "batch", "chip", "tile_mapper")


@dataclass(frozen=True)
class ComparedRun:
    """One run: how many designs it judged, how many are on its front, and its hypervolume.

    ``of_best``: the hypervolume over that of all runs' designs together, under one reference point.
    """

    name: str
    designs: int
    judged: int
    front: int
    hypervolume: float
    of_best: float


@dataclass(frozen=True)
class ChangedSides:
    """A design of two runs, known by its axes, that is on the front of one of them only.

    ``values``: of each objective [first run, second run].
    """

    axes: Mapping[str, str]
    runs: tuple[str, str]
    on_front: tuple[bool, bool]
    values: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class LayerDifference:
    """A layer, layers mapped together, or a whole schedule of a design that both runs have, and whose cost
    is another there.

    Ratios are those of the second run over the first; ``causes`` see :mod:`results.explain.causes`.
    """

    runs: tuple[str, str]
    axes: Mapping[str, str]
    network: str
    name: str
    status: tuple[str, str]
    energy_ratio: float
    cycles_ratio: float
    causes: tuple[str, ...]


@dataclass(frozen=True)
class RunComparison:
    """``compared``: designs that each pair of runs has in common; ``differences``: the largest first."""

    objectives: tuple[str, ...]
    reference: tuple[float, ...]
    runs: tuple[ComparedRun, ...]
    compared: Mapping[str, int]
    changed: tuple[ChangedSides, ...]
    differences: tuple[LayerDifference, ...]

    @property
    def by_cause(self) -> dict[tuple[str, ...], list[LayerDifference]]:
        """The differences by their causes, those of most layers first."""
        found: dict[tuple[str, ...], list[LayerDifference]] = defaultdict(list)
        for difference in self.differences:
            found[difference.causes].append(difference)
        return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def compared(runs: Mapping[str, RunData]) -> RunComparison:
    """The runs, by their names, beside one another, over the objectives of the first.

    All were read with these objectives. Raises ValueError where no run has a judged design.
    """
    objectives = next(iter(runs.values())).objectives
    points = {name: run.points[run.judged] for name, run in runs.items()}
    # one reference point for all: a run's own one would give the run with the worst designs the most volume
    every = np.concatenate(list(points.values()))
    reference = reference_point(every)
    best = hypervolume(every, reference)
    shown = tuple(
        ComparedRun(
            name,
            len(run.designs),
            len(run.judged),
            len(run.front),
            volume := hypervolume(points[name], reference),
            volume / best if best else 0.0,
        )
        for name, run in runs.items()
    )
    changed: list[ChangedSides] = []
    differences: list[LayerDifference] = []
    common: dict[str, int] = {}
    for first, second in combinations(runs, 2):
        pairs = list(_pairs(runs[first], runs[second]))
        common[f"{first}, {second}"] = len(pairs)
        changed += _changed_sides((first, second), (runs[first], runs[second]), pairs)
        differences += _differences((first, second), (runs[first], runs[second]), pairs)
    differences.sort(key=lambda one: -abs(np.log(one.energy_ratio)) - abs(np.log(one.cycles_ratio)))
    return RunComparison(
        objectives, tuple(map(float, reference)), shown, common, tuple(changed), tuple(differences)
    )


def union_front(runs: Mapping[str, RunData]) -> dict[str, list[int]]:
    """For each run, its designs on the front of all runs' designs together."""
    owners = [(name, design) for name, run in runs.items() for design in run.judged]
    mask = front_mask(np.array([runs[name].points[design] for name, design in owners]))
    found: dict[str, list[int]] = {name: [] for name in runs}
    for (name, design), on_front in zip(owners, mask, strict=True):
        if on_front:
            found[name].append(design)
    return found


def _pairs(first: RunData, second: RunData) -> Iterator[tuple[int, int]]:
    """Judged designs of two runs with the same values of the axes that both runs have.

    Where one run has an axis more, its designs are each beside the one of the other run; where both have one
    that the other lacks, there is no telling which belongs to which, and neither is compared.
    """
    common = [axis for axis in first.axes if axis in second.axes]
    groups: dict[tuple[str, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, run in enumerate((first, second)):
        for design in run.judged:
            groups[tuple(run.axis_text(design, axis) for axis in common)][side].append(design)
    for here, there in groups.values():
        if min(len(here), len(there)) == 1:
            yield from product(here, there)


def _axes(runs: tuple[RunData, RunData], pair: tuple[int, int]) -> dict[str, str]:
    """The axes of both designs: the value, or both values where they differ."""
    found: dict[str, str] = {}
    for run, design in zip(runs, pair, strict=True):
        found |= {axis: run.axis_text(design, axis) for axis in run.axes}
    return found


def _changed_sides(
    names: tuple[str, str], runs: tuple[RunData, RunData], pairs: Sequence[tuple[int, int]]
) -> Iterator[ChangedSides]:
    for pair in pairs:
        on_front = (pair[0] in runs[0].on_front, pair[1] in runs[1].on_front)
        if on_front[0] != on_front[1]:
            values = {
                name: (float(runs[0].points[pair[0], i]), float(runs[1].points[pair[1], i]))
                for i, name in enumerate(runs[0].objectives)
            }
            yield ChangedSides(_axes(runs, pair), names, on_front, values)


Answers = dict[tuple[str, str], Mapping[str, Any]]
"""The rows that a design rests on, by network and layer; a schedule's layer is ``schedule``, that of layers
mapped together ``first + second``."""


def _differences(
    names: tuple[str, str], runs: tuple[RunData, RunData], pairs: Sequence[tuple[int, int]]
) -> Iterator[LayerDifference]:
    of_first = _answers(runs[0], {pair[0] for pair in pairs})
    of_second = _answers(runs[1], {pair[1] for pair in pairs})
    models = [str(_versions(run).get("cost model", "")) for run in runs]
    for pair in pairs:
        first, second = of_first[pair[0]], of_second[pair[1]]
        axes = _axes(runs, pair)
        extra = {
            axis: tuple(run.axis_text(design, axis) for run, design in zip(runs, pair, strict=True))
            for axis in axes
        }
        lacking = [axis for axis, (here, there) in extra.items() if here != there]
        for key in first.keys() & second.keys():
            here, there = first[key], second[key]
            costs = [(row["energy_pj"], row["cycles"]) for row in (here, there)]
            if costs[0] == costs[1] or not all(all(cost) for cost in costs):
                continue  # the same, or one of them failed and costs nothing that could be compared
            yield LayerDifference(
                names,
                axes,
                *key,
                (str(here["status"]), str(there["status"])),
                costs[1][0] / costs[0][0],
                costs[1][1] / costs[0][1],
                causes_of(here, there, lacking, (models[0], models[1])),
            )


def _versions(run: RunData) -> Mapping[str, Any]:
    versions = run.lock.get("versions")
    return versions if isinstance(versions, Mapping) else {}


def _answers(run: RunData, designs: set[int]) -> dict[int, Answers]:
    """For each design, the rows of its layers, of layers mapped together, and of schedules."""
    asked: dict[int, dict[tuple[str, str], str]] = {design: {} for design in designs}
    run.details.load(run.design_id(design) for design in designs)
    for design in designs:
        for name, network in run.networks(design).items():
            for layer in network.one_run.get("layers", ()):
                asked[design][name, layer["name"]] = layer["task_id"]
            for group in network.one_run.get("fused", ()):
                asked[design][name, group_label(group["layers"])] = group["task_id"]
            if schedule := network.one_run.get("schedule"):
                asked[design][name, "schedule"] = schedule
    used = {task_id for some in asked.values() for task_id in some.values()}
    layers, groups = rows_of(run, LAYERS, OF_LAYERS, used), rows_of(run, FUSIONS, OF_GROUPS, used)
    schedules = rows_of(run, SCHEDULES, OF_SCHEDULES, used)
    rows: dict[str, Mapping[str, Any]] = {**layers, **groups, **schedules}
    return {
        design: {key: rows[task_id] for key, task_id in some.items() if task_id in rows}
        for design, some in asked.items()
    }
