"""Lower bounds of schedules on a chip, attacked with random trees and with annealed ones.

    python benchmarks/chip_bounds.py [--chip set-edge] [--network resnet50] [--batch 8] [--draws 10000]
                                     [--beta 5] [--alone kapla]

Random trees come from a walk through the paper's whole space (root S cuts, T cuts below T cuts): an
operator's tree that fits is the next one, whatever it costs. The annealed ones minimise energy, cycles and
E^2 D. A tree below a bound ends the run with status 1; else the table says how near the trees came. CPU
milliseconds are those of a tree of the walk, of whose segments one or two have changed, with the tile cost
table known.

With ``--alone SOLVER`` layers may run alone on the chip, their loop nests mapped by that solver, so training
steps (``kapla-alexnet.training``) have schedules, too. Then the trees are chains: every layer by itself for
each divisor of the batch; and random ones of single layers, and of up to three in turns or as a pipeline.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from random import Random
from typing import Any

import record

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.bounds import ScheduleBounds, lower_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, Node, depth
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.space import TreeSpace
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper


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


def chains(evaluator: ChipEvaluator, draws: int) -> list[tuple[str, float, float]]:
    """Rows of the least energy and cycles of chains of single layers, and of random chains that fit."""
    layers, random = evaluator.graph.layers, Random(0)
    divisors = [samples for samples in range(1, evaluator.batch + 1) if evaluator.batch % samples == 0]
    single = [_costs(evaluator, [Leaf(layer.name, samples) for layer in layers]) for samples in divisors]
    drawn = [_costs(evaluator, _segments(layers, random.choice(divisors), random)) for _ in range(draws)]
    rows = []
    for name, costs in (("single layers", single), ("random chains", drawn)):
        fitting = [cost for cost in costs if cost is not None]
        on_whole_chip = sum(segment.whole_chip is not None for cost in fitting for segment in cost.segments)
        print(f"{name}: {len(fitting)} of {len(costs)} fit, {on_whole_chip} segments had the whole chip")
        if fitting:
            energy, cycles = (min(getattr(cost, key) for cost in fitting) for key in ("energy_pj", "cycles"))
            rows.append((name, energy, cycles))
    return rows


def _costs(evaluator: ChipEvaluator, segments: Sequence[Node]) -> ChipEvaluation | None:
    rounds = evaluator.batch // segments[0].batch
    try:
        return evaluator.evaluate(Cut("T", evaluator.batch, rounds, tuple(segments)))
    except NotPossibleError:
        return None


def _segments(layers: Sequence[NetworkLayer], samples: int, random: Random) -> list[Node]:
    """Single layers, and few or many twos and threes in a row; layers that must run alone do."""
    pieces: list[list[NetworkLayer]] = []
    joined = random.choice((0.02, 0.1, 0.3))
    for layer in layers:
        joins = pieces and len(pieces[-1]) < 3 and random.random() < joined
        if joins and not layer.needs_whole_chip and not pieces[-1][0].needs_whole_chip:
            pieces[-1].append(layer)
        else:
            pieces.append([layer])
    return [_segment(piece, samples, random) for piece in pieces]


def _segment(piece: Sequence[NetworkLayer], samples: int, random: Random) -> Node:
    if len(piece) == 1:
        return Leaf(piece[0].name, samples)
    subbatches = random.choice([parts for parts in range(1, samples + 1) if samples % parts == 0])
    kind: CutKind = "S" if random.random() < 0.5 else "T"
    return Cut(kind, samples, subbatches, tuple(Leaf(layer.name, samples // subbatches) for layer in piece))


def attack(asked: Namespace) -> tuple[ScheduleBounds, list[tuple[str, float, float]], dict[str, Any]]:
    """The bounds, rows of (trees, energy, cycles) and what else was found."""
    chip, graph = load_chip(asked.chip), load_layer_graph(asked.network)
    demand = TileCostDemand(
        graph, chip.tile, chip.tiles, asked.batch, Pruning(most=2 if asked.alone else None)
    )
    if asked.alone:
        costs = solved_costs(demand, TileMapper(asked.alone), chip)
        rows = chains(ChipEvaluator(graph, chip, asked.batch, costs), asked.draws)
        return lower_bounds(graph, chip, asked.batch, costs), rows, {}
    costs = solved_costs(demand, TileMapper("nvdla"))
    start = sequential_tree([layer.name for layer in graph.layers], asked.batch, asked.batch)
    walked = walk(ChipEvaluator(graph, chip, asked.batch, costs), start, asked.draws)
    rows = [("random", walked["energy_pj"], walked["cycles"])]
    for name in ("energy", "cycles", "e2d"):
        problem = ScheduleProblem(graph, ChipModel(chip, costs), asked.batch, Objective.named(name))
        solution = set_annealing.solve(problem, Budget(), set_annealing.Params(beta=asked.beta)).solution
        if solution is not None:
            rows.append((f"least {name}", solution.energy_pj, solution.cycles))
    print(f"{walked['trees']} random trees, up to {walked['deepest']} cuts deep")
    return lower_bounds(graph, chip, asked.batch, costs), rows, walked


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--chip", default="set-edge")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--beta", type=float, default=5)
    parser.add_argument("--alone", help="a mapping solver: layers may run alone on the chip")
    asked = parser.parse_args()
    bounds, rows, walked = attack(asked)
    print(f"{'trees':14} {'energy / bound':>15} {'cycles / bound':>15}")
    for name, energy, cycles in rows:
        print(f"{name:14} {energy / bounds.energy_pj:15.3f} {cycles / bounds.cycles:15.3f}")
    found = {**walked, "bound_energy_pj": bounds.energy_pj, "bound_cycles": bounds.cycles, "rows": rows}
    record.finish(found, asked)
    return int(any(energy < bounds.energy_pj or cycles < bounds.cycles for _, energy, cycles in rows))


if __name__ == "__main__":
    raise SystemExit(main())
