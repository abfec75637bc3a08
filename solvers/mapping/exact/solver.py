"""The exact mapper end to end: assignments best bound first, their loops by branch and bound, the outcome.

``solve`` is the solver. ``Solving`` is a solve in turns, which checks limits and makes the problem's tables.
``ExactSearch`` is the search itself: it takes one assignment after the other from ``Assignments``, searches
its loops with the compiled kernels, evaluates the leaves, and ends when no bound is below the best objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.divided_compiling import Call, Part, compile_divided
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.limits import Reached, limit_reached, recording
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import gemm
from solvers.budget import Budget, Deadline, Stopwatch
from solvers.divisors import divisors
from solvers.mapping.exact.aggregate import with_cycles
from solvers.mapping.exact.assignments import Assignments, StoppingRule
from solvers.mapping.exact.params import Params
from solvers.mapping.exact.parts import PartSpace, part_space
from solvers.mapping.exact.spatial import sides, spreads_to_search
from solvers.mapping.exact.tables import (
    Assignment,
    Nodes,
    Space,
    lattice_workspace,
    nodes_workspace,
    space_of,
)
from solvers.mapping.problem import MappingProblem, objective_of, objective_values, violations
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.space.starts import any_mapping
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, Status, noting_limits, proven, with_limits
from solvers.tolerance import SAME_COST, sufficient_bound

VERSION = "8"

Array = NDArray[Any]
MOST_VECTORS = 1_500_000
"""Tiles (vectors of divisors) of a layer that the tables can hold; at six levels each takes some 100
bytes."""

MOST_TABLES = 10_000_000
"""Tiles times tables, of uneven levels: these have a table for every part and set of tensors."""

NOT_SEARCHED = "and nothing was searched, for want of memory"

SLICE = 100_000
"""Nodes between two looks at the clock."""

SHORT_LIST = 256
"""Choices of spatial factors from which the first glance (``ExactSearch._glance``) takes its assignments."""

GLANCE_STEPS = 16
"""How often the first glance asks whether to go on, about once for each bound that it computes."""

GLANCE_SEARCHES = 2
"""Assignments whose loops the first glance searches."""
GLANCE_NODES = 4_000
"""Nodes that it opens before it looks at the clock, which ends the search of an assignment's loops."""

TINY = Architecture(
    "tiny",
    (StorageLevel("Buffer", 8, 16, 1.0, 1.0, 1.0), StorageLevel("DRAM", None, 16, 9.0, 9.0, 9.0)),
    Compute("MAC", 16, 1.0),
)
"""A machine for problems that are solved only to load the compiled code."""
_LOADED: set[bool] = set()
"""For which machines this process has loaded the compiled code: with timing (True), without (False)."""


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(
    problem: MappingProblem,
    budget: Budget,
    params: Params = Params(),  # noqa: B008
    start: AnyMapping | None = None,
) -> Outcome[AnyMapping]:
    """A mapping of the least objective that the problem's rules allow, proven: OPTIMAL and bound = objective.

    With ``params.tolerance`` the search ends, with the status FEASIBLE, once the best mapping is proven to be
    within it of the optimum. ``budget.iterations`` is the most assignments whose loops are searched. Of other
    statuses:

    * FEASIBLE: time, ``budget.iterations`` or memory (MOST_WAITING assignments wait) ended the search. The
      bound is the least over all parts of the space that are still open.
    * UNKNOWN: as before, and no mapping was found, nor any taken (:meth:`Solving._begin_with_any`). Or there
      was no search, as the layer has more than MOST_VECTORS tiles, MOST_TABLES tables or too many ways to
      spread: the bound is then the cost model's.
    * INFEASIBLE: the rules allow no mapping, or none fits the machine.

    The decorators ask once for each padded size and each choice of layouts that the rules allow. Where the
    timing's steps are those of an inner level, the problem is solved without timing and improved with it.

    ``start`` is an allowed mapping that is known already; the search looks only for better ones. Uneven
    mappings are searched from the best even one. Loading the compiled code, once in a process, is not on the
    clock.
    """
    return Solving(problem, params, budget.iterations).go_on(budget.wall_seconds, start)


