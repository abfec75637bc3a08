"""How many exact solves a cheaper solver's first look saves, at an equal front, on three families.

    python benchmarks/fidelity.py [--spaces eyeriss simba tile] [--layers 3] [--first "random, 200"]

``exact`` maps the heaviest layers of ResNet-18 on the whole grid of each family of ``search_quality.py``.
Then the same study runs with ``prune_by_bounds``, and with a ``fidelity``. Both are given the grid's answers
when they ask for a solve, so that CPU seconds of solves are the same measurement. A run whose front is not
the grid's ends the benchmark with status 1. Prints a table, then JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import record
from search_quality import SPACES

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from results.front.pareto import design_frame, front_of
from results.store.folder import RunFolder, RunWriter
from sweep.blocks.block_work import solve
from sweep.design.mapping_workload import MappingWorkload, layer_demands
from sweep.forecast.plan import plan
from sweep.run.block_run import BlockRun
from sweep.run.first_look import FidelityRun
from sweep.study.study import Study

FIRST: dict[str, dict[str, Any]] = {
    "random, 200": {"solver": "random_search", "iterations": 200},
    "exact, 50 %": {"solver": "exact", "params": {"tolerance": 0.5}},
    "kapla": {"solver": "kapla"},
}
"""What looks first: 200 random mappings a layer, branch and bound until the gap is 50 %, KAPLA."""


class Answers:
    """Solves each problem once, and knows the answer from then on."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def __call__(self, problem: Any, asked: Any) -> Any:
        key = problem, asked.settings.solver, asked.settings.params, asked.settings.budget
        if key not in self.known:
            self.known[key] = solve(problem, asked)
        return self.known[key]


def ran(study: Study, layers: int, answers: Answers) -> dict[str, Any]:
    """One run of the study, on its heaviest ``layers`` only: what it solved, and its front."""
    planned = plan(study)
    assert planned.table is not None
    heaviest = sorted(layer_demands(study), key=lambda demand: -demand.runs * demand.layer.macs)
    workload = MappingWorkload(study, tuple(heaviest[:layers]))
    kind = BlockRun if study.fidelity is None else FidelityRun
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / study.name
        begun = time.process_time()
        with RunWriter(folder) as writer:
            # The run loop itself, with another ``solve``: what it leaves out is what a study would leave out.
            run = kind(study, planned.table, workload, writer)
            with InProcessRuntime(replace(run.work, solve=answers), RuntimeSettings()) as runtime:
                run.explore(runtime)
        spent = time.process_time() - begun
        rows, designs = RunFolder(folder).read_rows("layers"), RunFolder(folder).read_rows("designs")
        front = front_of(design_frame(RunFolder(folder)), list(study.objectives))
    own = json.loads(workload.solves[0].settings.params)
    # With ``exact`` as its own first look, the solver's name alone does not tell the two apart.
    mine = {row["task_id"] for row in rows if (row["solver"], row["params"]["params"]) == ("exact", own)}
    exact = [row for row in rows if row["task_id"] in mine]
    first = [row for row in rows if row["task_id"] not in mine]
    return {
        "designs": len(designs),
        "left_out": sum(row["status"] == "dominated" and not row["solves"] for row in designs),
        "left_in_the_middle": sum(row["status"] == "dominated" and row["solves"] > 0 for row in designs),
        "exact_solves": len(exact),
        "unproven": sum(row["status"] != "optimal" for row in exact),
        "exact_cpu_seconds": round(sum(row["cpu_seconds"] for row in exact), 2),
        "first_solves": len(first),
        "first_cpu_seconds": round(sum(row["cpu_seconds"] for row in first), 2),
        "run_cpu_seconds": round(spent, 2),
        "front": sorted(tuple(row[name] for name in study.objectives) for _, row in front.iterrows()),
    }


def compared(space: str, arguments: Any) -> dict[str, Any]:
    architecture, axes = SPACES[space]
    asked = {
        "name": space,
        "networks": ["resnet18"],
        "architecture": architecture,
        "axes": axes,
        "objectives": arguments.objectives,
        "mapping": {"solver": "exact", "objective": arguments.objective, "wall_seconds": 60},
    }
    searches: dict[str, dict[str, Any]] = {
        "grid": {},
        "bounds": {"prune_by_bounds": True},
        **{name: {"fidelity": FIRST[name]} for name in arguments.first},
    }
    # One store for all searches of a space: the grid comes first and solves everything, so a later search
    # cannot win by a solver's luck or a quieter minute.
    answers, found = Answers(), {}
    for name, search in searches.items():
        study = Study.model_validate(asked | {"search": {"method": "grid", **search}})
        found[name] = ran(study, arguments.layers, answers)
    fronts = {name: row.pop("front") for name, row in found.items()}
    return {
        "on_front": len(fronts["grid"]),
        "equal_fronts": all(front == fronts["grid"] for front in fronts.values()),
        "searches": found,
    }


def show(space: str, found: dict[str, Any]) -> None:
    grid = found["searches"]["grid"]
    same = "equal fronts" if found["equal_fronts"] else "THE FRONTS DIFFER"
    print(f"\n{space}: {grid['designs']} designs, {found['on_front']} on the front; {same}")
    print(
        f"{'':14}{'exact solves':>14}{'of the grid':>13}{'their CPU s':>13}{'first looks':>13}{'CPU s':>8}"
        f"{'left out':>10}{'midway':>8}{'unproven':>10}"
    )
    for name, row in found["searches"].items():
        part = row["exact_solves"] / grid["exact_solves"]
        print(
            f"{name:14}{row['exact_solves']:>14,}{part:>13.1%}{row['exact_cpu_seconds']:>13.1f}"
            f"{row['first_solves']:>13,}{row['first_cpu_seconds']:>8.1f}{row['left_out']:>10}"
            f"{row['left_in_the_middle']:>8}{row['unproven']:>10}"
        )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--spaces", nargs="*", choices=SPACES, default=list(SPACES))
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--first", nargs="*", choices=FIRST, default=["random, 200", "exact, 50 %"])
    parser.add_argument("--objective", default="edp")
    parser.add_argument("--objectives", nargs="*", default=["energy_pj", "cycles", "area_um2"])
    arguments = parser.parse_args()
    found = {}
    for space in arguments.spaces:
        found[space] = compared(space, arguments)
        show(space, found[space])
    record.finish(found, arguments)
    if not all(row["equal_fronts"] for row in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
