"""Limits of schedulers and of what layers cost on tiles: the note says when one was reached."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.catalogue import solver, solver_names
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set import annealing
from solvers.schedule.set.epochs import EpochOf, solve_epoch
from solvers.schedule.set.search import AnnealingPlan
from solvers.schedule.set.solver import Params, spaces_of
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

GRAPH = LayerGraph("resnet3", load_graph("resnet").layers[:3])
CHIP = load_chip("set-edge")
FEW_TILES = load_chip("set-edge", {"mesh": [2, 2], "stripe": 2})
SHORT = Budget(iterations=40)
DRAWS, CUTS = "draws of an operator that applies", "ways to cut a layer among tiles"


def chip_for(name: str) -> Chip:
    """SET's edge platform, or as many of its tiles as the exhaustive search takes."""
    return FEW_TILES if name == "exhaustive_schedule" else CHIP


def table(most: int | None, chip: Chip = CHIP) -> TabledTileCosts:
    demand = TileCostDemand(GRAPH, chip.tile, chip.tiles, 2, Pruning(most=most))
    return solved_costs(demand, TileMapper("nvdla"))


def solved(name: str, costs: TabledTileCosts) -> Outcome[Any]:
    module = solver(name, "schedule").load()
    outcome: Outcome[Any] = module.solve(
        ScheduleProblem(GRAPH, ChipModel(chip_for(name), costs), 2), SHORT, module.Params()
    )
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", solver_names("schedule"))
def test_the_note_says_that_not_all_partitions_were_looked_at(name: str) -> None:
    costs = table(1, chip_for(name))
    for _ in range(2):  # the second time the table knows its rows
        outcome = solved(name, costs)
        assert outcome.note.count(f"limit of 1 {CUTS} reached: ") == 1, outcome.note
    assert "limit of" not in solved(name, table(None, chip_for(name))).note


@pytest.mark.slow
@pytest.mark.parametrize("name", ["set", "layer_sequential", "layer_pipeline"])
def test_the_note_says_that_no_operator_applied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = table(None)
    assert "limit of" not in solved(name, costs).note
    monkeypatch.setattr(annealing, "MOST_DRAWS", 0)
    assert solved(name, costs).note.count(f"limit of 0 {DRAWS} reached: ") == 1


def test_the_note_of_an_epoch_says_it_too() -> None:
    params = Params(beta=1)
    problem = ScheduleProblem(GRAPH, ChipModel(CHIP, table(1)), 2)
    plan = AnnealingPlan(spaces_of(params), params, params.rounds(len(GRAPH.layers)))
    outcome, state = solve_epoch(problem, SHORT, plan, EpochOf(0, 2, 0), ())
    assert state is not None
    assert f"limit of 1 {CUTS} reached: " in outcome.note
