"""SET's annealers under the set_isca2023 convention, seed by seed: a table, then one JSON object.

    python benchmarks/set_annealing.py [--platform edge] [--network resnet] [--batch 8] [--beta 100]
                                       [--seeds 10] [--space paper] [--epochs 1]
    python benchmarks/set_annealing.py --chips set-edge set-cloud [--network set-resnet50]
    python benchmarks/set_annealing.py --figure-8 20 [--cells edge/set-resnet50/8 cloud/set-googlenet/64]

Every seed anneals trees of the whole space from all layers one after the other; with ``--start patterns``, as
the released program does, from the better of a layer-pipeline and a layer-sequential tree that it anneals
first. The objective is E^2 D on edge and E D^2 on cloud (section 5.1). CPU seconds are those of the last
phase, of beta x layers rounds, with the tile cost table known: making it is reported apart. Each seed begins
with nothing remembered but that table. Every tree found is counted again, from its text, by the readable
evaluator. With ``--epochs`` the seeds exchange their best tree in between.

What the released program needs and finds is in published.yaml, as its evaluator counts: weights once a run.

With ``--chips`` one seed anneals by EDP under the chip model instead, on chips of the library, with the tile
solver ``nvdla``. The time of a round is that of drawing and counting a tree, from nothing remembered on;
solving tile parts is apart. The run ends with status 1 where a chip's goal is not met.

With ``--figure-8 ROUNDS`` each cell of the study of Figure 8 is annealed by one seed, with so many rounds for
each of its three phases, LP, LS and SET. From that follows what the cell takes with the study's rounds and
seeds, SET's own phases and those of the rivals LP and LS together: each phase its first half as it was, and
all other rounds as long as those of the second half. The first rounds count more parts that are new, so they
say nothing of later ones. Those become quicker still as ever fewer parts are new, but trees grow: this is an
estimate, and no bound. Of cells that ``--cells`` leaves out nothing is said.

With ``--bands N`` all seeds anneal by EDP under the chip model of ``--chips`` (``--buffer SIZE``: with other
buffers) twice, with up to N bands of rows and without, for equally many rounds; best trees are replayed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import record
from published import under
from released_model import ReleasedModel

from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.replay.replay import replay
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.tree import has_bands
from solvers.budget import MOST_SECONDS, Budget, Deadline
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, answer, violations
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.exchange import exchanged, rounds_of_epoch
from solvers.schedule.set.params import SetParams
from solvers.schedule.set.search import AnnealingPlan, SearchState, TreeSearch
from solvers.schedule.tiles.cost_table import TilePartCosts, solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TileMapper
from sweep.study.study import study_path

OBJECTIVES = {"edge": "e2d", "cloud": "ed2"}
CHIPS = {"set-edge": (8, 3000, 2.0), "set-cloud": (64, 1000, 25.0)}
"""By chip: samples of a batch, rounds of a seed, and the most CPU ms that a round is to take."""


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
        "case": {
            key: value for key, value in vars(arguments).items() if key not in ("seeds", "json", "chips")
        },
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


@dataclass(frozen=True)
class ChipRounds:
    """How long a seed's rounds took under the chip model: CPU ms a round, without those of the tile table."""

    chip: str
    network: str
    batch: int
    rounds: int
    objective: float
    ms_a_round: float
    goal_ms: float
    first_tree_cpu_seconds: float
    table_cpu_seconds: float


class TimedSolve:
    """Solves tile parts, and adds up the CPU seconds for it."""

    def __init__(self, solve: Callable[[Iterable[TilePart]], TilePartCosts]) -> None:
        self._solve, self.cpu_seconds = solve, 0.0

    def __call__(self, parts: Iterable[TilePart]) -> TilePartCosts:
        start = time.process_time()
        found = self._solve(parts)
        self.cpu_seconds += time.process_time() - start
        return found


