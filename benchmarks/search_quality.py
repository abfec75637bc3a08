"""How soon a search finds the front: hypervolume against solves, for three spaces whose whole grid is known.

    python benchmarks/search_quality.py [--spaces eyeriss simba tile] [--layers 3] [--seeds 5] [--at-once 1]

Every (design, layer) is solved once with CoSA; the searches are then driven with these answers, so that the
hypervolumes of all of them have one truth, the front of the grid. Objectives are energy, cycles and area of
the heaviest layers of ResNet-18, in logarithms (a factor counts alike everywhere). ``--at-once`` designs are
open at a time, as on a cluster; ``--answers FOLDER`` keeps the grids' answers for another run. Prints tables,
then JSON.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import record

from results.front.pareto import front_mask, hypervolume, reference_point
from results.store.schema.rows import DesignRow
from sweep.design.design_row import objective_bounds, objectives
from sweep.design.mapping_workload import LayerDemand, MappingWorkload, layer_demands, mapping_settings
from sweep.run.pruning import BoundsPruning
from sweep.search.optuna_search import OptunaProposals, Point
from sweep.search.search import design_space
from sweep.search.warm_start import RelaxedStart
from sweep.study.designs.design_space import Design
from sweep.study.identity import content_hash
from sweep.study.study import Study
from sweep.tasks.mapping import MappingTask, run_mapping_task

SPACES: dict[str, tuple[str, dict[str, Any]]] = {
    "eyeriss": (
        "eyeriss",
        {
            "SRAM.fanout.x": {"choices": [4, 8, 12, 14, 16]},
            "SRAM.fanout.y": {"choices": [4, 8, 12, 16]},
            "RegFile.size": {"choices": [16, 64, 256, 512]},
            "SRAM.size": {"from": 32, "to": 256, "powers_of_two": True, "unit": "KiB"},
        },
    ),
    "simba": (
        "simba",
        {
            "GlobalBuffer.fanout.x": {"choices": [2, 4, 8]},
            "GlobalBuffer.fanout.y": {"choices": [2, 4, 8]},
            "GlobalBuffer.size": {"choices": ["32 Kiwords", "64 Kiwords", "128 Kiwords"]},
            "InputBuffer.size": {"choices": ["1 Kiwords", "4 Kiwords", "8 Kiwords"]},
            "WeightBuffer.size": {"choices": ["4 Kiwords", "16 Kiwords", "32 Kiwords"]},
        },
    ),
    "tile": (
        "tpu-like",
        {
            "UnifiedBuffer.fanout.x": {"choices": [4, 8, 16, 24, 32]},
            "Accumulators.fanout.y": {"choices": [4, 8, 16, 24, 32]},
            "UnifiedBuffer.size": {"from": 32, "to": 256, "powers_of_two": True, "unit": "KiB"},
            "Accumulators.size": {"choices": ["256 words", "1 Kiwords", "4 Kiwords"]},
        },
    ),
}
"""Architecture and axes; the tile of a tiled chip is a small systolic array with its own buffer."""

METHODS: dict[str, dict[str, Any]] = {
    "random": {"sampler": "random"},
    "tpe": {"sampler": "tpe"},
    "nsga2": {"sampler": "nsga2"},
    "nsga2, warm start": {"sampler": "nsga2", "warm_start": True},
    "tpe, warm start": {"sampler": "tpe", "warm_start": True},
    "nsga2, bounds": {"sampler": "nsga2", "prune_by_bounds": True},
    "nsga2, warm start, bounds": {"sampler": "nsga2", "warm_start": True, "prune_by_bounds": True},
    "tpe, warm start, bounds": {"sampler": "tpe", "warm_start": True, "prune_by_bounds": True},
}
DESIGNS = (10, 20, 40, 80, 120)
"""Solved designs after which hypervolumes are compared."""
NEAR = (0.95, 0.99)
"""Fractions of the grid's hypervolume whose cost in solves is reported."""


