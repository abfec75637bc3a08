"""Thistle's co-design end to end: relax, round the hardware, map every layer, let the cost model judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from solvers.budget import LEAST_SECONDS, Budget, Deadline, OutOfTimeError, Stopwatch
from solvers.catalogue import solver
from solvers.codesign.bounds import lower_bound, smallest_member
from solvers.codesign.problem import CodesignProblem, CodesignSolution, evaluated
from solvers.codesign.thistle.layer_programs import RelaxedOptimum
from solvers.codesign.thistle.members import Member, Members, trimmed
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.relaxation import relaxed_optima
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.starts import any_mapping
from solvers.outcome import Outcome, Status, noting_limits, proven

VERSION = "5"
NO_MAPPINGS = "no layer mappings found on any architecture near the relaxed optimum; that proves nothing"
NO_TIME = "the time was up before all layers were mapped on an architecture"
RANKING = 0.2
"""The part of the time left that ranking the architectures near the relaxed optimum may take."""


class Judged(NamedTuple):
    """A whole architecture with a mapping for every layer, and its objective by the cost model.

    ``unsearched``: how many of the mappings are just allowed ones, as no time was left to search for better.
    """

    objective: float
    solution: CodesignSolution
    unsearched: int


@noting_limits
def solve(
    problem: CodesignProblem,
    budget: Budget,
    params: Params = Params(),  # noqa: B008
) -> Outcome[CodesignSolution]:
    """The best of the whole architectures near the relaxed optimum, with every layer mapped on them.

    The objective is the cost model's (:func:`solvers.codesign.problem.evaluated`), the bound that of
    :mod:`solvers.codesign.bounds`. Half of the wall seconds are for the programs at most, the rest is for
    mapping; ``budget.iterations`` is the most architectures to map, ``evaluations`` counts them. If the time
    is up before, the answer is the family's base, or where that is too large its smallest member, and layers
    whose mapping was not searched for have one that is just allowed; the note says so. INFEASIBLE: the
    smallest member is larger than the area. UNKNOWN: no architecture tried, nor
    the base or the smallest member, has a mapping for every layer.
    """
    clock = Stopwatch()
    if reason := _too_large(problem):
        return Outcome(Status.INFEASIBLE, None, None, None, clock.cpu_seconds, clock.wall_seconds, reason)
    judge = MemberJudge(problem, budget, params, clock)
    found = list(judge.judged())
    note = "" if found else NO_MAPPINGS
    if not found:
        # An architecture as the user has written it, with mappings that are just allowed, is more use than no
        # answer.
        found = list(judge.stated())
    bound = lower_bound(problem)
    if not judge.in_time():
        note = NO_TIME if note or any(each.unsearched for each in found) else ""
    seconds = clock.cpu_seconds, clock.wall_seconds
    if not found:
        return Outcome(Status.UNKNOWN, None, None, bound, *seconds, note)
    best = min(found, key=lambda each: each.objective)
    if best.unsearched:
        allowed = f"{best.unsearched} of {len(problem.layers)} layers have a mapping that is just allowed"
        note = f"{note}; {allowed}" if note else allowed
    status, bound = proven(best.objective, bound)
    return Outcome(status, best.solution, best.objective, bound, *seconds, note, evaluations=len(found))


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

    def judged(self) -> Iterator[Judged]:
        """The whole architectures near the relaxed optima, best relaxed mappings first, as far as the budget
        goes; of the first one every layer has a mapping, if it can have one, however late it is."""
        for number, member in enumerate(self._promising()[: self.budget.iterations]):
            yield from self._judged_on(self.problem.member(member.sizes_words, member.fanouts), number == 0)

    def _promising(self) -> list[Member]:
        """The members to map, the best near each relaxed optimum in turn; none if there is no time for it."""
        try:
            optima = relaxed_optima(self.problem, self.params, self._may_relax, self._program_seconds)
        except OutOfTimeError:
            return []
        ranked = [self._ranked(relaxed, self._left * RANKING / len(optima)) for relaxed in optima]
        # a member may be near both optima
        by_sizes = {
            (*member.sizes_words.items(), *member.fanouts.items()): member
            for rank in zip_longest(*ranked)
            for member in rank
            if member is not None
        }
        return list(by_sizes.values())

    def _ranked(self, relaxed: RelaxedOptimum, seconds: float) -> list[Member]:
        """The best members near a relaxed optimum.

        Ranking solves a program for each architecture, which could take all the time there is.
        """
        ranking = Deadline(seconds)
        found = Members(self.problem, relaxed, self.params).ranked(lambda: ranking.left)
        return found[: self.params.judged]

    def stated(self) -> Iterator[Judged]:
        """The family's base, or its smallest member if the base is too large: for when there is nothing
        better."""
        levels = {level.name: level for level in self.problem.family.base.levels}
        sizes = {
            name: size for name in self.problem.free_sizes if (size := levels[name].size_words) is not None
        }
        base = self.problem.member(sizes, {name: levels[name].fanout for name in self.problem.free_fanouts})
        fits = base.area_um2 <= self.problem.area_um2
        yield from self._judged_on(base if fits else smallest_member(self.problem), True)

    def in_time(self) -> bool:
        """Whether there is time left."""
        return self._left > 0

    @property
    def _left(self) -> float:
        return self.budget.wall_seconds - self.clock.wall_seconds

    def _may_relax(self) -> bool:
        """Whether half of the time is left. Raises OutOfTimeError when none is."""
        if not self.in_time():
            raise OutOfTimeError("not all layers have a program in time")
        # The programs only propose; what the answer costs depends on the mappings, so these get at least half
        # of the time.
        return self._left > self.budget.wall_seconds / 2

    def _program_seconds(self) -> float:
        """Wall seconds that the next program may take: until half of the time is left, or, for what has to be
        solved after that, half of what is left, so that some always is for mapping."""
        half = self._left - self.budget.wall_seconds / 2
        return max(LEAST_SECONDS, half if half > 0 else self._left / 2)

    def _judged_on(self, architecture: Architecture, in_any_case: bool) -> Iterator[Judged]:
        """The architecture with every layer mapped; nothing if a layer has no mapping, or, unless it is asked
        ``in_any_case``, if time ends the mapping.

        Instances that the mappings leave idle are removed, which costs nothing."""
        found: list[Mapping] = []
        unsearched = 0
        for weighted in self.problem.layers:
            problem = MappingProblem(architecture, weighted.layer, self.problem.objective)
            mapping = self._searched(problem, len(self.problem.layers) - len(found))
            if mapping is None and in_any_case:
                space = MappingSpace(architecture, weighted.layer, problem.rules)
                mapping = any_mapping(space, self.budget.seed)
                unsearched += 1
            if mapping is None:
                return
            found.append(mapping)
        solution = CodesignSolution(trimmed(self.problem, architecture, found), tuple(found))
        objective = objective_of(evaluated(self.problem, solution), self.problem.objective)
        yield Judged(objective, solution, unsearched)

    def _searched(self, problem: MappingProblem, layers_left: int) -> Mapping | None:
        """What the mapping solver finds in an equal part of the time left, so that no layer takes the others'
        time; None if it finds nothing, or no time is left."""
        if not self.in_time():
            return None
        mapper = solver(self.params.mapping_solver).load()
        seconds = max(LEAST_SECONDS, self._left / layers_left)
        outcome = mapper.solve(problem, Budget(seconds, seed=self.budget.seed), self.params.mapper_params())
        mapping: Mapping | None = outcome.solution
        return mapping
