"""What ``auto`` costs beside its best member: CPU seconds until a mapping problem is settled.

    python benchmarks/portfolio.py [--architecture NAME ...] [--objectives NAME ...] [--tolerances GAP ...]
                                   [--groups NAME ...] [--every N] [--wall-seconds S] [--most RATIO]
                                   [--random N] [--seed N] [--only NAME ...] [--late N]

A problem is settled when the gap is at most the tolerance, with 0 when it is proven optimal. Every member of
``auto`` solves every problem by itself, in the same process and with the same limit; the best member is the
one that settles it in the fewest CPU seconds. Prints for every tolerance how many problems which member
settles, which one is the best how often, and the ratio of ``auto``'s CPU seconds to the best member's: worst,
geometric mean, and of all seconds together. Then the slowest problems in proportion, then one JSON object.
``--every`` takes every N-th layer of each group (see exact_quality.py). ``--random`` takes that many of all
combinations of these layers, architectures (all of the library, unless some are named) and objectives, drawn
with the seed. ``--only`` times ``auto`` beside these members alone: the others are not asked.

CPU seconds are those of the whole call, with what a solver does before it starts its own clock.

Ends with status 1 if ``auto`` takes more than ``--most`` times as long as the best member for more than
``--late`` problems, or leaves a problem open that a member settles so soon that there was time for as much as
that; a hundredth of a second more is allowed, for a clock that others disturb.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from itertools import product
from math import exp, inf, log
from random import Random
from typing import Any

import record
from exact_quality import GROUPS, group_layers

from costmodel.formats.architectures import architecture_names, load_architecture
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import convolution, gemm
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.mapping.auto import LEADER, MEMBERS
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
    def members(self) -> list[str]:
        """Those that were asked."""
        return [name for name in MEMBERS if name in self.seconds]

    @property
    def best(self) -> str | None:
        """The quickest member; None if none settles it."""
        member = min(self.members, key=lambda name: self.seconds[name])
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


def is_settled(outcome: Outcome[AnyMapping], tolerance: float) -> bool:
    if outcome.objective is None or outcome.bound is None:
        return False
    return within_tolerance(outcome.objective, outcome.bound, tolerance)


def measured(
    name: str, problem: MappingProblem, tolerance: float, wall_seconds: float, members: tuple[str, ...]
) -> Case:
    solved(LEADER, problem, tolerance, 1e-3)  # fills the tables that later solves of the same problem reuse
    seconds, settling = {}, []
    for who in ("auto", *members):
        clock = Stopwatch()
        done = is_settled(solved(who, problem, tolerance, wall_seconds), tolerance)
        seconds[who] = clock.cpu_seconds if done else inf
        if done and who != "auto":
            settling.append(clock.wall_seconds)
    return Case(name, tolerance, seconds, min(settling, default=inf))


@dataclass(frozen=True)
class Draw:
    """A problem and what it is called."""

    name: str
    problem: MappingProblem


def problems(chosen: Namespace) -> list[Draw]:
    """What is asked: every N-th layer of the groups on the architectures, or a random sample of these."""
    by_rule = ["eyeriss", "simba", "tpu-like", "E_four_level"]
    architectures = chosen.architecture or (architecture_names() if chosen.random else by_rule)
    asked = [
        (f"{group}/{layer.name} on {name}, {objective}", name, layer, objective)
        for group in chosen.groups
        for layer in group_layers(group, chosen.every)
        for name, objective in product(architectures, chosen.objectives)
    ]
    if chosen.random:
        asked = Random(chosen.seed).sample(asked, min(chosen.random, len(asked)))
    return [
        Draw(title, MappingProblem(load_architecture(name), layer, objective))
        for title, name, layer, objective in asked
    ]


def report(cases: list[Case]) -> dict[str, Any]:
    """What the cases of one tolerance come to."""
    known = [case for case in cases if case.best is not None]
    closed = [case for case in known if case.seconds["auto"] < inf]
    ratios = [case.ratio for case in closed]
    best = sum(min(case.seconds[member] for member in case.members) for case in closed)
    return {
        "problems": len(cases),
        "settled": {
            who: sum(case.seconds[who] < inf for case in cases) for case in cases[:1] for who in case.seconds
        },
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
    parser.add_argument("--architecture", nargs="*", help="eyeriss, simba, tpu-like, E_four_level if none")
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=["energy", "edp"])
    parser.add_argument("--tolerances", nargs="*", type=float, default=[0.0, 0.05])
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer of a group only")
    parser.add_argument("--wall-seconds", type=float, default=30.0, help="limit of one solve")
    parser.add_argument("--most", type=float, default=2.0, help="the ratio that auto may not exceed")
    parser.add_argument("--random", type=int, default=0, help="draw so many problems; 0: take all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", nargs="*", choices=MEMBERS, default=list(MEMBERS), help="members to time")
    parser.add_argument("--late", type=int, default=0, help="problems that may exceed the ratio")
    chosen = parser.parse_args()
    warm_up()
    asked = problems(chosen)
    found: dict[str, Any] = {"most": chosen.most, "late": [], "left_open": []}
    for tolerance in chosen.tolerances:
        cases = [
            measured(draw.name, draw.problem, tolerance, chosen.wall_seconds, tuple(chosen.only))
            for draw in asked
        ]
        found[f"{tolerance:g}"] = report(cases)
        show(tolerance, found[f"{tolerance:g}"], cases)
        found["left_open"] += [
            case.name for case in cases if case.is_left_open(chosen.most, chosen.wall_seconds)
        ]
        found["late"] += [
            f"{case.name}, tolerance {tolerance:g}: {case.ratio:.2f}"
            for case in cases
            if case.is_slow(chosen.most)
        ]
    record.finish(found, chosen)
    return 1 if len(found["late"]) > chosen.late or found["left_open"] else 0


if __name__ == "__main__":
    sys.exit(main())
