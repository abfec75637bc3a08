"""The scratchpad problem with operators that may be cut: a cut, and a plan of the cut graph.

1. Where the graph fits whole, it is planned so first. A plan that moves no more than the bound for every cut
   ends the search.
2. Runs of operators are cut by rows that are kept, by rows that are recomputed, or by channels
   (:mod:`.segments`), in a few orders of the graph (:mod:`.orders`).
3. The cheapest cut's graph is planned: first in the order of its runs, with the best replacement and
   addresses, then by the solver that was asked for. Of a small graph some more cuts are planned so.

The bound is that of barriers and frontiers (:mod:`.bounds`), or the optimum of the finest cut, where that
is solved and no other can be better (:func:`_finest_is_best`). Both hold for all cuts; a proof of the solver
for another cut holds for that one, which the note says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import inf

from costmodel.scratchpad.cut import CutGraph, TensorCut, cut_graph, may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, RowWindow
from costmodel.scratchpad.plan import Plan, off_chip_bytes
from solvers.budget import Budget, Deadline, InTime, always_in_time
from solvers.outcome import Outcome, Status
from solvers.scratchpad.comparison import first_plan
from solvers.scratchpad.cutting.bounds import bounds_of_cuts
from solvers.scratchpad.cutting.orders import in_order, orders
from solvers.scratchpad.cutting.segments import CutRun, Cutting, RunSearch, Way
from solvers.scratchpad.cutting.two_sided import FIRST_ARENAS, two_sided_plans
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.packed import cheaper, packed
from solvers.scratchpad.problem import (
    ScratchpadProblem,
    answer,
    below_requirement,
    objective_of,
    unknown,
)
from solvers.scratchpad.replacement import Schedule

VERSION = "4"
BOUND_END, WHOLE_END, GROWN_END, IMPROVED_END = 0.2, 0.28, 0.42, 0.48
CUT_END, ARENA_END, REPLACED_END = 0.75, 0.87, 0.95
"""Fractions of the wall time at which the proofs of bounds, the solve of the whole graph, the first runs,
their improvement, and the search for other cuts end, and the plans of the best cut in the order of its runs:
first those of arenas, then those with the best replacement."""
MARGINS = (0.9, 0.95, 0.85, 0.8)
"""Parts of the scratchpad for which further cuts are looked for. What runs are played in has no addresses, so
leaving some of the scratchpad to the gaps between bands may move less in the end."""
PEAK_SHARE = 0.02
"""Of the wall time for the order of least peak."""
BANDS = (4, 16, 64)
"""Bands have at most the scratchpad's bytes divided by one of these."""
LARGEST_SINGLE, FINE_SINGLE = 8, 32
"""A single row or channel of more than the scratchpad's bytes divided by this is cut along the other axis."""
GROWN_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64)
WINDOW_LENGTHS = (1, 2, 3, 4, 6, 9, 13)
"""Operators of a run, and of the windows of a run that are cut in another way."""
PARTS, GROWN_PARTS = 32, (1, 2, 4)
"""Runs are first made of so many parts of the order, each of that many; then of single operators."""
FEW_PIECES = 60
"""Bands of a cut that is planned exactly besides the one that the search found."""
SINGLE_ROWS = Way("rows", 1, 1)

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
    bound, once = bounds_of_cuts(divisible, problem.capacity_bytes, _before(deadline, BOUND_END))
    best: Plan | None = None
    if problem.graph.required_bytes <= problem.capacity_bytes:
        outcome = solve(replace(problem, divisible=None), _until(deadline, WHOLE_END, budget.seed))
        best = outcome.solution
        if best is not None and objective_of(problem, best) <= bound:
            return answer(problem, best, bound, watch)
    tried = _Tried(problem, deadline, budget.seed, bound, solve, best)
    searched = None
    for cutting in _cuttings(problem, deadline, bound):
        searched = tried.better(searched, cutting)
        if tried.moved <= bound:
            break
    if searched is not None and tried.moved > bound:
        tried.plan(searched)
    for cutting in _of_few_pieces(problem):
        if tried.moved > tried.bound:
            tried.plan(cutting)
    if tried.best is None:
        late = "no cut was found of which every piece fits"
        return unknown(late if searched is None else "the cut was not planned in time", watch, tried.bound)
    note = tried.note
    if once > tried.bound:
        note = f"{note}; " * bool(note) + f"no plan that makes nothing twice moves less than {once} bytes"
    return answer(problem, tried.best, tried.bound, watch, note=note)


def _before(deadline: Deadline, fraction: float) -> InTime:
    """Whether this fraction of the time is not yet over."""
    return lambda: deadline.watch.wall_seconds < fraction * deadline.wall_seconds


