"""The driver's CPU a solve where solves travel in blocks: through real workers, without work and in earnest.

    python benchmarks/blocks.py [--designs 20000] [--workers 2] [--real 200] [--network FILE] [--validate]

ResNet-18 (12 shapes of layers), or the network of a file, on random members of an Eyeriss family. ``without
work``: the solver knows one answer, so what is left is all that is done for a solve beside solving. The
worker's microseconds are of its CPU time. The driver's are of all its threads, those of Ray included, which
take some of every second that passes, and of its own thread alone. Planning, a second run, with every answer
in the store, the front and the report are measured as well, all in the driver's process, and so is the most
memory that it ever had. CPU seconds hardly depend on what else the machine does.

``--validate`` runs solves that sleep, holds the simulation of ``archsweep plan`` against them, and has it say
what many workers would do. Exits with status 1 where a goal is missed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, cast

import record
from dispatch_rate import memory_mb
from scaling import study

from clusters.runtime import Completion, Runtime
from results.front.pareto import front_table, network_labels
from results.report.page import write_report
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import MappingColumns
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import StudyPlan, plan
from sweep.forecast.simulated_run import BlockCosts
from sweep.forecast.simulation import block_forecast
from sweep.run.block_run import BlockRun
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import AxisChoices, Study
from sweep.tasks.mapping import MappingTask, run_mapping_task

NAPS = ((0.005, 250), (0.03, 50))
"""Seconds of solves that sleep, and how many designs for each worker ask for them."""

SUB_DRIVERS, SHARED_BY_TWO = 2, (1, 3)
"""Sub-drivers of validated runs, and how many workers each of them has: what sleeps needs no core."""
PROJECTED = {(100, 0.05, 2000): 0.95, (1000, 0.01, 10_000): 0.9, (10_000, 0.03, 10_000): 0.9}
"""Workers, seconds of a solve and solves for each worker, with the efficiency that is asked of them."""
MOST_DRIVER_US, MOST_WORKER_US = 3.0, 200.0
"""CPU time that a solve may cost the driver, and its worker beside the solve itself."""
MOST_DRIVER_MIB = 1024.0
"""Memory that the driver may ever have, for a run of half a million designs and ten million solves."""
MOST_DIFFERENCE = 0.1
"""How far a simulated efficiency may be from that of the run that was made, as a fraction of it."""


class Known:
    """A solver that knows one answer."""

    def __init__(self, answer: MappingColumns) -> None:
        self.answer = answer

    def __call__(self, problem: object, asked: object) -> MappingColumns:
        return self.answer


class Napping(Known):
    """A solver that knows one answer, and sleeps before it gives it."""

    def __init__(self, answer: MappingColumns, seconds: float) -> None:
        super().__init__(answer)
        self.seconds = seconds

    def __call__(self, problem: object, asked: object) -> MappingColumns:
        time.sleep(self.seconds)
        return self.answer


class Metered:
    """A runtime that adds up what its workers say of their CPU time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.worker_cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def as_completed(self) -> Iterator[Completion]:
        for completion in self._runtime.as_completed():
            self.worker_cpu += completion.cpu_seconds
            yield completion


class Clocked(RunTally):
    """Notes the driver's CPU and wall clock when so many solves were done: what comes before is the start."""

    def __init__(self, warm: int) -> None:
        super().__init__()
        self._warm = warm
        self.ended: list[tuple[float, int]] = []
        """When how many solves were done, by the clock."""
        self.done_then = self.blocks = 0
        self.cpu = self.own = self.wall = 0.0

    def block_done(self, tally: BlockTally) -> None:
        super().block_done(tally)
        self.blocks += self.done_then > 0
        self.ended.append((time.perf_counter(), self.done))
        if not self.done_then and self.done >= self._warm:
            self.done_then, self.cpu, self.wall = self.done, time.process_time(), time.perf_counter()
            self.own = time.thread_time()