def chip_rounds(name: str, network: str) -> ChipRounds:
    """One seed on a chip of the library, with an evaluator that knows nothing."""
    batch, rounds, goal_ms = CHIPS[name]
    chip, graph = load_chip(name), load_layer_graph(network)
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, batch), TileMapper("nvdla"))
    assert costs.solve is not None
    solve = TimedSolve(costs.solve)
    problem = ScheduleProblem(graph, ChipModel(chip, replace(costs, solve=solve)), batch)
    params = SetParams()
    # loads or compiles the kernels
    TreeSearch(problem, AnnealingPlan(set_annealing.spaces_of(params), params, 1)).begin(0)
    plan = AnnealingPlan(set_annealing.spaces_of(params), params, rounds)
    search, spent = TreeSearch(problem, plan), [(time.process_time(), solve.cpu_seconds)]
    state = search.begin(1)
    spent.append((time.process_time(), solve.cpu_seconds))
    state = search.advance(state, rounds)
    spent.append((time.process_time(), solve.cpu_seconds))
    first, later = (after[0] - before[0] - (after[1] - before[1]) for before, after in pairwise(spent))
    return ChipRounds(
        name, network, batch, rounds, state.best[0], 1000 * later / rounds, goal_ms, first, solve.cpu_seconds
    )


def measure_chips(names: list[str], network: str) -> tuple[list[ChipRounds], bool]:
    """Prints a row a chip; whether all of them met their goals."""
    print(f"{'chip':<10} {'network':<14} {'batch':>5} {'rounds':>6} {'EDP':>10} {'CPU ms/round':>12}  goal")
    rows = []
    for name in names:
        row = chip_rounds(name, network)
        rows.append(row)
        print(f"{name:<10} {network:<14} {row.batch:5} {row.rounds:6} {row.objective:10.3e}", end=" ")
        print(f"{row.ms_a_round:12.2f} {row.goal_ms:5g}   tile table {row.table_cpu_seconds:.1f} CPU s apart")
    return rows, all(row.ms_a_round <= row.goal_ms for row in rows)


@dataclass(frozen=True)
class FigureCell:
    """What one network and batch of Figure 8 takes: CPU ms a round of each phase, and of all seeds together.

    ``ms_a_round``: of the second half of the rounds that were measured. ``table_cpu_seconds``: solving tile
    parts in these rounds, which is apart from the rest.
    """

    cell: str
    layers: int
    ms_a_round: dict[str, float]
    cpu_hours: float
    table_cpu_seconds: float


def figure_cell(study: str, network: str, batch: int, rounds: int) -> FigureCell:
    """One seed of a cell of a library study, with ``rounds`` rounds for each phase."""
    content = load_yaml(study_path(study))
    schedule = content["schedule"]
    chip, graph = load_chip(content["chip"]), load_layer_graph(network)
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, batch), TileMapper("nvdla"))
    assert costs.solve is not None
    solve = TimedSolve(costs.solve)
    objective, params = Objective.named(schedule["objective"]), SetParams(**schedule["params"])
    problem = ScheduleProblem(graph, ChipModel(chip, replace(costs, solve=solve)), batch, objective)
    spaces = set_annealing.spaces_of(params)
    search = TreeSearch(problem, AnnealingPlan(spaces, params, rounds))
    state = search.begin(1)
    half, planned = rounds // 2, params.rounds(len(graph.layers))
    later: dict[str, float] = {}
    of_seed = 0.0
    for space in spaces:
        spent = [time.process_time() - solve.cpu_seconds]
        for count in (half, rounds - half):
            state = search.advance(state, count)
            spent.append(time.process_time() - solve.cpu_seconds)
        each = (spent[2] - spent[1]) / (rounds - half)
        later[space] = 1000 * each
        # a rival anneals one of the spaces by itself
        times = 1 + sum(rival["solver"] == space for rival in schedule["rivals"])
        of_seed += times * (spent[1] - spent[0] + (planned - half) * each)
    hours = schedule["seeds"] * of_seed / 3600
    return FigureCell(f"{study[9:]}/{network}/{batch}", len(graph.layers), later, hours, solve.cpu_seconds)


def measure_figure_8(rounds: int, cells: list[str]) -> list[FigureCell]:
    """Prints a row a cell and the sum; ``cells``: which; empty: all of both platforms."""
    print(f"{'cell':<32} {'layers':>6} {'ms a round of LP, LS, SET':>28} {'CPU hours':>9}")
    rows = []
    for study in ("set-fig8-edge", "set-fig8-cloud"):
        for one in load_yaml(study_path(study))["networks"]:
            if cells and f"{study[9:]}/{one['network']}/{one['batch']}" not in cells:
                continue
            row = figure_cell(study, one["network"], one["batch"], rounds)
            rows.append(row)
            took = ", ".join(f"{ms:.1f}" for ms in row.ms_a_round.values())
            print(f"{row.cell:<32} {row.layers:6} {took:>28} {row.cpu_hours:9.3f}", flush=True)
    print(f"{len(rows)} cells: {sum(row.cpu_hours for row in rows):.2f} CPU hours; the goal for all 70 is 12")
    return rows


