"""Attack on proofs: optima against enumeration, bounds against random and neighbouring mappings.

    python benchmarks/exact_attack.py [--kind KIND] [--seed N] [--problems N] [--limit N]    small, enumerated
    python benchmarks/exact_attack.py --bounds [--mappings N] [--solvers NAME ...]      layers of networks

The small problems are those of tests/solvers/mapping/random_problems.py: every library architecture with
small memories and nasty numbers, the same within random constraints, or machines of 2 to 6 levels with
fan-outs and bypasses anywhere. ``--limit`` is the most mappings to enumerate of one problem. Prints a line a
failure, then JSON, and ends with status 1 if anything failed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import record

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.mapping.bounds.bounds import lower_bounds
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping import exact, exhaustive
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of, violations
from solvers.outcome import Status

ROOT = Path(__file__).parents[1]
LAYERS = (
    ("eyeriss", "resnet18/layer1.0.conv1"),
    ("simba", "resnet50/layer3.0.conv2"),
    ("A_eyeriss_like", "mobilenet_v2/block2.0.depthwise"),
    ("B_simba_like", "bert_base/block0.attention.scores"),
    ("C_two_level", "vit_b_16/block0.expand"),
    ("D_tpu_like", "alexnet/conv2"),
    ("E_four_level", "resnet18/conv1"),
)
SLACK = 1 - 1e-9
"""Sums in another order may differ by their rounding."""
DIGITS = 1 - 1e-12
"""The same for an optimum, which the cost model itself evaluated both times."""


def drawn(kind: str, seed: int) -> Iterator[MappingProblem]:
    """Endless problems of a kind."""
    from tests.solvers.mapping.random_problems import constrained, invented_problems, problems

    if kind == "invented":
        yield from invented_problems(seed)
    for number, problem in enumerate(problems(seed)):
        yield constrained(problem, number) if kind == "constrained" else problem


def enumerated(kind: str, seed: int, count: int, limit: int) -> dict[str, Any]:
    """The exact mapper against the enumeration of ``count`` problems."""
    tally = {"problems": 0, "enumerated": 0, "unproven": 0, "failures": 0}
    for number, problem in enumerate(islice(drawn(kind, seed), count)):
        every = exhaustive.solve(problem, Budget(wall_seconds=300), exhaustive.Params(limit=limit))
        found = exact.solve(problem, Budget(wall_seconds=60))
        tally["problems"] += 1
        tally["enumerated"] += every.status in (Status.OPTIMAL, Status.INFEASIBLE)
        tally["unproven"] += found.status not in (Status.OPTIMAL, Status.INFEASIBLE)
        for fault in _faults(problem, every, found):
            tally["failures"] += 1
            space = f"{problem.architecture.name}, {problem.objective}, {problem.rules.keep}"
            print(f"{kind} problem {number} of seed {seed} ({space}): {fault}", flush=True)
    return tally


def _faults(problem: MappingProblem, every: Any, found: Any) -> Iterator[str]:
    if every.status is Status.UNKNOWN:
        return
    if Status.INFEASIBLE in (every.status, found.status) and every.status is not found.status:
        yield f"{found.status} ({found.note}), the enumeration says {every.status}"
    if found.solution is None or every.objective is None:
        return
    if reasons := violations(problem, found.solution):
        yield "; ".join(reasons)
    if found.bound * DIGITS > every.objective:
        yield f"bound {found.bound}, there is a mapping of {every.objective}"
    if every.status is Status.OPTIMAL and found.objective < every.objective * DIGITS:
        yield f"{found.objective}, below the enumerated optimum {every.objective}"


def attacked(mappings: int, solvers: list[str]) -> dict[str, Any]:
    """Bounds on layers of networks against ``mappings`` random ones each, and descents from every answer."""
    from tests.solvers.mapping.random_problems import Attack

    tally = {"problems": 0, "valid_mappings": 0, "failures": 0}
    for architecture, layer in LAYERS:
        pair = load_architecture(architecture), load_layer(layer)
        attack = Attack(MappingProblem(*pair))
        attack.sample(mappings, seed=0)
        bounds = {
            (objective, "cost model"): objective_of(lower_bounds(*pair), objective)
            for objective in OBJECTIVES
        }
        for objective in OBJECTIVES:
            for name in solvers:
                outcome = solver(name).load().solve(MappingProblem(*pair, objective), Budget(wall_seconds=20))
                if outcome.solution is not None:
                    attack.descend(outcome.solution)
                if outcome.bound is not None:
                    bounds[objective, name] = outcome.bound
        tally["problems"] += 1
        tally["valid_mappings"] += attack.valid
        for (objective, name), bound in bounds.items():
            if bound * SLACK > attack.least[objective]:
                tally["failures"] += 1
                least = attack.least[objective]
                print(f"{layer} on {architecture}: {name}'s {objective} bound {bound} > {least}", flush=True)
    return tally


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--kind", choices=("library", "constrained", "invented"), default="library")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--limit", type=int, default=200_000)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--mappings", type=int, default=1_000_000)
    parser.add_argument("--solvers", nargs="*", default=["cosa", "thistle", "exact"])
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if chosen.bounds:
        found = attacked(chosen.mappings, chosen.solvers)
    else:
        found = enumerated(chosen.kind, chosen.seed, chosen.problems, chosen.limit)
    record.finish(found, chosen)
    sys.exit(record.proof_status(found, "valid_mappings" if chosen.bounds else "enumerated"))


if __name__ == "__main__":
    main()
