"""The results of SET's paper (Figs 8, 10, 11): tables, charts, then one JSON object.

    python benchmarks/set_paper.py [--model chip] [--platforms edge] [--networks resnet goog] [--batches 1 8]
                                   [--beta 10] [--seeds 3] [--trees 200] [--jobs 2] [--charts set.html]
    python benchmarks/set_paper.py --full          all of section 5: hours

Fig. 8: LP, LS and SET over networks, batches and platforms: medians over the seeds of energy, delay and
objective (E^2 D on edge, E D^2 on cloud). Every pattern has beta x layers rounds; SET begins with the better
of LP and LS of its seed. Fig. 10: SET's objective for every seed, relative to the median of the better of LP
and LS. Fig. 11: trees drawn by a walk that takes every tree which can run, trees drawn uniformly from all
with the layers in the network's order, and trees on a search's way: mean depth of the leaves, energy, delay,
DRAM bytes, hops, the fraction of time that DRAM is busy. Hardly any tree that is drawn uniformly can run; how
many can is printed. Fig. 9 is in `archsweep paper set`.

``--model chip`` is the chip model: weights are loaded again for each of the root's sub-batches, as the paper
says. ``--model set_isca2023`` counts as the released evaluator does: weights once a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import record
from released_model import ReleasedModel
from set_figures import PatternRow, TreePoint, write_figures

from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import Evaluator, ScheduleProblem
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.operators.editing import path_to
from solvers.schedule.set.operators.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.params import SetParams
from solvers.schedule.set.search import AnnealingPlan, TreeSearch
from solvers.schedule.set.size import tree_at, tree_count
from solvers.schedule.set.space import TreeSpace
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

OBJECTIVES = {"edge": "e2d", "cloud": "ed2"}
FULL: dict[str, Any] = {
    "platforms": ["edge", "cloud"],
    "networks": ["resnet", "goog", "ires", "pnas", "trans"],
    "batches": [1, 2, 4, 8, 16, 32, 64],
    "beta": 100.0,
    "seeds": 10,
    "trees": 2000,
}
BETWEEN = 5
"""Trees of the random walk from one that is drawn to the next, which then differ in more than a cut."""


@dataclass(frozen=True)
class Case:
    """One seed of one network, batch and platform, counted by one model."""

    model: str
    platform: str
    network: str
    batch: int
    beta: float
    seed: int

    @property
    def problem(self) -> ScheduleProblem:
        return _problem(self.model, self.platform, self.network, self.batch)


@cache
def _problem(model: str, platform: str, network: str, batch: int) -> ScheduleProblem:
    """One for all seeds in a process, which so share the tile cost table."""
    graph, objective = load_graph(network), Objective.named(OBJECTIVES[platform])
    if model == "set_isca2023":
        return ScheduleProblem(graph, ReleasedModel.named(platform), batch, objective)
    chip = load_chip(f"set-{platform}")
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, batch), TileMapper("nvdla"))
    return ScheduleProblem(graph, ChipModel(chip, costs), batch, objective)


def patterns(case: Case) -> list[dict[str, Any]]:
    """A :class:`PatternRow` for LP, LS and SET, every tree counted again from its text."""
    problem, params = case.problem, SetParams(beta=case.beta, start="patterns")
    spaces = set_annealing.spaces_of(params)
    search = TreeSearch(problem, AnnealingPlan(spaces, params, params.rounds(len(problem.graph.layers))))
    state = search.advance(search.begin(case.seed), sys.maxsize)
    # With ``start="patterns"`` the search anneals LP and LS first and SET from the better of them, so one
    # search has the answers of all three.
    trees = [*state.found, state.best[1]]
    seconds = [phase.cpu_seconds for phase in search.phases(state)]
    return [
        {**asdict(row), "cpu_seconds": spent, "tree": format_tree(tree)}
        for tree, spent, row in zip(trees, seconds, _rows(case, trees), strict=True)
    ]


def _rows(case: Case, trees: list[TreeNode]) -> Iterator[PatternRow]:
    for pattern, tree in zip(("layer_pipeline", "layer_sequential", "set"), trees, strict=True):
        # From the text, by another evaluator than the search used: what is printed can be counted again by
        # anybody.
        cost = case.problem.judge().evaluate(parse_tree(format_tree(tree)))
        value = case.problem.objective.value(cost.energy_pj, cost.cycles)
        yield PatternRow(
            case.platform, case.network, case.batch, pattern, case.seed, cost.energy_pj, cost.cycles, value
        )


def points(case: Case, count: int) -> list[dict[str, Any]]:
    """A :class:`TreePoint` for each of ``count`` trees of a random walk and as many on the way of a search.

    Trees drawn uniformly, as many again, have one only if they can run.
    """
    problem = case.problem
    evaluator = problem.evaluator()
    params = SetParams(beta=case.beta)
    search = TreeSearch(
        problem, AnnealingPlan((params.space,), params, params.rounds(len(problem.graph.layers))), evaluator
    )
    state = search.begin(case.seed)
    found = [_point(case, "random", tree, evaluator) for tree in _walk(case, state.first, evaluator, count)]
    found += [_point(case, "uniform", tree, evaluator) for tree in _drawn_uniformly(case, evaluator, count)]
    steps = max(1, params.rounds(len(problem.graph.layers)) // count)
    while not search.finished(state):
        state = search.advance(state, steps)
        found.append(_point(case, "search", state.progress.tree, evaluator))
    return [asdict(point) for point in found]


def _walk(case: Case, first: TreeNode, evaluator: Evaluator, count: int) -> Iterator[TreeNode]:
    problem, random = case.problem, Random(case.seed)
    space = TreeSpace(problem.graph.producers, problem.batch, problem.model.tiles)
    operators, current = Operators(space, WEIGHTS["paper"]), Current(first)
    taken = 0
    while taken < count * BETWEEN:
        tree = operators.draw(current, random)[1]
        if tree is None:
            continue
        try:
            evaluator.evaluate(tree)
        except NotPossibleError:
            continue
        current, taken = Current(tree), taken + 1
        if taken % BETWEEN == 0:
            yield tree


def _drawn_uniformly(case: Case, evaluator: Evaluator, count: int) -> Iterator[TreeNode]:
    """Those of ``count`` trees drawn uniformly that can run, with the layers in the network's order.

    Topological orders cannot be counted in closed form, so they are not drawn.
    """
    problem, random = case.problem, Random(case.seed)
    layers = tuple(problem.graph.producers)
    size = tree_count(len(layers), problem.batch)
    for _ in range(count):
        tree = tree_at(random.randrange(size), layers, problem.batch)
        with suppress(NotPossibleError):
            evaluator.evaluate(tree)
            yield tree


def _point(case: Case, drawn: str, tree: TreeNode, evaluator: Evaluator) -> TreePoint:
    cost: Any = evaluator.evaluate(tree)
    depths = [len(path_to(tree, number)) for number in range(tree.leaf_count)]
    hops = cost.hop_bytes if case.model == "set_isca2023" else cost.noc_hop_bytes
    model: Any = case.problem.model
    width = (
        model.platform.dram_bytes_per_cycle
        if case.model == "set_isca2023"
        else model.chip.dram.bytes_per_cycle
    )
    return TreePoint(
        case.network,
        drawn,
        sum(depths) / len(depths),
        cost.energy_pj,
        cost.cycles,
        cost.dram_bytes,
        float(hops),
        cost.dram_bytes / width / cost.cycles,
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases on ``jobs`` processes."""
    keys = (arguments.platforms, arguments.networks, arguments.batches)
    cases = [
        Case(arguments.model, platform, network, batch, arguments.beta, seed)
        for platform, network, batch in product(*keys)
        for seed in range(1, arguments.seeds + 1)
    ]
    # Fig. 11 is of one batch on one platform; more would only take longer.
    shown = [case for case in cases if case.seed == 1 and case.platform == arguments.platforms[-1]]
    shown = [case for case in shown if case.batch == (8 if 8 in arguments.batches else arguments.batches[-1])]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        rows = [row for found in pool.map(patterns, cases) for row in found]
        drawn = pool.map(points, shown, [arguments.trees] * len(shown)) if arguments.trees else []
        trees = [point for found in drawn for point in found]
    # Paths say nothing of what was measured.
    case = vars(arguments) | {"charts": None, "json": None}
    able = {
        one.network: sum((tree["network"], tree["drawn"]) == (one.network, "uniform") for tree in trees)
        for one in shown
    }
    return {"case": case, "patterns": rows, "points": trees, "drawn_uniformly_and_able_to_run": able}


