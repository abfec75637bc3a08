"""A whole network on KAPLA's 16 x 16 nodes as a chain of segments, tile solves included: cells of S, R, M, K.

Judged by the chip model: hops are counted, idle energy is not, and what a node computes is not held to the
array's mapping; so energies are not those of the layer-by-layer parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.bounds.compulsory import compulsory
from costmodel.schedule.evaluation import IDLE, ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment.node_cost import ENERGY_PARTS
from kapla_evaluation.cells import CellFile, Found, content_key
from kapla_evaluation.layers import METHODS, SEED
from solvers.budget import Budget
from solvers.mapping.problem import Objective as TileObjective
from solvers.outcome import Outcome
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.solver import VERSION
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import FEW_PARTITIONS, Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper, tile_solver

CHIP = "kapla-16x16-released"
WARM_UP = "kapla-mlp-s"
PARTS = (*ENERGY_PARTS, IDLE)


@dataclass(frozen=True)
class Method:
    """How segments are searched, and which mapping solver answers for layers (a letter of METHODS).

    ``pruning``: how many partitions of a layer among its tiles are looked at; by default as studies do.
    """

    mapper: str = "K"
    params: kapla.Params = field(default_factory=kapla.Params)
    pruning: Pruning = field(default_factory=lambda: Pruning(most=FEW_PARTITIONS))
    mapper_params: Any = None
    mapper_budget: Budget = field(default_factory=Budget)
    wall_seconds: float = 3600.0


@dataclass(frozen=True)
class ScheduleCase:
    """``network`` with its ``step`` ("" or ".training") for the least ``objective``, all on CHIP."""

    network: str
    step: str = ""
    batch: int = 64
    objective: TileObjective = "energy"

    @property
    def name(self) -> str:
        return f"kapla-{self.network}{self.step}"

    @property
    def graph(self) -> LayerGraph:
        return load_layer_graph(self.name)


_LOADED: list[bool] = []
"""Not empty once the compiled code is loaded, which is not on the clock."""


def schedule(file: CellFile, case: ScheduleCase, method: Method) -> Found:
    """What the method finds: ``objective`` None without a schedule, else also energy and its ``parts_pj``,
    ``cycles``, DRAM bytes, ``below_floors``; always ``bound``, ``cpu_seconds``, ``costed``, ``note``."""
    chip, graph = load_chip(CHIP), case.graph
    versions = VERSION, METHODS[method.mapper], tile_solver(METHODS[method.mapper]).version
    key = content_key(chip, graph.layers, case.batch, case.objective, method, versions)
    title = f"{method.mapper} {case.name} {case.batch} {case.objective} chains {method.params.chains}"
    return file.get(key, title, lambda: _solved(case, method))


def problem_of(case: ScheduleCase, method: Method) -> ScheduleProblem:
    """A problem that knows no costs yet, so that no solve profits from another's."""
    chip, graph = load_chip(CHIP), case.graph
    mapper = TileMapper(METHODS[method.mapper], case.objective, method.mapper_params, method.mapper_budget)
    costs = solved_costs(
        TileCostDemand(graph, chip.tile, chip.tiles, case.batch, method.pruning), mapper, chip
    )
    return ScheduleProblem(graph, ChipModel(chip, costs), case.batch, Objective.named(case.objective))


def _solved(case: ScheduleCase, method: Method) -> Found:
    if not _LOADED:
        _LOADED.append(True)
        warm = ScheduleCase(WARM_UP.removeprefix("kapla-"), batch=2)
        kapla.solve(problem_of(warm, method), Budget(iterations=40))
    problem = problem_of(case, method)
    outcome = kapla.solve(problem, Budget(method.wall_seconds, seed=SEED), method.params)
    found: Found = {
        "objective": outcome.objective,
        "bound": outcome.bound,
        "cpu_seconds": outcome.cpu_seconds,
        "costed": outcome.evaluations,
        "note": outcome.note,
    }
    return found if outcome.solution is None else found | _counted(problem, outcome)


def _counted(problem: ScheduleProblem, outcome: Outcome[ScheduleSolution]) -> Found:
    """What the judge counts for the answer."""
    assert outcome.solution is not None
    cost = problem.judge().evaluate(outcome.solution.tree)
    assert isinstance(cost, ChipEvaluation)
    return {
        "energy_pj": cost.energy_pj,
        "cycles": cost.cycles,
        "parts_pj": list(cost.parts_pj.values()),
        "dram_bytes": cost.dram_bytes,
        "segments": len(cost.segments),
        "below_floors": below_floors(problem, cost),
    }


def below_floors(problem: ScheduleProblem, cost: ChipEvaluation) -> bool:
    """Whether it takes less time than MACs / PEs, or less of DRAM than weights, inputs and outputs once."""
    graph, batch = problem.graph, problem.batch
    macs = batch * sum(layer.operations for layer in graph.layers if layer.has_weights)
    least = compulsory(graph, batch, cost.chip.tile.widths)
    in_time = cost.cycles * cost.chip.tiles * cost.chip.tile.macs >= macs
    return not in_time or 8 * cost.dram_bytes < least.dram_read + least.dram_write


def over(found: Mapping[str, Any], truth: Mapping[str, Any]) -> float | None:
    """How far an answer's objective is above another's; None where one of them has none."""
    if found["objective"] is None or truth["objective"] is None:
        return None
    ratio: float = found["objective"] / truth["objective"] - 1
    return ratio if ratio < inf else None
