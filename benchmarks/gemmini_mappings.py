"""The mappings of least timed cycles on Gemmini beside what its RTL took; a table, then one JSON object.

    python benchmarks/gemmini_mappings.py [--rows tests/data/silicon/gemmini_dosa.jsonl] [--seconds 60]

For every layer that ran: ``exact``'s least cycles on the library's ``gemmini``, proven or not, with any
order of the loops over tiles, as DOSA's programs had; what the timing predicts for DOSA's best mapping; and
the RTL's cycles of that mapping and of the tiling that Gemmini's own library chooses. The two predictions err
alike, so their quotient is what a better mapping gives; that against the
RTL's cycles has the error of the timing as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from math import exp, log
from pathlib import Path
from typing import Any

import record

from costmodel.formats.architectures import load_architecture
from costmodel.formats.machines.gemmini_runs import GemminiRun, gemmini_run
from costmodel.mapping.timing.counts import step_counts
from costmodel.mapping.timing.cycles import cycles_of
from costmodel.mapping.timing.walk import rounded
from solvers.budget import Budget
from solvers.mapping.exact.solver import solve
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import LevelRules, SpaceRules

GEMMINI = load_architecture("gemmini")
ROWS = record.ROOT / "tests" / "data" / "silicon" / "gemmini_dosa.jsonl"
WEIGHT_STATIONARY = SpaceRules(
    levels=(LevelRules("Scratchpad", spatial_x=("K",)), LevelRules("Accumulator", spatial_y=("C",)))
)


def runs(path: Path) -> dict[Any, list[tuple[GemminiRun, float]]]:
    """By layer, every run with the RTL's cycles of the layer's automatic tiling."""
    found = defaultdict(list)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        row = json.loads(line)
        run = gemmini_run(row, f"{path.name}:{number}")
        found[run.layer].append((run, float(row["rtl_cycles_auto_tiling"])))
    return found


def predicted(run: GemminiRun) -> int:
    """The timed cycles of a run's program."""
    timing = GEMMINI.timing
    assert timing is not None
    return cycles_of(
        timing, step_counts(GEMMINI, timing, rounded(timing, run.layer, run.tile, run.loops))
    ).cycles


def measure(ran: list[tuple[GemminiRun, float]], seconds: float) -> dict[str, Any]:
    best = min((run for run, _ in ran), key=lambda run: run.cycles)
    problem = MappingProblem(GEMMINI, best.layer, "cycles", WEIGHT_STATIONARY)
    outcome = solve(problem, Budget(seconds, None, 0))
    assert outcome.objective is not None
    return {
        "layer": best.layer.name,
        "status": str(outcome.status),
        "cycles": outcome.objective,
        "bound": outcome.bound,
        "cpu_seconds": round(outcome.cpu_seconds, 2),
        "rtl_best": best.cycles,
        "rtl_auto_tiling": min(cycles for _, cycles in ran),
        "predicted_of_best": predicted(best),
    }


def geomean(rows: list[dict[str, Any]], above: str) -> float:
    """The geometric mean of exact's cycles over another column."""
    return exp(sum(log(row["cycles"] / row[above]) for row in rows) / len(rows))


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--seconds", type=float, default=60.0, help="on the clock, for a layer")
    asked = parser.parse_args()
    rows = []
    for ran in runs(asked.rows).values():
        rows.append(row := measure(ran, asked.seconds))
        print(
            f"{row['layer']:45} {row['status']:9} {row['cycles']:12,.0f} {row['predicted_of_best']:12,.0f} "
            f"{row['rtl_best']:12,.0f} {row['rtl_auto_tiling']:12,.0f} {row['cpu_seconds']:8.2f} s",
            flush=True,
        )
    others = ("predicted_of_best", "rtl_best", "rtl_auto_tiling")
    found = {
        "layers": len(rows),
        "proven": sum(row["status"] == "optimal" for row in rows),
        "geomean_over": {name: round(geomean(rows, name), 4) for name in others},
        "sum_over": {
            name: round(sum(row["cycles"] for row in rows) / sum(row[name] for row in rows), 4)
            for name in others
        },
        "below": {name: sum(row["cycles"] < row[name] for row in rows) for name in others},
        "most_cpu_seconds": max(row["cpu_seconds"] for row in rows),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows), 1),
        "by_layer": rows,
    }
    record.finish(found, asked)


if __name__ == "__main__":
    main()