class Solving:
    """A solve without padding that can be stopped when its time is up and continued later.

    :func:`solve` takes one turn; ``auto`` gives other solvers turns in between.
    """

    def __init__(
        self,
        problem: MappingProblem,
        params: Params = Params(),  # noqa: B008
        iterations: int | None = None,
        ceiling: float = inf,
    ) -> None:
        """``ceiling``: whoever asks has no use for mappings that cost as much or more. Where there is none
        below it, the outcome is UNKNOWN with the ceiling for its bound, often long before the optimum would
        be proven; even problems only."""
        assert ceiling == inf or not problem.rules.uneven, "only a search of even mappings can have a ceiling"
        self._problem, self._params, self._iterations = problem, params, iterations
        self._ceiling = ceiling
        self._even: Solving | None = None
        """The solve of the same problem with even mappings, whose best one the uneven search starts from; it
        gets half of each turn until it has ended. None for even problems."""
        self._search: ExactSearch | None = None
        self._limits: Reached = {}
        """The limits reached in all turns. Most are met by the tables, which only the first turn makes, but
        every outcome has to name them."""
        self.ended = False
        """Whether another turn would change nothing: the answer is proven, or something other than time ended
        the search."""

    def go_on(self, wall_seconds: float, start: AnyMapping | None = None) -> Outcome[AnyMapping]:
        """Search for ``wall_seconds``, for mappings better than ``start`` and than the best known.

        The first turn spends at most half of its time on tables and first bounds. Uneven problems search even
        mappings for half of what is left, until that search has ended.

        The outcome is what is known after this turn; its seconds and evaluations are those of this turn only.
        """
        _load(self._problem.architecture)
        clock = Stopwatch()
        before = self._evaluations
        with recording() as reached:
            outcome = self._turn(Deadline(wall_seconds), start)
        self._limits.update(reached)
        outcome = with_limits(outcome, self._limits)
        return replace(
            outcome,
            cpu_seconds=clock.cpu_seconds,
            wall_seconds=clock.wall_seconds,
            evaluations=self._evaluations - before,
        )

    @property
    def _evaluations(self) -> int:
        return 0 if self._search is None else self._search.evaluations

    def _turn(self, deadline: Deadline, start: AnyMapping | None) -> Outcome[AnyMapping]:
        self.ended = True
        if self._search is None and (refusal := self._begin(Deadline(deadline.left / 2))):
            return refusal
        assert self._search is not None
        if start is None and self._even is not None and not self._even.ended:
            start = self._even.go_on(deadline.left / 2).solution
        if start is not None and not violations(self._problem, start):
            self._search.begin_with(start)
        note = self._search.run(self._iterations, deadline.in_time)
        self.ended = not self._search.interrupted
        if self._search.best is None and self._search.interrupted:
            self._begin_with_any(self._search)
        return _outcome(self._problem, self._search, note)

    def _begin_with_any(self, search: ExactSearch) -> None:
        """Take some mapping as the best, since the time was up before the search found one: the first that is
        drawn at random, or else the one with all loops at the outermost level."""
        problem = self._problem
        space = MappingSpace(problem.architecture, problem.layer, problem.rules.even)
        if mapping := any_mapping(space):
            search.begin_with(mapping)

    def _begin(self, deadline: Deadline) -> Outcome[AnyMapping] | None:
        """Make the tables and the search (None), or the outcome that says why there are none.

        The bound on cycles and the first glance are left out if ``deadline`` leaves no time for them."""
        problem = self._problem
        if reason := obstacle(MappingSpace(problem.architecture, problem.layer, problem.rules.even)):
            return Outcome(Status.INFEASIBLE, None, None, None, 0.0, 0.0, reason)
        vectors = prod(len(divisors(size)) for _, size in problem.layer.dims)
        if vectors > MOST_VECTORS:
            limit_reached("tiles to tell apart", MOST_VECTORS, f"there are {vectors:,}, {NOT_SEARCHED}")
            return _unknown(problem)
        parts = part_space(problem)
        tables = vectors * parts.most_subsets * len(parts.part_levels)
        if not parts.is_even and tables > MOST_TABLES:
            there_are = f"there are {tables:,}, {NOT_SEARCHED}"
            limit_reached("tiles to tell apart in the parts of levels", MOST_TABLES, there_are)
            return _unknown(problem)
        factors, complete = spreads_to_search(parts.space)
        if factors is None:
            return _unknown(problem)
        self._search = ExactSearch(
            problem, parts, self._params, factors, deadline.in_time, self._ceiling, complete
        )
        if problem.rules.uneven:
            even = replace(problem, rules=problem.rules.even)
            self._even = Solving(even, self._params, self._iterations)
        return None