def family(designs: int, network: str) -> Study:
    """So many random designs of the family of ``scaling.py``, of 632,800."""
    chosen = study(12 * (designs - 500))
    sizes = AxisChoices.model_validate({"from": 32, "to": 480, "step": 4})
    axes = {**chosen.axes, "RegFile.size": sizes}
    return chosen.model_copy(update={"networks": (NetworkChoice(network=network),), "axes": axes})


def planned(chosen: Study, store: StoredAnswers | None = None) -> tuple[StudyPlan, float]:
    cpu = time.process_time()
    made = plan(chosen, store)
    return made, time.process_time() - cpu


def measure(chosen: Study, path: Path, workers: int, known: Known | None, warm: int) -> dict[str, Any]:
    """One run; with ``known`` answers none is solved."""
    store = StoredAnswers(path.parent)
    made, planning = planned(chosen, store)
    assert made.table is not None
    before = memory_mb()
    with RunWriter(path) as writer:
        watch = Clocked(warm)
        run = BlockRun(chosen, made.table, made.workload, writer, watch, store)
        work = replace(run.work, solve=known) if known else run.work
        here = RuntimeChoice(workers=workers) if made.open else RuntimeChoice(in_process=True)
        with here.runtime(chosen, work) as runtime:
            metered = Metered(runtime)
            run.explore(cast(Runtime, metered))
            cpu, wall = time.process_time() - watch.cpu, time.perf_counter() - watch.wall
            own = time.thread_time() - watch.own
        closing = time.process_time()
    solves = watch.done - watch.done_then
    return {
        "designs": len(made.designs),
        "solves": watch.done,
        "from_the_store": watch.hits,
        "planning_cpu_seconds": planning,
        "measured_solves": solves,
        "solves_a_block": solves / max(1, watch.blocks),
        "driver_us_a_solve": 1e6 * cpu / solves,
        "driver_us_in_its_thread": 1e6 * own / solves,
        "worker_us_a_solve": 1e6 * metered.worker_cpu / watch.done,
        "wall_seconds": wall,
        "solves_a_second": solves / wall,
        "closing_cpu_seconds": time.process_time() - closing,
        "driver_growth_mb": memory_mb() - before,
        "driver_mb": memory_mb(),
    }


def validate(
    chosen: Study, path: Path, workers: int, napping: Napping, costs: BlockCosts, sub_drivers: int = 0
) -> dict[str, Any]:
    """A run whose solves sleep, and its simulation, both from when the workers are up."""
    made, _ = planned(chosen)
    assert made.table is not None
    with RunWriter(path) as writer:
        watch = Clocked(1)
        run = BlockRun(chosen, made.table, made.workload, writer, watch)
        work = replace(run.work, solve=napping)
        with RuntimeChoice(workers=workers, sub_drivers=sub_drivers).runtime(chosen, work) as runtime:
            # the first solves of a worker import; later ones do not
            run.explore(runtime)
    quarter = watch.done // 4
    begin, before = next(one for one in watch.ended if one[1] >= quarter)
    wall, solves = watch.ended[-1][0] - begin, watch.done - before
    simulated = block_forecast([napping.seconds], solves, workers, costs, shards=sub_drivers)
    measured = solves * napping.seconds / (wall * workers)
    return {
        "workers": workers,
        "sub_drivers": sub_drivers,
        "solve_seconds": napping.seconds,
        "solves": solves,
        "efficiency": measured,
        "simulated_efficiency": simulated.efficiency,
        "difference": simulated.efficiency / measured - 1,
    }


def project(costs: BlockCosts) -> list[dict[str, Any]]:
    """What the simulation says of the goals, with the start of the workers in it."""
    found = []
    for (workers, seconds, each), goal in PROJECTED.items():
        run = asdict(block_forecast([seconds], workers * each, workers, costs))
        lost = {f"lost_{cause}": fraction for cause, fraction in run.pop("lost").items()}
        found.append({"solve_seconds": seconds, **run, **lost, "goal": goal})
    return found


