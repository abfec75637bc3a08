"""Lower bounds of schedules on a chip, attacked with random trees and with annealed ones.

    python benchmarks/chip_bounds.py [--chip set-edge] [--network resnet50] [--batch 8] [--draws 10000]
                                     [--beta 5] [--alone kapla]

Random trees come from a walk through the paper's whole space (root S cuts, T cuts below T cuts): an
operator's tree that fits is the next one, whatever it costs. The annealed ones minimise energy, cycles, E^2 D
and E D. ``segment_chain`` gives another tree for E D, which shows how far the annealed ones are from better
ones. A tree below a bound ends the run with status 1; else the table says how near the trees came. CPU
milliseconds are those of a tree of the walk, of whose segments one or two have changed, with the tile cost
table known.

With ``--alone SOLVER`` layers may run alone on the chip, their loop nests mapped by that solver, so training
steps (``kapla-alexnet.training``) have schedules, too. Then the trees are chains: every layer by itself for
each divisor of the batch; random ones of single layers, and of up to three in turns or as a pipeline; and the
answer of ``kapla_schedule`` for E D.

A second table says where the gap of the least E D comes from: each part of the bound for the number of rounds
with the least E D, beside that part of the best tree. The gap of a part is what it lacks of the tree's whole
energy, or of its cycles. Energy and cycles are bounded each by itself; the bound on E D is that of the best
corner, in which few copies of data and few waiting tiles exclude each other, so it is above their product.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import record

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.bounds import LeastOfRounds, ScheduleBounds, least_by_rounds, lower_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode, depth
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.schedule import kapla, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.space import TreeSpace
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import FEW_PARTITIONS, Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

Found = tuple[str, ChipEvaluation]
"""How trees were found, and what one of them takes."""


def walk(evaluator: ChipEvaluator, start: TreeNode, draws: int) -> dict[str, Any]:
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


def chains(evaluator: ChipEvaluator, draws: int) -> tuple[list[tuple[str, float, float]], list[Found]]:
    """Rows of the least energy and cycles of chains of single layers, and of random chains that fit.

    Also those of the least E D.
    """
    layers, random = evaluator.graph.layers, Random(0)
    divisors = [samples for samples in range(1, evaluator.batch + 1) if evaluator.batch % samples == 0]
    single = [_costs(evaluator, [Leaf(layer.name, samples) for layer in layers]) for samples in divisors]
    drawn = [_costs(evaluator, _segments(layers, random.choice(divisors), random)) for _ in range(draws)]
    rows, best = [], []
    for name, costs in (("single layers", single), ("random chains", drawn)):
        fitting = [cost for cost in costs if cost is not None]
        on_whole_chip = sum(segment.whole_chip is not None for cost in fitting for segment in cost.segments)
        print(f"{name}: {len(fitting)} of {len(costs)} fit, {on_whole_chip} segments had the whole chip")
        if fitting:
            energy, cycles = (min(getattr(cost, key) for cost in fitting) for key in ("energy_pj", "cycles"))
            rows.append((name, energy, cycles))
            best.append((name, min(fitting, key=lambda cost: cost.energy_pj * cost.cycles)))
    return rows, best


def _costs(evaluator: ChipEvaluator, segments: Sequence[TreeNode]) -> ChipEvaluation | None:
    rounds = evaluator.batch // segments[0].batch
    try:
        return evaluator.evaluate(Cut("T", evaluator.batch, rounds, tuple(segments)))
    except NotPossibleError:
        return None


def _segments(layers: Sequence[NetworkLayer], samples: int, random: Random) -> list[TreeNode]:
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


def _segment(piece: Sequence[NetworkLayer], samples: int, random: Random) -> TreeNode:
    if len(piece) == 1:
        return Leaf(piece[0].name, samples)
    subbatches = random.choice([parts for parts in range(1, samples + 1) if samples % parts == 0])
    kind: CutKind = "S" if random.random() < 0.5 else "T"
    return Cut(kind, samples, subbatches, tuple(Leaf(layer.name, samples // subbatches) for layer in piece))


@dataclass(frozen=True)
class Attack:
    """Bounds and what was found beside them: ``rows`` of (trees, energy, cycles), and single trees."""

    bounds: ScheduleBounds
    least: tuple[LeastOfRounds, ...]
    rows: list[tuple[str, float, float]]
    trees: list[Found]
    walked: dict[str, Any]
    cpu_seconds: float


def attack(asked: Namespace) -> Attack:
    """The bounds and all trees; ``cpu_seconds`` are those of the bounds, with the tile costs known."""
    chip, graph = load_chip(asked.chip), load_layer_graph(asked.network)
    demand = TileCostDemand(
        graph, chip.tile, chip.tiles, asked.batch, Pruning(most=FEW_PARTITIONS if asked.alone else None)
    )
    mapper = TileMapper(asked.alone or "nvdla")
    costs = solved_costs(demand, mapper, chip if asked.alone else None)
    evaluator, walked = ChipEvaluator(graph, chip, asked.batch, costs), dict[str, Any]()
    if asked.alone:
        rows, trees = chains(evaluator, asked.draws)
    else:
        start = sequential_tree([layer.name for layer in graph.layers], asked.batch, asked.batch)
        walked = walk(evaluator, start, asked.draws)
        rows, trees = [("random", walked["energy_pj"], walked["cycles"])], []
        print(f"{walked['trees']} random trees, up to {walked['deepest']} cuts deep")
    for name in ("edp",) if asked.alone else ("energy", "cycles", "e2d", "edp"):
        model, objective = ChipModel(chip, costs), Objective.named(name)
        problem = ScheduleProblem(graph, model, asked.batch, objective)
        if asked.alone:
            solution = kapla.solve(problem, Budget()).solution
        else:
            solution = set_annealing.solve(problem, Budget(), set_annealing.Params(beta=asked.beta)).solution
        if solution is not None:
            rows.append((f"least {name}", solution.energy_pj, solution.cycles))
            judge = model.judge(graph, asked.batch, objective)  # picks partitions by this objective
            trees.append((f"least {name}", judge.evaluate(solution.tree)))
    if not asked.alone and trees:
        # the last of the problems is that of E D
        solution = segment_chain.solve(problem, Budget()).solution
        if solution is not None:
            rows.append(("best chain", solution.energy_pj, float(solution.cycles)))
            trees.append(("best chain", judge.evaluate(solution.tree)))
    lower_bounds(graph, chip, asked.batch, costs)  # fills the table
    watch = Stopwatch()
    least = least_by_rounds(graph, chip, asked.batch, costs)
    seconds = watch.cpu_seconds
    return Attack(lower_bounds(graph, chip, asked.batch, costs), least, rows, trees, walked, seconds)


def show_parts(found: Attack, graph: LayerGraph, chip: Chip, batch: int) -> dict[str, Any]:
    """Prints and returns the parts of the bound on E D beside those of the best tree."""
    name, best = min(found.trees, key=lambda one: one[1].energy_pj * one[1].cycles)
    least_edp, least = min(
        ((min(energy * cycles for energy, cycles in one.corners), one) for one in found.least),
        key=lambda one: one[0],
    )
    units = {True: chip.tile.mac_pj, False: chip.tile.vector_operation_pj}
    computing = batch * sum(layer.operations * units[layer.has_weights] for layer in graph.layers)
    rows = [("computing, pJ", computing, computing, best.energy_pj)]
    for part, taken in best.parts_pj.items():
        here, there = least.parts_pj[part], taken
        if part == "tiles":
            part, here, there = "accesses in tiles", here - computing, there - computing
        rows.append((f"{part}, pJ", here, there, best.energy_pj))
    rows.append(("energy, pJ", least.energy_pj, best.energy_pj, best.energy_pj))
    rows.append(("cycles", least.cycles, float(best.cycles), float(best.cycles)))
    for cause in ("work", "dram", "links", "ports", "order"):
        waited = sum(getattr(one, cause) for one in least.segments if getattr(one, cause) == one.cycles)
        rows.append((f"  that wait for {cause}", waited, float("nan"), float(best.cycles)))
    best_edp = best.energy_pj * best.cycles
    rows.append(("E D, pJ cycles", least_edp, best_edp, best_edp))
    print(f"bound of {least.rounds} rounds, and of the tree of {name}, which has {best.rounds}")
    print(f"{'part':22} {'bound':>12} {'tree':>12} {'gap':>7}")
    for part, bound, taken, whole in rows:
        gap = "" if taken != taken else f"{(taken - bound) / whole:7.3f}"
        print(f"{part:22} {bound:12.5g} {'' if taken != taken else f'{taken:12.5g}':>12} {gap:>7}")
    print(f"the bounds took {found.cpu_seconds:.3f} CPU s")
    return {part: {"bound": bound, "tree": taken} for part, bound, taken, _ in rows if taken == taken}


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--chip", default="set-edge")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--beta", type=float, default=5)
    parser.add_argument("--alone", help="a mapping solver: layers may run alone on the chip")
    asked = parser.parse_args()
    attacked = attack(asked)
    bounds, rows = attacked.bounds, attacked.rows
    print(f"{'trees':14} {'energy / bound':>15} {'cycles / bound':>15}")
    for name, energy, cycles in rows:
        print(f"{name:14} {energy / bounds.energy_pj:15.3f} {cycles / bounds.cycles:15.3f}")
    parts = show_parts(attacked, load_layer_graph(asked.network), load_chip(asked.chip), asked.batch)
    found = {
        **attacked.walked,
        "bound_energy_pj": bounds.energy_pj,
        "bound_cycles": bounds.cycles,
        "rows": rows,
        "parts": parts,
        "bound_cpu_seconds": attacked.cpu_seconds,
    }
    record.finish(found, asked)
    return int(any(energy < bounds.energy_pj or cycles < bounds.cycles for _, energy, cycles in rows))


if __name__ == "__main__":
    raise SystemExit(main())
