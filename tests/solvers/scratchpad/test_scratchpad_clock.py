"""Scratchpad solvers keep to their time: once it is up, they finish what they have and begin nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

from costmodel.scratchpad.graph import Operator, OperatorGraph, ScratchpadSettings
from solvers import scratchpad
from solvers.budget import Budget, Deadline
from solvers.catalogue import solver
from solvers.outcome import Outcome, Status
from solvers.scratchpad.cosma.search import PlanSearch
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.problem import ScratchpadProblem, violations
from tests.solvers.scratchpad import random_graphs

NAMES = ("cosma", "divide", "fixed_schedule", "peak", "comparison")
"""cosma_ilp's clock is tested with its program, in the contract."""
SOLVERS = str(Path(str(scratchpad.__file__)).parent)
OPERATORS = 250
MOST_CALLS = 250
"""Calls that a solver may need for an operator after the end: to finish an order, to check a plan."""
CALLS_A_LOOK = 50
"""Calls that it may need for each look before: the states that it has, one of which it goes on from."""


def wide_graph(operators: int) -> OperatorGraph:
    """Every seventh operator reads the network's input, the others the tensor before and an older one."""
    random = Random(0)
    nodes = [
        Operator(
            f"operator{index}",
            (0,) if index % 7 == 0 else tuple(sorted({index, max(0, index - random.randint(0, 60))})),
            (index + 1,),
            0,
        )
        for index in range(operators)
    ]
    sizes = [random.randint(1, 9) for _ in range(operators + 1)]
    return random_graphs.without_unused("wide", nodes, sizes, 1, ScratchpadSettings())


GRAPHS = {"random": random_graphs.random_graph(3, OPERATORS), "wide": wide_graph(OPERATORS)}


class Clock:
    """Stands until it has been looked at so many times; then it is beyond every limit, and counts calls."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.calls = 0

    def __call__(self) -> float:
        self.left -= 1
        if self.left == -1:
            sys.setprofile(self._count)
        return 0.0 if self.left >= 0 else 1e9

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        self.calls += event == "call" and frame.f_code.co_filename.startswith(SOLVERS)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [3, 150, 1000])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_the_clock_is_honoured(name: str, graph: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look stands for a step of work; after the end calls are counted, and no second is measured."""
    module = solver(name).load()
    small = random_graphs.spilling_graph()
    # Code that is loaded looks at the clock, too.
    module.solve(ScratchpadProblem(small, small.required_bytes), Budget())
    problem, clock = ScratchpadProblem(GRAPHS[graph], GRAPHS[graph].required_bytes), Clock(looks)
    monkeypatch.setattr("time.perf_counter", clock)
    try:
        outcome: Outcome[Any] = module.solve(problem, Budget(wall_seconds=5))
    finally:
        sys.setprofile(None)
        monkeypatch.undo()
    assert clock.calls <= MOST_CALLS * OPERATORS + CALLS_A_LOOK * looks
    if outcome.solution is not None:
        assert violations(problem, outcome.solution) == []
    if looks >= 1000 and name in ("cosma", "divide", "fixed_schedule"):
        assert outcome.status is Status.FEASIBLE


@pytest.mark.parametrize("seed", range(12))
def test_a_search_cut_short_within_a_state_goes_on_to_the_same_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state whose ways on are not all listed is taken up again: nothing is lost, no bound is wrong."""
    graph = random_graphs.random_graph(seed, 9)
    masks = GraphMasks.of(graph)
    whole = PlanSearch(masks, graph.required_bytes).run(60)
    search, reached, runs = PlanSearch(masks, graph.required_bytes), None, 0
    looks = [0]

    def in_time(self: Deadline) -> bool:
        looks[0] -= 1
        return looks[0] >= 0

    monkeypatch.setattr(Deadline, "in_time", in_time)
    while reached is None and not search.exhausted:
        runs += 1
        looks[0] = 1 + runs % 7
        reached = search.run(1.0)
        assert whole is not None
        assert search.bound <= whole.state.cost
    assert reached is not None
    assert whole is not None
    assert reached.state.cost == whole.state.cost