def print_patterns(rows: list[dict[str, Any]]) -> None:
    """Figs 8 and 10, a line a case."""
    print(f"{'case':24} {'LP mJ/Mcyc':>15} {'LS mJ/Mcyc':>15} {'SET mJ/Mcyc':>15}", end=" ")
    print(f"{'SET/LP':>7} {'SET/LS':>7}  worst..best seed of SET / better of LP, LS")
    cases = list(dict.fromkeys((row["platform"], row["network"], row["batch"]) for row in rows))
    for case in cases:
        mine = [row for row in rows if (row["platform"], row["network"], row["batch"]) == case]
        values, cells = {}, []
        for pattern in ("layer_pipeline", "layer_sequential", "set"):
            of = [row for row in mine if row["pattern"] == pattern]
            values[pattern] = median(row["value"] for row in of)
            energy, cycles = (median(row[key] for row in of) for key in ("energy_pj", "cycles"))
            cells.append(f"{energy / 1e9:7.2f}/{cycles / 1e6:7.3f}")
        base = min(values["layer_pipeline"], values["layer_sequential"])
        ratios = sorted(row["value"] / base for row in mine if row["pattern"] == "set")
        name = f"{case[0]} {case[1]} b{case[2]}"
        print(f"{name:24} {cells[0]:>15} {cells[1]:>15} {cells[2]:>15}", end=" ")
        print(f"{values['set'] / values['layer_pipeline']:7.3f}", end=" ")
        print(f"{values['set'] / values['layer_sequential']:7.3f}  {ratios[-1]:.3f}..{ratios[0]:.3f}")


