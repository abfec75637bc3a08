"""What the results store costs: rows written a second, bytes a row, reading, and look-up of answers.

    python benchmarks/store.py [--rows 100000] [--lookups 10000]

Rows are as large as a study's (a mapping of three levels, an architecture of 700 characters shared by all
rows of a design). CPU seconds of this process, all threads; wall seconds beside them.
"""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import record

from results.front.pareto import front_mask, hypervolume
from results.report.page import write_report
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from results.store.parts import list_parts
from results.store.schema.tables import LAYERS

LAYERS_PER_DESIGN = 50


@dataclass(frozen=True)
class Measurement:
    """One line of the table; ``rate`` in what ``unit`` says."""

    name: str
    cpu_seconds: float
    wall_seconds: float
    rate: float
    unit: str


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--lookups", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measurements = list(measure(Path(folder), arguments.rows, arguments.lookups))
    print(f"{'what':48} {'CPU s':>8} {'wall s':>8} {'rate':>12}")
    for m in measurements:
        print(f"{m.name:48} {m.cpu_seconds:8.3f} {m.wall_seconds:8.3f} {m.rate:12,.0f} {m.unit}")
    record.finish([asdict(m) for m in measurements], arguments)


def measure(root: Path, rows: int, lookups: int) -> Iterator[Measurement]:
    """Write, weigh, read, look up, draw; each once."""
    path = root / "benchmark"
    made = [layer_row(number) for number in range(rows)]
    designs = [design_row(design) for design in range(rows // LAYERS_PER_DESIGN)]
    what = f"append {rows:,} solves, {len(designs):,} designs"
    yield timed(what, lambda: write(path, made, designs), rows, "rows/s")
    made.clear()  # or the garbage collector's walks over them would count as reading
    size = sum(part.stat().st_size for part in list_parts(path / "layers"))
    yield Measurement("size on disk", 0.0, 0.0, size / rows, "bytes/row")
    run = RunFolder(path)
    yield timed(f"read {rows:,} rows, all columns", lambda: run.read("layers"), rows, "rows/s")
    few = ("status", "energy_pj", "cycles")
    yield timed(f"read {rows:,} rows, 3 columns", lambda: run.read("layers", few), rows, "rows/s")
    wanted = random.Random(1).sample([task_id(n) for n in range(rows)], min(lookups, rows))
    yield timed(
        f"find {len(wanted):,} answers in {rows:,} rows",
        lambda: check(len(StoredAnswers(root).find(LAYERS, wanted)), len(wanted)),
        len(wanted),
        "answers/s",
    )
    absent = [task_id(n) for n in range(rows, rows + len(wanted))]
    yield timed(
        f"find none of {len(absent):,} in {rows:,} rows",
        lambda: check(len(StoredAnswers(root).find(LAYERS, absent)), 0),
        len(absent),
        "answers/s",
    )
    count = len(designs)
    yield timed(f"report of {count:,} designs", lambda: write_report(path), count, "designs/s")
    points = [[random.Random(n).random() for n in range(i, i + 3)] for i in range(100_000)]
    yield timed("front of 100,000 designs, 3 objectives", lambda: front_mask(points), len(points), "points/s")
    front = [[i / 5000, 1 - i / 5000, 0.5 - abs(i / 5000 - 0.5)] for i in range(5000)]
    yield timed("hypervolume of 5,000 points", lambda: hypervolume(front, [2, 2, 2]), len(front), "points/s")


def timed(name: str, work: Callable[[], object], count: int, unit: str) -> Measurement:
    """Run ``work`` once; the rate is ``count`` per wall second."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measurement(name, cpu, wall, count / wall, unit)


def check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"expected {expected} answers, found {found}")


def write(path: Path, layers: list[dict[str, Any]], designs: list[dict[str, Any]]) -> None:
    with RunWriter(path) as run:
        for row in layers:
            run.append("layers", row)
        for row in designs:
            run.append("designs", row)


def task_id(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128:032x}"


def layer_row(number: int) -> dict[str, Any]:
    design, layer = divmod(number, LAYERS_PER_DESIGN)
    draw = random.Random(number)
    energy, cycles = draw.uniform(1e7, 1e10), draw.randrange(10_000, 10_000_000)
    loops = [[dim, draw.choice((2, 3, 4, 7, 8, 14, 16))] for dim in "KCPQRS"]
    levels = ("RegFile", "SRAM", "DRAM")
    return {
        "task_id": task_id(number),
        "study": "benchmark",
        "layer_name": f"network/stage{layer // 10}.block{layer % 10}.conv",
        "layer_shape": {"dims": {"K": 64, "C": 64, "P": 56, "Q": 56, "R": 3, "S": 3, "N": layer + 1}},
        "architecture_id": f"{design:032x}",
        "architecture": {"levels": [{"name": name, "size": design, "text": "x" * 200} for name in levels]},
        "solver": "cosa",
        "solver_version": "1",
        "params": {"objective": "edp", "wall_seconds": 20.0},
        "seed": 0,
        "objective_name": "edp",
        "status": "feasible",
        "objective": energy * cycles,
        "bound": energy * cycles * draw.uniform(0.5, 1),
        "gap": draw.uniform(0, 0.5),
        "energy_bound_pj": energy * 0.7,
        "cycles_bound": cycles * 0.9,
        "program_proven": True,
        "energy_pj": energy,
        "cycles": cycles,
        "edp_pj_cycles": energy * cycles,
        "utilization": draw.random(),
        "macs": draw.randrange(10**6, 10**9),
        "mapping": [{"level": name, "temporal": loops, "spatial_x": [], "keep": "WIO"} for name in levels],
        "energy_by_level_pj": {name: energy * draw.random() for name in (*levels, "MAC")},
        "cpu_seconds": draw.uniform(0.01, 0.1),
        "wall_seconds": draw.uniform(0.01, 0.1),
        "worker": f"host-{number % 8}:{1000 + number % 8}",
        "attempts": 1,
        "cached": False,
        "finished_at": datetime.now(UTC),
    }


def design_row(design: int) -> dict[str, Any]:
    numbers = range(design * LAYERS_PER_DESIGN, (design + 1) * LAYERS_PER_DESIGN)
    rows = [layer_row(number) for number in numbers]
    energy, cycles = sum(row["energy_pj"] for row in rows), sum(row["cycles"] for row in rows)
    layers = [
        {
            "name": f"layer{index}",
            "task_id": row["task_id"],
            "count": 1,
            "energy_pj": row["energy_pj"],
            "cycles": row["cycles"],
        }
        for index, row in enumerate(rows)
    ]
    return {
        "design_id": f"{design:032x}",
        "study": "benchmark",
        "axes": {"SRAM.size": f"{design % 40} KiB", "RegFile.size": design // 40},
        "architecture_name": "eyeriss",
        "status": "complete",
        "feasible": True,
        "area_um2": random.Random(design).uniform(1e6, 1e7),
        "energy_pj": energy,
        "cycles": cycles,
        "solves": len(rows),
        "networks": {"network": {"weight": 1.0, "energy_pj": energy, "cycles": cycles, "layers": layers}},
        "energy_by_level_pj": {"RegFile": energy * 0.3, "SRAM": energy * 0.2, "DRAM": energy * 0.5},
        "finished_at": datetime.now(UTC),
    }


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
