"""How far the schedules of SET's annealing and of KAPLA's search are from the best ones, where these are
known.

    python benchmarks/exhaustive_schedules.py [--layers 3] [--batch 2] [--chip set-edge] [--tiles 4]
                                              [--networks set-resnet50 set-googlenet ...] [--beta 100]

The first layers of some networks run on a few tiles of a chip. ``exhaustive_schedule`` costs every tree, so
its answer is the best one as the chip model counts trees (solvers/schedule/exhaustive.py says what that
leaves out). Each other row is an answer's objective divided by the best one, and the gap that its own bound
states. A solver that is better than the proven answer ends the run with status 1.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import record

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.outcome import Outcome
from solvers.schedule import exhaustive, kapla, layer_pipeline, layer_sequential
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

NETWORKS = ("set-resnet50", "set-zfnet", "set-alexnet", "kapla-mlp")


def problem_of(asked: Namespace, network: str, objective: str) -> ScheduleProblem:
    """The first layers of a network on one row of tiles or two."""
    rows = 2 if asked.tiles % 2 == 0 else 1
    chip = load_chip(asked.chip, {"mesh": [asked.tiles // rows, rows], "stripe": asked.tiles // rows})
    whole = load_layer_graph(network)
    graph = LayerGraph(f"{network}, {asked.layers} layers", whole.layers[: asked.layers])
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, asked.batch), TileMapper("nvdla"))
    return ScheduleProblem(graph, ChipModel(chip, costs), asked.batch, Objective.named(objective))


def answers(asked: Namespace, problem: ScheduleProblem) -> Iterator[tuple[str, Outcome[ScheduleSolution]]]:
    """Each solver's name and answer, the proven one first."""
    yield "exhaustive", exhaustive.solve(problem, Budget(asked.seconds))
    annealed = Budget(asked.seconds, seed=asked.seed)
    yield "set", set_annealing.solve(problem, annealed, set_annealing.Params(beta=asked.beta))
    others: tuple[tuple[str, Callable[..., Outcome[ScheduleSolution]], Any], ...] = (
        ("layer_sequential", layer_sequential.solve, layer_sequential.Params(beta=asked.beta)),
        ("layer_pipeline", layer_pipeline.solve, layer_pipeline.Params(beta=asked.beta)),
        ("kapla_schedule", kapla.solve, kapla.Params()),
    )
    for name, solve, params in others:
        yield name, solve(problem, annealed, params)


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--objectives", nargs="*", default=("edp",))
    parser.add_argument("--chip", default="set-edge")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--tiles", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--beta", type=float, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    rows, over = [], dict[str, list[float]]()
    print(f"{'problem':38} {'solver':17} {'over the best':>13} {'gap':>6} {'CPU s':>7} {'status':9}")
    for network in asked.networks:
        for objective in asked.objectives:
            best = None
            for name, outcome in answers(asked, problem_of(asked, network, objective)):
                best = outcome.objective if name == "exhaustive" else best
                ratio = outcome.objective / best if outcome.objective and best else float("nan")
                over.setdefault(name, []).append(ratio)
                rows.append(
                    {
                        "network": network,
                        "objective": objective,
                        "solver": name,
                        "over_the_best": ratio,
                        "gap": outcome.gap,
                        "cpu_seconds": outcome.cpu_seconds,
                        "status": outcome.status,
                    }
                )
                gap = float("nan") if outcome.gap is None else outcome.gap
                print(
                    f"{network + ' ' + objective:38} {name:17} {ratio:13.4f} {gap:6.3f} "
                    f"{outcome.cpu_seconds:7.2f} {outcome.status:9} {outcome.evaluations:,}",
                    flush=True,
                )
    means = {name: prod(ratios) ** (1 / len(ratios)) for name, ratios in over.items()}
    for name, mean in means.items():
        print(f"{name}: geometric mean {mean:.4f}")
    record.finish({"means": means, "problems": rows}, asked)
    return int(any(ratio < 1 - 1e-9 for ratios in over.values() for ratio in ratios))


if __name__ == "__main__":
    raise SystemExit(main())
