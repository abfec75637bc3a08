"""Schedules replayed event by event: what the chip model counts, beside what a simulator of programs finds.

    python benchmarks/replay.py [--platforms NAME ...] [--networks NAME ...] [--dim NAME=LENGTH ...]
                                [--batches N ...] [--solvers NAME ...] [--beta N] [--seconds N]
                                [--objective NAME] [--packet-bytes N] [--partitions N]

Every solver's best schedule of every network on SET's platforms (edge, cloud), or on another chip of the
library, is written as a program and replayed. DRAM bytes, bytes times hops and operations must be equal, else
the run ends with status 1. Of the buffers' peaks the model's must be no less. ``model/replay`` are the
model's cycles over those of the replay: below 1 the model promises too much. ``contention`` and ``fetch`` say
where the difference may be: replay's cycles with links a thousand times as wide over those with the chip's
links, and the part of all cycles between the end of a segment and the first compute of the next one.

SET's tiles cost what the exhaustive mapper of its released program says, those of other chips what `kapla`
finds, for the ``--partitions`` most promising partitions of a layer. Layers that the tiles cannot hold are
cut, as in a study of chips. The solver `kapla_whole_chip` is KAPLA's
as it is used, with layers mapped on the whole chip; it needs tiles that mapping solvers know. A compute takes
the cycles that its work states in the replay and in the model, so the difference between them is not that of
another mapper.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from statistics import mean
from typing import Any

import numpy as np
import record

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.published.set_isca2023.hardware import load_platform
from costmodel.published.set_isca2023.nvdla_tile_costs import NvdlaTileCosts, chip_of
from costmodel.replay.replay import Replay, replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.program import Program
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.tree import leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Outcome
from solvers.schedule import kapla, layer_pipeline, layer_sequential, segment_chain, tangram
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.tiles.cost_table import TabledTileCosts
from solvers.schedule.tiles.layer_parts import Pruning
from solvers.schedule.tiles.mapper import TileMapper, architecture_of
from solvers.schedule.whole_chip_costs import WholeChipCosts
from sweep.cli.arguments.dims import dims_of
from sweep.design.schedule_workload import scheduled_on

Solve = Callable[[ScheduleProblem, Budget, int], Outcome[ScheduleSolution]]
SOLVERS: dict[str, Solve] = {
    "set": lambda problem, budget, beta: set_annealing.solve(
        problem, budget, set_annealing.Params(beta=beta)
    ),
    "kapla": lambda problem, budget, beta: kapla.solve(problem, budget),
    "kapla_whole_chip": lambda problem, budget, beta: kapla.solve(problem, budget),
    "tangram": lambda problem, budget, beta: tangram.solve(problem, budget),
    "segment_chain": lambda problem, budget, beta: segment_chain.solve(problem, budget),
    "layer_sequential": lambda problem, budget, beta: layer_sequential.solve(
        problem, budget, layer_sequential.Params(beta=beta)
    ),
    "layer_pipeline": lambda problem, budget, beta: layer_pipeline.solve(
        problem, budget, layer_pipeline.Params(beta=beta)
    ),
}
WHOLE_CHIP = "kapla_whole_chip"
"""The solver whose layers may be mapped on the whole chip."""
OF_SET = ("edge", "cloud")
COLUMNS = "{:<20} {:<22} {:>5} {:<17} {:>8} {:>12} {:>7} {:>7} {:>6} {:>8} {:>6} {:>8} {:>7}"


@dataclass(frozen=True)
class Case:
    """A problem and the solver whose best schedule is replayed."""

    platform: str
    network: str
    batch: int
    solver: str


@dataclass(frozen=True)
class ReplayedSchedule:
    """What the model counts of a schedule over what the replay finds, and what explains the difference."""

    case: Case
    equal: bool
    hops: float
    peak: float
    cycles: int
    ratio: float
    contention: float
    fetch: float
    segments: int
    transfers: int
    write_cpu_seconds: float
    replay_cpu_seconds: float


def problem_of(platform: str, network: LayerGraph, partitions: int) -> tuple[LayerGraph, ChipModel]:
    """A network as schedules of a platform have it, and the platform's chip model with its tile costs.

    Layers may be mapped on the whole chip only where some layer runs in no other way.
    """
    if platform in OF_SET:
        hardware = load_platform(platform)
        chip = chip_of(hardware, platform)
        graph, _ = scheduled_on(chip, network, False)
        return graph, ChipModel(chip, NvdlaTileCosts(graph, hardware.tile))
    chip, mapper = load_chip(platform), TileMapper("kapla")
    graph, needs_whole_chip = scheduled_on(chip, network, None)
    solve = partial(mapper.costs, architecture_of(chip.tile))
    model = ChipModel(chip, TabledTileCosts(graph, chip.tile, {}, solve, Pruning(most=partitions)))
    return graph, with_whole_chip(model) if needs_whole_chip else model


def with_whole_chip(model: ChipModel) -> ChipModel:
    """The same, and layers may be mapped on the whole chip."""
    costs, mapper = model.tile_costs, TileMapper("kapla")
    assert isinstance(costs, TabledTileCosts)
    whole_chip = WholeChipCosts(model.chip, {}, partial(mapper.whole_chip_cost, model.chip))
    return ChipModel(model.chip, replace(costs, whole_chip=whole_chip))


def replayed(
    case: Case, graph: LayerGraph, model: ChipModel, options: argparse.Namespace
) -> ReplayedSchedule | str:
    """One case; the reason instead where there is no schedule or no program of it."""
    objective, budget = Objective.named(options.objective), Budget(options.seconds)
    problem = ScheduleProblem(graph, model, case.batch, objective)
    try:
        outcome = SOLVERS[case.solver](problem, budget, options.beta)
    except InputError as reason:
        return f"no schedule: {reason}"
    if outcome.solution is None:
        return f"no schedule: {outcome.note}"
    evaluation = model.judge(graph, case.batch, objective).evaluate(outcome.solution.tree)
    writing = Stopwatch()
    try:
        program = write_program(graph, evaluation)
    except NotPossibleError as reason:
        return f"no program: {reason}"
    written = writing.cpu_seconds
    timing = ReplayOptions(packet_bytes=options.packet_bytes)
    watch = Stopwatch()
    found = replay(program, timing, log=True)
    seconds = watch.cpu_seconds
    noc = model.chip.noc
    wide = replace(noc, link_bytes_per_cycle=1000 * noc.link_bytes_per_cycle)
    free = replay(replace(program, chip=replace(model.chip, noc=wide)), timing)
    return ReplayedSchedule(
        case=case,
        equal=(found.dram_read_bytes, found.dram_write_bytes, found.hop_bytes)
        == (evaluation.dram_read_bytes, evaluation.dram_write_bytes, evaluation.noc_hop_bytes)
        and found.operations == case.batch * sum(layer.operations for layer in graph.layers),
        hops=evaluation.noc_hop_bytes / found.hop_bytes if found.hop_bytes else 1.0,
        peak=evaluation.most_held / 8 / max(found.peak_bytes),
        cycles=found.cycles,
        ratio=evaluation.cycles / found.cycles,
        contention=free.cycles / found.cycles,
        fetch=first_fetches(program, evaluation, found) / found.cycles,
        segments=len(evaluation.segments) * evaluation.rounds,
        transfers=found.transfers,
        write_cpu_seconds=round(written, 3),
        replay_cpu_seconds=round(seconds, 3),
    )


def first_fetches(program: Program, evaluation: ChipEvaluation, found: Replay) -> float:
    """Cycles in which no tile computes between a segment and the next one, and before the first."""
    assert found.log is not None
    segment = {
        leaf.layer: number for number, one in enumerate(evaluation.segments) for leaf in leaves(one.node)
    }
    of_work = np.array([segment[work.layer] for work in program.works])
    rows = found.log.computed[np.argsort(found.log.computed[:, 2], kind="stable")]
    numbers = of_work[rows[:, 0]]
    idle = last_end = 0
    for place, (number, (_, _, start, end)) in enumerate(zip(numbers.tolist(), rows.tolist(), strict=True)):
        if place == 0 or number != numbers[place - 1]:
            idle += max(start - last_end, 0)
        last_end = max(last_end, end)
    return idle / found.log.ticks


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument(
        "--platforms", nargs="+", default=["edge"], help="edge, cloud, or chips of the library"
    )
    parser.add_argument("--networks", nargs="+", default=["set-resnet50", "kapla-mobilenet"])
    parser.add_argument(
        "--dim", nargs="+", default=[], metavar="NAME=LENGTH", help="lengths of every network"
    )
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--beta", type=int, default=10, help="rounds a layer of annealers")
    parser.add_argument("--seconds", type=float, default=600, help="of a search")
    parser.add_argument("--objective", default="edp")
    parser.add_argument("--partitions", type=int, default=16, help="partitions a layer on other chips")
    parser.add_argument("--packet-bytes", type=int, default=ReplayOptions().packet_bytes)
    options = parser.parse_args()
    print(
        COLUMNS.format(
            "chip",
            "network",
            "batch",
            "solver",
            "segments",
            "cycles",
            "model/",
            "model/",
            "peak",
            "conten-",
            "first",
            "write",
            "replay",
        )
    )
    print(COLUMNS.format("", "", "", "", "", "of replay", "replay", "hops", "", "tion", "fetch", "s", "s"))
    rows: list[ReplayedSchedule] = []
    for name, network in product(options.platforms, options.networks):
        read = load_layer_graph(network, dims_of(options.dim))
        graph, model = problem_of(name, read, options.partitions)
        whole = None if name in OF_SET else with_whole_chip(model)
        for batch, solver in product(options.batches, options.solvers):
            case = Case(name, network, batch, solver)
            if solver == WHOLE_CHIP and whole is None:
                continue  # SET's own tile mapper knows no other levels
            found = replayed(case, graph, whole if solver == WHOLE_CHIP and whole else model, options)
            if isinstance(found, str):
                print(f"{name:<20} {network:<22} {batch:>5} {solver:<17} {found}", flush=True)
                continue
            rows.append(found)
            print(_row(found), flush=True)
    return _summary(rows, options)


def _row(found: ReplayedSchedule) -> str:
    case = found.case
    return COLUMNS.format(
        case.platform,
        case.network,
        case.batch,
        case.solver,
        found.segments,
        f"{found.cycles:,}",
        f"{found.ratio:.3f}",
        "equal" if found.equal else f"{found.hops:.4f}",
        f"{found.peak:.2f}",
        f"{found.contention:.3f}",
        f"{found.fetch:.3f}",
        f"{found.write_cpu_seconds:.1f}",
        f"{found.replay_cpu_seconds:.1f}",
    )


def _summary(rows: list[ReplayedSchedule], options: argparse.Namespace) -> int:
    errors = [abs(row.ratio - 1) for row in rows]
    found: dict[str, Any] = {
        "schedules": len(rows),
        "unequal": sum(not row.equal for row in rows),
        "peaks_above_the_model": sum(row.peak < 1 for row in rows),
        "mean_error": round(mean(errors), 4) if errors else None,
        "worst_error": round(max(errors), 4) if errors else None,
        "mean_ratio": round(mean(row.ratio for row in rows), 4) if rows else None,
        "transfers": sum(row.transfers for row in rows),
        "replay_cpu_seconds": round(sum(row.replay_cpu_seconds for row in rows), 2),
        "rows": [asdict(row.case) | {k: v for k, v in asdict(row).items() if k != "case"} for row in rows],
    }
    print(
        f"\n{len(rows)} schedules: cycles differ by {100 * (found['mean_error'] or 0):.1f} % in the mean and "
        f"{100 * (found['worst_error'] or 0):.1f} % at worst"
    )
    record.finish(found, options)
    return int(not rows or found["unequal"] > 0 or found["peaks_above_the_model"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