def _unknown(problem: MappingProblem) -> Outcome[AnyMapping]:
    """No mapping, and the cost model's bound."""
    return Outcome(Status.UNKNOWN, None, None, space_bound(problem), 0.0, 0.0)


def _load(architecture: Architecture) -> None:
    """Load the compiled code, once in a process for machines with timing and once for those without.

    Where there is none yet, processes that begin at the same time compile it together.
    """
    timed = architecture.timing is not None
    if timed in _LOADED:
        return
    _LOADED.add(timed)
    compile_divided(code(architecture))
    if not timed:
        _tiny_search(TINY, lambda: True).run(None, lambda: True)


def code(architecture: Architecture) -> tuple[Part, ...]:
    """The kernels for machines with or without timing, as ``architecture`` is.

    Both parts take about as long to compile.
    """
    return _tiny_search(TINY if architecture.timing is None else architecture, lambda: False).code()


def _tiny_search(architecture: Architecture, in_time: Callable[[], bool]) -> ExactSearch:
    """The search of a tiny layer: its arrays have the types that those of every layer have."""
    problem = MappingProblem(architecture, gemm("g", M=2, N=2, K=2), rules=SpaceRules("free"))
    factors = np.ones((1, len(architecture.levels), 3), np.int32)
    return ExactSearch(problem, part_space(problem), Params(), factors, in_time)


