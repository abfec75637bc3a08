"""COSMA's problem, exactly: order, allocation and replacement together, proven (Sections III and IV).

0. A plan in the graph's own order is made first, within milliseconds: it is the answer where nothing cheaper
   comes.
1. The graph is divided into serial parts (:mod:`solvers.scratchpad.parts`). Each is searched best first,
   equal parts once. The sum of the parts' optima is a lower bound for the problem with addresses.
2. A part whose search is not finished by then, and of which many operators are alike, is searched by how many
   of them ran instead of which (:mod:`.counts`). That gives another bound, and an order.
3. If a part is still not finished, it gets an order by divide and conquer. The cheapest order prunes the rest
   of the search, and the part counts with the highest bound that its searches reach.
4. Replacement is solved again for the whole order, and its tensors are packed (Eqs. 9-11). Where that
   succeeds at the cost of the lower bound, the plan is globally optimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import inf

from costmodel.limits import limit_reached
from costmodel.scratchpad.plan import Plan
from solvers.budget import LEAST_SECONDS, Budget, Deadline, Stopwatch
from solvers.checks import check_switches
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad import divide
from solvers.scratchpad.comparison import first_plan
from solvers.scratchpad.cosma.classes import Classes
from solvers.scratchpad.cosma.counts import CountedSearch, named
from solvers.scratchpad.cosma.search import PlanSearch, Switches, operators_of, start
from solvers.scratchpad.masks import GraphMasks, bits
from solvers.scratchpad.packed import cheaper, packed
from solvers.scratchpad.parts import Part, at_positions, positions, same_problem, serial_parts
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, infeasible, unknown
from solvers.scratchpad.replacement import Replacement, Schedule, best_replacement

VERSION = "9"
FIRST_SEARCH_END, COUNTS_END, DIVIDE_END, SEARCH_END = 0.1, 0.4, 0.5, 0.8
"""Fractions of the wall time at which the first search, that of counts, divide and conquer, and the second
search end.

