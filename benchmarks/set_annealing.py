"""SET's annealers under the set_isca2023 convention, seed by seed: a table, then one JSON object.

    python benchmarks/set_annealing.py [--platform edge] [--network resnet] [--batch 8] [--beta 100]
                                       [--seeds 10] [--space paper] [--epochs 1]

Every seed anneals trees of the whole space from all layers one after the other; with ``--start patterns``, as
the released program does, from the better of a layer-pipeline and a layer-sequential tree that it anneals
first. The objective is E^2 D on edge and E D^2 on cloud (section 5.1). CPU seconds are those of the last
phase, of beta x layers rounds, with the tile cost table known: making it is reported apart. Each seed begins
with nothing remembered but that table. Every tree found is counted again, from its text, by the readable
evaluator. With ``--epochs`` the seeds exchange their best tree in between.

What the released program needs and finds is in published.yaml, as its evaluator counts: weights once a run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict
from typing import Any

import record
from published import under
from released_model import ReleasedModel

from costmodel.formats.layer_graph_json import load_graph
from solvers.budget import MOST_SECONDS, Deadline
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, answer, violations
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.exchange import exchanged, rounds_of_epoch
from solvers.schedule.set.params import SetParams
from solvers.schedule.set.search import AnnealingPlan, SearchState, TreeSearch

OBJECTIVES = {"edge": "e2d", "cloud": "ed2"}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All seeds of one case, with a summary."""
    objective = Objective.named(OBJECTIVES[arguments.platform])
    model, graph = ReleasedModel.named(arguments.platform), load_graph(arguments.network)
    problem = ScheduleProblem(graph, model, arguments.batch, objective)
    params = SetParams(
        beta=arguments.beta,
        space=arguments.space,
        weights=arguments.weights,
        initial_temperature=arguments.temperature,
        start=arguments.start,
    )
    spaces = set_annealing.spaces_of(params)
    plan = AnnealingPlan(spaces, params, params.rounds(len(graph.layers)))
    problem.evaluator().evaluate(TreeSearch(problem, plan).begin(0).first)  # loads or compiles the kernels
    if arguments.epochs > 1:
        states = anneal_together(problem, plan, range(1, arguments.seeds + 1), arguments.epochs)
        rows = [row_of(problem, plan, seed, state) for seed, state in enumerate(states, 1)]
    else:
        rows = [seed_row(problem, plan, seed) for seed in range(1, arguments.seeds + 1)]
    return {
        "case": {key: value for key, value in vars(arguments).items() if key not in ("seeds", "json")},
        "layers": len(graph.layers),
        "rounds_a_phase": plan.rounds,
        "table_cpu_seconds": model.tables(graph, arguments.batch, objective).cpu_seconds,
        "seeds": rows,
        "median": statistics.median(row["value"] for row in rows),
        "best": min(row["value"] for row in rows),
        "median_cpu_seconds": statistics.median(row["cpu_seconds"][spaces[-1]] for row in rows),
        "released": released(arguments),
    }


def anneal_together(
    problem: ScheduleProblem, plan: AnnealingPlan, seeds: range, epochs: int
) -> list[SearchState]:
    """Finished searches of all seeds, which exchange their best tree between ``epochs``."""
    search, total = TreeSearch(problem, plan), plan.rounds * len(plan.spaces)
    states = [search.begin(seed) for seed in seeds]
    for number in range(epochs):
        states = exchanged(states, plan) if number else states
        states = [search.advance(state, rounds_of_epoch(total, number, epochs)) for state in states]
    return states


