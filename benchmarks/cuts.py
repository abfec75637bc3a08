"""Plans of cut operators: bytes moved, beside equal bands of rows and the bound for all cuts, in one run.

    python benchmarks/cuts.py [--networks NAME ...] [--kib SIZE ...] [--wall-seconds 60] [--cpu-clock]

Equal bands are the simplest cut: every tensor in bands of rows of at most a fourth, a sixteenth or a
sixty-fourth of the scratchpad, in the graph's order, with what is read again the latest leaving first; the
best of the three counts. The benchmark fails where a plan does not replay, moves more than equal bands do or
less than the bound, or takes more than one and a half times its limit. ``--cpu-clock`` makes the limit one of
CPU seconds, for a machine that others use too.
"""

from __future__ import annotations

import sys
from typing import Any

import record

from costmodel.formats.networks import load_network
from costmodel.scratchpad.cut import cut_graph
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings
from costmodel.scratchpad.plan import off_chip_bytes
from solvers.budget import Budget, Stopwatch, always_in_time
from solvers.scratchpad.comparison import first_plan
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.cutting.segments import Way
from solvers.scratchpad.cutting.solver import BANDS, solve_cut
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.problem import ScratchpadProblem, violations
from solvers.scratchpad.replacement import Schedule

NETWORKS = ("resnet50", "mobilenet_v2", "vgg16", "efficientnet_b0")
KIB = (128, 256, 512)
LATE = 1.5
"""A solve may take so many times its limit: it ends after a step, and then checks what it found."""


def equal_bands(problem: ScratchpadProblem) -> int | None:
    """Bytes that the best of the equal cuts moves; None where no piece of one fits."""
    divisible, size = problem.divisible, problem.capacity_bytes
    assert divisible is not None
    moved = []
    for parts in BANDS:
        way = Way("rows", max(1, size // parts), max(1, size))
        tensors = zip(problem.graph.tensors, divisible.extents, strict=True)
        cuts = {tensor.name: way.cut(extent, tensor.traffic_bytes) for tensor, extent in tensors}
        graph = cut_graph(divisible, cuts).graph
        if graph.required_bytes <= size:
            order = Schedule(GraphMasks.of(graph), tuple(range(len(graph.operators))))
            plan = first_plan(ScratchpadProblem(graph, size), order, always_in_time)
            moved += [] if plan is None else [off_chip_bytes(graph, plan)]
    return min(moved, default=None)


def measured(name: str, kib: int, wall_seconds: float) -> dict[str, Any]:
    """One plan, and what is wrong with it."""
    divisible = divisible_graph(load_network(name), ScratchpadSettings())
    problem = ScratchpadProblem(divisible.whole, kib * 1024, divisible)
    equal = equal_bands(problem)
    outcome = solve_cut(problem, Budget(wall_seconds), cosma.solve)
    moved, bound = outcome.objective, outcome.bound
    wrong = []
    if outcome.solution is None or moved is None or bound is None:
        wrong.append(outcome.note or "no plan")
    else:
        wrong += violations(problem, outcome.solution)[:1]
        wrong += ["moves less than the bound"] * (moved < bound)
        wrong += ["moves more than equal bands"] * (equal is not None and moved > equal)
    wrong += ["late"] * (outcome.cpu_seconds > LATE * wall_seconds)
    return {
        "network": name,
        "kib": kib,
        "status": str(outcome.status),
        "moved": moved,
        "bound": bound,
        "equal_bands": equal,
        "cpu_seconds": round(outcome.cpu_seconds, 1),
        "wrong": "; ".join(wrong),
    }


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME")
    parser.add_argument("--kib", nargs="+", type=int, default=KIB, metavar="SIZE")
    parser.add_argument("--wall-seconds", type=float, default=60.0, help="time limit of each plan")
    parser.add_argument("--cpu-clock", action="store_true")
    options = parser.parse_args()
    if options.cpu_clock:
        Stopwatch.wall_seconds = Stopwatch.cpu_seconds  # type: ignore[method-assign]
    rows = []
    print(f"{'network':24} {'KiB':>5} {'MB moved':>9} {'bound':>9} {'equal bands':>11} {'CPU s':>6}")
    for name in options.networks:
        for kib in options.kib:
            row = measured(name, kib, options.wall_seconds)
            rows.append(row)
            moved, bound, equal = (
                "none" if row[key] is None else f"{row[key] / 1e6:.3f}"
                for key in ("moved", "bound", "equal_bands")
            )
            shown = f"{name:24} {kib:5} {moved:>9} {bound:>9} {equal:>11} {row['cpu_seconds']:6}"
            print(f"{shown}  {row['wrong']}", flush=True)
    proven = sum(row["status"] == "optimal" for row in rows)
    record.finish({"plans": len(rows), "proven": proven, "rows": rows}, options)
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
