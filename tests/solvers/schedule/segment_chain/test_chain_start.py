"""Annealings that start from the best chain of segments: never worse than it, and only where chains count."""

from __future__ import annotations

import pytest
from released_model import ReleasedModel

from costmodel.errors import InputError
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.params import LATE, SetParams
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind

FROM_CHAIN = SetParams(beta=20, start="chain")


@pytest.mark.slow
@pytest.mark.parametrize("graph", [chain(5), every_kind()], ids=lambda graph: graph.name)
def test_the_answer_is_no_worse_than_the_chain(graph: LayerGraph) -> None:
    model = ChipModel(chip(2, 2, 2000), FormulaCosts(graph))
    problem = ScheduleProblem(graph, model, 4, Objective(1, 1))
    best = segment_chain.solve(problem, Budget())
    found = set_annealing.solve(problem, Budget(seed=1), FROM_CHAIN)
    assert best.objective is not None
    assert found.objective is not None
    assert found.solution is not None
    assert violations(problem, found.solution) == []
    assert found.objective <= best.objective
    (phase,) = found.solution.phases
    # the first point of the search is the chain, not one layer after the other
    assert phase.trajectory[0] == (0, best.objective)
    assert sum(count.tried for count in phase.operators) == 20 * len(graph.layers)


def test_all_rounds_have_late_temperatures() -> None:
    usual, late = SetParams().cooling, FROM_CHAIN.cooling
    for done in (0.0, 0.3, 1.0):
        assert late.temperature(done) == usual.temperature(LATE + (1 - LATE) * done)


def test_where_there_are_no_chains_the_start_is_refused() -> None:
    graph = LayerGraph("resnet2", load_graph("resnet").layers[:2])
    problem = ScheduleProblem(graph, ReleasedModel.named("edge"), 4, Objective(1, 1))
    with pytest.raises(InputError, match="start: sequential, or patterns"):
        set_annealing.solve(problem, Budget(), FROM_CHAIN)
    for narrower in ({"space": "released"}, {"deepest": 2}):
        with pytest.raises(InputError, match="sequential or patterns"):
            SetParams(start="chain", **narrower)
