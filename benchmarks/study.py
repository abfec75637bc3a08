"""A study of about 2,000 solves on the workers of this machine: a table, then one JSON object.

    python benchmarks/study.py [--workers 2] [--designs 168 | --study eyeriss-optuna]

Efficiency is the solves' CPU seconds over workers times wall seconds, from the moment Ray runs to the last
row (the workers' imports are inside; a warm start is before, as in a run, on a line of its own); in_solves is
the same with their wall seconds, fair on a busy machine where processes wait for each other's CPU. The
driver's CPU seconds do not depend on that. The second run has every answer in the store.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import record

from results.store.folder import RunFolder, RunWriter
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search import trial_journal
from sweep.search.search import search_of
from sweep.study.network_choice import NetworkChoice
from sweep.study.search_choice import RandomSearch
from sweep.study.study import AxisChoices, Study, load_study


def study(designs: int) -> Study:
    """ResNet-18 on random members of an Eyeriss family of 1,050."""
    return Study(
        name="benchmark",
        networks=(NetworkChoice(network="resnet18"),),
        architecture="eyeriss",
        axes={
            "SRAM.fanout": AxisChoices(choices=([8, 8], [12, 8], [14, 12], [16, 16], [20, 16])),
            "RegFile.size": AxisChoices.model_validate({"from": 32, "to": 480, "step": 32}),
            "SRAM.size": AxisChoices.model_validate({"from": 32, "to": 240, "step": 16, "unit": "KiB"}),
        },
        search=RandomSearch(method="random", samples=designs),
    )


def resident_mib() -> float:
    """The most memory that the driver process has had resident, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(workers: int, chosen: Study) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "runs" / chosen.name
        before, cpu = resident_mib(), time.process_time()
        with RunWriter(path) as writer:
            search = search_of(chosen, path / trial_journal.NAME)
            search_cpu, start = time.process_time() - cpu, time.perf_counter()
            with RuntimeChoice(workers=workers).runtime(chosen) as runtime:
                ready, cpu = time.perf_counter(), time.process_time()
                StudyRun(chosen, search, writer).explore(runtime)
                wall, driver = time.perf_counter() - ready, time.process_time() - cpu
        rows = RunFolder(path).read("layers").to_pandas()
        statuses = RunFolder(path).read("designs", ["status"]).to_pandas()["status"]
        again = time.perf_counter()
        run_study(chosen, path, RuntimeChoice(workers=workers))
        second = time.perf_counter() - again
    solving = float(rows["cpu_seconds"].sum())
    return {
        "workers": workers,
        "designs": len(statuses),
        "evaluated": int((statuses == "complete").sum()),
        "solves": len(rows),
        "failed": int((rows["status"] == "failed").sum()),
        "search_start_cpu_seconds": search_cpu,
        "ray_start_seconds": ready - start,
        "wall_seconds": wall,
        "solve_cpu_seconds": solving,
        "solve_cpu_seconds_mean": solving / len(rows),
        "efficiency": solving / (workers * wall),
        "in_solves": float(rows["wall_seconds"].sum()) / (workers * wall),
        "driver_cpu_seconds": driver,
        "driver_mib_before": before,
        "driver_mib_peak": resident_mib(),
        "second_run_seconds": second,
    }


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--designs", type=int, default=168)
    parser.add_argument("--study", help="a study file or built-in study in place of random designs")
    arguments = parser.parse_args()
    chosen = load_study(arguments.study) if arguments.study else study(arguments.designs)
    measured = measure(arguments.workers, chosen)
    for key, value in measured.items():
        print(f"{key:24}{value:12.3f}" if isinstance(value, float) else f"{key:24}{value:12}")
    record.finish(measured, arguments)


if __name__ == "__main__":
    main()
