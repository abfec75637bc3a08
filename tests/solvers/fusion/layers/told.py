"""An answer for a group of layers, held to what another count tells of the same problem."""

from __future__ import annotations

import pytest

from costmodel.mapping.fused.layers.group import GroupMapping
from solvers.fusion.layers.problem import LayerFusionProblem, objective_of, violations
from solvers.outcome import Outcome, Status


def check_against(
    problem: LayerFusionProblem, outcome: Outcome[GroupMapping], told: float | None
) -> GroupMapping:
    """Hold an answer to the least objective that was told; the mapping that it has."""
    assert told is not None
    assert outcome.objective is not None
    assert outcome.bound is not None
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert outcome.objective == objective_of(problem, outcome.solution)
    # nothing costs less than the bound, and the answer is no better than the best
    assert outcome.bound <= told * (1 + 1e-12)
    assert told <= outcome.objective * (1 + 1e-12)
    if outcome.status is Status.OPTIMAL:
        assert outcome.objective == pytest.approx(told, rel=1e-12)
    return outcome.solution
