"""How fast the Ray runtime hands out work: no-op items per second, and efficiency with short sleeping items.

    python benchmarks/dispatch_rate.py [--workers 2] [--items 1000] [--no-ops 100000]

Efficiency is the time the items sleep over workers times wall time, once the workers are up. Wall times
depend on what else the machine does; the driver's CPU seconds and memory hardly do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from resource import getpagesize

import record

from clusters.in_process import InProcessRuntime
from clusters.ray.actors import RayRuntime
from clusters.runtime import Runtime, RuntimeSettings, complete_all

SLEEPS = (0.01, 0.05, 0.5)


@dataclass(frozen=True)
class Row:
    """One measurement; efficiency is None for no-op items, where there is nothing to be efficient at."""

    runtime: str
    item_seconds: float
    items: int
    wall_seconds: float
    items_per_second: float
    efficiency: float | None
    driver_cpu_seconds: float
    driver_memory_growth_mb: float


def nap(seconds: float) -> None:
    if seconds:
        time.sleep(seconds)


def memory_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * getpagesize() / 1e6


def measure(name: str, runtime: Runtime, workers: int, seconds: float, items: int) -> Row:
    memory, cpu, wall = memory_mb(), time.process_time(), time.perf_counter()
    done = sum(1 for _ in complete_all(runtime, ((str(number), seconds) for number in range(items))))
    wall = time.perf_counter() - wall
    efficiency = items * seconds / (workers * wall) if seconds else None
    cpu = time.process_time() - cpu
    return Row(name, seconds, done, wall, done / wall, efficiency, cpu, memory_mb() - memory)


def rows(workers: int, items: int, no_ops: int) -> Iterator[Row]:
    with InProcessRuntime(nap) as runtime:
        yield measure("in process", runtime, 1, 0.0, no_ops)
    for seconds, count in ((0.0, no_ops), *((sleep, items) for sleep in SLEEPS)):
        with ExitStack() as stack:
            # a runtime of its own for each, so that batches start at one item every time
            ray = stack.enter_context(RayRuntime(nap, RuntimeSettings(workers=workers)))
            warm_up(ray, workers)
            yield measure("ray", ray, workers, seconds, count)


def warm_up(runtime: Runtime, workers: int) -> None:
    """Wait until every worker has answered; long items keep the batch at one."""
    seen: set[str] = set()
    while len(seen) < workers:
        pairs = ((f"warm{number}", 1.0) for number in range(workers))
        seen |= {completion.worker for completion in complete_all(runtime, pairs)}


def table(measured: Iterable[Row]) -> Iterator[str]:
    yield "runtime     item s    items   wall s   items/s  efficiency  driver CPU s  memory growth MB"
    for row in measured:
        efficiency = "" if row.efficiency is None else f"{row.efficiency:.1%}"
        yield (
            f"{row.runtime:<10} {row.item_seconds:>7g} {row.items:>8} {row.wall_seconds:>8.2f}"
            f" {row.items_per_second:>9.0f} {efficiency:>11} {row.driver_cpu_seconds:>13.2f}"
            f" {row.driver_memory_growth_mb:>17.1f}"
        )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--items", type=int, default=1000, help="sleeping items of each length")
    parser.add_argument("--no-ops", type=int, default=100_000)
    options = parser.parse_args()
    measured = []
    for row in rows(options.workers, options.items, options.no_ops):
        measured.append(row)
        print(".", end="", file=sys.stderr, flush=True)
    print(*table(measured), sep="\n")
    record.finish([asdict(row) for row in measured], options)


if __name__ == "__main__":
    main()