def missed(found: dict[str, dict[str, Any]]) -> list[str]:
    """The goals that were not reached, in words."""
    without = found["without work"]
    limits = (("driver_us_a_solve", MOST_DRIVER_US), ("worker_us_a_solve", MOST_WORKER_US))
    wrong = [f"{key}: {without[key]:.2f}, at most {most:g}" for key, most in limits if without[key] > most]
    if (peak := found["report"]["driver_peak_mib"]) > MOST_DRIVER_MIB:
        wrong.append(f"driver_peak_mib: {peak:,.0f}, at most {MOST_DRIVER_MIB:,.0f}")
    for title, part in found.items():
        if abs(part.get("difference", 0.0)) > MOST_DIFFERENCE:
            wrong.append(f"{title}: simulated {part['difference']:+.0%} off, at most {MOST_DIFFERENCE:.0%}")
        if part.get("efficiency", 1.0) < part.get("goal", 0.0):
            wrong.append(f"{title}: efficiency {part['efficiency']:.3f}, at least {part['goal']:g}")
    return wrong


def show(title: str, found: dict[str, Any]) -> None:
    print(title)
    for key, value in found.items():
        print(f"  {key:24}{value:14,.2f}" if isinstance(value, float) else f"  {key:24}{value:14,}")
    print(flush=True)


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--designs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--network", default="resnet18", help="a library name or a file")
    parser.add_argument("--validate", action="store_true", help="hold simulated runs against sleeping solves")
    parser.add_argument("--real", type=int, default=0, help="designs whose layers are solved in earnest")
    options = parser.parse_args()
    chosen = family(options.designs, options.network)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "runs" / chosen.name
        made, _ = planned(chosen)
        task = made.workload.tasks(next(iter(made.designs)))[0]
        assert isinstance(task, MappingTask)
        known = Known(run_mapping_task(task.content))
        found["without work"] = measure(chosen, path, options.workers, known, made.distinct // 10)
        found["again, all stored"] = measure(chosen, path, 1, known, 1)
        costs = BlockCosts(worker=1e-6 * found["without work"]["worker_us_a_solve"], part=0.0)
        costs = replace(costs, runtime=replace(costs.runtime, start=0.0))
        for seconds, designs in NAPS if options.validate else ():
            for count in range(1, options.workers + 1):
                small = family(designs * count, options.network)
                name = f"naps of {seconds:g} s on {count} workers"
                with tempfile.TemporaryDirectory() as beside:
                    napping = Napping(known.answer, seconds)
                    found[name] = validate(small, Path(beside) / "runs" / "a", count, napping, costs)
        for each in SHARED_BY_TWO if options.validate else ():
            seconds, designs = NAPS[-1]
            small = family(2 * designs * SUB_DRIVERS * each, options.network)
            name = f"naps of {seconds:g} s on {SUB_DRIVERS} sub-drivers of {each} workers"
            with tempfile.TemporaryDirectory() as beside:
                napping, folder = Napping(known.answer, seconds), Path(beside) / "runs" / "a"
                workers = SUB_DRIVERS * each
                found[name] = validate(small, folder, workers, napping, costs, SUB_DRIVERS)
        before, start = memory_mb(), time.process_time()
        front = front_table(RunFolder(path), chosen.objectives)
        labels = network_labels(RunFolder(path))
        found["front"] = {
            "designs_on_it": len(front),
            "weighted_networks": len(labels),
            "cpu_seconds": time.process_time() - start,
            "growth_mb": memory_mb() - before,
        }
        start = time.process_time()
        page = write_report(path)
        found["report"] = {
            "page_mb": page.stat().st_size / 1e6,
            "cpu_seconds": time.process_time() - start,
            "driver_peak_mib": getrusage(RUSAGE_SELF).ru_maxrss / 1024,
        }
    for row in project(BlockCosts()) if options.validate else ():
        found[f"{row['workers']} workers, simulated"] = row
    if options.real:
        small = family(options.real, options.network)
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "runs" / small.name
            found["solved"] = measure(small, path, options.workers, None, options.real)
    for title, part in found.items():
        show(title, part)
    wrong = missed(found)
    for line in wrong:
        print(f"missed: {line}")
    record.finish(found, options)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
