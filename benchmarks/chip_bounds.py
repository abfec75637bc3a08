"""Lower bounds of schedules on a chip, attacked with random trees and with annealed ones.

    python benchmarks/chip_bounds.py [--chip set-edge] [--network resnet50] [--batch 8] [--draws 10000]
                                     [--beta 5]

Random trees come from a walk through the paper's whole space (root S cuts, T cuts below T cuts): an
operator's tree that fits is the next one, whatever it costs. The annealed ones minimise energy, cycles and
E^2 D. A tree below a bound ends the run with status 1; else the table says how near the trees came. CPU
milliseconds are those of a tree of the walk, of whose segments one or two have changed, with the tile cost
table known.
"""

from __future__ import annotations

from random import Random
from typing import Any

import record

from costmodel.chip import ChipEvaluator, lower_bounds
from costmodel.chips import load_chip
from costmodel.networks.layer_graphs import load_layer_graph
from costmodel.ratree import Node, NotPossibleError, depth
from solvers.budget import Budget, Stopwatch
from solvers.schedule import set_annealing
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.ratree.canonical import sequential_tree
from solvers.schedule.ratree.operators import WEIGHTS, Current, Operators
from solvers.schedule.ratree.space import TreeSpace
from solvers.schedule.tile_costs import TileMapper, solved_costs
from solvers.schedule.tile_shares import Demand


def walk(evaluator: ChipEvaluator, start: Node, draws: int) -> dict[str, Any]:
    """The least energy and cycles of all trees of ``draws`` operators that fit, and what one takes."""
    graph, random = evaluator.graph, Random(0)
    space = TreeSpace(graph.producers, evaluator.batch, evaluator.chip.tiles)
    operators = Operators(space, WEIGHTS["paper"])
    current, deepest, counted = Current(start), 0, 0
    energies, cycles = [], []
    watch = Stopwatch()
    for _ in range(draws):
        _, tree = operators.draw(current, random)
        if tree is None:
            continue
        counted += 1
        try:
            found = evaluator.evaluate(tree)
        except NotPossibleError:
            continue
        deepest, current = max(deepest, depth(tree)), Current(tree)
        energies.append(found.energy_pj)
        cycles.append(found.cycles)
    return {
        "trees": len(energies),
        "deepest": deepest,
        "energy_pj": min(energies),
        "cycles": min(cycles),
        "cpu_ms_a_tree": 1000 * watch.cpu_seconds / counted,
    }


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--chip", default="set-edge")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--beta", type=float, default=5)
    asked = parser.parse_args()
    chip, graph = load_chip(asked.chip), load_layer_graph(asked.network)
    costs = solved_costs(Demand(graph, chip.tile, chip.tiles, asked.batch), TileMapper("nvdla"))
    bounds = lower_bounds(graph, chip, asked.batch, costs)
    evaluator = ChipEvaluator(graph, chip, asked.batch, costs)
    start = sequential_tree([layer.name for layer in graph.layers], asked.batch, asked.batch)
    walked = walk(evaluator, start, asked.draws)
    rows = [("random", walked["energy_pj"], walked["cycles"])]
    for name in ("energy", "cycles", "e2d"):
        problem = ScheduleProblem(graph, ChipModel(chip, costs), asked.batch, Objective.named(name))
        solution = set_annealing.solve(problem, Budget(), set_annealing.Params(beta=asked.beta)).solution
        if solution is not None:
            rows.append((f"least {name}", solution.energy_pj, solution.cycles))
    print(f"{walked['trees']} random trees, up to {walked['deepest']} cuts deep")
    print(f"{'trees':14} {'energy / bound':>15} {'cycles / bound':>15}")
    for name, energy, cycles in rows:
        print(f"{name:14} {energy / bounds.energy_pj:15.3f} {cycles / bounds.cycles:15.3f}")
    found = {**walked, "bound_energy_pj": bounds.energy_pj, "bound_cycles": bounds.cycles, "rows": rows}
    record.finish(found, asked)
    return int(any(energy < bounds.energy_pj or cycles < bounds.cycles for _, energy, cycles in rows))


if __name__ == "__main__":
    raise SystemExit(main())