class ExactSearch:
    """The search of all assignments: the best mapping found, and a bound on all that is not searched yet.

    ``best`` and ``objective`` are that mapping and its cost, None and infinite at first. ``bound`` holds for
    all mappings. ``evaluations`` counts the mappings that the cost model evaluated.
    """

    def __init__(
        self,
        problem: MappingProblem,
        parts: PartSpace,
        params: Params,
        factors: Array,
        in_time: Callable[[], bool],
        ceiling: float = inf,
        complete: bool = True,
    ) -> None:
        """``complete``: whether ``factors`` are all ways to spread; otherwise they prove nothing."""
        self.complete = complete
        self._problem, self._parts, self.tolerance = problem, parts, params.tolerance
        self.ceiling = ceiling
        tables = space_of(problem, parts, params.dominance)
        size = int(np.prod(tables.divisor_count))
        lattice = lattice_workspace(tables, size)
        self._stopping = StoppingRule(params.tolerance, space_bound(problem))
        self._nodes: Nodes = nodes_workspace(tables, size)
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self.best: AnyMapping | None = None
        self.objective = inf
        self.bound = 0.0
        self.evaluations = 0
        self.interrupted = False
        """Whether nothing but time keeps the search from going on."""
        self._searched = 0
        self._visits = 0
        """How many nodes the search of the loaded assignment's loops may have opened at the next look at the
        clock; 0 if no such search has begun, or the last one has come to its end."""
        self._glance_ceiling = inf
        """Only mappings that cost less are looked for during the first glance."""
        self._tables: Space = with_cycles(problem, tables, parts.keeps, lattice, lambda: False)
        self._assignments = Assignments(self._tables, parts, lattice, _short_list(factors), self._stopping)
        if parts.is_even and in_time():
            self._glance(in_time)
        if not self._is_settled:
            self._tables = with_cycles(problem, tables, parts.keeps, lattice, in_time)
            self._assignments = Assignments(self._tables, parts, lattice, factors, self._stopping)

    def _glance(self, in_time: Callable[[], bool]) -> None:
        """Look among a few assignments for a mapping that the cost model's bound proves good enough.

        If one is found, which is common for cycles and with a tolerance, the bounds of all assignments need
        not be computed; there can be a million.
        """
        goal = self._stopping
        # A mapping above this is not proven by the cost model's bound, so the glance does not look for it.
        self._glance_ceiling = goal.floor * (1 + 2 * SAME_COST) / (1 - goal.tolerance)
        steps = iter(range(GLANCE_STEPS))

        def goes_on() -> bool:
            return next(steps, None) is not None and in_time()

        for _ in range(GLANCE_SEARCHES):
            if self._is_settled or not self._assignments.pop(self._limit, goes_on):
                break
            self._search_loops(lambda: False, GLANCE_NODES)
            self._visits = 0
        self._glance_ceiling = inf

    def code(self) -> tuple[Part, ...]:
        """The kernels, with arguments of this search: see :func:`code`."""
        from solvers.mapping.exact.kernels.search_kernel import begin, explore

        assignments = self._assignments
        close, *cheap = assignments.code()
        common = (self._tables, assignments.assignment, assignments.lattice, self._nodes, 0.0)
        loops = (Call(begin, common), Call(explore, (*common, 0)))
        # the part that takes a little longer comes first: a helper claims the second when it has started
        return (close, *self._evaluator.code()), (*loops, *cheap)

    @property
    def _is_settled(self) -> bool:
        """Whether the cost model's bound proves that the best mapping is good enough."""
        return sufficient_bound(self.objective, self.tolerance) <= self._stopping.floor

    @property
    def _limit(self) -> float:
        """Only mappings below this are looked for: others are not better than the best by more than the
        tolerance, or of no use."""
        return min(sufficient_bound(self.objective, self.tolerance), self.ceiling, self._glance_ceiling)

    def begin_with(self, mapping: AnyMapping) -> None:
        """Take an allowed mapping as the best one, if it is better than what is known."""
        evaluation = evaluate(self._problem.architecture, self._problem.layer, mapping)
        objective = objective_of(evaluation, self._problem.objective)
        if objective < self.objective:
            self.best, self.objective = mapping, objective

    def run(self, iterations: int | None, in_time: Callable[[], bool]) -> str:
        """Search until the best is proven; the result says what kept it from that, empty if nothing did.

        That can be ``iterations``, memory (too many assignments wait), or time: then ``interrupted`` is set,
        and the next run goes on from there.
        """
        self.interrupted = False
        while self._visits or self._assignments.bound < self._limit:
            if not self._visits:
                self.bound = min(self.objective, self._assignments.bound)
                if self._searched == iterations:
                    return f"not proven with {iterations} assignments of spatial factors searched, the limit"
                if not self._assignments.pop(self._limit, in_time):
                    if self._assignments.bound >= self._limit:
                        continue  # nothing is left to search: the loop ends
                    if self._assignments.full:
                        return "not proven"
                    self.interrupted = True
                    return "not proven in time"
                self._searched += 1
            if not self._search_loops(in_time):
                self.interrupted = True
                return "not proven in time"
        self.bound = self._limit
        return ""

    def _search_loops(self, in_time: Callable[[], bool], nodes_at_once: int = SLICE) -> bool:
        """Search the loops of the loaded assignment for better mappings; False if time ends that.

        Each round of the outer loop lets the kernel open ``nodes_at_once`` more nodes. The kernel hands over
        whenever its list of leaves is full, which the inner loop evaluates, and lets it go on with the new
        limit, until a round leaves no leaves: then its nodes are spent, or the search is over.
        """
        from solvers.mapping.exact.kernels.search_kernel import begin

        assignment, lattice, nodes = self._assignments.assignment, self._assignments.lattice, self._nodes
        if not self._visits:
            begin(self._tables, assignment, lattice, nodes, self._limit)
        ended = late = False
        while not ended and not late:
            self._visits += nodes_at_once
            while True:
                late = not self._explore(in_time)
                if not self._look_at_leaves() or late or self._is_settled:
                    break
            ended = self._is_settled or bool(nodes.level[0] == len(assignment.keep))
            late = late or not in_time()
        if ended:
            self._visits = 0
        return ended

    def _explore(self, in_time: Callable[[], bool]) -> bool:
        """Let the kernel search until leaves have to be evaluated or its nodes are spent; False if time ends
        that."""
        from solvers.mapping.exact.kernels.search_kernel import explore

        assignment, lattice, nodes = self._assignments.assignment, self._assignments.lattice, self._nodes
        while not explore(self._tables, assignment, lattice, nodes, self._limit, self._visits):
            if not in_time():
                return False
        return True

    def _look_at_leaves(self) -> bool:
        """Evaluate the leaves found and keep the best; False if there were none.

        Even mappings are evaluated as one batch. Uneven ones are evaluated one by one, the lowest bound
        first, and only as long as a bound is below the limit.
        """
        count = int(self._nodes.leaf_count[0])
        if not count:
            return False
        batch = leaves(self._parts, self._tables, self._assignments.assignment, self._nodes)
        self._nodes.leaf_count[0] = 0
        if self._parts.is_even:
            values = objective_values(self._evaluator.evaluate(batch), self._problem.objective)
            self.evaluations += count
            self._keep_better(float(values.min()), batch, int(values.argmin()))
            return True
        for row in np.argsort(self._nodes.leaf_bound[:count], kind="stable").tolist():
            if self._nodes.leaf_bound[row] >= self._limit:
                break
            self.evaluations += 1
            self._keep_better(self._evaluated(batch, row), batch, row)
        return True

    def _evaluated(self, batch: MappingBatch, row: int) -> float:
        """The objective of one leaf of an uneven space; the batch evaluator counts even mappings only."""
        mapping = self._parts.solution(batch.mapping(row, self._problem.layer))
        evaluation = evaluate(self._problem.architecture, self._problem.layer, mapping)
        return objective_of(evaluation, self._problem.objective)

    def _keep_better(self, value: float, batch: MappingBatch, row: int) -> None:
        if value < self.objective:
            self.objective = value
            self.best = self._parts.solution(batch.mapping(row, self._problem.layer))


