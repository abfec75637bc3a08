"""CoSA on the 66 unique layers of its paper's four networks: proofs, CPU, and quality against random search.

    python benchmarks/cosa_quality.py [--every N] [--multiples 1 10 100] [--engines] [--architecture NAME]
    python benchmarks/cosa_quality.py --optima [--every N] [--architecture NAME] [--objectives NAME ...]
                                      [--variants NAME ...] [--exact-seconds S]

Prints tables, then one JSON object. For each objective, random search gets 1, 10 and 100 times the seconds
of CPU that CoSA took for the same layer; ratios are random search over CoSA, above 1 where CoSA is better.
``--engines`` also compares the optima of the two engines' programs. ``--optima`` shows CoSA one-shot and
polished instead, as the paper has it and as we do, over the optima that ``exact`` proves, within the
constraints of the architecture's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, inf, log
from typing import Any

import record

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.mapping import cosa, exact, random_search
from solvers.mapping.cosa.capacity import keep_choices
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.highs import Highs
from solvers.mapping.cosa.linear import value
from solvers.mapping.cosa.program import CosaProgram
from solvers.mapping.problem import OBJECTIVES, MappingProblem, Objective
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Outcome, Status
from sweep.study.hardware_space import with_hardware_constraints

NETWORKS = ("cosa_resnet50", "cosa_resnext50", "deepbench", "cosa_alexnet")
ENDLESS = random_search.Params(victory=10**9)
"""Random search that ends only with its iterations."""


VARIANTS = {
    "paper, one shot": cosa.Params(preset="paper"),
    "paper, calibrated, one shot": cosa.Params(preset="paper", weights="calibrated"),
    "weighted sum, one shot": cosa.Params(polish=False),
    "weighted sum, calibrated, one shot": cosa.Params(polish=False, weights="calibrated"),
    "weighted sum of all boundaries, one shot": cosa.Params(boundaries="all", polish=False),
    "weighted sum of all boundaries, calibrated, one shot": cosa.Params(
        boundaries="all", polish=False, weights="calibrated"
    ),
    "cost, one shot": cosa.Params(surrogate="cost", polish=False),
    "weighted sum, polished (default)": cosa.Params(),
    "cost, polished": cosa.Params(surrogate="cost"),
}
"""The ways to ask CoSA that are compared with the optimum."""


def unique_layers(every: int) -> list[Layer]:
    """The layers as the paper counts them: unique within a network, every N-th of them."""
    layers = [layer for name in NETWORKS for layer, _ in distinct_layers(load_network(name).layers)]
    return layers[::every]


def geomean(ratios: Iterable[float]) -> float:
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs))


@dataclass
class Tally:
    """What comes up layer by layer, for one objective."""

    seconds: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    proven: int = 0
    optimal: int = 0
    ratios: dict[int, list[float]] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)

    def add(self, ours: Outcome[Mapping]) -> None:
        assert ours.objective is not None
        assert ours.bound is not None
        self.seconds.append(ours.cpu_seconds)
        self.gaps.append(ours.objective / ours.bound)
        self.proven += bool(ours.program_proven)
        self.optimal += ours.status is Status.OPTIMAL

    def add_random(self, multiple: int, theirs: Outcome[Mapping], ours: Outcome[Mapping]) -> None:
        assert ours.objective is not None
        ratio = inf if theirs.objective is None else theirs.objective / ours.objective
        self.ratios.setdefault(multiple, []).append(ratio)
        self.spent[multiple] = self.spent.get(multiple, 0.0) + theirs.cpu_seconds

    def report(self) -> dict[str, Any]:
        return {
            "layers": len(self.seconds),
            "proven": self.proven,
            "optimal": self.optimal,
            "cpu_mean_seconds": round(sum(self.seconds) / len(self.seconds), 4),
            "cpu_max_seconds": round(max(self.seconds), 4),
            "over_lower_bound": round(geomean(self.gaps), 4),
            "random_search_over_cosa": {
                str(multiple): {
                    "geomean": round(geomean(found), 4),
                    "worst": round(min(found), 4),
                    "cosa_at_least_as_good": sum(ratio >= 1 - 1e-9 for ratio in found),
                    "cpu_over_cosa": round(self.spent[multiple] / sum(self.seconds), 2),
                }
                for multiple, found in self.ratios.items()
            },
        }


def compare(
    architecture: Architecture, layers: list[Layer], objective: Objective, multiples: list[int]
) -> dict[str, Any]:
    """CoSA's proofs, CPU seconds and distance to the lower bound; random search's results over CoSA's."""
    tally = Tally()
    for layer in layers:
        problem = MappingProblem(architecture, layer, objective)
        ours = cosa.solve(problem, Budget())
        tally.add(ours)
        rate = draws_per_second(problem)
        for multiple in multiples:
            draws = max(1, int(rate * multiple * ours.cpu_seconds))
            tally.add_random(multiple, random_search.solve(problem, Budget(iterations=draws), ENDLESS), ours)
    return tally.report()


