"""The scratchpad problem with operators that may be cut: a cut, and a plan of the cut graph.

1. Where the graph fits whole, it is planned so first. A plan that moves no more than the bound for every cut
   ends the search.
2. Runs of operators are cut by rows that are kept, by rows that are recomputed, or by channels
   (:mod:`.segments`), in the order of the graph.
3. The cheapest cut's graph is planned: first in the order of its runs, with the best replacement and
   addresses, then by the solver that was asked for.

The bound is that of barriers (:mod:`.barriers`). It holds for all cuts; a proof of the solver holds for the
one cut that it was given, which the note says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from costmodel.scratchpad.cut import CutGraph, cut_graph
from costmodel.scratchpad.plan import Plan, off_chip_bytes
from solvers.budget import Budget, Deadline
from solvers.outcome import Outcome, Status
from solvers.scratchpad.cutting.barriers import barrier_bound
from solvers.scratchpad.cutting.segments import Cutting, Run, RunSearch, Way
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.packed import packed
from solvers.scratchpad.problem import (
    ScratchpadProblem,
    answer,
    below_requirement,
    cut_of,
    objective_of,
    unknown,
)
from solvers.scratchpad.replacement import Schedule

VERSION = "1"
WHOLE_END, GROWN_END, CUT_END, REPLACED_END = 0.2, 0.4, 0.6, 0.8
"""Fractions of the wall time at which the solve of the whole graph, the first runs, the search for cuts, and
the plan in their order end."""
BANDS = (4, 16, 64)
"""Bands have at most the scratchpad's bytes divided by one of these."""
LARGEST_SINGLE = 8
"""A single row or channel of more than the scratchpad's bytes divided by this is cut along the other axis."""
GROWN_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
WINDOW_LENGTHS = (1, 2, 3, 4, 6, 9, 13)
"""Operators of a run, and of the windows of a run that are cut in another way."""
MOST_PIECES = 20_000
"""Pieces of a cut of the whole graph beyond which it is not tried."""

Solve = Callable[[ScratchpadProblem, Budget], Outcome[Plan]]


def planned(
    problem: ScratchpadProblem, budget: Budget, solve: Callable[..., Outcome[Plan]], params: object
) -> Outcome[Plan]:
    """The answer of a solver and its parameters to a problem, of which the graph may be cut or may not."""
    if problem.divisible is None:
        return solve(problem, budget, params)
    return solve_cut(problem, budget, lambda part, left: solve(part, left, params))


def solve_cut(problem: ScratchpadProblem, budget: Budget, solve: Solve) -> Outcome[Plan]:
    """The best plan found of the graph, cut or whole; ``solve`` plans a graph as it is.

    INFEASIBLE: some piece of an operator needs more than the scratchpad in any cut. UNKNOWN: no cut was found
    of which every piece fits, or no plan of it in time.
    """
    deadline = Deadline(budget.wall_seconds)
    watch = deadline.watch
    divisible = problem.divisible
    assert divisible is not None
    if refused := below_requirement(problem, watch):
        return refused
    bound = barrier_bound(divisible, problem.capacity_bytes)
    best, notes = None, list[str]()
    if problem.graph.required_bytes <= problem.capacity_bytes:
        outcome = solve(replace(problem, divisible=None), _until(deadline, WHOLE_END, budget.seed))
        best = outcome.solution
        if best is not None and objective_of(problem, best) <= bound:
            return answer(problem, best, bound, watch)
    cutting = _cut(problem, deadline, bound)
    if cutting is not None and (best is None or cutting.moved < objective_of(problem, best)):
        cut = cut_graph(divisible, cutting.cuts, cutting.stages)
        plan, note = _planned(problem, cut, cutting, deadline, budget.seed, bound, solve)
        notes += [note] if note else []
        if plan is not None and (best is None or objective_of(problem, plan) < objective_of(problem, best)):
            best = plan
    if best is None:
        late = (
            "no cut was found of which every piece fits"
            if cutting is None
            else "the cut was not planned in time"
        )
        return unknown(late, watch, bound)
    used = cut_of(problem, best)
    if used is not None:
        notes.insert(0, _said(used))
    return answer(problem, best, bound, watch, note="; ".join(notes) if used is not None else "")


