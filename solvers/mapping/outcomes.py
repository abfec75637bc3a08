"""The outcomes of mapping solvers: a mapping judged by the cost model, none found, none possible."""

from __future__ import annotations

from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from solvers.budget import Stopwatch
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.outcome import Outcome, Status, proven


def answer(
    problem: MappingProblem,
    mapping: Mapping,
    bound: float,
    clock: Stopwatch,
    *,
    evaluations: int,
    program_proven: bool | None = None,
) -> Outcome[Mapping]:
    """``mapping``, evaluated again: OPTIMAL where its objective meets the ``bound``, else FEASIBLE."""
    objective = objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
    status, bound = proven(objective, bound)
    return Outcome(
        status,
        mapping,
        objective,
        bound,
        clock.cpu_seconds,
        clock.wall_seconds,
        program_proven=program_proven,
        evaluations=evaluations,
    )


def unknown(note: str, bound: float, clock: Stopwatch, evaluations: int = 0) -> Outcome[Mapping]:
    """No mapping was found, which proves nothing."""
    times = clock.cpu_seconds, clock.wall_seconds
    return Outcome(Status.UNKNOWN, None, None, bound, *times, note, evaluations=evaluations)


def infeasible(reason: str) -> Outcome[Mapping]:
    """There is no mapping, as was seen before any search."""
    return Outcome(Status.INFEASIBLE, None, None, None, 0.0, 0.0, reason)
