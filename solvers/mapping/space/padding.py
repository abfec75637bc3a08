"""Padded dims for any mapping solver: which sizes to solve, in which order, and what is proven of the others.

*Sizes* here are one size for each dim of the layer, each within the padding. A mapping solver knows only
perfect factors; the padded space is the union of its spaces over all sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, update_wrapper
from math import inf
from typing import Concatenate, Generic, ParamSpec, TypeVar

from costmodel.limits import limit_reached
from costmodel.mapping.uneven import AnyMapping
from solvers.budget import Budget, Deadline, Stopwatch
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.padded_sizes import (
    OpenBoxes,
    SizeBox,
    Sizes,
    at_sizes,
    count_sizes,
    promising_sizes,
)
from solvers.outcome import Outcome, Status, noting_limits, proven
from solvers.tolerance import sufficient_bound, within_tolerance

Rest = ParamSpec("Rest")
MappingT = TypeVar("MappingT", bound=AnyMapping)
MappingSolve = Callable[Concatenate[MappingProblem, Budget, Rest], Outcome[MappingT]]

PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)

SEARCH_FRACTION = 0.05
"""Fraction of the time left that finding the promising sizes of one dim may take, of maybe millions."""

SOLVE_DIVISORS = (8, 2)
"""The divisors of the time left in the first and in the second solve of a size while the proof is made: an
eighth of it, then, if that proved too little, half. More solves than these a size does not get."""


def over_padded_sizes(solve: MappingSolve[Rest, MappingT]) -> MappingSolve[Rest, MappingT]:
    """Turns a solver for perfect factors into one that also pads; problems without padding it solves as
    before.

    With padding, sizes are solved one after the other in two phases:

    1. *Descent.* The layer's own sizes come first. Then come those that differ from the best so far in one
       dim (:func:`promising_sizes`), the lowest bound first and only with a bound below the best, again and
       again as long as that is an improvement.
    2. *Proof.* All other sizes, in the order of their bounds: boxes of sizes have a bound each, and are cut
       in two until they are one size. It ends when none can be better (by more than the ``tolerance`` of the
       solver's params) or the time is up. Sizes are solved in this phase only if the solver proved more than
       the cost model's bounds about most sizes so far; otherwise solving them would prove nothing.

    The outcome's bound is the least that is proven for any sizes: by the solver if it solved them, else by
    the cost model for their box. ``budget.iterations`` limits the solve of each size by itself.
    """

    def padded(
        problem: MappingProblem, budget: Budget, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Outcome[MappingT]:
        if not problem.rules.padding:
            return solve(problem, budget, *args, **kwargs)

        def solve_one(size: MappingProblem, its_budget: Budget) -> Outcome[MappingT]:
            return told(size, its_budget, *args, **kwargs)

        tolerances = [getattr(argument, "tolerance", 0.0) for argument in (*args, *kwargs.values())]
        return PaddedSearch(problem, budget, solve_one, max(tolerances, default=0.0)).run()

    told = noting_limits(solve)
    update_wrapper(padded, solve)
    return padded


class PaddedSearch(Generic[MappingT]):
    """The two phases of :func:`over_padded_sizes`: the sizes solved so far, and the best of their answers."""

    def __init__(
        self,
        problem: MappingProblem,
        budget: Budget,
        solve: Callable[[MappingProblem, Budget], Outcome[MappingT]],
        tolerance: float = 0.0,
    ) -> None:
        self._problem, self._budget, self._solve = problem, budget, solve
        self._tolerance = tolerance
        self._clock = Stopwatch()
        self._own: Sizes = tuple(size for _, size in problem.layer.dims)
        self._count = count_sizes(problem)
        self._open = OpenBoxes(problem)
        self._left = inf
        """The least bound of the sizes that are not solved again, though they may still be better."""
        self._solved: dict[Sizes, Outcome[MappingT]] = {}
        self._turns: Counter[Sizes] = Counter()
        # Sizes of which the solver has proven more than the cost model's bound says; and those whose last
        # solve was ended by its time, so that a longer one may prove more.
        self._learned_more: set[Sizes] = set()
        self._cut_short: set[Sizes] = set()
        self._bounds: dict[Sizes, float] = {}
        self._best = self._own

    def run(self) -> Outcome[MappingT]:
        """Solve sizes until none can be better or the time is up: see :func:`over_padded_sizes`."""
        self._look_at(self._own, divisor=2)
        while self._improved():
            pass
        while self._open.bound < self._limit and self._in_time():
            if not self._proves and self._open.bound >= self._left:
                break  # nothing more will be solved, and no other box keeps the bound down
            self._look_into(self._open.pop())
        return self._outcome()

    def _improved(self) -> bool:
        """Solve sizes that differ from the best in one dim; True if one is better, which is then the best."""
        before = self._best
        neighbours = sorted(self._neighbours(before), key=self._bound)
        for number, sizes in enumerate(neighbours):
            if self._bound(sizes) >= self._limit or not self._in_time():
                break
            self._look_at(sizes, divisor=len(neighbours) - number + 1)
        return self._best != before and self._in_time()

    @cached_property
    def _promising(self) -> list[list[int]]:
        """For each dim the sizes to try, each list found in a fraction of the time left
        (``SEARCH_FRACTION``)."""
        found = []
        for dim, _ in self._problem.layer.dims:
            search = Deadline((self._budget.wall_seconds - self._clock.wall_seconds) * SEARCH_FRACTION)
            found.append(promising_sizes(self._problem, dim, search.in_time))
        return found

    def _neighbours(self, sizes: Sizes) -> Iterator[Sizes]:
        """All sizes not solved yet that have another promising size in one dim and are else ``sizes``."""
        for position, choices in enumerate(self._promising):
            for size in choices:
                changed = (*sizes[:position], size, *sizes[position + 1 :])
                if changed not in self._solved:
                    yield changed

    def _look_into(self, box: SizeBox) -> None:
        """Cut the box in two, or if it is a single size, solve that and put it back with its new bound.

        A size that had all its solves, or of which another would prove nothing more, is not put back; its
        bound is remembered in ``_left``."""
        if not box.is_one_size:
            for half in box.halves():
                self._open.add(half)
            return
        turn, asked = self._turns[box.low], box.low in self._solved
        may_learn = not asked or box.low in self._cut_short
        if may_learn and self._proves and turn == len(SOLVE_DIVISORS):
            effect = "what was proven of some sizes by then stands"
            limit_reached("solves of a padded size", len(SOLVE_DIVISORS), effect)
        if may_learn and self._proves and turn < len(SOLVE_DIVISORS):
            self._look_at(box.low, SOLVE_DIVISORS[turn])
            self._turns[box.low] += 1
            self._open.add(box, self._lowest(box.low))
        else:
            self._left = min(self._left, self._lowest(box.low))

    @property
    def _proves(self) -> bool:
        """Whether the solver proved more than the cost model's bounds about more than half of the sizes."""
        return 2 * len(self._learned_more) > len(self._solved)

    def _look_at(self, sizes: Sizes, divisor: int) -> None:
        """Solve one size; its time is the time left divided by ``divisor``."""
        left = max(self._budget.wall_seconds - self._clock.wall_seconds, 1e-3)
        budget = replace(self._budget, wall_seconds=left / divisor)
        outcome = self._solve(at_sizes(self._problem, sizes), budget)
        self._solved[sizes] = _learned(self._solved.get(sizes), outcome)
        ended = outcome.status in PROVEN
        if ended or not within_tolerance(self._lowest(sizes), self._bound(sizes), 0.0):
            self._learned_more.add(sizes)
        self._cut_short.discard(sizes)
        if not ended and outcome.wall_seconds >= budget.wall_seconds:
            self._cut_short.add(sizes)
        if outcome.objective is not None and outcome.objective < self._objective:
            self._best = sizes

    def _bound(self, sizes: Sizes) -> float:
        """The cost model's lower bound for mappings of these sizes."""
        if sizes not in self._bounds:
            self._bounds[sizes] = self._open.bound_of(SizeBox(sizes, sizes))
        return self._bounds[sizes]

    @property
    def _objective(self) -> float:
        best = self._solved.get(self._best)
        return inf if best is None or best.objective is None else best.objective

    @property
    def _limit(self) -> float:
        """Only sizes with a bound below this are looked into."""
        return sufficient_bound(self._objective, self._tolerance)

    def _in_time(self) -> bool:
        return self._clock.wall_seconds < self._budget.wall_seconds

    def _lowest(self, sizes: Sizes) -> float:
        """The best lower bound known by now for mappings of these sizes; infinite if there are none."""
        outcome = self._solved.get(sizes)
        if outcome is None or (outcome.bound is None and outcome.status is not Status.INFEASIBLE):
            return self._bound(sizes)
        return inf if outcome.bound is None else outcome.bound

    def _outcome(self) -> Outcome[MappingT]:
        best, bound = self._solved[self._best], min(self._open.bound, self._left)
        if best.objective is None:
            status = Status.INFEASIBLE if bound == inf else Status.UNKNOWN
        else:
            status, bound = proven(best.objective, min(bound, best.objective))
        solved = f"{len(self._solved)} of {self._count} padded sizes solved"
        return replace(
            best,
            status=status,
            bound=None if bound == inf else bound,
            cpu_seconds=self._clock.cpu_seconds,
            wall_seconds=self._clock.wall_seconds,
            evaluations=sum(outcome.evaluations for outcome in self._solved.values()),
            note="; ".join(part for part in (best.note, solved) if part),
        )


def _learned(before: Outcome[MappingT] | None, now: Outcome[MappingT]) -> Outcome[MappingT]:
    """What two solves of the same sizes found together: the better answer with the higher bound."""
    if before is None or now.status is Status.INFEASIBLE:
        return now
    worse = before.objective is not None and (now.objective is None or now.objective > before.objective)
    bounds = [outcome.bound for outcome in (before, now) if outcome.bound is not None]
    return replace(before if worse else now, bound=max(bounds, default=None))