def draws_per_second(problem: MappingProblem) -> float:
    """How many mappings a CPU second of random search draws and evaluates, compiled code loaded."""
    random_search.solve(problem, Budget(iterations=1), ENDLESS)
    trial = random_search.solve(problem, Budget(iterations=20_000), ENDLESS)
    return trial.evaluations / trial.cpu_seconds


def engines_agree(architecture: Architecture, layers: list[Layer]) -> dict[str, Any]:
    """Whether both engines prove the same optima for the programs of every layer's first keep choice."""
    programs, furthest, unproven = 0, 0.0, 0
    for layer in layers:
        params = cosa.Params()
        keep = next(keep_choices(MappingSpace(architecture, layer), params))
        program = CosaProgram(MappingSpace(architecture, layer), keep, params)
        for pattern in program.patterns:
            goal = program.goal(pattern)
            answers = [engine(program.integer, 0).minimise(goal, 600) for engine in (CpSat, Highs)]
            optima = [value(goal.objective, answer.values) for answer in answers if answer.values]
            programs += 1
            unproven += not all(answer.proven for answer in answers)
            furthest = max(furthest, max(optima) - min(optima))
    return {"programs": programs, "not_proven_by_both": unproven, "furthest_apart_bits": round(furthest, 6)}


def over_optima(
    architecture: str,
    layers: list[Layer],
    objective: Objective,
    variants: dict[str, cosa.Params],
    exact_seconds: float,
) -> dict[str, Any]:
    """Each variant over the optimum, of the layers where ``exact`` proves that in so many seconds each, and
    its CPU seconds.

    ``architecture`` is a name or a file, as for :func:`load_architecture`.
    """
    hardware = load_architecture(architecture)
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    seconds = dict.fromkeys(variants, 0.0)
    unproven = []
    for layer in layers:
        # what the architecture's file says that its hardware cannot do is forbidden here as in a study
        rules = with_hardware_constraints(SpaceRules(), architecture, layer)
        problem = MappingProblem(hardware, layer, objective, rules)
        best = exact.solve(problem, Budget(wall_seconds=exact_seconds))
        if best.status is not Status.OPTIMAL or not best.objective:  # 0: a machine without energies
            unproven.append(layer.name)
            continue
        for name, params in variants.items():
            found = cosa.solve(problem, Budget(), params)
            assert found.objective is not None
            ratios[name].append(found.objective / best.objective)
            seconds[name] += found.cpu_seconds
    rows = {
        name: {
            "over_optimum": round(geomean(found), 4),
            "worst": round(max(found), 4),
            "cpu_mean_seconds": round(seconds[name] / len(found), 4),
        }
        for name, found in ratios.items()
        if found
    }
    for name, row in rows.items():
        print(
            f"{objective:7} {name:52} {row['over_optimum']:.4f} times the optimum, worst {row['worst']:.3f}, "
            f"CPU mean {row['cpu_mean_seconds']:.3f} s",
            flush=True,
        )
    return {"layers": len(layers), "optimum_not_proven": unproven, "variants": rows}


def show(objective: str, found: dict[str, Any]) -> None:
    print(
        f"{objective:7} {found['proven']:3}/{found['layers']} proven, {found['optimal']:3} optimal, CPU mean "
        f"{found['cpu_mean_seconds']:.4f} s, max {found['cpu_max_seconds']:.4f} s, "
        f"{found['over_lower_bound']:.3f} times the lower bound"
    )
    for multiple, ratio in found["random_search_over_cosa"].items():
        print(
            f"        random search at {multiple:>4} x CPU: {ratio['geomean']:.3f} times CoSA "
            f"(worst {ratio['worst']:.3f}; CoSA at least as good on {ratio['cosa_at_least_as_good']})"
        )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", default="simba")
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer only")
    parser.add_argument("--multiples", type=int, nargs="*", default=[1, 10, 100])
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--engines", action="store_true", help="compare CP-SAT's and HiGHS' optima too")
    parser.add_argument("--optima", action="store_true", help="one-shot and polished over proven optima")
    parser.add_argument(
        "--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS), help="of --optima: which ways"
    )
    parser.add_argument(
        "--exact-seconds", type=float, default=600, help="of --optima: for the proof of a layer's optimum"
    )
    arguments = parser.parse_args()
    architecture, layers = load_architecture(arguments.architecture), unique_layers(arguments.every)
    found: dict[str, Any] = {"architecture": architecture.name}
    if arguments.optima:
        variants = {name: VARIANTS[name] for name in arguments.variants}
        for objective in arguments.objectives:
            found[objective] = over_optima(
                arguments.architecture, layers, objective, variants, arguments.exact_seconds
            )
        record.finish(found, arguments)
        return
    for objective in arguments.objectives:
        found[objective] = compare(architecture, layers, objective, arguments.multiples)
        show(objective, found[objective])
    if arguments.engines:
        found["engines"] = engines_agree(architecture, layers)
        print("engines", found["engines"])
    record.finish(found, arguments)


if __name__ == "__main__":
    main()
