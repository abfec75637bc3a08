"""KAPLA's chains of segments on SET's platforms: k_S, rounds, pruning, beside all chains, LS, LP and SET.

    python benchmarks/kapla_schedule.py [--networks NAME ...] [--batches N ...] [--objective NAME]
                                        [--platform edge|cloud] [--beta N] [--no-annealing]

Tiles cost what the exhaustive mapper of NVDLA-style tiles says, so that seconds are those of scheduling.
Prints a line a solve: energy, cycles and objective over those of all chains (costed without ranking: the best
chain that there is), how many segments were costed in full, CPU seconds; then one JSON object. Overheads
below 0 are of solvers whose trees are no chains, or of what the objective is not. ``--beta``: rounds a layer
of the annealed ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import record

from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.published.set_isca2023.hardware import load_platform
from costmodel.published.set_isca2023.nvdla_tile_costs import NvdlaTileCosts, chip_of
from solvers.budget import Budget
from solvers.outcome import Outcome
from solvers.schedule import kapla, layer_pipeline, layer_sequential
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set import solver as set_annealing

CHAINS = {
    "all chains": kapla.Params(chains=0),
    "KAPLA": kapla.Params(),
    "ranked once, k_S 1": kapla.Params(chains=1, rounds=1),
    "ranked once, k_S 2": kapla.Params(chains=2, rounds=1),
    "ranked once, k_S 4": kapla.Params(rounds=1),
    "ranked once, k_S 16": kapla.Params(chains=16, rounds=1),
    "without pruning": kapla.Params(prune=False),
    "pipelines only": kapla.Params(temporal=False),
    "turns only": kapla.Params(spatial=False),
}
"""The first one is what the others are compared with."""

ANNEALED = {"LS": layer_sequential, "LP": layer_pipeline, "SET": set_annealing}

Solved = Outcome[ScheduleSolution]


def problem_of(name: str, batch: int, chosen: argparse.Namespace) -> ScheduleProblem:
    """A problem with tile costs of its own, so that no solve profits from another's."""
    graph, platform = load_layer_graph(name), load_platform(chosen.platform)
    model = ChipModel(chip_of(platform, chosen.platform), NvdlaTileCosts(graph, platform.tile))
    return ScheduleProblem(graph, model, batch, Objective.named(chosen.objective))


def measure(name: str, batch: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """Every solver's answer beside the best chain's, printed as it comes."""
    solvers: dict[str, Callable[[], Solved]] = {
        title: partial(kapla.solve, problem_of(name, batch, chosen), Budget(600), params)
        for title, params in CHAINS.items()
    }
    for title, module in () if chosen.no_annealing else ANNEALED.items():
        params = module.Params(beta=chosen.beta)
        solvers[title] = partial(module.solve, problem_of(name, batch, chosen), Budget(600), params)
    kapla.solve(problem_of(name, 1, chosen), Budget(iterations=1))  # loads the compiled code
    found: dict[str, dict[str, Any]] = {}
    best = None
    for title, solve in solvers.items():
        outcome = solve()
        best = best or outcome
        found[title] = report(outcome, best)
        show(title, found[title])
    return found


def report(outcome: Solved, best: Solved) -> dict[str, Any]:
    row: dict[str, Any] = {"cpu_seconds": round(outcome.cpu_seconds, 2), "costed": outcome.evaluations}
    if outcome.solution is None or best.solution is None:
        return row | {"note": outcome.note}
    numbers = {
        "energy": outcome.solution.energy_pj / best.solution.energy_pj,
        "cycles": outcome.solution.cycles / best.solution.cycles,
        "objective": (outcome.objective or 0.0) / (best.objective or 1.0),
    }
    overheads = {f"{key}_overhead": round(ratio - 1, 5) for key, ratio in numbers.items()}
    return row | overheads | {"gap": outcome.gap, "note": outcome.note}


def show(title: str, row: dict[str, Any]) -> None:
    if "energy_overhead" not in row:
        print(f"  {title:20} no schedule, {row['cpu_seconds']:.1f} CPU s: {row['note']}", flush=True)
        return
    print(
        f"  {title:20} energy {row['energy_overhead']:+8.2%}, cycles {row['cycles_overhead']:+8.2%}, "
        f"objective {row['objective_overhead']:+8.2%}, {row['costed']:6} costed, "
        f"{row['cpu_seconds']:6.1f} CPU s",
        flush=True,
    )


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--networks", nargs="*", default=["set-resnet50", "set-googlenet", "set-vgg19"])
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--objective", default="edp")
    parser.add_argument("--platform", default="edge", choices=["edge", "cloud"])
    parser.add_argument("--beta", type=int, default=100)
    parser.add_argument("--no-annealing", action="store_true", help="without LS, LP and SET")
    chosen = parser.parse_args()
    found = {}
    for name, batch in product(chosen.networks, chosen.batches):
        title = f"{name}, batch {batch}, {chosen.platform}, {chosen.objective}"
        print(title, flush=True)
        found[title] = measure(name, batch, chosen)
    record.finish(found, chosen)


if __name__ == "__main__":
    main()
