"""KAPLA's layer solver against proven optima: both fillings, both stackings, with and without the polish.

    python benchmarks/kapla_mapping.py [--architecture NAME ...] [--objectives NAME ...] [--every N]
                                       [--groups NAME ...]

Prints a table for every architecture and objective, then one JSON object. The layers are those of
``exact_quality.py``, of each group every N-th (8 if nothing is said, 1 for all); ratios are over the
optimum that ``exact`` proves, on layers where it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import exp, log
from typing import Any

import record
from exact_quality import GROUPS, group_layers

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget
from solvers.mapping import exact, kapla
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.outcome import Outcome, Status

VARIANTS = {
    "Algorithm 1": kapla.Params.paper(),
    "steepest steps": kapla.Params.paper("steepest", "steepest"),
    "released filling": kapla.Params.paper("divisors", "steepest"),
    "and every stacking": kapla.Params(schemes=1, alike=1, variants=1, caution=0.0, polish=False),
    "and 64 schemes": kapla.Params(polish=False),
    "and polish": kapla.Params(),
    "steepest filling, the rest": kapla.Params(filling="steepest"),
    "printed filling, the rest": kapla.Params(filling="printed"),
}
"""Each of the first six adds one thing to the one before; the others are the sixth with another filling."""


@dataclass
class Tally:
    """What one variant found, layer by layer."""

    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, found: Outcome[Mapping], optimum: float) -> None:
        assert found.objective is not None
        self.ratios.append(found.objective / optimum)
        self.seconds.append(found.cpu_seconds)

    def report(self) -> dict[str, Any]:
        return {
            "layers": len(self.ratios),
            "geomean": round(exp(sum(map(log, self.ratios)) / len(self.ratios)), 4),
            "mean_overhead": round(sum(self.ratios) / len(self.ratios) - 1, 4),
            "worst": round(max(self.ratios), 4),
            "optimal": sum(ratio <= 1 + 1e-9 for ratio in self.ratios),
            "cpu_mean_seconds": round(sum(self.seconds) / len(self.seconds), 4),
            "cpu_max_seconds": round(max(self.seconds), 4),
        }


def measure(problems: list[MappingProblem]) -> dict[str, Any]:
    """Every variant's distance from the optima that are proven within a minute."""
    tallies = {name: Tally() for name in VARIANTS}
    kapla.solve(problems[0], Budget())  # loads the compiled code
    for problem in problems:
        best = exact.solve(problem, Budget(60))
        if best.status is not Status.OPTIMAL or best.objective is None:
            continue
        for name, params in VARIANTS.items():
            tallies[name].add(kapla.solve(problem, Budget(), params), best.objective)
    return {name: tally.report() for name, tally in tallies.items()}


def show(title: str, found: dict[str, Any]) -> None:
    print(title)
    for name, row in found.items():
        print(
            f"  {name:25} {row['geomean']:.4f} times the optimum (mean + {row['mean_overhead']:.2%}, worst "
            f"{row['worst']:.3f}), optimal on {row['optimal']}/{row['layers']}, CPU mean "
            f"{row['cpu_mean_seconds']:.3f} s, max {row['cpu_max_seconds']:.3f} s",
            flush=True,
        )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", nargs="*", default=["eyeriss", "simba"])
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--every", type=int, default=8, help="take every N-th layer of a group only")
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    chosen = parser.parse_args()
    layers = [layer for group in chosen.groups for layer in group_layers(group, chosen.every)]
    found = {}
    for name, objective in product(chosen.architecture, chosen.objectives):
        problems = [MappingProblem(load_architecture(name), layer, objective) for layer in layers]
        title = f"{name} {objective}"
        found[title] = measure(problems)
        show(title, found[title])
    record.finish(found, chosen)


if __name__ == "__main__":
    main()
