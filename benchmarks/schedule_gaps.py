"""How far schedules of the library's studies may be from the best: gaps to the proven bounds, and of what.

    python benchmarks/schedule_gaps.py [--pairs NAME ...] [--solvers NAME ...] [--beta 15] [--parts]
                                       [--buffer SIZE]

Each pair is a network on a chip of a study (`set-edge`, `schedulers`, `kapla-16x16`), for the study's batch
and E D. A gap is 1 - bound / answer: how much less than the answer the best schedule could take, as far as is
proven. The mean of several is 1 less the geometric mean of the ratios. ``E`` and ``D`` are the answer's
energy and cycles over their own bounds, ``DRAM`` its traffic over what every schedule moves. With ``--parts``
each part of the bound stands beside that of the pair's best answer, as in ``chip_bounds.py``.

The last line of the parts says what a perfect bound on the choice of segments would
leave of the gap if every schedule had the best answer's segments: its DRAM traffic, and in each segment
the larger of its tiles' work and that traffic, without any waiting.

With ``--buffer`` every tile has that buffer instead. Where it holds everything, no bound that counts what
overflows buffers could be higher; the gap that is left has other causes.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import record
from chip_bounds import Attack, show_parts

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.bounds.bounds import LeastOfRounds, least_by_rounds
from costmodel.schedule.bounds.compulsory import compulsory
from costmodel.schedule.evaluation import ChipEvaluation
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Outcome
from solvers.schedule import auto, kapla, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import FEW_PARTITIONS, Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper, architecture_of
from solvers.schedule.whole_chip_costs import WholeChipCosts


@dataclass(frozen=True)
class Pair:
    """A network on a chip; ``changed``: the values of a study's axes. ``mapper``: what maps on tiles."""

    network: str
    chip: str
    changed: dict[str, Any]
    batch: int
    mapper: str

    @property
    def model(self) -> ChipModel:
        chip, graph, mapper = (
            load_chip(self.chip, self.changed),
            load_layer_graph(self.network),
            TileMapper(self.mapper),
        )
        # The mapper of SET's tiles is a closed formula, which is counted for all parts in advance. Parts of
        # KAPLA's tiles take a solve each and are counted when a tree needs them.
        if self.mapper == "nvdla":
            demand = TileCostDemand(graph, chip.tile, chip.tiles, self.batch)
            return ChipModel(chip, solved_costs(demand, mapper))
        alone = WholeChipCosts(chip, {}, partial(mapper.whole_chip_cost, chip))
        solve = partial(mapper.costs, architecture_of(chip.tile))
        return ChipModel(
            chip, TabledTileCosts(graph, chip.tile, {}, solve, Pruning(most=FEW_PARTITIONS), alone)
        )


def _edge(network: str, columns: int, rows: int, buffer: str, dram: int) -> Pair:
    changed = {"mesh": [columns, rows], "dram.bandwidth": f"{dram} B/cycle"}
    return Pair(network, "set-edge", changed | {"tile.buffer.size": buffer}, 8, "nvdla")


def _kapla(network: str, side: int, buffer: int, dram: int) -> Pair:
    changed = {
        "mesh": [side, side],
        "tile.buffer.size": f"{buffer} Kiwords",
        "dram.bandwidth": f"{dram} words/cycle",
    }
    return Pair(network, "kapla-16x16-released", changed, 64, "kapla")


PAIRS = {
    "resnet50 4x2": _edge("resnet50", 4, 2, "512 KiB", 8),
    "resnet50 4x4": _edge("resnet50", 4, 4, "1 MiB", 16),
    "resnet50 6x4": _edge("resnet50", 6, 4, "1 MiB", 8),
    "transformer 4x4": _edge("set-transformer", 4, 4, "1 MiB", 16),
    "googlenet 4x4": _edge("set-googlenet", 4, 4, "1 MiB", 16),
    "googlenet 12x12": _edge("set-googlenet", 12, 12, "1 MiB", 144),
    "resnet50 12x12": _edge("resnet50", 12, 12, "1 MiB", 144),
    "transformer 12x12": _edge("set-transformer", 12, 12, "1 MiB", 144),
    "alexnet 8x8": _kapla("kapla-alexnet", 8, 16, 25),
    "lstm 8x8": _kapla("kapla-lstm", 8, 16, 25),
    "mlp training 8x8": _kapla("kapla-mlp.training", 8, 16, 25),
}
QUICK = ("resnet50 4x2", "resnet50 4x4", "googlenet 4x4", "lstm 8x8")
LONG = 900.0
"""Wall seconds of a solve: far more than any takes, so a machine with other work finds the same schedules."""
Solve = Callable[[ScheduleProblem, Namespace], Outcome[ScheduleSolution]]
SOLVERS: dict[str, Solve] = {
    "set": lambda problem, asked: set_annealing.solve(
        problem, Budget(LONG, seed=asked.seed), set_annealing.Params(beta=asked.beta)
    ),
    "kapla_schedule": lambda problem, asked: kapla.solve(problem, Budget(LONG)),
    "segment_chain": lambda problem, asked: segment_chain.solve(problem, Budget(LONG)),
    "set from chain": lambda problem, asked: set_annealing.solve(
        problem, Budget(LONG, seed=asked.seed), set_annealing.Params(beta=asked.beta, start="chain")
    ),
    "auto_schedule": lambda problem, asked: auto.solve(problem, Budget(LONG)),
}
ROW = "{:<18} {:<16} {:>10} {:>6} {:>7} {:>7} {:>7} {:>8}"


