"""The fusion problem: the fused mapping of a chain of einsums that costs least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from costmodel.errors import InputError
from costmodel.mapping.fused.checker import violations as fused_violations
from costmodel.mapping.fused.evaluate import evaluate_fused
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import FusedProblem
from solvers.budget import Stopwatch
from solvers.outcome import Outcome, Status, proven

FusionObjective = Literal["energy", "cycles", "edp"]
OBJECTIVES: tuple[str, ...] = get_args(FusionObjective)
"""pJ, cycles, and the product of both, of the whole chain."""


@dataclass(frozen=True)
class FusionProblem:
    """Minimise ``objective`` over the fused mappings of a chain.

    The space: every dim at most once among the shared loops of an einsum, shared loops of more than one
    iteration, steps that divide what they cut. Raises InputError for an objective that there is not, and for
    windows or axes of several dims, which can be counted but are not searched.
    """

    chain: FusedProblem
    objective: FusionObjective

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InputError(
                "fusion problem", f"one of {', '.join(OBJECTIVES)}", self.objective, key="objective"
            )
        for einsum in self.chain.einsums:
            for tensor, axes in einsum.tensors.items():
                if any(len(axis) != 1 or axis[0][1] != 1 for axis in axes):
                    expected = "axes of one dim each, with the coefficient 1"
                    remedy = "Windows can be evaluated, but no solver searches them."
                    raise InputError(
                        f"fusion problem: einsum {einsum.name}",
                        expected,
                        [list(map(list, axis)) for axis in axes],
                        remedy,
                        key=f"tensors.{tensor}",
                    )


def value(objective: FusionObjective, energy: float, cycles: float) -> float:
    """The objective of these costs, in pJ and cycles."""
    if objective == "energy":
        return energy
    return cycles if objective == "cycles" else energy * cycles


def objective_of(problem: FusionProblem, mapping: FusedMapping) -> float:
    """The cost model's value of a mapping; ValueError for one that has violations."""
    found = evaluate_fused(problem.chain, mapping)
    return value(problem.objective, found.energy_pj, float(found.cycles))


def violations(problem: FusionProblem, mapping: FusedMapping) -> list[str]:
    """Why ``mapping`` is not an answer to ``problem``; independent of every solver."""
    return fused_violations(problem.chain, mapping)


def answer(
    problem: FusionProblem,
    mapping: FusedMapping,
    bound: float,
    watch: Stopwatch,
    evaluations: int,
    note: str = "",
) -> Outcome[FusedMapping]:
    """The outcome of a mapping, checked and counted by the cost model; OPTIMAL where the bound meets it.

    Raises RuntimeError for a mapping with violations: a solver's bug must not become a result.
    """
    if reasons := violations(problem, mapping):
        raise RuntimeError(f"a solver made a fused mapping that is none: {'; '.join(reasons[:3])}")
    objective = objective_of(problem, mapping)
    status, proven_bound = proven(objective, bound)
    return Outcome(
        status,
        mapping,
        objective,
        proven_bound,
        watch.cpu_seconds,
        watch.wall_seconds,
        note,
        evaluations=evaluations,
    )


def infeasible(note: str, watch: Stopwatch) -> Outcome[FusedMapping]:
    """There is no mapping; the note says why, with its numbers."""
    return Outcome(Status.INFEASIBLE, None, None, None, watch.cpu_seconds, watch.wall_seconds, note)


def unknown(note: str, watch: Stopwatch, bound: float) -> Outcome[FusedMapping]:
    """No mapping was found in time; ``bound``: what every mapping costs at least."""
    return Outcome(Status.UNKNOWN, None, None, bound, watch.cpu_seconds, watch.wall_seconds, note)
