"""The segments worth looking at: conservatively pruned, and costed in full where they are promising."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from solvers.schedule.kapla.chains import likely_segments
from solvers.schedule.kapla.costing import Costing, Limit
from solvers.schedule.kapla.estimate import Cost, Estimates
from solvers.schedule.kapla.segments import Segment, Slicing


@dataclass(frozen=True)
class Valid:
    """A segment's sub-batches that may fit, and the least that it costs with any of them."""

    subbatches: tuple[int, ...]
    least: Cost


def valid_segments(slicing: Slicing, estimates: Estimates) -> dict[Segment, Valid]:
    """Conservative validity pruning: the segments that may fit, with their optimistic costs."""
    found, every = {}, slicing.subbatches()
    for segment in slicing.segments():
        fitting = every
        if slicing.params.prune:
            fitting = tuple(parts for parts in every if estimates.may_fit(segment, parts))
        if fitting:
            found[segment] = Valid(fitting, estimates.least(segment, fitting[-1]))
    return found


@dataclass
class Candidates:
    """The ``valid`` segments of ``slicing``, more and more of them costed in full."""

    slicing: Slicing
    valid: dict[Segment, Valid]
    costing: Costing
    _costed: set[Segment] = field(default_factory=set)

    def cost_likely(self, limit: Limit) -> None:
        """Cost the last segments of the best chains; then rank chains anew with what that showed, and again.

        It ends when no segment of theirs is new, with the rounds, or with the limit. Optimistic costs make
        segments look better than they are, and some do not fit after all: those give way to others.
        """
        rounds = self.slicing.params.rounds
        while (new := self._likely()) and not limit.reached:
            self.costing.cost(self._with_subbatches(new), limit)
            self._costed.update(new)
            rounds -= 1
            if rounds == 0:
                break

    def _likely(self) -> list[Segment]:
        """Segments not yet costed in full; all of them if chains are not ranked."""
        chosen, problem = list(self.valid), self.slicing.problem
        if most := self.slicing.params.chains:
            chosen = likely_segments(self._costs(), len(problem.graph.layers), problem.objective, most)
        return [segment for segment in chosen if segment not in self._costed]

    def _costs(self) -> dict[Segment, Cost]:
        """Of every segment the best that is known: counted in full, else estimated; none if not possible."""
        costs, objective = {}, self.slicing.problem.objective
        for segment, one in self.valid.items():
            found = list(self.costing.found.get(segment, {}).values())
            if segment not in self._costed:
                costs[segment] = one.least
            elif found:
                costs[segment] = min(found, key=lambda cost: objective.value(cost.energy_pj, cost.cycles))
        return costs

    def _with_subbatches(self, segments: list[Segment]) -> Iterator[tuple[Segment, int]]:
        """With every number of sub-batches that may fit: the best of them counts, not the first."""
        return ((segment, parts) for segment in segments for parts in self.valid[segment].subbatches)
