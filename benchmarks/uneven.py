"""Uneven mappings: what they gain over the even optimum, what the proof takes, attacks on it.

    python benchmarks/uneven.py [--architecture NAME ...] [--objectives NAME ...] [--networks NAME ...]
                                [--every N] [--levels NAME ...] [--wall-seconds S]
    python benchmarks/uneven.py --attack [--seed N] [--problems N] [--limit N]
    python benchmarks/uneven.py --bounds [--mappings N]

The first prints a line a layer (proven or gap, objective over the even optimum, CPU seconds) and a table:
layers proven, layers with a gain, geometric mean and best of the ratio. ``--every`` takes every N-th distinct
layer of each network, ``--levels`` makes only these levels uneven. ``--attack`` compares the optima of small
random problems with the enumeration of tests/solvers/mapping/uneven_enumeration.py (``--limit``: the most
factorisations of one problem). ``--bounds`` compares the bounds on layers of networks with random uneven
mappings. All end with JSON, and with status 1 if anything is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice, product
from math import exp, inf, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import record

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer, load_network
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem, Objective, violations
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

ROOT = Path(__file__).parents[1]
NETWORKS = ("thistle_resnet18", "cosa_resnet50", "bert_base", "vit_b_16")
ATTACKED = (
    ("eyeriss", "resnet18/layer1.0.conv1"),
    ("simba", "resnet50/layer3.0.conv2"),
    ("C_two_level", "vit_b_16/block0.expand"),
    ("E_four_level", "mobilenet_v2/block2.0.depthwise"),
)
DIGITS = 1 - 1e-12
"""Sums in another order may differ by their rounding."""


class Gain(NamedTuple):
    """One layer: whether proven, the gap, the uneven objective over the even optimum, CPU seconds."""

    proven: bool
    gap: float
    ratio: float
    seconds: float


def layers_of(networks: list[str], every: int) -> dict[str, Layer]:
    return {
        f"{network}/{layer.name}": layer
        for network in networks
        for layer, _ in distinct_layers(load_network(network).layers)[::every]
    }


def gain(problem: MappingProblem, rules: SpaceRules, wall_seconds: float) -> Gain | None:
    """What uneven mappings gain; None if the even optimum is not proven in time."""
    even = exact.solve(problem, Budget(wall_seconds=wall_seconds))
    if even.status is not Status.OPTIMAL:
        return None
    wider = MappingProblem(problem.architecture, problem.layer, problem.objective, rules)
    # Even mappings are uneven ones, too. From the even optimum on, a search that ends early cannot report a
    # loss that is none.
    found = exact.solve(wider, Budget(wall_seconds=wall_seconds), start=even.solution)
    assert found.objective is not None
    assert even.objective is not None
    assert found.gap is not None
    proven = found.status is Status.OPTIMAL
    return Gain(proven, found.gap, found.objective / even.objective, found.cpu_seconds)


def gains(architecture: str, objective: Objective, layers: dict[str, Layer], chosen: Any) -> dict[str, Any]:
    """A line a layer, and the row of the table."""
    rules = SpaceRules(uneven=True, uneven_levels=tuple(chosen.levels) if chosen.levels else None)
    found = []
    for name, layer in layers.items():
        problem = MappingProblem(load_architecture(architecture), layer, objective)
        one = gain(problem, rules, chosen.wall_seconds)
        if one is None:
            print(f"{name}: the even optimum is not proven", flush=True)
            continue
        found.append(one)
        verdict = "proven" if one.proven else f"gap {one.gap:.2%}"
        print(f"{name}: {verdict}, {one.ratio:.4f} of even, {one.seconds:.2f} CPU s", flush=True)
    return {
        "architecture": architecture,
        "objective": objective,
        "layers": len(found),
        "proven": sum(one.proven for one in found),
        "gained": sum(one.ratio < 1 - 1e-9 for one in found),
        "geomean": round(exp(sum(log(one.ratio) for one in found) / len(found)), 4),
        "best": round(min(one.ratio for one in found), 4),
        "largest_gap": round(max(one.gap for one in found), 4),
        "cpu_median_seconds": round(median(one.seconds for one in found), 3),
        "cpu_worst_seconds": round(max(one.seconds for one in found), 3),
    }


def attack(seed: int, count: int, limit: int) -> dict[str, int]:
    """The exact mapper against the enumeration of ``count`` problems."""
    from tests.solvers.mapping.uneven_enumeration import least, problems

    tally = {"problems": 0, "enumerated": 0, "unproven": 0, "gained": 0, "failures": 0}
    for number, problem in enumerate(islice(problems(seed), count)):
        tally["problems"] += 1
        # More factorisations than ``limit``: nothing is compared, and the status counts only what was.
        if (every := least(problem, limit)) is None:
            continue
        tally["enumerated"] += 1
        found = exact.solve(problem, Budget(wall_seconds=60))
        tally["unproven"] += found.status not in (Status.OPTIMAL, Status.INFEASIBLE)
        even = exact.solve(
            MappingProblem(problem.architecture, problem.layer, problem.objective, problem.rules.even),
            Budget(wall_seconds=60),
        )
        tally["gained"] += (found.objective or inf) < (even.objective or inf) * (1 - 1e-9)
        for fault in faults(problem, every[0], found, even):
            tally["failures"] += 1
            print(f"problem {number} of seed {seed} ({problem.architecture.name}): {fault}", flush=True)
    return tally


def faults(problem: MappingProblem, least: float, found: Any, even: Any) -> Iterator[str]:
    objective = inf if found.objective is None else found.objective
    if found.solution is not None and (reasons := violations(problem, found.solution)):
        yield "; ".join(reasons)
    if found.bound is not None and found.bound * DIGITS > least:
        yield f"bound {found.bound}, there is a mapping of {least}"
    if objective < least * DIGITS or (found.status is Status.INFEASIBLE and least < inf):
        yield f"{found.status} {objective}, the enumeration says {least}"
    if found.status is Status.OPTIMAL and even.objective is not None and objective * DIGITS > even.objective:
        yield f"{objective}, an even mapping costs {even.objective}"


def attack_bounds(mappings: int) -> dict[str, int]:
    """Bounds on layers of networks against random uneven mappings."""
    from tests.solvers.mapping.uneven_enumeration import random_costs

    tally = {"problems": 0, "mappings": 0, "failures": 0}
    for (architecture, name), objective in product(ATTACKED, ("energy", "cycles", "edp")):
        pair = load_architecture(architecture), load_layer(name)
        problem = MappingProblem(*pair, objective, SpaceRules(uneven=True))  # type: ignore[arg-type]
        bound = exact.solve(problem, Budget(wall_seconds=10)).bound
        costs = [*random_costs(problem, mappings, seed=1)]
        tally["problems"] += 1
        tally["mappings"] += len(costs)
        if bound is None or bound * DIGITS > min(costs):
            tally["failures"] += 1
            print(f"{name} on {architecture}: {objective} bound {bound} > {min(costs)}", flush=True)
    return tally


def table(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(
            f"{row['architecture']:10} {row['objective']:7} proven {row['proven']}/{row['layers']} "
            f"(gap at most {row['largest_gap']:.2%}), gained {row['gained']}, mean {row['geomean']:.4f}, "
            f"best {row['best']:.4f}, CPU median {row['cpu_median_seconds']} s, "
            f"worst {row['cpu_worst_seconds']} s"
        )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", nargs="+", default=["eyeriss", "simba"])
    parser.add_argument("--objectives", nargs="+", default=["energy", "edp"])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--levels", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--wall-seconds", type=float, default=20)
    parser.add_argument("--attack", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--limit", type=int, default=7000)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--mappings", type=int, default=1000)
    chosen = parser.parse_args()
    # For the enumeration, which lives with the tests: the solver's own code must not check the solver.
    sys.path.insert(0, str(ROOT))
    if chosen.attack or chosen.bounds:
        tally = (
            attack(chosen.seed, chosen.problems, chosen.limit)
            if chosen.attack
            else attack_bounds(chosen.mappings)
        )
        record.finish(tally, chosen)
        sys.exit(record.proof_status(tally, "enumerated" if chosen.attack else "mappings"))
    layers = layers_of(chosen.networks, chosen.every)
    rows = [gains(*pair, layers, chosen) for pair in product(chosen.architecture, chosen.objectives)]
    table(rows)
    record.finish(rows, chosen)


if __name__ == "__main__":
    main()