Divide and conquer rarely takes all of its own, and leaves the rest to the second search. On a busy machine it
needs it: what it finds in half of its time may be much dearer, where no proof would have been found anyway.
"""
ESTIMATE_END = 0.25
"""Fraction of the wall time at which no search prepares its estimate any further."""
ALIKE = 4
"""Operators of a class, on average, from which on a part is searched by counts."""
ORDERS = 4
"""Orders of equal cost, the first one among them, whose tensors are tried to be packed."""


@dataclass(frozen=True)
class Params:
    """The settings of one solve; all are switches.

    ``safe_moves``, ``dominance``, ``safe_chains``, ``estimate``, ``safe_first``, ``late_chains`` and
    ``twins`` are the search's (:class:`.Switches`). ``serial_parts`` off searches the graph whole. ``counts``
    off searches no part by how many of its operators that are alike ran, instead of which. ``divide``
    off ends after the first searches, and leaves a part that they do not finish without an order: the answer
    is then the plan in the graph's own order, with the bound of the searches.
    """

    safe_moves: bool = True
    dominance: bool = True
    serial_parts: bool = True
    divide: bool = True
    safe_chains: bool = True
    estimate: bool = True
    safe_first: bool = True
    late_chains: bool = True
    twins: bool = True
    counts: bool = True

    def __post_init__(self) -> None:
        check_switches("cosma", self, *(field.name for field in fields(self)))


@dataclass
class _Ordering:
    """A part being ordered: the search, and what is known so far."""

    part: Part
    search: PlanSearch
    order: tuple[int, ...] | None = None
    cost: float = inf
    finished: bool = False
    counted_bound: float = 0.0
    """What the search of counts proved."""

    @property
    def bound(self) -> float:
        """A proven lower bound on the part's bytes."""
        proven = max(self.search.bound, self.counted_bound)
        return self.cost if self.finished else min(proven, self.cost)

    def take(self, order: tuple[int, ...], cost: float) -> None:
        """Keep an order that costs less than the one known; at its bound's cost the part is finished."""
        if cost < self.cost:
            self.order, self.cost = order, cost
        self.finished = self.finished or self.cost <= self.bound

    def advance(self, wall_seconds: float) -> None:
        """Search on; finished once the cheapest way through the part is known to be."""
        self.search.tighten(self.cost)
        reached = self.search.run(wall_seconds)
        if reached is not None:
            self.order, self.cost = operators_of(reached.path), reached.state.cost
        self.finished = reached is not None or self.search.exhausted


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The proven optimum; at the limits the best plan found with the bound proven by then.

    INFEASIBLE: an operator by itself needs more than ``problem.budget_bytes`` (they are below MR), or no
    order keeps an operator and what must be live beside it within these bytes. UNKNOWN: the first plan, in
    the graph's own order, was not made, and either ``budget.wall_seconds`` ended before there was an order,
    or the tensors of no order that was tried could be packed. ``budget.iterations`` is not used.
    """
    deadline = Deadline(budget.wall_seconds)
    watch = deadline.watch
    if refused := below_requirement(problem, watch):
        return refused
    masks = GraphMasks.of(problem.graph)
    own_order = Schedule(masks, tuple(range(len(problem.graph.operators))))
    # A plan within milliseconds: whatever happens to the searches, there is an answer at the end.
    first = first_plan(problem, own_order, deadline.in_time)
    run = _CosmaRun(problem, masks, budget, params, watch)
    run.order_parts()
    if stuck := run.stuck():
        return infeasible(f"no order keeps operator {stuck} and what must be live within the budget", watch)
    bound = float(run.bound)
    ordered = all(ordering.order is not None for ordering in run.orderings)
    plan = packed(problem, run.schedules(), run.left(1.0), bound) if ordered else None
    best = cheaper(problem, plan, first)
    if best is None:
        late = "the search did not reach the end of the graph in time"
        return unknown("the plan's tensors could not be packed in time" if ordered else late, watch, bound)
    return answer(problem, best, bound, watch)


class _CosmaRun:
    """One solve: the distinct parts, ordered as far as the time allows."""

    def __init__(
        self,
        problem: ScratchpadProblem,
        masks: GraphMasks,
        budget: Budget,
        params: Params,
        watch: Stopwatch,
    ) -> None:
        self.problem, self.budget, self.params, self.watch = problem, budget, params, watch
        self.masks = masks
        whole = [Part(start(self.masks), self.masks.all_operators)]
        self.parts = serial_parts(self.masks) if params.serial_parts else whole
        self.kinds = [same_problem(self.masks, part) for part in self.parts]
        firsts = dict[object, Part]()
        for kind, part in zip(self.kinds, self.parts, strict=True):
            # Repeated blocks of a network are the same problem: one search serves all of them.
            firsts.setdefault(kind, part)
        self.by_kind = {kind: _Ordering(part, self._search(part, 0)) for kind, part in firsts.items()}

    def _search(self, part: Part, seed: int) -> PlanSearch:
        own = self.params
        switches = Switches(
            own.safe_moves,
            own.dominance,
            seed,
            own.safe_chains,
            own.estimate,
            own.safe_first,
            own.late_chains,
            own.twins,
        )
        capacity, prepare = self.problem.capacity_bytes, self.left(ESTIMATE_END).wall_seconds
        in_time = Deadline(prepare).in_time
        return PlanSearch(self.masks, capacity, [part.start], part.goal, switches, in_time)

    @property
    def orderings(self) -> list[_Ordering]:
        """One for each part, first to last; equal parts have the same."""
        return [self.by_kind[kind] for kind in self.kinds]

    @property
    def bound(self) -> float:
        return sum(ordering.bound for ordering in self.orderings)

    def left(self, fraction: float) -> Budget:
        """What is left until this fraction of the wall time; a millisecond where that is nothing."""
        seconds = fraction * self.budget.wall_seconds - self.watch.wall_seconds
        return Budget(max(LEAST_SECONDS, seconds), seed=self.budget.seed)

    def order_parts(self) -> None:
        self._advance(FIRST_SEARCH_END)
        if self.params.counts:
            self._count()
        if not self._unfinished() or not self.params.divide:
            return
        self._divide()
        self._advance(SEARCH_END)

    def _unfinished(self) -> list[_Ordering]:
        return [ordering for ordering in self.by_kind.values() if not ordering.finished]

    def _advance(self, end: float) -> None:
        # Small parts first: they finish within their part of the time, and what they leave over goes to the
        # large ones, since each gets an equal part of what is left.
        waiting = sorted(self._unfinished(), key=lambda ordering: ordering.part.operators.bit_count())
        for done, ordering in enumerate(waiting):
            ordering.advance(self.left(end).wall_seconds / (len(waiting) - done))

    def _count(self) -> None:
        """Bounds and orders for unfinished parts of many operators that are alike."""
        waiting = [
            (ordering, classes) for ordering in self._unfinished() if (classes := self._classes(ordering))
        ]
        for done, (ordering, classes) in enumerate(waiting):
            seconds = self.left(COUNTS_END).wall_seconds / (len(waiting) - done)
            search = CountedSearch(classes, self.problem.capacity_bytes)
            way = search.run(Deadline(seconds).in_time)
            ordering.counted_bound, ordering.finished = search.bound, search.bound == inf
            if way is not None:
                ordering.order = named(self.masks, classes, way, ordering.part.start.state.executed)
        if all(ordering.order is None for ordering in self._unfinished()):
            return
        schedule = self._schedule([one.order or tuple(bits(one.part.operators)) for one in self.orderings])
        replacement = best_replacement(schedule, self.problem.capacity_bytes, self.left(COUNTS_END))
        if replacement is not None:
            self._take(schedule, replacement)

    def _classes(self, ordering: _Ordering) -> Classes | None:
        """The classes of a part, if its operators are alike enough."""
        operators, in_time = ordering.part.operators, Deadline(self.left(COUNTS_END).wall_seconds).in_time
        most = operators.bit_count() / ALIKE
        return Classes.of(self.masks, ordering.part.start.state, operators, most, in_time)

    def _divide(self) -> None:
        """Orders for the unfinished parts, from the whole graph's best order."""
        found = divide.divided(self.problem, self.left(DIVIDE_END), target=self.bound)
        if found is None:
            return
        self._take(found.schedule, found.replacement)

    def _take(self, schedule: Schedule, replacement: Replacement) -> None:
        """Orders for the unfinished parts from one for the whole graph, where they are cheaper."""
        for ordering in self._unfinished():
            steps = [t for t, v in enumerate(schedule.order) if ordering.part.operators >> v & 1]
            own = frozenset(gap for gap in replacement.away if steps[0] <= gap.first <= steps[-1])
            # A part of the whole order is an order of the part; its cost is that of the gaps within its own
            # steps.
            ordering.take(tuple(schedule.order[t] for t in steps), schedule.cost(own))

    def stuck(self) -> str | None:
        """The first operator of a part through which there is no way; None if there is none such."""
        for ordering in self.orderings:
            if ordering.finished and ordering.order is None:
                return self.problem.graph.operators[next(bits(ordering.part.operators))].name
        return None

    def schedules(self) -> Iterator[Schedule]:
        """The order found, then other ways through the parts that are as cheap."""
        yield self._schedule([ordering.order or () for ordering in self.orderings])
        # Whether an order's tensors can be packed is not known before it is tried. Another order of equal
        # cost has other lifetimes and may well be packable.
        for seed in range(1, ORDERS):
            yield self._schedule([self._other_order(o, seed) for o in self.orderings])
        effect = "none of them led to a plan as cheap as the bound"
        limit_reached("orders of equal cost", ORDERS, effect)

    def _other_order(self, ordering: _Ordering, seed: int) -> tuple[int, ...]:
        reached = self._search(ordering.part, seed).run(self.left(1.0).wall_seconds / 10)
        return operators_of(reached.path) if reached is not None else ordering.order or ()

    def _schedule(self, orders: list[tuple[int, ...]]) -> Schedule:
        """The parts' orders in a row, those of equal parts carried over to each."""
        order: list[int] = []
        for part, ordering, own in zip(self.parts, self.orderings, orders, strict=True):
            order += at_positions(positions(own, ordering.part), part)
        return Schedule(self.masks, tuple(order))
