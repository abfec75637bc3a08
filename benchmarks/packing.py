"""Allocation alone: minimalloc's eleven challenging instances, CPU seconds to a packing over several seeds.

    python benchmarks/packing.py [--folder tests/data/packing] [--seeds 3] [--wall-seconds 60]
        [--cpu-clock]

``--cpu-clock`` makes the budget one of CPU seconds, for a machine that others use too.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median
from typing import Any

import record

from solvers.budget import Budget, Stopwatch
from solvers.scratchpad.packing import Buffer, PackingProblem, Params, solve, violations


def read_instance(path: Path) -> PackingProblem:
    """An instance of minimalloc's form; the capacity stands in the file's name."""
    with path.open(encoding="ascii") as file:
        buffers = tuple(
            Buffer(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"]))
            for row in csv.DictReader(file)
        )
    return PackingProblem(buffers, int(path.name.split(".")[-2]))


def measured(path: Path, seeds: int, wall_seconds: float) -> dict[str, Any]:
    problem = read_instance(path)
    outcomes = [solve(problem, Budget(wall_seconds=wall_seconds, seed=seed)) for seed in range(seeds)]
    for outcome in outcomes:
        assert outcome.solution is None or violations(problem, outcome.solution) == []
    seconds = [outcome.cpu_seconds for outcome in outcomes]
    return {
        "instance": path.name.split(".")[0],
        "buffers": len(problem.buffers),
        "placed": sum(outcome.solution is not None for outcome in outcomes),
        "seeds": seeds,
        "median_cpu_seconds": round(median(seconds), 2),
        "worst_cpu_seconds": round(max(seconds), 2),
    }


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--folder", type=Path, default=Path("tests/data/packing"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--wall-seconds", type=float, default=60.0)
    parser.add_argument("--cpu-clock", action="store_true")
    options = parser.parse_args()
    if options.cpu_clock:
        Stopwatch.wall_seconds = Stopwatch.cpu_seconds  # type: ignore[method-assign]
    # compiles what is compiled once a machine
    solve(PackingProblem((Buffer("a", 0, 2, 1), Buffer("b", 1, 3, 1)), 2), Budget(), Params(greedy=False))
    rows = []
    for path in sorted(options.folder.glob("*.csv")):
        rows.append(measured(path, options.seeds, options.wall_seconds))
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    print(f"placed with every seed: {sum(row['placed'] == row['seeds'] for row in rows)} of {len(rows)}")
    record.finish(rows, options)


if __name__ == "__main__":
    main()
