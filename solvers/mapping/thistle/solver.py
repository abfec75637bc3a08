"""Thistle from the problem to the outcome.

1. Prove a lower bound (:mod:`~solvers.mapping.thistle.search.proof`).
2. Solve the programs of the classes of loop orders, the most promising first.
3. Round each optimum to whole trip counts (section IV) and evaluate those with the cost model.
4. Descend from the best of these mappings (the polish).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from math import ceil, inf, prod

import numpy as np

from costmodel.limits import limit_reached
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, Stopwatch
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.polish import Polish
from solvers.mapping.problem import (
    MappingProblem,
    Objective,
    objective_of,
    objective_values,
    refuse_precision,
)
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound, space_bounds
from solvers.mapping.space.starts import drawn, serial
from solvers.mapping.thistle.nest.costs import TilingCosts
from solvers.mapping.thistle.nest.orders import mirrored_dims
from solvers.mapping.thistle.nest.tiling import (
    Keep,
    Tiling,
    WindowBlocks,
    window_blocks,
    without_mirror_images,
)
from solvers.mapping.thistle.nest.volumes import Volumes
from solvers.mapping.thistle.params import Params
from solvers.mapping.thistle.search.class_search import Branching, ClassNode, ClassSearch
from solvers.mapping.thistle.search.proof import proven_bound
from solvers.mapping.thistle.search.rounding import Rounding
from solvers.mapping.untimed import guided_by_untimed_cycles, improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits
from solvers.tolerance import within_tolerance

VERSION = "3"

CLOSE = 1.01
"""The polish restarts only while its best mapping is more than this times the bound."""

_LOADED: set[str] = set()
"""Holds "all" once this process has loaded what the solver needs."""


@noting_limits
@improved_by_timed_cycles
@guided_by_untimed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:  # noqa: B008
    """The best mapping near the relaxed optima of Thistle's programs, judged by the cost model.

    ``budget.iterations`` is the most programs to solve in one search, and takes the place of
    ``params.programs`` if it is smaller. There is a search for each padded size, each choice of layouts, and
    each objective that guides it: with ``params.guide`` two for cycles. Every choice of kept tensors and of
    blocks for windows has its first program solved in any case, and the programs of the bound's proof are not
    among these. ``program_proven`` is true when the programs of all
    classes were solved or have no optimum, for the first ``params.keeps`` choices of kept tensors: of further
    ones it says nothing. It is false where the search ended before, also if that was because no class still
    open was estimated to be better: estimates prove nothing.

    The bound is the larger of the cost model's and, with ``params.prove``, of what :func:`proven_bound`
    proves for all choices of kept tensors, if there are no more than ``params.keeps``. The status is OPTIMAL
    if the objective meets the bound, else FEASIBLE; INFEASIBLE if the rules allow no mapping; UNKNOWN if no
    candidate was allowed.

    The seconds leave out what a process does once, loading Clarabel and the compiled evaluator. Raises
    InputError for an architecture with a precision.
    """
    refuse_precision(problem, "thistle")
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    loading = Stopwatch()
    _load(space)
    run = _ThistleRun(problem, space, budget, params, clock.without(loading))
    bound = run.bound()
    best = run.best(bound)
    tried, proven = run.evaluations, run.all_classes_solved
    if best is None:
        note = f"none of {tried} candidates was an allowed mapping; nothing shows that there is none"
        return unknown(note, bound, run.clock, tried)
    return answer(problem, best, bound, run.clock, evaluations=tried, program_proven=proven)


def _different(search: ClassSearch, most_each: int) -> Iterator[tuple[Branching, ClassNode]]:
    """The classes worth rounding: the first of those with equal trip counts, ``most_each`` a branching."""
    seen: dict[int, set[tuple[float, ...]]] = {}
    for branching, node in search.nodes():
        mine = seen.setdefault(id(branching), set())
        # Two digits of a logarithm, one per cent of a trip count: classes that differ by less round to the
        # same mappings.
        trips = tuple(node.relaxed.x.round(2).tolist())
        if trips not in mine:
            mine.add(trips)
            yield branching, node
        if len(mine) >= most_each:
            search.closed.add(id(branching))


def keep_choices(space: MappingSpace, most: int) -> list[Keep]:
    """What each level keeps: the first ``most`` combinations that the rules allow, the fullest first."""
    names = [tensor.name for tensor in space.layer.tensors]
    sets = [
        [frozenset(name for bit, name in enumerate(names) if mask >> bit & 1) for mask in masks]
        for masks in space.keep_sets
    ]
    if prod(map(len, sets)) > most:
        effect = "only those that keep most are searched, and nothing but the cost model's bound is proven"
        limit_reached("choices of what levels keep", most, effect)
    fullest_first = (sorted(choices, key=len, reverse=True) for choices in sets)
    return list(islice(product(*fullest_first), most))


@dataclass
class _ThistleRun:
    """One solve: its clock, and the best mappings of each class so far."""

    problem: MappingProblem
    space: MappingSpace
    budget: Budget
    params: Params
    clock: Stopwatch
    evaluations: int = 0
    all_classes_solved: bool = False
    _found: list[tuple[float, Mapping]] = field(default_factory=list)

    @property
    def incumbent(self) -> float:
        return min((cost for cost, _ in self._found), default=inf)

    def bound(self) -> float:
        """The largest lower bound that is proven."""
        # A bound holds for the choices of kept tensors that its programs cover, so it takes all of them.
        every_choice = prod(len(sets) for sets in self.space.keep_sets) <= self.params.keeps
        is_nothing = self._takes_no_energy and self.problem.objective != "cycles"
        if not self.params.prove or not every_choice or is_nothing:
            return self._everywhere
        return max(self._everywhere, proven_bound(self.problem, self.keeps, self._in_time))

    @cached_property
    def keeps(self) -> list[Keep]:
        """The choices of kept tensors that are searched."""
        return keep_choices(self.space, self.params.keeps)

    @cached_property
    def _takes_no_energy(self) -> bool:
        return not objective_of(space_bounds(self.problem), "energy")

    @cached_property
    def _everywhere(self) -> float:
        return space_bound(self.problem)

    def best(self, bound: float) -> Mapping | None:
        """The best mapping found; one that is just allowed where no rounded optimum is."""
        for guide in self._guides():
            if not within_tolerance(self.incumbent, bound, 0.0) and self._in_time():
                self._round_classes(bound, guide)
        starts = [mapping for _, mapping in sorted(self._found, key=lambda found: found[0])]
        starts = starts or list(islice(self._simple_starts(), 1))
        if not starts or not self.params.polish:
            return starts[0] if starts else None
        # The nearest whole trip counts are seldom the best ones nearby: the polish goes on from them by
        # single factors, on the cost model's own objective.
        polish = Polish(self.problem, bound, self._in_time, close=CLOSE)
        best = polish.best(starts[: self.params.polish], self.params.kicks, self.budget.seed)
        self.evaluations += polish.evaluations
        return best

    def _simple_starts(self) -> Iterator[Mapping]:
        yield from serial(self.space, self.keeps[0])
        yield from drawn(self.space, self.budget.seed, self._in_time)

    def _guides(self) -> tuple[Objective, ...]:
        """The objectives whose programs' optima are rounded.

        Many trip counts share the fewest cycles, and an interior-point method ends somewhere among them. The
        programs of energy times cycles choose, and their optima often round to mappings that are better.
        Where nothing takes energy, as on an architecture that only states times, there are no such programs,
        and all mappings have equal energy.
        """
        if self._takes_no_energy:
            return ("cycles",)
        if self.params.guide and self.problem.objective == "cycles":
            return ("cycles", "edp")
        return (self.problem.objective,)

    def _round_classes(self, bound: float, guide: Objective) -> None:
        scale = objective_of(space_bounds(self.problem), guide)
        search = ClassSearch(self._branchings(guide), scale, lambda: self._may_solve(search))
        prune = self.params.prune and guide == self.problem.objective
        per_branching = ceil(self.params.classes / len(search.branchings))
        for branching, node in islice(_different(search, per_branching), self.params.classes):
            # Classes come in the order of their estimates: none after this one is estimated to be better.
            if prune and node.estimate >= self.incumbent:
                break
            self._round(branching, node)
            if within_tolerance(self.incumbent, bound, 0.0) or (self._found and not self._in_time()):
                break
        if guide == self.problem.objective:
            self.all_classes_solved = search.exhausted

    def _branchings(self, guide: Objective) -> list[Branching]:
        rules, mirrored = self.problem.rules.levels, mirrored_dims(self.problem.layer)
        # A user's rules name dims; what they say of height need not hold for width, so the mirror image may
        # be forbidden.
        exchanged = mirrored if self.params.mirror and not rules else {}
        tilings = (
            Tiling(self.space, keep, windows)
            for keep in self.keeps
            for windows in self._windows(keep, exchanged)
        )
        costs = (TilingCosts(Volumes(tiling), guide, literal=self.params.literal) for tiling in tilings)
        return [Branching(each, self.params.carry_over, exchanged) for each in costs]

    def _windows(self, keep: Keep, exchanged: dict[str, str]) -> list[WindowBlocks]:
        return without_mirror_images(window_blocks(self.space, keep, self.params.spread_windows), exchanged)

    def _round(self, branching: Branching, node: ClassNode) -> None:
        """The best whole-numbered neighbour of a relaxed optimum, if any is an allowed mapping."""
        params = self.params
        tiling, orders = branching.costs.tiling, branching.completed(node.orders)
        rounding = Rounding(tiling, params.nearest, params.candidates, params.least_utilization)
        batch = rounding.candidates(node.relaxed.x, orders)
        costs = self._costs(batch)
        if len(costs) and np.isfinite(best := costs.min()):
            self._found.append((float(best), batch.mapping(int(costs.argmin()), self.problem.layer)))

    def _costs(self, batch: MappingBatch) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        self.evaluations += len(batch)
        evaluation = BatchEvaluator(self.problem.architecture, self.problem.layer).evaluate(batch)
        costs = objective_values(evaluation, self.problem.objective)
        return np.where(self.space.allowed(batch), costs, np.inf)

    def _in_time(self) -> bool:
        return self.clock.wall_seconds < self.budget.wall_seconds

    def _may_solve(self, search: ClassSearch) -> bool:
        most = min(self.params.programs, self.budget.iterations or self.params.programs)
        if search.programs >= most:
            limit_reached(
                "programs to solve", most, "classes of loop orders that are still open were not solved"
            )
        return search.programs < most and self._in_time()


def _load(space: MappingSpace) -> None:
    """Load Clarabel and the compiled evaluator, once a process, so that loading is not timed."""
    if "all" in _LOADED:
        return
    _LOADED.add("all")
    import clarabel  # noqa: F401
    from scipy import sparse  # noqa: F401

    empty = MappingBatch.empty(1, space.architecture, space.layer)
    BatchEvaluator(space.architecture, space.layer).evaluate(empty)