@dataclass
class Truth:
    """The whole grid of a space, solved; objectives by the design's values."""

    name: str
    layers: int
    kept: Path | None = None
    seconds: float = 0.0
    rows: dict[str, DesignRow] = field(default_factory=dict)
    demands: tuple[LayerDemand, ...] = ()

    def __post_init__(self) -> None:
        architecture, axes = SPACES[self.name]
        self.study = Study.model_validate(
            {"name": self.name, "networks": ["resnet18"], "architecture": architecture, "axes": axes}
        )
        self.space = design_space(self.study)
        heaviest = sorted(layer_demands(self.study), key=lambda demand: -demand.runs * demand.layer.macs)
        self.demands = tuple(heaviest[: self.layers])
        self.work = MappingWorkload(self.study, self.demands)
        self.seconds, self.rows = self._answers()
        self._bounds: dict[str, tuple[float, float]] = {}
        self.reference = reference_point(self._points(self.rows.values()))
        self.volume = hypervolume(self._points(self.rows.values()), self.reference)

    def _answers(self) -> tuple[float, dict[str, DesignRow]]:
        """CPU seconds of the grid's solves and their rows; those of an earlier run where these were kept."""
        asked = content_hash([task.id for design in self.space.grid() for task in self.tasks(design)])
        kept = self.kept and self.kept / f"{self.name}-{asked}.json"
        if kept and kept.is_file():
            seconds, rows = json.loads(kept.read_text())
            return seconds, rows
        start = time.process_time()
        rows = {str(design.values): self._solved(design) for design in self.space.grid()}
        seconds = time.process_time() - start
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([seconds, rows]))
        return seconds, rows

    def fraction(self, rows: Sequence[DesignRow]) -> float:
        """The fraction of the grid's hypervolume that these designs have."""
        return hypervolume(self._points(rows), self.reference) / self.volume if rows else 0.0

    @property
    def front(self) -> int:
        return int(front_mask(self._points(self.rows.values())).sum())

    def tasks(self, design: Design) -> list[MappingTask]:
        settings = mapping_settings(self.study)
        return [MappingTask(design.architecture, demand.named, settings) for demand in self.demands]

    def bounds(self, design: Design) -> tuple[float, float]:
        """Proven lower bounds on energy_pj and cycles of the design."""
        key = str(design.values)
        if key not in self._bounds:
            self._bounds[key] = self.work.bounds(self.tasks(design))
        return self._bounds[key]

    def _points(self, rows: Any) -> list[list[float]]:
        # Logarithms: a design that takes half the energy gains the same whether it takes joules or
        # millijoules.
        return [[log(row[name]) for name in self.study.objectives] for row in rows]

    def _solved(self, design: Design) -> DesignRow:
        energy_pj = cycles = 0.0
        for demand, task in zip(self.demands, self.tasks(design), strict=True):
            answer: Any = run_mapping_task(task.content)
            energy_pj += demand.runs * answer["energy_pj"]
            cycles += demand.runs * answer["cycles"]
        return {"status": "complete"} | objectives(design, energy_pj, round(cycles))


@dataclass(frozen=True)
class Course:
    """One search: its fraction of the grid's hypervolume after each solved design."""

    fractions: tuple[float, ...]
    discarded: int
    repeats: int

    def after(self, designs: int) -> float:
        return self.fractions[min(designs, len(self.fractions)) - 1]

    def designs_to(self, fraction: float) -> int | None:
        return next((number for number, here in enumerate(self.fractions, start=1) if here >= fraction), None)


class Drive:
    """A study's search, driven with the grid's answers until DESIGNS[-1] designs are solved."""

    def __init__(self, truth: Truth, study: Study, first: Sequence[Point]) -> None:
        self.truth = truth
        self.search = OptunaProposals(study, truth.space, None, lambda: first)
        self.pruning = BoundsPruning(study, truth.work) if study.search.prune_by_bounds else None
        self.discarded = 0

    def course(self, at_once: int) -> Course:
        """With so many designs open at a time, answered in their order."""
        solving: deque[DesignRow] = deque()
        rows: list[DesignRow] = []
        while len(rows) < DESIGNS[-1] and (solving or not self.search.finished):
            # Filled up before an answer is told: on a cluster a search proposes without knowing what is still
            # running.
            while len(solving) < at_once and not self.search.finished:
                solving.extend(self._asked())
            if solving:
                rows.append(solving.popleft())
                self._tell(rows[-1])
        fractions = tuple(self.truth.fraction(rows[:count]) for count in range(1, len(rows) + 1))
        return Course(fractions, self.discarded, self.search.repeats)

    def _asked(self) -> Iterator[DesignRow]:
        """The rows of the next designs; those that are discarded by their bounds are told at once."""
        for design in self.search.ask():
            if row := self._dominated(design):
                self.discarded += 1
                self._tell(row)
            else:
                yield self.truth.rows[str(design.values)] | {"trial": design.trial}

    def _dominated(self, design: Design) -> DesignRow | None:
        """As :meth:`BoundsPruning.discard`, with bounds that no other search has to find again."""
        if self.pruning is None:
            return None
        energy_pj, cycles = self.truth.bounds(design)
        bounds = objective_bounds(self.pruning.study, design, energy_pj, cycles)
        if self.pruning.dominating(np.array(bounds)) is None:
            return None
        found: DesignRow = {"status": "dominated", "trial": design.trial}
        return found | {"energy_bound_pj": energy_pj, "cycles_bound": cycles}

    def _tell(self, row: DesignRow) -> None:
        if self.pruning:
            self.pruning.evaluated(row)
        self.search.tell(row)


