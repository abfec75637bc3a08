"""Thistle on the layers of its Table II: CPU seconds, pJ/MAC and IPC against other solvers.

    python benchmarks/thistle_mapping.py [--network thistle_resnet18|yolo9000] [--objective energy]
        [--keep fitting] [--draws N] [--exact SECONDS]

Prints a table, then one JSON object. The architecture is the paper's (library ``eyeriss``: 168 units, 512
registers, 128 KiB). ``all`` is the CPU of every class relaxed and rounded, nothing pruned, polished or
proven; ``CPU`` that of the solver as it is used, bound and polish included. ``ratio`` is Thistle's objective
over the best that any solver here found: Thistle itself, CoSA with three seeds and more kicks, random search
with ``--draws`` mappings and, with ``--exact``, the exact mapper for so many wall seconds a layer; ``yes``
says that it proved its optimum.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import record
from published import numbers

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.mapping import cosa, exact, random_search, thistle
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

EVERY_CLASS = thistle.Params(
    spread_windows=False,
    prune=False,
    carry_over=False,
    classes=10_000,
    programs=10_000,
    candidates=1024,
    polish=0,
    prove=False,
)
"""The paper's own classes and rounding, each class solved and rounded."""


def others(problem: MappingProblem, draws: int, exact_seconds: float) -> tuple[dict[str, float], bool]:
    """The best objective of each of the other solvers, and whether the exact mapper proved its own."""
    params, proven = cosa.Params(kicks=60), False
    found = {"cosa": [cosa.solve(problem, Budget(seed=seed), params).objective for seed in range(3)]}
    if draws:
        endless = random_search.Params(victory=10**9)
        found["random_search"] = [random_search.solve(problem, Budget(iterations=draws), endless).objective]
    if exact_seconds:
        outcome = exact.solve(problem, Budget(wall_seconds=exact_seconds))
        found["exact"], proven = [outcome.objective], outcome.status is Status.OPTIMAL
    best = {name: min(value for value in values if value is not None) for name, values in found.items()}
    return best, proven


def measure(problem: MappingProblem, draws: int, exact_seconds: float) -> dict[str, Any]:
    """Everything about one layer."""
    every = thistle.solve(problem, Budget(), EVERY_CLASS)
    usual = thistle.solve(problem, Budget())
    assert every.objective is not None
    assert usual.objective is not None
    assert usual.bound is not None
    best, proven = others(problem, draws, exact_seconds)
    least = min([usual.objective, every.objective, *best.values()])
    return {
        "all_classes_solved": every.program_proven,
        "all_classes_cpu_seconds": round(every.cpu_seconds, 4),
        "all_classes_over_best": round(every.objective / least, 4),
        "cpu_seconds": round(usual.cpu_seconds, 4),
        "objective": usual.objective,
        "over_best": round(usual.objective / least, 4),
        "best_by": min(best, key=lambda name: best[name]) if least < usual.objective else "thistle",
        "best_is_proven": proven,
        "over_bound": round(usual.objective / usual.bound, 4),
        "others": best,
    }


def scaled(layer: Layer, objective: str, value: float) -> tuple[float, str]:
    """The objective as the paper prints it: pJ/MAC for energy, MACs per cycle for delay."""
    if objective == "energy":
        return value / layer.macs, "pJ/MAC"
    return (layer.macs / value, "MAC/cycle") if objective == "cycles" else (value, "pJ x cycles")


def run(architecture: Architecture, arguments: argparse.Namespace) -> dict[str, Any]:
    """A line a layer; the rows by layer name."""
    found: dict[str, Any] = {}
    layers = [layer for layer, _ in distinct_layers(load_network(arguments.network).layers)]
    thistle.solve(MappingProblem(architecture, layers[-1]), Budget())
    print(
        f"{'layer':9} {'all: CPU':>9} {'ratio':>7} {'CPU':>7} {'ratio':>7} {'objective':>10}  "
        "over bound  best by        proven"
    )
    for layer in layers:
        problem = MappingProblem(architecture, layer, arguments.objective, SpaceRules(keep=arguments.keep))
        row = found[layer.name] = measure(problem, arguments.draws, arguments.exact)
        value, unit = scaled(layer, arguments.objective, row["objective"])
        print(
            f"{layer.name:9} {row['all_classes_cpu_seconds']:9.3f} {row['all_classes_over_best']:7.4f} "
            f"{row['cpu_seconds']:7.3f} {row['over_best']:7.4f} {value:10.4g} {unit}  "
            f"{row['over_bound']:.4f}  {row['best_by']:14} {'yes' if row['best_is_proven'] else 'no'}",
            flush=True,
        )
    return found


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--network", default="thistle_resnet18")
    parser.add_argument("--objective", choices=OBJECTIVES, default="energy")
    parser.add_argument("--keep", choices=["fitting", "free", "all"], default="fitting")
    parser.add_argument("--draws", type=int, default=500_000, help="mappings for random search, 0: none")
    parser.add_argument("--exact", type=float, default=0.0, help="seconds a layer for the exact mapper")
    arguments = parser.parse_args()
    found = run(load_architecture("eyeriss"), arguments)
    rows = found.values()
    summary = {
        "all_classes_cpu_median_seconds": median(row["all_classes_cpu_seconds"] for row in rows),
        "cpu_median_seconds": median(row["cpu_seconds"] for row in rows),
        "worst_over_best": max(row["over_best"] for row in rows),
    }
    print(summary, f"paper: {numbers()['thistle/eyeriss'].text}" if arguments.objective == "energy" else "")
    asked = {key: getattr(arguments, key) for key in ("network", "objective", "keep")}
    record.finish({**asked, **summary, "layers": found}, arguments)


if __name__ == "__main__":
    main()
