"""What BENCHMARKS.md shows of speed, scaling, faults, and of the product as a stranger meets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from report.table import Table


def batch_throughput(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "architecture": "architecture",
        "layer": "layer",
        "batch_per_second": "mappings/s, batch",
        "drawn_per_second": "drawn/s",
        "evaluate_per_second": "mappings/s, evaluate",
    }
    yield Table.of(found["mappings"], columns)
    columns = {"compiling_seconds": "first answer, compiling, s", "loading_seconds": "from disk, s"}
    yield Table.of([found["first_call"]], columns)


def store(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "name": "what",
        "cpu_seconds": "CPU s",
        "wall_seconds": "wall s",
        "rate": "rate",
        "unit": "unit",
    }
    yield Table.of(found, columns)


def store_growth(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "what": "what",
        "cpu_seconds": "CPU s",
        "compared": "ratio, or CPU s of 100,000 designs",
        "limit": "at most",
        "kept": "kept",
    }
    yield Table.of(found, columns)


def large_runs(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "what": "what",
        "cpu_seconds": "CPU s",
        "wall_seconds": "wall s",
        "peak_mib": "peak memory, MiB",
        "megabytes": "on disk, MB",
        "microseconds_each": "us of CPU each",
    }
    yield Table.of(found, columns)


def study(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "workers": "workers",
        "designs": "designs",
        "solves": "solves",
        "failed": "failed",
        "wall_seconds": "wall s",
        "solve_cpu_seconds": "CPU s in solves",
        "efficiency": "CPU efficiency",
        "in_solves": "workers' time in solves",
        "driver_cpu_seconds": "driver's CPU s",
        "driver_mib_peak": "driver's MiB",
        "second_run_seconds": "again from the store, s",
    }
    yield Table.of([found], columns)


def decoders(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "what": "what",
        "designs": "designs",
        "mappings": "mappings",
        "proven": "proven",
        "solve_cpu_seconds": "CPU s in solves",
        "cpu_seconds": "CPU s in all",
        "cores": "cores",
        "limit_seconds": "at most, s on each",
    }
    yield Table.of(found, columns)


def dispatch_rate(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "runtime": "runtime",
        "item_seconds": "s an item",
        "items": "items",
        "items_per_second": "items/s",
        "efficiency": "efficiency",
        "driver_cpu_seconds": "driver's CPU s",
        "driver_memory_growth_mb": "driver's memory, MB more",
    }
    yield Table.of(found, columns)


def scaling(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "workers": "workers",
        "item_seconds": "s an item",
        "efficiency": "efficiency",
        "simulated_efficiency": "simulated",
        "difference": "difference",
    }
    yield Table.of(found["validated"], columns, "real runs and their simulation")
    columns = {
        "item_seconds": "s a solve",
        "workers": "workers",
        "solves": "solves",
        "efficiency": "efficiency",
        "driver_busy": "driver busy",
        "bottleneck": "bottleneck",
    }
    yield Table.of(found["projected"], columns, "simulated")
    columns = {"tasks": "tasks", "growth_mb": "driver's memory, MB more", "study_seconds": "CPU s a task"}
    yield Table.of([found["run_loop"]], columns, "the run loop with solves that cost nothing")


def blocks(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "run": "run",
        "designs": "designs",
        "solves": "solves",
        "planning_cpu_seconds": "planning, CPU s",
        "driver_us_a_solve": "driver, us a solve",
        "driver_us_in_its_thread": "its own thread's",
        "worker_us_a_solve": "worker, us a solve",
        "driver_growth_mb": "driver's memory, MB more",
    }
    runs = [{"run": title} | part for title, part in found.items() if "driver_us_a_solve" in part]
    yield Table.of(runs, columns, "what is done for a solve, CPU time")
    compared = {
        "run": "solves that sleep",
        "solves": "solves",
        "efficiency": "efficiency",
        "simulated_efficiency": "simulated",
        "difference": "difference",
    }
    runs = [{"run": title} | part for title, part in found.items() if "difference" in part]
    yield Table.of(runs, compared, "runs that were made, and their simulation")
    projected = {
        "workers": "workers",
        "sub_drivers": "sub-drivers",
        "solve_seconds": "seconds of a solve",
        "solves": "solves",
        "wall_seconds": "wall s",
        "efficiency": "efficiency",
        "goal": "goal",
    }
    runs = [part for part in found.values() if "goal" in part]
    yield Table.of(runs, projected, "what the simulation says of many workers")


def block_costs(found: dict[str, float]) -> Iterator[Table]:
    names = {
        "block_ms": "the run loop, ms a block whatever is in it",
        "solve_us": "the run loop, us for each of its solves",
        "share_ms": "with sub-drivers, ms a share",
        "solve_of_a_share_us": "with sub-drivers, us for each of its solves",
        "sub_driver_ms_a_block_of_48": "a sub-driver, ms a block of 48 solves",
    }
    rows = tuple((said, found[name]) for name, said in names.items())
    yield Table(("what", "CPU time"), rows, "without what the runtime does for a call")


def submit(found: list[dict[str, Any]]) -> Iterator[Table]:
    rows = [
        (attempt["attempt"], step, seconds)
        for attempt in found
        for step, seconds in attempt["seconds"].items()
    ]
    yield Table(("attempt", "step", "wall s"), tuple(rows))


def faults(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "fault": "fault",
        "rows": "rows",
        "failed": "failed",
        "repeated": "repeated",
        "resumed": "resumed",
        "extra": "begun again",
        "equal": "equal to the undisturbed run",
    }
    yield Table.of(found, columns)


def product(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {"what": "what", "value": "value", "unit": "unit", "command": "command"}
    yield Table.of([row | {"command": f"`{row['command']}`"} for row in found], columns)