def with_search(study: Study, **search: Any) -> Study:
    # No end by itself: DESIGNS says when a course is over, and discarded designs cost no trial of it.
    keys = {"method": "optuna", "trials": 10**6, **search}
    return Study.model_validate(study.model_dump(by_alias=True) | {"search": keys})


def compared(truth: Truth, methods: Sequence[str], seeds: int, at_once: int) -> dict[str, Any]:
    """Each method with every seed; medians, and least and most over the seeds."""
    begun = time.process_time()
    start = RelaxedStart(truth.study, truth.space, truth.demands).points()
    warm_seconds = time.process_time() - begun
    found: dict[str, Any] = {}
    for name in methods:
        method = METHODS[name]
        first = start if method.get("warm_start") else []
        studies = [with_search(truth.study, seed=seed, **method) for seed in range(seeds)]
        courses = [Drive(truth, study, first).course(at_once) for study in studies]
        found[name] = {
            "hypervolume": {str(n): _spread([course.after(n) for course in courses]) for n in DESIGNS},
            "solves_to": {str(fraction): _solves(courses, fraction, truth.layers) for fraction in NEAR},
            "discarded": median(course.discarded for course in courses),
            "repeats": median(course.repeats for course in courses),
        }
    return {
        "designs": len(truth.rows),
        "front": truth.front,
        "layers": truth.layers,
        "grid_cpu_seconds": round(truth.seconds, 1),
        "warm_start": {"points": len(start), "cpu_seconds": round(warm_seconds, 1)},
        "methods": found,
    }


def _spread(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in (median(values), min(values), max(values))]


def _solves(courses: Sequence[Course], fraction: float, layers: int) -> float | None:
    """The median of the solves until the fraction is reached; None where half of the searches never do."""
    designs = sorted(course.designs_to(fraction) or inf for course in courses)
    middle = median(designs)
    # inf for a search that never gets there: the median then is right although no number stands for it.
    return None if middle == inf else middle * layers


def show(space: str, found: dict[str, Any]) -> None:
    warm = found["warm_start"]
    print(
        f"\n{space}: {found['designs']} designs, {found['front']} on the front, {found['layers']} layers; "
        f"the grid takes {found['grid_cpu_seconds']} CPU s, "
        f"the warm start {warm['cpu_seconds']} s for {warm['points']} designs"
    )
    heads = "".join(f"{n * found['layers']:>22}" for n in DESIGNS)
    print(f"{'hypervolume after solves':34}{heads}   to {NEAR[0]:.0%}   to {NEAR[1]:.0%}")
    for name, row in found["methods"].items():
        cells = "".join(f"{m:9.3f} [{a:.3f} {b:.3f}]" for m, a, b in row["hypervolume"].values())
        reached = "".join(f"{'never' if n is None else format(n, 'g'):>9}" for n in row["solves_to"].values())
        extra = f"  {row['discarded']:g} discarded" if row["discarded"] else ""
        print(f"{name:34}{cells}{reached}{extra}")


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--spaces", nargs="*", choices=SPACES, default=list(SPACES))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--answers", type=Path)
    arguments = parser.parse_args()
    found = {}
    for space in arguments.spaces:
        truth = Truth(space, arguments.layers, arguments.answers)
        found[space] = compared(truth, arguments.methods, arguments.seeds, arguments.at_once)
        show(space, found[space])
    record.finish(found, arguments)


if __name__ == "__main__":
    main()