def _until(deadline: Deadline, fraction: float, seed: int) -> Budget:
    """What is left until this fraction of the time; a millisecond where that is nothing."""
    seconds = fraction * deadline.wall_seconds - deadline.watch.wall_seconds
    return Budget(max(1e-3, seconds), seed=seed)


def _cut(problem: ScratchpadProblem, deadline: Deadline, bound: int) -> Cutting | None:
    """The cheapest cut found, of all of the graph in one way first, then of runs, then of windows of them."""
    divisible, size = problem.divisible, problem.capacity_bytes
    assert divisible is not None
    watch, wall = deadline.watch, deadline.wall_seconds

    def before(fraction: float) -> bool:
        return watch.wall_seconds < fraction * wall

    search = RunSearch(divisible, size, range(len(problem.graph.operators)), lambda: before(CUT_END))
    single = max(1, size // LARGEST_SINGLE)
    rows = [Way("rows", max(1, size // bands), single) for bands in BANDS]
    rows.append(Way("rows", 1, 1))
    channels = [Way("channels", way.most_bytes, single) for way in rows[:3]]
    for way in (*rows, *channels):
        if search.cost[0] > bound and _pieces(problem, way) <= MOST_PIECES:
            search.try_runs([Run(0, len(search.order), way)])
    if search.cost[0] > bound:
        search.grow([*rows[:3], *channels[:1]], GROWN_LENGTHS, lambda: before(GROWN_END))
    recomputed = [way._replace(recomputed=True) for way in rows[:3]]
    search.improve([*rows[:3], *recomputed, *channels], WINDOW_LENGTHS, bound)
    return search.cutting()


def _pieces(problem: ScratchpadProblem, way: Way) -> int:
    """About how many pieces the graph has, cut in one way."""
    divisible = problem.divisible
    assert divisible is not None
    total = 0
    for tensor, extent in zip(problem.graph.tensors, divisible.extents, strict=True):
        cut = way.cut(extent, tensor.traffic_bytes)
        total += cut.rows * cut.channels
    return total


def _planned(
    problem: ScratchpadProblem,
    cut: CutGraph,
    cutting: Cutting,
    deadline: Deadline,
    seed: int,
    bound: int,
    solve: Solve,
) -> tuple[Plan | None, str]:
    """A plan of the cut graph with its cuts, and what is to be said about it."""
    part = ScratchpadProblem(cut.graph, problem.budget_bytes)
    order = Schedule(GraphMasks.of(cut.graph), tuple(range(len(cut.graph.operators))))
    plan = packed(part, [order], _until(deadline, REPLACED_END, seed), bound)
    note = ""
    if plan is None or off_chip_bytes(cut.graph, plan) > bound:
        outcome = solve(part, _until(deadline, 1.0, seed))
        other = outcome.solution
        if outcome.status is Status.OPTIMAL:
            note = f"no plan of this cut moves less than {outcome.objective:.0f} bytes"
        if other is not None and (plan is None or objective_of(part, other) < objective_of(part, plan)):
            plan = other
    if plan is None:
        return None, note
    return replace(plan, cuts=tuple(sorted(cutting.cuts.items()))), note


def _said(cut: CutGraph) -> str:
    """Into how much the graph is cut, and what is made twice."""
    whole = cut.divisible.whole
    said = f"{len(whole.operators)} operators are cut into {len(cut.graph.operators)} pieces"
    again = cut.recomputed_macs
    if not again:
        return said
    share = again / max(1, cut.macs - again)
    return f"{said}; {again} multiply-accumulates are made again, {share:.1%} of all"