def _until(deadline: Deadline, fraction: float, seed: int) -> Budget:
    """What is left until this fraction of the time; a millisecond where that is nothing."""
    seconds = fraction * deadline.wall_seconds - deadline.watch.wall_seconds
    return Budget(max(1e-3, seconds), seed=seed)


def _cuttings(problem: ScratchpadProblem, deadline: Deadline, bound: int) -> Iterator[Cutting]:
    """Cuts that move few bytes: of all of the graph in one way first, then of runs, then of windows of them.

    Every order is tried in parts, then one after the other from the best on in single operators. Then runs
    are looked for in less of the scratchpad than there is.
    """
    divisible, size = problem.divisible, problem.capacity_bytes
    assert divisible is not None
    single = max(1, size // LARGEST_SINGLE)
    rows = [Way("rows", max(1, size // bands), single) for bands in BANDS]
    fine = [way._replace(most_single=max(1, size // FINE_SINGLE)) for way in rows[1:]]
    channels = [Way("channels", way.most_bytes, single) for way in rows]
    grown = [*rows, *channels[:2]]
    searches = list[RunSearch]()
    for order in orders(problem.graph, PEAK_SHARE * deadline.wall_seconds):
        search = RunSearch(in_order(divisible, order), size, _before(deadline, IMPROVED_END))
        searches.append(search)
        _try_all(search, rows, bound)
        if not search.runs:
            _try_all(search, [SINGLE_ROWS, *channels], bound)
        edges = sorted({search.count * part // PARTS for part in range(PARTS + 1)})
        if search.cost[0] > bound:
            search.grow(grown, edges, GROWN_PARTS, _before(deadline, GROWN_END))
    for search in sorted(searches, key=lambda search: search.cost):
        if min(own.cost[0] for own in searches) > bound:
            singles = range(search.count + 1)
            search.grow([*grown, *fine], singles, GROWN_LENGTHS, _before(deadline, GROWN_END))
    searches.sort(key=lambda search: search.cost)
    best = searches[0]
    _try_all(best, [SINGLE_ROWS, *channels], bound)
    recomputed = [way._replace(recomputed=True) for way in (*rows, *channels)]
    best.improve([*rows, *fine, *recomputed, *channels], WINDOW_LENGTHS, bound)
    if (cutting := best.cutting()) is not None:
        yield cutting
    for search, margin in product(searches, MARGINS):
        if not _before(deadline, CUT_END)():
            return
        tighter = RunSearch(search.divisible, int(margin * size), _before(deadline, CUT_END))
        tighter.grow([*grown, *fine], range(search.count + 1), GROWN_LENGTHS, _before(deadline, CUT_END))
        if (cutting := tighter.cutting()) is not None:
            yield cutting


def _try_all(search: RunSearch, ways: list[Way], bound: int) -> None:
    """Cut all of the graph in one of these ways, where that moves less than what is known."""
    for way in ways:
        if search.cost[0] > bound:
            search.try_runs([CutRun(0, search.count, way)])


def _of_few_pieces(problem: ScratchpadProblem) -> Iterator[Cutting]:
    """Cuts of all of a small graph, of which some can be planned exactly.

    The finest first, which has every row of every channel for itself; then with all recomputed that can be,
    and coarser ones along one axis.
    """
    divisible = problem.divisible
    assert divisible is not None
    halves = [problem.capacity_bytes // parts for parts in BANDS]
    ways = [SINGLE_ROWS, *(Way(axis, max(1, most), 1) for most in halves for axis in ("rows", "channels"))]
    known = list[dict[str, TensorCut]]()
    finest = dict(_cuts_of(problem, SINGLE_ROWS))
    for cuts in (finest, _recomputed(problem, finest), *(dict(_cuts_of(problem, way)) for way in ways[1:])):
        if cuts not in known and sum(cut.rows * cut.channels for cut in cuts.values()) <= FEW_PIECES:
            known.append(cuts)
            yield Cutting(divisible, cuts, (), 0, 0)


def _recomputed(problem: ScratchpadProblem, finest: dict[str, TensorCut]) -> dict[str, TensorCut]:
    """The finest cut, but that tensors are recomputed, channel by channel, where they can be."""
    divisible = problem.divisible
    assert divisible is not None
    found = dict(finest)
    for number, tensor in enumerate(problem.graph.tensors):
        if may_recompute(divisible, number):
            found[tensor.name] = TensorCut(channels=finest[tensor.name].channels, recomputed=True)
    return found


def _cuts_of(problem: ScratchpadProblem, way: Way) -> Iterator[tuple[str, TensorCut]]:
    divisible = problem.divisible
    assert divisible is not None
    for tensor, extent in zip(problem.graph.tensors, divisible.extents, strict=True):
        yield tensor.name, way.cut(extent, tensor.traffic_bytes)


def _finest_is_best(divisible: DivisibleGraph) -> bool:
    """Whether no cut moves less than that with every row of every channel for itself.

    What a piece does in one step, the rows and channels in it can do one after the other at the addresses
    that they have in it: they read no more, and a sum so far lies where its last one will. So the finest cut
    can do whatever a coarser one can, if bands have no bytes of their own: neither padding to the alignment
    nor parts of a byte. A recomputed tensor is another matter, but where its reader's windows are single rows
    nothing of it is made again.
    """
    settings, graph = divisible.whole.settings, divisible.whole
    if settings.alignment_bytes > 1 or settings.bits_per_element % 8:
        return False
    for tensor in range(len(graph.tensors)):
        if may_recompute(divisible, tensor):
            reads = divisible.divisions[graph.consumers[tensor][0]].reads
            if any(read.tensor == tensor and read.window != RowWindow() for read in reads):
                return False
    return True


class _Tried:
    """The best plan so far, what it moves, and what is proven."""

    def __init__(
        self,
        problem: ScratchpadProblem,
        deadline: Deadline,
        seed: int,
        bound: float,
        solve: Solve,
        best: Plan | None,
    ) -> None:
        self.problem, self.deadline, self.seed = problem, deadline, seed
        self.bound, self.solve, self.best = bound, solve, best
        self.note = ""

    @property
    def moved(self) -> float:
        """Bytes of the best plan so far; infinitely many without one."""
        return inf if self.best is None else objective_of(self.problem, self.best)

    def better(self, best: Cutting | None, cutting: Cutting) -> Cutting:
        """The one of two cuts of which a first plan moves less; that of the new one is made here."""
        before = self.moved
        cut = cut_graph(cutting.divisible, cutting.cuts, cutting.stages)
        part = ScratchpadProblem(cut.graph, self.problem.budget_bytes)
        order = Schedule(GraphMasks.of(cut.graph), tuple(range(len(cut.graph.operators))))
        # They take little time, and whatever happens afterwards there is an answer.
        plan = two_sided_plans(part, order, self.bound, always_in_time, FIRST_ARENAS)
        self._keep(cutting, cut, cheaper(part, plan, first_plan(part, order, always_in_time)))
        return cutting if best is None or self.moved < before else best

    def _keep(self, cutting: Cutting, cut: CutGraph, plan: Plan | None, said: str = "") -> None:
        """Take a plan of a cut, if it moves less than the best one so far."""
        if plan is not None and off_chip_bytes(cut.graph, plan) < self.moved:
            self.best = replace(plan, cuts=tuple(sorted(cutting.cuts.items())))
            self.note = "; ".join(filter(None, (_said(cut), said)))

    def plan(self, cutting: Cutting) -> None:
        """Plan a cut: until fractions of the time in the order of its runs, then by the solver."""
        divisible = cutting.divisible
        cut = cut_graph(divisible, cutting.cuts, cutting.stages)
        part = ScratchpadProblem(cut.graph, self.problem.budget_bytes)
        # what comes late is left out, but without anything a first answer is due
        late = self.best is not None and not self.deadline.in_time()
        if late or cut.graph.required_bytes > part.capacity_bytes:
            return
        plan, said = None, ""
        if cutting.stages:
            order = Schedule(GraphMasks.of(cut.graph), tuple(range(len(cut.graph.operators))))
            plan = two_sided_plans(part, order, self.bound, _before(self.deadline, ARENA_END))
            if plan is None or off_chip_bytes(cut.graph, plan) > self.bound:
                exact = packed(part, [order], _until(self.deadline, REPLACED_END, self.seed), self.bound)
                plan = cheaper(part, exact, plan)
        if plan is None or off_chip_bytes(cut.graph, plan) > self.bound:
            outcome = self.solve(part, _until(self.deadline, 1.0, self.seed))
            if outcome.status is Status.OPTIMAL:
                said = f"no plan of this cut moves less than {outcome.objective:.0f} bytes"
                finest = all(
                    (own.rows, own.channels) == (extent.rows, extent.channels)
                    for tensor, extent in zip(divisible.whole.tensors, divisible.extents, strict=True)
                    for own in [cutting.cuts.get(tensor.name, TensorCut())]
                )
                if finest and _finest_is_best(divisible):
                    self.bound = max(self.bound, outcome.objective or 0)
            plan = cheaper(part, plan, outcome.solution)
        self._keep(cutting, cut, plan, said)


def _said(cut: CutGraph) -> str:
    """Into how much the graph is cut, and what is made twice."""
    whole = cut.divisible.whole
    said = f"{len(whole.operators)} operators are cut into {len(cut.graph.operators)} pieces"
    again, others = cut.recomputed_macs, cut.recomputed_elements
    if again:
        said += (
            f"; {again} multiply-accumulates are made again, {again / max(1, cut.macs - again):.1%} of all"
        )
    if others:
        said += f"; {others} elements of pooling and element-wise operators are made again"
    return said