@dataclass(frozen=True)
class BandSeeds:
    """What seeds find with up to ``bands`` bands of rows: objectives, and the replay of the best tree."""

    bands: int
    values: list[float]
    banded: int
    cpu_seconds: float
    best_cycles: int
    replayed_cycles: int


def seeds_with_bands(problem: ScheduleProblem, params: SetParams, seeds: int) -> BandSeeds:
    """Ten seeds, say; ``banded`` of them end with a tree that has bands."""
    found = [
        set_annealing.solve(problem, Budget(MOST_SECONDS, seed=seed), params) for seed in range(1, seeds + 1)
    ]
    solutions = [one.solution for one in found if one.solution is not None]
    values = [one.objective for one in found if one.objective is not None]
    assert len(solutions) == len(values) == seeds
    best = solutions[values.index(min(values))]
    counted = problem.judge().evaluate(best.tree)
    assert isinstance(counted, ChipEvaluation)
    return BandSeeds(
        params.bands,
        values,
        sum(has_bands(one.tree) for one in solutions),
        statistics.median(one.cpu_seconds for one in found),
        counted.cycles,
        replay(write_program(problem.graph, counted)).cycles,
    )


def measure_bands(options: argparse.Namespace) -> list[BandSeeds]:
    """Prints a row for each search; the table of tile costs is shared, and made by the first of them."""
    changes = {"tile.buffer.size": options.buffer} if options.buffer else {}
    rows = []
    for name in options.chips:
        chip, graph = load_chip(name, changes), load_layer_graph(options.network or "set-resnet50")
        demand = TileCostDemand(graph, chip.tile, chip.tiles, options.batch)
        costs = solved_costs(demand, TileMapper("nvdla"))
        problem = ScheduleProblem(graph, ChipModel(chip, costs), options.batch)
        print(f"{name} {options.buffer or ''} {graph.name}, batch {options.batch}, beta {options.beta:g}")
        for bands in (1, options.bands):
            row = seeds_with_bands(problem, SetParams(beta=options.beta, bands=bands), options.seeds)
            rows.append(row)
            print(
                f"  {bands:3} bands: median {statistics.median(row.values):.4e}, best {min(row.values):.4e},",
                end="",
            )
            print(
                f" {row.banded} of {len(row.values)} with bands, {row.cpu_seconds:.1f} CPU s a seed;", end=""
            )
            print(f" best: {row.best_cycles} cycles, replayed {row.replayed_cycles}", flush=True)
    return rows


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
    parser.add_argument("--network", help="resnet, or set-resnet50 with --chips")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--beta", type=float, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--space", choices=("paper", "released"), default=defaults.space)
    parser.add_argument("--weights", choices=("paper", "released"), default=defaults.weights)
    parser.add_argument("--start", choices=("sequential", "patterns"), default=defaults.start)
    parser.add_argument("--temperature", type=float, default=defaults.initial_temperature)
    parser.add_argument("--epochs", type=int, default=1, help="1: seeds know nothing of each other")
    parser.add_argument("--chips", nargs="+", choices=list(CHIPS), help="rounds under the chip model instead")
    parser.add_argument("--figure-8", type=int, metavar="ROUNDS", help="what Figure 8 takes, by so many")
    parser.add_argument("--cells", nargs="+", default=[], help="with --figure-8: PLATFORM/NETWORK/BATCH")
    parser.add_argument("--bands", type=int, default=1, help="of rows, under the chip model of --chips")
    parser.add_argument("--buffer", help="of a tile, such as 320 KiB, with --bands")
    options = parser.parse_args()
    if options.figure_8:
        found = measure_figure_8(options.figure_8, options.cells)
        record.finish({"figure 8": [asdict(row) for row in found]}, options)
        return 0
    if options.chips and options.bands > 1:
        record.finish({"bands": [asdict(row) for row in measure_bands(options)]}, options)
        return 0
    if options.chips:
        rows, met = measure_chips(options.chips, options.network or "set-resnet50")
        record.finish({"chips": [asdict(row) for row in rows]}, options)
        return int(not met)
    options.network = options.network or "resnet"
    result = measure(options)
    print_table(result)
    record.finish(result, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
