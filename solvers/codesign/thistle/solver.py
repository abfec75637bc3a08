"""Thistle's co-design end to end: relax, round the hardware, map every layer, let the cost model judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, OutOfTimeError, Stopwatch
from solvers.catalogue import solver
from solvers.codesign.bounds import lower_bound, smallest_member
from solvers.codesign.problem import CodesignProblem, CodesignSolution, evaluated
from solvers.codesign.thistle.members import Members, trimmed
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.relaxation import relaxed_optimum
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.outcome import Outcome, Status, noting_limits, proven

VERSION = "3"
NO_MAPPINGS = "no layer mappings found on any architecture near the relaxed optimum; that proves nothing"
NO_TIME = "the time was up before all layers were mapped on an architecture"


@noting_limits
def solve(
    problem: CodesignProblem,
    budget: Budget,
    params: Params = Params(),  # noqa: B008
) -> Outcome[CodesignSolution]:
    """The best of the whole architectures near the relaxed optimum, with every layer mapped on them.

    The objective is the cost model's (:func:`solvers.codesign.problem.evaluated`), the bound that of
    :mod:`solvers.codesign.bounds`. Half of the wall seconds are for the programs at most, the rest is for
    mapping; ``budget.iterations`` is the most architectures to map, ``evaluations`` counts them. INFEASIBLE:
    the smallest member is larger than the area.
    """
    clock = Stopwatch()
    if reason := _too_large(problem):
        return Outcome(Status.INFEASIBLE, None, None, None, clock.cpu_seconds, clock.wall_seconds, reason)
    judge = MemberJudge(problem, budget, params, clock)
    found = [(objective, solution) for objective, solution in judge.judged()]
    bound = lower_bound(problem)
    seconds = clock.cpu_seconds, clock.wall_seconds
    if not found:
        note = NO_MAPPINGS if clock.wall_seconds < budget.wall_seconds else NO_TIME
        return Outcome(Status.UNKNOWN, None, None, bound, *seconds, note)
    objective, solution = min(found, key=lambda pair: pair[0])
    status, bound = proven(objective, bound)
    return Outcome(status, solution, objective, bound, *seconds, evaluations=len(found))


def _too_large(problem: CodesignProblem) -> str:
    least = smallest_member(problem)
    if least.area_um2 <= problem.area_um2:
        return ""
    free = ", ".join(dict.fromkeys((*problem.free_sizes, *problem.free_fanouts)))
    return f"area: with {free} at their least {least.area_um2:.1f} um2, {problem.area_um2:.1f} are allowed"


@dataclass(frozen=True)
class MemberJudge:
    """Maps the layers on the most promising members and evaluates what comes of it."""

    problem: CodesignProblem
    budget: Budget
    params: Params
    clock: Stopwatch

    def judged(self) -> Iterator[tuple[float, CodesignSolution]]:
        """Objectives and solutions, best relaxed mappings first, as far as the budget goes."""
        try:
            relaxed = relaxed_optimum(self.problem, self.params, self._may_relax)
        except OutOfTimeError:
            return
        if relaxed is None:
            return
        most = min(self.params.judged, self.budget.iterations or self.params.judged)
        for member in Members(self.problem, relaxed, self.params).ranked()[:most]:
            architecture = self.problem.member(member.sizes_words, member.fanouts)
            if mappings := self._mapped(architecture):
                yield self._best_of_both(architecture, mappings)

    def _may_relax(self) -> bool:
        """Whether half of the time is left. Raises OutOfTimeError when none is: nothing could be mapped."""
        if self.clock.wall_seconds >= self.budget.wall_seconds:
            raise OutOfTimeError("not all layers have a program in time")
        return self.clock.wall_seconds < self.budget.wall_seconds / 2

    def _best_of_both(
        self, architecture: Architecture, mappings: tuple[Mapping, ...]
    ) -> tuple[float, CodesignSolution]:
        """The architecture without the instances that the mappings leave idle, at the same cost."""
        solution = CodesignSolution(trimmed(self.problem, architecture, mappings), mappings)
        return objective_of(evaluated(self.problem, solution), self.problem.objective), solution

    def _mapped(self, architecture: Architecture) -> tuple[Mapping, ...] | None:
        """A mapping of every layer, or None if the time is up or one has none."""
        found: list[Mapping] = []
        mapper = solver(self.params.mapping_solver).load()
        for weighted in self.problem.layers:
            left = self.budget.wall_seconds - self.clock.wall_seconds
            if left <= 0:
                return None
            left /= len(self.problem.layers) - len(found)  # none may take the others' share
            problem = MappingProblem(architecture, weighted.layer, self.problem.objective)
            outcome = mapper.solve(problem, Budget(left, seed=self.budget.seed))
            if outcome.solution is None:
                return None
            found.append(outcome.solution)
        return tuple(found)
