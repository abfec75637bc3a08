"""Searches for schedules leave no circles of values, and leave Python's search for garbage as it was."""

from __future__ import annotations

import gc

import pytest

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.garbage import garbage_rarely
from solvers.schedule.problem import ScheduleProblem
from tests.solvers.schedule.kapla.test_footprints import small_chip, table_of


def test_it_is_as_before_whatever_happens() -> None:
    before = gc.get_threshold()
    seen = []

    @garbage_rarely()
    def fail() -> None:
        seen.append(gc.get_threshold())
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert seen == [(100 * before[0], *before[1:])]
    assert gc.get_threshold() == before


def test_a_search_leaves_few_circles() -> None:
    """It costs dozens of schemes, each of many objects; what is left in circles are some closures."""
    graph, chip = LayerGraph("lstm", load_graph("lstm").layers[:9]), small_chip(128 << 10)
    problem = ScheduleProblem(graph, ChipModel(chip, table_of(graph, chip, 4)), 4)
    kapla.solve(problem, Budget(600.0))  # compiles
    gc.collect()
    gc.disable()
    try:
        outcome = kapla.solve(problem, Budget(600.0))
        circular = gc.collect()
    finally:
        gc.enable()
    assert outcome.evaluations > 30
    assert circular < 300