def print_points(trees: list[dict[str, Any]]) -> None:
    """Fig. 11: what goes with depth, over the quarters of the random trees and of the search's way."""
    print(
        f"{'trees':24} {'depth':>6} {'mJ':>8} {'Mcycles':>9} {'DRAM MB':>9} {'GB hops':>9} {'DRAM time':>9}"
    )
    for network, drawn in dict.fromkeys((tree["network"], tree["drawn"]) for tree in trees):
        mine = [tree for tree in trees if (tree["network"], tree["drawn"]) == (network, drawn)]
        if drawn == "random":
            mine.sort(key=lambda tree: tree["depth"])
        for quarter in range(4):
            part = mine[len(mine) * quarter // 4 : len(mine) * (quarter + 1) // 4]
            if not part:
                continue
            name = f"{network} {drawn} {quarter + 1}/4"
            print(f"{name:24} {_mean(part, 'depth'):6.2f} {_mean(part, 'energy_pj') / 1e9:8.2f}", end=" ")
            print(f"{_mean(part, 'cycles') / 1e6:9.3f} {_mean(part, 'dram_bytes') / 1e6:9.1f}", end=" ")
            print(f"{_mean(part, 'noc_hop_bytes') / 1e9:9.3f} {_mean(part, 'dram_fraction'):9.2f}")


def _mean(trees: list[dict[str, Any]], key: str) -> float:
    return float(sum(tree[key] for tree in trees) / len(trees))


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--model", choices=("chip", "set_isca2023"), default="chip")
    parser.add_argument("--platforms", nargs="+", choices=list(OBJECTIVES), default=["edge"])
    parser.add_argument("--networks", nargs="+", default=["resnet", "goog"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--beta", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=200, help="of Fig. 11; 0: none")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--charts", type=Path, help="an HTML file for the charts")
    parser.add_argument("--full", action="store_true", help="all of section 5")
    arguments = parser.parse_args()
    if arguments.full:
        vars(arguments).update(FULL)
    result = measure(arguments)
    print_patterns(result["patterns"])
    if result["points"]:
        print_points(result["points"])
        for network, able in result["drawn_uniformly_and_able_to_run"].items():
            print(f"{network}: {able} of {arguments.trees} trees drawn uniformly can run")
    if arguments.charts:
        keys = PatternRow.__dataclass_fields__
        rows = [PatternRow(**{key: row[key] for key in keys}) for row in result["patterns"]]
        write_figures(arguments.charts, rows, [TreePoint(**point) for point in result["points"]])
    record.finish(result, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
