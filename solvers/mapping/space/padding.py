"""Padded dims for any mapping solver: which sizes to solve, in which order, what is proven of the rest."""

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

SEARCH_SHARE = 0.05
"""Of the time that is left for finding the promising sizes of one dim, of which there may be millions."""

SHARES = (8, 2)
"""Of the time that is left a size gets a share when it is its turn, and a larger one if it was not proven."""


def over_padded_sizes(solve: MappingSolve[Rest, MappingT]) -> MappingSolve[Rest, MappingT]:
    """A solver for perfect factors, made one that also pads.

    Without padding it is the solver itself. With padding it solves one size after the other: the layer's own,
    then, as long as that is an improvement, those that differ from the best in one dim
    (:func:`promising_sizes`), the lowest bound first, and none whose bound is above the best. If the solver
    has proven more about most of them than the cost model's bounds say, it goes on with all other sizes, in
    the order of their bounds, which are found by cutting the sizes into boxes, until none can be better (by
    more than the ``tolerance`` of the solver's params) or the time is up. The bound is the least that is
    proven for any size: by the solver where it ran, else by the cost model for its box.
    ``budget.iterations`` is for the solve of each size.
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
    """The sizes solved so far, and the best of their answers."""

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
        """The least bound of sizes whose turns were not enough."""
        self._solved: dict[Sizes, Outcome[MappingT]] = {}
        self._turns: Counter[Sizes] = Counter()
        self._learned_more: set[Sizes] = set()
        self._cut_short: set[Sizes] = set()
        self._bounds: dict[Sizes, float] = {}
        self._best = self._own

    def run(self) -> Outcome[MappingT]:
        """Solve sizes until none can be better or the time is up: see :func:`over_padded_sizes`."""
        self._look_at(self._own, share=2)
        while self._improved():
            pass
        while self._open.bound < self._limit and self._in_time():
            if not self._proves and self._open.bound >= self._left:
                break  # nothing more will be solved, and no other box keeps the bound down
            self._look_into(self._open.pop())
        return self._outcome()

    def _improved(self) -> bool:
        """Whether some size that differs from the best in one dim is better; then that is the best."""
        before = self._best
        neighbours = sorted(self._neighbours(before), key=self._bound)
        for number, sizes in enumerate(neighbours):
            if self._bound(sizes) >= self._limit or not self._in_time():
                break
            self._look_at(sizes, share=len(neighbours) - number + 1)
        return self._best != before and self._in_time()

    @cached_property
    def _promising(self) -> list[list[int]]:
        """Per dim the sizes to try; looking for those of a dim may take a part of the time that is left."""
        found = []
        for dim, _ in self._problem.layer.dims:
            search = Deadline((self._budget.wall_seconds - self._clock.wall_seconds) * SEARCH_SHARE)
            found.append(promising_sizes(self._problem, dim, search.in_time))
        return found

    def _neighbours(self, sizes: Sizes) -> Iterator[Sizes]:
        for place, choices in enumerate(self._promising):
            for size in choices:
                changed = (*sizes[:place], size, *sizes[place + 1 :])
                if changed not in self._solved:
                    yield changed

    def _look_into(self, box: SizeBox) -> None:
        """Cut the box in two; if it is one size, solve that, unless it had its turns."""
        if not box.is_one_size:
            for half in box.halves():
                self._open.add(half)
            return
        turn, asked = self._turns[box.low], box.low in self._solved
        may_learn = not asked or box.low in self._cut_short
        if may_learn and self._proves and turn == len(SHARES):
            effect = "what was proven of some sizes by then stands"
            limit_reached("solves of a padded size", len(SHARES), effect)
        if may_learn and self._proves and turn < len(SHARES):
            self._look_at(box.low, SHARES[turn])
            self._turns[box.low] += 1
            self._open.add(box, self._lowest(box.low))
        else:
            self._left = min(self._left, self._lowest(box.low))

    @property
    def _proves(self) -> bool:
        """Whether the solver mostly proves more than the cost model's bounds say."""
        return 2 * len(self._learned_more) > len(self._solved)

    def _look_at(self, sizes: Sizes, share: int) -> None:
        """Solve one size in a ``share``-th of the time that is left."""
        left = max(self._budget.wall_seconds - self._clock.wall_seconds, 1e-3)
        budget = replace(self._budget, wall_seconds=left / share)
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
        if sizes not in self._bounds:
            self._bounds[sizes] = self._open.bound_of(SizeBox(sizes, sizes))
        return self._bounds[sizes]

    @property
    def _objective(self) -> float:
        best = self._solved.get(self._best)
        return inf if best is None or best.objective is None else best.objective

    @property
    def _limit(self) -> float:
        """What has a bound below is still looked into."""
        return sufficient_bound(self._objective, self._tolerance)

    def _in_time(self) -> bool:
        return self._clock.wall_seconds < self._budget.wall_seconds

    def _lowest(self, sizes: Sizes) -> float:
        """No mapping of these sizes costs less, as far as that is known by now."""
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
    """The better answer and the better bound of two solves of one size."""
    if before is None or now.status is Status.INFEASIBLE:
        return now
    worse = before.objective is not None and (now.objective is None or now.objective > before.objective)
    bounds = [outcome.bound for outcome in (before, now) if outcome.bound is not None]
    return replace(before if worse else now, bound=max(bounds, default=None))
