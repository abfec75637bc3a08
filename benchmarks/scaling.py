"""Measured efficiency at 1 and 2 workers beside the simulated one, forecasts for more, the driver's memory.

    python benchmarks/scaling.py [--items 300] [--tasks 100000] [--measure]

The items sleep, so that what else the machine does hardly counts; the clock starts when all workers have
answered. --measure finds the driver's costs of sweep/forecast/simulated_run.py anew and uses them. A table,
then JSON.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import record
from dispatch_rate import memory_mb, nap, warm_up

from clusters.in_process import InProcessRuntime
from clusters.ray.actors import RayRuntime
from clusters.runtime import Runtime, RuntimeSettings, complete_all
from results.store.folder import Buffering, RunWriter
from sweep.forecast.plan import plan
from sweep.forecast.simulated_run import DriverCosts
from sweep.forecast.simulation import MEASURED, forecast
from sweep.run.run import StudyRun
from sweep.search.search import ListedDesigns, designs
from sweep.study.network_choice import NetworkChoice
from sweep.study.search_choice import RandomSearch
from sweep.study.study import AxisChoices, Study
from sweep.tasks.columns import AnswerColumns
from sweep.tasks.mapping import MappingTask, run_mapping_task

LENGTHS = (0.02, 0.1, 0.5)
"""Mean seconds of an item; each takes between half and one and a half times that."""

PROJECTED = (10, 100, 1_000, 10_000)


def spread(mean: float) -> list[float]:
    return [mean * (0.5 + step / 20) for step in range(21)]


def validate(workers: int, mean: float, items: int, costs: DriverCosts) -> dict[str, Any]:
    """One real run of sleeping items and its simulation, both from the moment the workers are up."""
    naps = Random(1).choices(spread(mean), k=items)
    with RayRuntime(nap, RuntimeSettings(workers=workers)) as runtime:
        warm_up(runtime, workers)
        wall = time.perf_counter()
        done = sum(1 for _ in complete_all(runtime, ((str(n), s) for n, s in enumerate(naps))))
        wall = time.perf_counter() - wall
    assert done == items
    simulated = forecast(naps, items, workers, replace(costs, start=0.0, study=0.0))
    measured = sum(naps) / (workers * wall)
    return {
        "workers": workers,
        "item_seconds": mean,
        "items": items,
        "wall_seconds": wall,
        "efficiency": measured,
        "simulated_efficiency": simulated.efficiency,
        "difference": simulated.efficiency / measured - 1,
    }


def project(mean: float, costs: DriverCosts) -> Iterator[dict[str, Any]]:
    for workers in PROJECTED:
        run = forecast(spread(mean), 200 * workers, workers, costs)
        yield {**asdict(run), "item_seconds": mean, "bottleneck": run.bottleneck.partition(";")[0]}


def study(tasks: int) -> Study:
    """ResNet-18, whose layers are 12 shapes, on random members of an Eyeriss family."""
    return Study(
        name="scaling",
        networks=(NetworkChoice(network="resnet18"),),
        architecture="eyeriss",
        axes={
            "SRAM.fanout": AxisChoices(choices=tuple([x, y] for x in range(2, 22) for y in range(2, 22))),
            "RegFile.size": AxisChoices.model_validate({"from": 32, "to": 480, "step": 32}),
            "SRAM.size": AxisChoices.model_validate({"from": 32, "to": 240, "step": 16, "unit": "KiB"}),
        },
        search=RandomSearch(method="random", samples=500 + tasks // 12),
    )


class Constant:
    """A solver that knows one answer."""

    def __init__(self, answer: AnswerColumns) -> None:
        self.answer = answer

    def __call__(self, content: dict[str, Any]) -> AnswerColumns:
        return self.answer


def run_loop(tasks: int) -> dict[str, Any]:
    """The driver's memory and CPU over a study whose solves cost nothing; the first 500 designs warm up."""
    chosen = study(tasks)
    start = time.process_time()
    planned = plan(chosen)
    planning = time.process_time() - start
    # parts by rows alone: on a busy machine the clock would write more of them, and memory with them
    by_rows = Buffering(seconds=86_400)
    with tempfile.TemporaryDirectory() as scratch, RunWriter(Path(scratch) / "scaling", by_rows) as writer:
        proposed = designs(chosen)
        first = planned.workload.tasks(next(iter(planned.designs)))[0]
        assert isinstance(first, MappingTask)
        with InProcessRuntime(Constant(run_mapping_task(first.content))) as runtime:
            StudyRun(chosen, ListedDesigns(islice(proposed, 500)), writer).explore(runtime)
            memory, cpu = memory_mb(), time.process_time()
            run = StudyRun(chosen, ListedDesigns(proposed), writer, workload=planned.workload)
            run.explore(runtime)
            done = len(run.ledger.answers)
        cpu = time.process_time() - cpu
        growth = memory_mb() - memory
    return {"tasks": done, "growth_mb": growth, "study_seconds": cpu / done, "planning_seconds": planning}


def driver_costs(items: int) -> tuple[float, float]:
    """CPU seconds of the driver for one no-op item: in full batches, and in a call of its own."""
    full, single = (
        _no_ops(RuntimeSettings(workers=2, target_seconds=target), count)
        for target, count in ((0.7, items), (1e-9, items // 8))
    )
    return full, single


def _no_ops(settings: RuntimeSettings, count: int) -> float:
    with RayRuntime(nap, settings) as runtime:
        warm_up(runtime, 2)
        return _driver_cpu(runtime, count) / count


def _driver_cpu(runtime: Runtime, count: int) -> float:
    cpu = time.process_time()
    for _ in complete_all(runtime, ((str(n), 0.0) for n in range(count))):
        pass
    return time.process_time() - cpu


def measured_costs(study_seconds: float) -> DriverCosts:
    item, single = driver_costs(40_000)
    return replace(
        MEASURED,
        item=item,
        call=max(0.0, single - item - 2 * MEASURED.scan),
        study=study_seconds,
    )


def show(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    print(*(f"{column:>20}" for column in columns))
    for row in rows:
        print(*(f"{v:>20.4g}" if isinstance(v := row[c], float) else f"{v!s:>20}" for c in columns))
    print(flush=True)


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--items", type=int, default=300, help="sleeping items of each length and worker")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--measure", action="store_true", help="measure the driver's costs first")
    options = parser.parse_args()
    loop = run_loop(options.tasks)
    show([loop], ("tasks", "growth_mb", "study_seconds", "planning_seconds"))
    costs = measured_costs(loop["study_seconds"]) if options.measure else MEASURED
    print(costs, end="\n\n")
    validated = [
        validate(w, mean, round(w * min(options.items, 30 / mean)), costs) for mean in LENGTHS for w in (1, 2)
    ]
    show(validated, ("workers", "item_seconds", "items", "efficiency", "simulated_efficiency", "difference"))
    projected = [row for mean in (0.05, 0.5, 5.0) for row in project(mean, costs)]
    show(
        projected,
        ("item_seconds", "workers", "solves", "wall_seconds", "efficiency", "driver_busy", "bottleneck"),
    )
    found = {"run_loop": loop, "costs": asdict(costs), "validated": validated, "projected": projected}
    record.finish(found, options)


if __name__ == "__main__":
    main()