def answered(name: str, pair: Pair, asked: Namespace) -> list[dict[str, Any]]:
    """A row for each solver; prints them."""
    model, objective = pair.model, Objective.named("edp")
    graph, chip = load_layer_graph(pair.network), model.chip
    problem = ScheduleProblem(graph, model, pair.batch, objective)
    bounds = model.bounds(graph, pair.batch)
    bound = problem.bound()
    assert bounds is not None
    assert bound is not None
    every = compulsory(graph, pair.batch, chip.tile.widths)
    rows: list[dict[str, Any]] = []
    trees: list[tuple[str, ChipEvaluation]] = []
    for solver in asked.solvers:
        outcome = SOLVERS[solver](problem, asked)
        if outcome.solution is None or outcome.objective is None:
            print(ROW.format(name, solver, "no tree", "", "", "", "", ""), outcome.note)
            continue
        found = model.judge(graph, pair.batch, objective).evaluate(outcome.solution.tree)
        trees.append((solver, found))
        row = {
            "pair": name,
            "solver": solver,
            "e_d": outcome.objective,
            "gap": 1 - bound / outcome.objective,
            "energy_over_bound": found.energy_pj / bounds.energy_pj,
            "cycles_over_bound": found.cycles / bounds.cycles,
            "dram_over_compulsory": (found.dram_read_bits + found.dram_write_bits)
            / (every.dram_read + every.dram_write),
            "cpu_seconds": outcome.cpu_seconds,
        }
        rows.append(row)
        numbers = [row[key] for key in list(row)[3:-1]]
        print(
            ROW.format(
                name,
                solver,
                f"{outcome.objective:.4g}",
                *(f"{number:.3f}" for number in numbers),
                f"{outcome.cpu_seconds:.1f}",
            ),
            flush=True,
        )
    if asked.parts and trees:
        watch = Stopwatch()
        least = least_by_rounds(graph, chip, pair.batch, model.tile_costs)
        show_parts(Attack(bounds, least, [], trees, {}, watch.cpu_seconds), graph, chip, pair.batch)
        best = min((tree for _, tree in trees), key=lambda tree: tree.energy_pj * tree.cycles)
        # Of the two bounds the higher one counts: knowing the segments cannot widen a gap.
        own = min(_gap_of_own_segments(best, least), 1 - bound / (best.energy_pj * best.cycles))
        print(f"with the segments of the best tree: gap {own:.3f}")
    return rows


def _gap_of_own_segments(tree: ChipEvaluation, least: Sequence[LeastOfRounds]) -> float:
    """The gap in E D to a bound that knows a tree's segments and their DRAM traffic, but not how they run."""
    chip = tree.chip
    cycles = tree.rounds * sum(
        max(one.busy / chip.tiles, one.dram_bits / chip.dram.bits_per_cycle) for one in tree.segments
    )
    parts = next(one.parts_pj for one in least if one.rounds == tree.rounds)
    energy = sum(parts[part] for part in ("tiles", "transfers", "noc")) + tree.parts_pj["dram"]
    return 1 - (energy + chip.idle_pj_per_cycle * cycles) * cycles / (tree.energy_pj * tree.cycles)


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(QUICK), choices=list(PAIRS))
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--beta", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--buffer", help="another size of every tile's buffer, such as 16 MiB")
    asked = parser.parse_args()
    larger = {"tile.buffer.size": asked.buffer} if asked.buffer else {}
    pairs = {name: replace(pair, changed=pair.changed | larger) for name, pair in PAIRS.items()}
    print(ROW.format("pair", "solver", "E D", "gap", "E", "D", "DRAM", "CPU s"))
    rows = [row for name in asked.pairs for row in answered(name, pairs[name], asked)]
    means = {}
    for solver in asked.solvers:
        ratios = [1 - row["gap"] for row in rows if row["solver"] == solver]
        if ratios:
            means[solver] = 1 - prod(ratios) ** (1 / len(ratios))
            print(f"{solver}: mean gap {means[solver]:.3f} of {len(ratios)} pairs")
    best = [
        max(1 - row["gap"] for row in rows if row["pair"] == name) for name in {row["pair"] for row in rows}
    ]
    means["best of all"] = 1 - prod(best) ** (1 / len(best))
    print(f"the best of all: mean gap {means['best of all']:.3f}")
    record.finish({"mean_gaps": means, "rows": rows}, asked)
    # A negative gap is a schedule below a proven bound: the bound is wrong.
    return int(any(row["gap"] < -1e-9 for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
