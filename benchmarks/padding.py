"""What padding is worth where a dim is prime or nearly so: proven optima, perfect against padded factors.

    python benchmarks/padding.py [--solver exact] [--objectives energy edp] [--wall-seconds 30]

Prints a table, then one JSON object. The padded dim may grow by the excess beside it; ratios are padded over
perfect, below 1 where padding wins. ``useful``: the share of MAC units and cycles busy with the layer's MACs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import record

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.catalogue import solver, solver_names
from solvers.mapping.problem import OBJECTIVES, MappingProblem, executed_layer, padded_dims
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Outcome

LAYERS = (
    (gemm("ViT 197x768x3072", M=197, N=3072, K=768), 0.05),
    (gemm("17x1024x1024", M=17, N=1024, K=1024), 0.2),
    (gemm("28269x64x64", M=28269, N=64, K=64), 0.01),
)
"""Layers and the largest excess of their M."""


@dataclass(frozen=True)
class Settings:
    """How every problem is solved."""

    solver: str
    wall_seconds: float

    def solve(self, problem: MappingProblem) -> Outcome[Mapping]:
        outcome: Outcome[Mapping] = solver(self.solver).load().solve(problem, Budget(self.wall_seconds))
        return outcome


def compare(problem: MappingProblem, padding: float, settings: Settings) -> dict[str, Any]:
    """One problem with perfect factors and with M padded."""
    padded = replace(problem, rules=SpaceRules(padding=padding, padded_dims=("M",)))
    before, after = settings.solve(problem), settings.solve(padded)
    if before.objective is None or after.objective is None or after.solution is None:
        raise SystemExit(f"{problem.layer.name}: {before.note} {after.note}")
    executed = executed_layer(padded, after.solution)
    cycles = evaluate(problem.architecture, executed, after.solution).cycles
    return {
        "architecture": problem.architecture.name,
        "layer": problem.layer.name,
        "objective": problem.objective,
        "perfect_gap": before.gap,
        "perfect_cpu_seconds": round(before.cpu_seconds, 3),
        "padding": padding,
        "padded": padded_dims(padded, after.solution),
        "ratio": after.objective / before.objective,
        "padded_gap": after.gap,
        "useful_utilization": problem.layer.macs / problem.architecture.mac_units / cycles,
        "padded_cpu_seconds": round(after.cpu_seconds, 3),
        "note": after.note,
    }


def problems(objectives: list[Any]) -> Iterator[tuple[MappingProblem, float]]:
    for name in ("eyeriss", "simba"):
        for layer, padding in LAYERS:
            for objective in objectives:
                yield MappingProblem(load_architecture(name), layer, objective), padding


def show(row: dict[str, Any]) -> None:
    sizes = " ".join(f"{dim}={size}" for dim, size in row["padded"].items()) or "none"
    print(
        f"{row['architecture']:8} {row['layer']:17} {row['objective']:6} +{row['padding']:.0%}: {sizes:8} "
        f"{row['ratio']:.3f} times perfect factors, useful {row['useful_utilization']:.3f}, gaps "
        f"{row['perfect_gap']:.3f} and {row['padded_gap']:.3f}, CPU {row['perfect_cpu_seconds']:.2f} and "
        f"{row['padded_cpu_seconds']:.2f} s; {row['note']}",
        flush=True,
    )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--solver", choices=solver_names("mapping"), default="exact")
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=["energy", "edp"])
    parser.add_argument("--wall-seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    settings = Settings(arguments.solver, arguments.wall_seconds)
    rows = []
    for problem, padding in problems(arguments.objectives):
        rows.append(compare(problem, padding, settings))
        show(rows[-1])
    record.finish({"solver": settings.solver, "rows": rows}, arguments)


if __name__ == "__main__":
    main()