def released(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """The released program's objectives of seeds (``values``) and CPU ``seconds`` a seed, as far as known."""
    case = f"{arguments.platform} {arguments.network} {arguments.batch} {arguments.beta:g}"
    return {key: list(number.values) for key, number in under(f"set/released/{case}/").items()}


def seed_row(problem: ScheduleProblem, plan: AnnealingPlan, seed: int) -> dict[str, Any]:
    """One seed with an evaluator of its own, phase by phase, without the time for the tile cost table."""
    search = TreeSearch(problem, plan)
    state = search.begin(seed)
    tables = problem.model.tables(problem.graph, problem.batch, problem.objective)  # type: ignore[attr-defined]
    making = []
    while not search.finished(state):
        before = tables.cpu_seconds
        # a phase ends with its last round, so that the table's time goes to the phase which asked for it
        state = search.advance(state, plan.rounds)
        making.append(tables.cpu_seconds - before)
    return row_of(problem, plan, seed, state, making)


def row_of(
    problem: ScheduleProblem,
    plan: AnnealingPlan,
    seed: int,
    state: SearchState,
    making: list[float] | None = None,
) -> dict[str, Any]:
    """What a finished search found, counted again, and what it took."""
    phases = TreeSearch(problem, plan).phases(state)
    outcome = answer(problem, state.best[1], phases, Deadline(MOST_SECONDS))
    assert outcome.solution is not None
    assert not violations(problem, outcome.solution)
    spent = making or [0.0] * len(phases)
    return {
        "seed": seed,
        "value": outcome.objective,
        "energy_mj": outcome.solution.energy_pj / 1e9,
        "mcycles": outcome.solution.cycles / 1e6,
        "phases": {phase.name: phase.best for phase in phases},
        "cpu_seconds": {
            phase.name: phase.cpu_seconds - table for phase, table in zip(phases, spent, strict=True)
        },
        "operators": [asdict(count) for count in phases[-1].operators],
        "root": outcome.solution.text.split("\n")[0],
        "tree": outcome.solution.text,
        "cuts": sum(line.lstrip("\t")[:2] in ("S ", "T ") for line in outcome.solution.text.split("\n")),
    }


def print_table(result: dict[str, Any]) -> None:
    spaces = list(result["seeds"][0]["phases"])
    rounds, last = result["rounds_a_phase"], spaces[-1]
    print(f"{'seed':>4} {'objective':>10} {'mJ':>7} {'Mcycles':>8}", end="")
    print("".join(f" {space[:12]:>12}" for space in spaces), f"{'CPU s':>7} {'rounds/s':>9}  root")
    for row in result["seeds"]:
        print(f"{row['seed']:4} {row['value']:10.3e} {row['energy_mj']:7.2f} {row['mcycles']:8.3f}", end="")
        print("".join(f" {row['phases'][space]:12.3e}" for space in spaces), end="")
        seconds = row["cpu_seconds"][last]
        print(f" {seconds:7.2f} {rounds / max(seconds, 1e-9):9.0f}  {row['root']}")
    print(
        f"median {result['median']:.3e}, best {result['best']:.3e} of {len(result['seeds'])} seeds;", end=" "
    )
    print(f"{result['median_cpu_seconds']:.2f} CPU s a seed for {rounds} rounds;", end=" ")
    print(f"tile cost table {result['table_cpu_seconds']:.2f} CPU s for all seeds")
    if theirs := result["released"]:
        values = theirs.get("values", [])
        found = f"median {statistics.median(values):.3e}, best {min(values):.3e}" if values else "no value"
        seconds = ", ".join(map(str, theirs.get("seconds", ["?"])))
        print(f"released code: {found} of {len(values)} seeds; {seconds} CPU s a seed")


def main() -> int:
    parser = record.parser(__doc__)
    defaults = SetParams()
    parser.add_argument("--platform", choices=list(OBJECTIVES), default="edge")
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--beta", type=float, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--space", choices=("paper", "released"), default=defaults.space)
    parser.add_argument("--weights", choices=("paper", "released"), default=defaults.weights)
    parser.add_argument("--start", choices=("sequential", "patterns"), default=defaults.start)
    parser.add_argument("--temperature", type=float, default=defaults.initial_temperature)
    parser.add_argument("--epochs", type=int, default=1, help="1: seeds know nothing of each other")
    options = parser.parse_args()
    result = measure(options)
    print_table(result)
    record.finish(result, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