def leaves(parts: PartSpace, tables: Space, assignment: Assignment, nodes: Nodes) -> MappingBatch:
    """The leaves that wait to be handed over, as a batch of mappings whose levels are the parts of levels."""
    space, count = parts.space, int(nodes.leaf_count[0])
    batch = MappingBatch.empty(count, space.architecture, space.layer)
    inside = nodes.leaf_vector[:count]
    batch.temporal[:, 0] = inside[:, 0]
    batch.temporal[:, 1:] = inside[:, 1:] // inside[:, :-1]
    batch.permutation[:, 0] = space.tables.order[0]
    batch.permutation[:, 1:] = tables.orders[nodes.leaf_order[:count, 1:]]
    for level, factors in enumerate(assignment.spatial):
        on_y = sides(space, level, factors)
        batch.spatial_x[:, level] = np.where(on_y, 1, factors)
        batch.spatial_y[:, level] = np.where(on_y, factors, 1)
    batch.keep[:] = (assignment.keep[:, None] >> np.arange(batch.keep.shape[2]) & 1) == 1
    return batch


def _short_list(factors: Array) -> Array:
    """The spatial factors that the first glance looks at, int32 [n, levels, dims], out of all.

    Half are the widest, which take the fewest compute cycles; the others are spaced evenly over the list."""
    widest = np.argsort(-factors.prod(axis=(1, 2), dtype=np.int64), kind="stable")[: SHORT_LIST // 2]
    spaced = np.arange(0, len(factors), max(1, 2 * len(factors) // SHORT_LIST))
    chosen: Array = factors[np.union1d(widest, spaced)]
    return chosen


def _outcome(problem: MappingProblem, search: ExactSearch, note: str) -> Outcome[AnyMapping]:
    """The outcome after a turn, its seconds and evaluations still 0; ``note`` as from ``ExactSearch.run``."""
    if search.best is None and not note and search.ceiling == inf and search.complete:
        note = f"none of the mappings of this space fits: {problem.rules.describe()}"
        return Outcome(Status.INFEASIBLE, None, None, None, 0.0, 0.0, note)
    everywhere = space_bound(problem)
    if search.best is None:
        bound = max(search.bound, everywhere) if search.complete else everywhere
        return Outcome(Status.UNKNOWN, None, None, bound, 0.0, 0.0, note)
    objective = objective_of(evaluate(problem.architecture, problem.layer, search.best), problem.objective)
    # A search that came to its end (no note) proved its bound against the batch evaluator's objective. This
    # one is summed in another order and may differ in its last digits, so the bound is derived from it.
    # A mapping at or above the ceiling can be found by the way, and then the search ended at the ceiling.
    reached = search.bound if note else min(sufficient_bound(objective, search.tolerance), search.ceiling)
    bound = max(reached, everywhere) if search.complete else everywhere
    status, bound = proven(objective, bound)
    note = "" if status is Status.OPTIMAL else note
    return Outcome(status, search.best, objective, bound, 0.0, 0.0, note)
