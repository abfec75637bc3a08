"""What ``auto`` costs beside its best member: CPU seconds until a mapping problem is settled.

    python benchmarks/portfolio.py [--architecture NAME ...] [--objectives NAME ...] [--tolerances GAP ...]
                                   [--groups NAME ...] [--every N] [--wall-seconds S] [--most RATIO]

A problem is settled when the gap is at most the tolerance, with 0 when it is proven optimal. Every member of
``auto`` solves every problem by itself, in the same process and with the same limit; the best member is the
one that settles it in the fewest CPU seconds. Prints for every tolerance how many problems which member
settles, which one is the best how often, and the ratio of ``auto``'s CPU seconds to the best member's: worst,
geometric mean, and of all seconds together. Then the slowest problems in proportion, then one JSON object.
``--every`` takes every N-th layer of each group (see exact_quality.py).

Ends with status 1 if ``auto`` takes more than ``--most`` times as long as the best member, or leaves a
problem open that a member settles so soon that there was time for as much as that; a hundredth of a second
more is allowed, for a clock that others disturb.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from math import exp, inf, log
from typing import Any

import record
from exact_quality import GROUPS, group_layers

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.auto import MEMBERS
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.outcome import Outcome
from solvers.tolerance import within_tolerance

JITTER = 0.01
"""CPU seconds that two runs of the same solve may differ by."""


@dataclass(frozen=True)
class Case:
    """A problem, and the CPU seconds that each solver took to settle it; infinite where it did not.

    ``soonest``: the fewest wall seconds in which a member settled it.
    """

    name: str
    tolerance: float
    seconds: dict[str, float]
    soonest: float

    @property
    def best(self) -> str | None:
        """The quickest member; None if none settles it."""
        member = min(MEMBERS, key=lambda name: self.seconds[name])
        return member if self.seconds[member] < inf else None

    @property
    def ratio(self) -> float:
        """Of ``auto`` to the best member."""
        assert self.best is not None
        return self.seconds["auto"] / self.seconds[self.best]

    def is_slow(self, most: float) -> bool:
        """Whether ``auto`` settles it later than it may."""
        late = self.best is not None and self.seconds["auto"] > most * self.seconds[self.best] + JITTER
        return late and self.seconds["auto"] < inf

    def is_left_open(self, most: float, wall_seconds: float) -> bool:
        """Whether ``auto`` does not settle it although it had ``most`` times as long as a member needs."""
        return self.seconds["auto"] == inf and most * self.soonest < wall_seconds


def solved(name: str, problem: MappingProblem, tolerance: float, wall_seconds: float) -> Outcome[AnyMapping]:
    module = solver(name).load()
    tolerated = "tolerance" in module.Params.__dataclass_fields__
    params = module.Params(tolerance=tolerance) if tolerated else module.Params()
    outcome: Outcome[AnyMapping] = module.solve(problem, Budget(wall_seconds), params)
    return outcome


def settled_seconds(outcome: Outcome[AnyMapping], tolerance: float) -> float:
    """CPU seconds, infinite if the outcome does not settle its problem."""
    if outcome.objective is None or outcome.bound is None:
        return inf
    done = within_tolerance(outcome.objective, outcome.bound, tolerance)
    return max(outcome.cpu_seconds, 1e-6) if done else inf


def measured(name: str, problem: MappingProblem, tolerance: float, wall_seconds: float) -> Case:
    outcomes = {who: solved(who, problem, tolerance, wall_seconds) for who in ("auto", *MEMBERS)}
    seconds = {who: settled_seconds(outcome, tolerance) for who, outcome in outcomes.items()}
    settling = [outcomes[member].wall_seconds for member in MEMBERS if seconds[member] < inf]
    soonest = min(settling, default=inf)
    return Case(name, tolerance, seconds, soonest)


def report(cases: list[Case]) -> dict[str, Any]:
    """What the cases of one tolerance come to."""
    known = [case for case in cases if case.best is not None]
    closed = [case for case in known if case.seconds["auto"] < inf]
    ratios = [case.ratio for case in closed]
    best = sum(min(case.seconds[member] for member in MEMBERS) for case in closed)
    return {
        "problems": len(cases),
        "settled": {who: sum(case.seconds[who] < inf for case in cases) for who in ("auto", *MEMBERS)},
        "best": dict(Counter(case.best for case in known)),
        "worst_ratio": round(max(ratios, default=0.0), 3),
        "geomean_ratio": round(exp(sum(map(log, ratios)) / len(ratios)), 3) if ratios else None,
        "total_ratio": round(sum(case.seconds["auto"] for case in closed) / best, 3) if closed else None,
        "auto_cpu_seconds": round(sum(case.seconds["auto"] for case in closed), 2),
        "best_cpu_seconds": round(best, 2),
    }


def show(tolerance: float, found: dict[str, Any], cases: list[Case]) -> None:
    settled = ", ".join(f"{who} {count}" for who, count in found["settled"].items())
    print(f"tolerance {tolerance:g}: of {found['problems']} problems settled by {settled}")
    print(
        f"  auto over the best member: worst {found['worst_ratio']}, geomean {found['geomean_ratio']}, "
        f"all seconds {found['total_ratio']} ({found['auto_cpu_seconds']} over {found['best_cpu_seconds']}); "
        f"best: {found['best']}"
    )
    known = [case for case in cases if case.best is not None]
    for case in sorted(known, key=lambda case: -case.ratio)[:3]:
        seconds = {who: round(taken, 4) for who, taken in case.seconds.items() if taken < inf}
        print(f"  {case.ratio:7.2f}  {case.name}: {seconds}", flush=True)


def warm_up() -> None:
    """Let every solver load what it loads once a process."""
    layers = gemm("product", M=4, N=4, K=4), convolution("window", K=4, C=4, P=4, Q=4, R=3, S=3)
    for who, layer in product(("auto", *MEMBERS), layers):
        solved(who, MappingProblem(load_architecture("eyeriss"), layer), 0.0, 60.0)


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", nargs="*", default=["eyeriss", "simba", "tpu-like", "E_four_level"])
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=["energy", "edp"])
    parser.add_argument("--tolerances", nargs="*", type=float, default=[0.0, 0.05])
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer of a group only")
    parser.add_argument("--wall-seconds", type=float, default=30.0, help="limit of one solve")
    parser.add_argument("--most", type=float, default=2.0, help="the ratio that auto may not exceed")
    chosen = parser.parse_args()
    warm_up()
    found: dict[str, Any] = {"most": chosen.most, "late": [], "left_open": []}
    for tolerance in chosen.tolerances:
        cases = [
            measured(
                f"{group}/{layer.name} on {name}, {objective}",
                MappingProblem(load_architecture(name), layer, objective),
                tolerance,
                chosen.wall_seconds,
            )
            for group in chosen.groups
            for layer in group_layers(group, chosen.every)
            for name, objective in product(chosen.architecture, chosen.objectives)
        ]
        found[f"{tolerance:g}"] = report(cases)
        show(tolerance, found[f"{tolerance:g}"], cases)
        found["left_open"] += [
            case.name for case in cases if case.is_left_open(chosen.most, chosen.wall_seconds)
        ]
        found["late"] += [case.name for case in cases if case.is_slow(chosen.most)]
    record.finish(found, chosen)
    return 1 if found["late"] or found["left_open"] else 0


if __name__ == "__main__":
    sys.exit(main())
