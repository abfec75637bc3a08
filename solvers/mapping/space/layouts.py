"""Layouts that a machine's file permits, for any mapping solver: which to solve, what is proven of others.

A mapping solver knows one layout of each tensor, the machine's. The space of a machine that permits others is
the union of its spaces over all *combinations*: one permitted layout for each role of the layer's tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper
from inspect import signature
from itertools import product
from math import inf
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from costmodel.hardware.timing import Layouts
from costmodel.mapping.uneven import AnyMapping, with_layouts
from solvers.budget import LEAST_SECONDS, Budget, Deadline, Stopwatch
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status, proven
from solvers.tolerance import sufficient_bound

Rest = ParamSpec("Rest")
MappingT = TypeVar("MappingT", bound=AnyMapping)
MappingSolve = Callable[Concatenate[MappingProblem, Budget, Rest], Outcome[MappingT]]


def over_layouts(solve: MappingSolve[Rest, MappingT]) -> MappingSolve[Rest, MappingT]:
    """Turns a solver for the machine's own layouts into one that also chooses among those that it permits.

    Problems without a choice it solves as before. With one, each combination is a problem of its own: the
    lowest bound first, the machine's own layouts before others of equal bound, and each with an equal part of
    the time that is left. A combination whose bound shows that it is not better (by more than the
    ``tolerance`` of the solver's params) is not solved. The outcome's bound is the least that is proven for
    any combination: by the solver if it solved it, else by the cost model. ``budget.iterations`` limits the
    solve of each by itself.
    """

    def chosen(
        problem: MappingProblem, budget: Budget, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Outcome[MappingT]:
        combinations = layout_choices(problem)
        if len(combinations) == 1:
            (own,) = combinations
            return solve(_in_layouts(problem, own), budget, *args, **kwargs)
        rest = signature(solve).bind(problem, budget, *args, **kwargs)
        tolerance = max(getattr(value, "tolerance", 0.0) for value in rest.arguments.values())
        if (start := rest.arguments.get("start")) is not None:
            # a mapping of the same loops begins the search of every combination
            rest.arguments["start"] = with_layouts(start, ())

        def solve_one(layouts: Layouts, its_budget: Budget) -> Outcome[MappingT]:
            rest.arguments |= {"problem": _in_layouts(problem, layouts), "budget": its_budget}
            return cast(Callable[..., Outcome[MappingT]], solve)(*rest.args, **rest.kwargs)

        return _over(problem, combinations, budget, solve_one, tolerance)

    update_wrapper(chosen, solve)
    return chosen


def layout_choices(problem: MappingProblem) -> list[Layouts]:
    """The layouts that mappings of the problem can have; the machine's own, the empty tuple, first.

    Only that one where layouts change nothing: without timing, and for an energy without leakage.
    """
    timing, levels = problem.architecture.timing, problem.architecture.levels
    leaks = any(level.leakage_pj_per_cycle for level in levels)
    if timing is None or not timing.permitted_layouts or (problem.objective == "energy" and not leaks):
        return [()]
    roles = list(dict.fromkeys(tensor.role for tensor in problem.layer.tensors))
    combinations = product(*(timing.choices(role) for role in roles))
    return [timing.others(dict(zip(roles, chosen, strict=True))) for chosen in combinations]


def _in_layouts(problem: MappingProblem, layouts: Layouts) -> MappingProblem:
    machine = problem.architecture.in_layouts(layouts)
    return problem if machine is problem.architecture else replace(problem, architecture=machine)


def _over(
    problem: MappingProblem,
    combinations: list[Layouts],
    budget: Budget,
    solve: Callable[[Layouts, Budget], Outcome[MappingT]],
    tolerance: float,
) -> Outcome[MappingT]:
    """Solve combination after combination: see :func:`over_layouts`."""
    clock, deadline = Stopwatch(), Deadline(budget.wall_seconds)
    bounds = {layouts: space_bound(_in_layouts(problem, layouts)) for layouts in combinations}
    solved: dict[Layouts, Outcome[MappingT]] = {}
    best: Layouts | None = None
    objective = inf
    waiting = sorted(combinations, key=bounds.__getitem__)
    for number, layouts in enumerate(waiting):
        # the first is solved even if the time is up: an answer that is late is better than none
        late = bool(solved) and deadline.left <= 0
        if late or bounds[layouts] >= sufficient_bound(objective, tolerance):
            break
        seconds = max(deadline.left, LEAST_SECONDS) / (len(waiting) - number)
        outcome = solve(layouts, replace(budget, wall_seconds=seconds))
        solved[layouts] = outcome
        if outcome.status is Status.INFEASIBLE:
            bounds[layouts] = inf
        elif outcome.bound is not None:
            bounds[layouts] = max(bounds[layouts], outcome.bound)
        if best is None or (outcome.objective is not None and outcome.objective < objective):
            best = layouts
            objective = inf if outcome.objective is None else outcome.objective
    assert best is not None
    return _outcome(solved, best, min(bounds.values()), len(combinations), clock)


def _outcome(
    solved: dict[Layouts, Outcome[MappingT]], best: Layouts, bound: float, of: int, clock: Stopwatch
) -> Outcome[MappingT]:
    """The outcome of the ``best`` combination of layouts, with the work and the bound of all ``solved`` ones.

    ``of``: how many combinations there are. A bound holds for all of them, so it is the least of theirs.
    """
    answer = solved[best]
    status, solution = answer.status, answer.solution
    if answer.objective is not None:
        status, bound = proven(answer.objective, min(bound, answer.objective))
    elif bound < inf:
        status = Status.UNKNOWN
    said = f"{len(solved)} of {of} combinations of layouts solved"
    changed: dict[str, Any] = {
        "status": status,
        "solution": None if solution is None else with_layouts(solution, best),
        "bound": None if bound == inf else bound,
        "cpu_seconds": clock.cpu_seconds,
        "wall_seconds": clock.wall_seconds,
        "evaluations": sum(outcome.evaluations for outcome in solved.values()),
        "note": "; ".join(filter(None, [answer.note, said])),
    }
    return replace(answer, **changed)
