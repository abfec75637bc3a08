"""Divide and conquer (Section IV), with break nodes by hand or found automatically (its future work).

An order is cut where few bytes are live. From each cut to the next, the best-first search finds several of
the cheapest ways, starting from each of the states kept at the cut before. Tensor replacement is then solved
for the whole order that comes out. The next round cuts that order at other steps: what one round could not
move across a cut, the next can. Where break nodes are stated, as in the paper, there is one round, and its
segments are the sub-graphs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import inf
from typing import Any, NamedTuple

from costmodel.errors import InputError, did_you_mean
from costmodel.limits import limit_reached
from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget, Deadline
from solvers.checks import check, check_counts
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.comparison import first_plan
from solvers.scratchpad.cosma.search import PlanSearch, Reached, operators_of, start
from solvers.scratchpad.masks import GraphMasks, bits, mask_of
from solvers.scratchpad.packed import cheaper, packed
from solvers.scratchpad.peak import minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown
from solvers.scratchpad.replacement import Replacement, Schedule, best_replacement

VERSION = "6"
ORDER_FRACTION = 0.75
"""Fraction of the time in which an order is looked for; the rest is for packing."""
REPLACEMENT_SECONDS = 10
"""Wall seconds for the replacement of one round's order, of which there are several."""

PEAK_FRACTION = 1 / 3
"""Fraction of that time for the order of minimum peak that the first round begins from."""
LATE_FRACTION = 0.2
"""With less than this of the time left no round is begun, and no segment is searched any more.

What is left is for the replacement of the order that a round ends with, or began from: without it there is no
plan.
"""
IDLE_ROUNDS = 3
"""Rounds in a row without a better order after which no other is begun."""


@dataclass(frozen=True)
class Params:
    """What one round does, and how many there are.

    ``segment`` is the most operators between two cuts. ``boundary_states``: how many ways into a segment are
    carried on. ``segment_states``: how many states a search for the first way through a segment may expand
    before the segment is halved; each further way may expand a tenth of them, and so may the first one when
    time is short. ``rounds``: how often the order is cut anew, unless IDLE_ROUNDS in a row gain nothing.
    ``break_nodes`` are names of operators at which the graph is cut instead
    (:func:`sub_graphs`): then ``segment`` and ``rounds`` do not count.
    """

    segment: int = 60
    boundary_states: int = 6
    segment_states: int = 8000
    rounds: int = 8
    break_nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = ("segment", "boundary_states", "segment_states", "rounds")
        check_counts("divide", self, dict.fromkeys(counts, 1))
        nodes: Any = self.break_nodes
        names = isinstance(nodes, list | tuple) and all(isinstance(name, str) for name in nodes)
        check("divide", "break_nodes", names, "a list of names of operators", nodes)
        check("divide", "break_nodes", len(set(nodes)) == len(nodes), "every operator once", nodes)
        object.__setattr__(self, "break_nodes", tuple(nodes))


class ScheduleWithReplacement(NamedTuple):
    """A schedule and the best replacement found for it."""

    schedule: Schedule
    replacement: Replacement

    @property
    def cost(self) -> int:
        """The bytes that the replacement moves."""
        return self.replacement.cost


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The best plan of some rounds; only a plan that moves 0 bytes is proven optimal.

    InputError for a break node that the graph does not have.
    """
    deadline = Deadline(budget.wall_seconds)
    broken = sub_graphs(problem, params.break_nodes)
    watch = deadline.watch
    if refused := below_requirement(problem, watch):
        return refused
    own_order = Schedule(GraphMasks.of(problem.graph), tuple(range(len(problem.graph.operators))))
    first = first_plan(problem, own_order, deadline.in_time)
    ordering = Budget(budget.wall_seconds * ORDER_FRACTION, seed=budget.seed)
    if params.break_nodes:
        found = _conquered(problem, broken, ordering, params)
    else:
        found = divided(problem, ordering, params)
    plan = None if found is None else packed(problem, [found.schedule], deadline.budget(budget.seed))
    best = cheaper(problem, plan, first)
    if best is None:
        late = "the plan's tensors could not be packed in time"
        return unknown("no order was planned in time" if found is None else late, watch)
    return answer(problem, best, 0.0, watch)


def divided(
    problem: ScratchpadProblem, budget: Budget, params: Params = Params(), target: float = 0.0
) -> ScheduleWithReplacement | None:
    """The best order of up to ``params.rounds`` rounds; stops early at ``target`` bytes (a proven bound).

    The first round cuts the order of minimum peak, which is looked for during a third of the time. Every
    later one cuts the best order so far at other operators: with segments shorter by 0, 7, 14 or 21
    operators, in turn. Rounds only improve what they begin from. So where the time did not do for the order
    of minimum peak, it is looked for again, during half of the time that the rounds left, and they begin
    again from there.
    """
    deadline = Deadline(budget.wall_seconds)
    masks = GraphMasks.of(problem.graph)
    rounds = _Rounds(problem, masks, params, deadline, budget.seed, target)
    begun = minimum_peak(problem.graph, PEAK_FRACTION * budget.wall_seconds)
    best = rounds.best_from(begun.order)
    if best is not None and best.cost > target and not begun.proven and not rounds.late:
        again = minimum_peak(problem.graph, deadline.left / 2)
        other = rounds.best_from(again.order) if again.peak_bytes < begun.peak_bytes else None
        best = other if other is not None and other.cost < best.cost else best
    return best


@dataclass
class _Rounds:
    """Rounds of divide and conquer within one deadline."""

    problem: ScratchpadProblem
    masks: GraphMasks
    params: Params
    deadline: Deadline
    seed: int
    target: float

    @property
    def late(self) -> bool:
        """Whether there is no time to begin another round."""
        return self.deadline.left < LATE_FRACTION * self.deadline.wall_seconds

    def best_from(self, order: tuple[int, ...]) -> ScheduleWithReplacement | None:
        """The best order of the rounds that begin from this one; None if there is no time for the first."""
        masks, params = self.masks, self.params
        best: ScheduleWithReplacement | None = None
        idle = 0
        for round_ in range(params.rounds):
            if best is not None and idle == IDLE_ROUNDS and best.cost > self.target:
                limit_reached(
                    "rounds in a row without a better order", IDLE_ROUNDS, "later rounds were not tried"
                )
            if best is not None and (best.cost <= self.target or self.late or idle == IDLE_ROUNDS):
                break
            if not self.deadline.in_time():
                break
            conquest_end = Deadline((1 - LATE_FRACTION) * self.deadline.wall_seconds, self.deadline.watch)
            conquered = _Conquest(masks, self.problem.capacity_bytes, params, conquest_end)
            segment = max(1, params.segment - 7 * (round_ % 4))
            # Where there is no time for a whole round, the order that it began from is as good as any.
            schedule = Schedule(masks, conquered.order(cuts(masks, order, segment, round_)) or order)
            replacement = _replaced(self.problem, schedule, self.deadline, self.seed)
            if replacement is not None and (best is None or replacement.cost < best.cost):
                best, idle = ScheduleWithReplacement(schedule, replacement), 0
            else:
                idle += 1
            order = best.schedule.order if best else schedule.order
        return best


def sub_graphs(problem: ScratchpadProblem, break_nodes: Sequence[str]) -> list[tuple[int, ...]]:
    """The operators in the sub-graphs that break nodes by these names make, first to last (Section IV).

    A sub-graph ends with a break node, whose outputs are its outputs and inputs of those that follow. It
    holds the operators that lead to its break node and to none before; what leads to none comes last. Break
    nodes are taken in the graph's order. InputError for a name that no operator has.
    """
    graph = problem.graph
    numbers = {operator.name: number for number, operator in enumerate(graph.operators)}
    for name in break_nodes:
        if name not in numbers:
            expected = f"an operator of {graph.name or 'the graph'}"
            raise InputError("divide", expected, name, did_you_mean(name, numbers), key="break_nodes")
    predecessors = GraphMasks.of(graph).predecessors
    leading = list[int]()
    for number, before in enumerate(predecessors):
        leading.append(1 << number)
        for maker in bits(before):
            leading[number] |= leading[maker]
    found, placed = list[tuple[int, ...]](), 0
    for number in sorted(numbers[name] for name in break_nodes):
        found.append(tuple(bits(leading[number] & ~placed)))
        placed |= leading[number]
    rest = ((1 << len(graph.operators)) - 1) & ~placed
    return [segment for segment in (*found, tuple(bits(rest))) if segment]


def _conquered(
    problem: ScratchpadProblem, segments: list[tuple[int, ...]], budget: Budget, params: Params
) -> ScheduleWithReplacement | None:
    """The segments searched one after the other, once; None when the time is up before."""
    deadline = Deadline(budget.wall_seconds)
    masks = GraphMasks.of(problem.graph)
    conquered = _Conquest(masks, problem.capacity_bytes, params, deadline)
    order = conquered.order(segments)
    if order is None:
        return None
    schedule = Schedule(masks, order)
    replacement = _replaced(problem, schedule, deadline, budget.seed)
    return None if replacement is None else ScheduleWithReplacement(schedule, replacement)


def _replaced(
    problem: ScratchpadProblem, schedule: Schedule, deadline: Deadline, seed: int
) -> Replacement | None:
    """The best replacement for the order found within its seconds, which the deadline may cut short."""
    watch, left = deadline.watch, deadline.budget(seed)
    limit = replace(left, wall_seconds=min(REPLACEMENT_SECONDS, left.wall_seconds))
    begun = watch.wall_seconds
    found = best_replacement(schedule, problem.capacity_bytes, limit)
    if watch.wall_seconds - begun >= REPLACEMENT_SECONDS and (found is None or found.cost > found.bound):
        effect = "a better one was not looked for"
        limit_reached("seconds for the replacement of an order", REPLACEMENT_SECONDS, effect)
    return found


def cuts(masks: GraphMasks, order: tuple[int, ...], longest: int, phase: int = 0) -> list[tuple[int, ...]]:
    """The order in segments of at most ``longest`` operators; the bytes live at the cuts add up to the least.

    ``phase`` shortens the first segment, so that the rounds cut at different steps.
    """
    live = live_bytes(masks, order)
    first = max(1, longest - phase * longest // 5 % longest)
    least: list[float] = [0.0] + [inf] * len(order)
    before = [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        reach = first if end <= first else longest
        for begin in range(max(0, end - reach), end):
            if begin == 0 and end > first:
                continue
            cost = least[begin] + live[end - 1] + 1
            if cost < least[end]:
                least[end], before[end] = cost, begin
    ends = [len(order)]
    while ends[-1]:
        ends.append(before[ends[-1]])
    return [order[begin:end] for begin, end in pairwise(reversed(ends))]


def live_bytes(masks: GraphMasks, order: tuple[int, ...]) -> list[int]:
    """Bytes live after each step, with nothing spilled."""
    change = [0] * (len(order) + 1)
    for tensor, uses in enumerate(Schedule(masks, order).uses):
        change[uses[0]] += masks.blocks[tensor]
        change[uses[-1]] -= masks.blocks[tensor]
    return list(accumulate(change[:-1]))


@dataclass
class _Conquest:
    """The segments searched one after the other, each from several states."""

    masks: GraphMasks
    capacity: int
    params: Params
    deadline: Deadline

    def order(self, segments: list[tuple[int, ...]]) -> tuple[int, ...] | None:
        """All operators, in the cheapest order found; None when the time is up before the last segment."""
        reached = [start(self.masks)]
        waiting = list(reversed(segments))
        while waiting:
            if not self.deadline.in_time():
                return None
            segment = waiting.pop()
            onward = self._through(reached, segment)
            if onward:
                reached = onward
            else:
                waiting += [segment[len(segment) // 2 :], segment[: len(segment) // 2]]
        return operators_of(min(reached, key=lambda r: r.state.cost).path)

    def _through(self, starts: list[Reached], segment: tuple[int, ...]) -> list[Reached]:
        """Up to ``boundary_states`` of the cheapest states after the segment; none when out of time."""
        goal = starts[0].state.executed | mask_of(segment)
        search = PlanSearch(self.masks, self.capacity, starts, goal, in_time=self.deadline.in_time)
        late = self.deadline.left < 0.3 * self.deadline.wall_seconds
        states = inf if len(segment) == 1 else self.params.segment_states / (10 if late else 1)
        wanted = 1 if late else self.params.boundary_states
        found: list[Reached] = []
        while len(found) < wanted and (reached := search.run(self.deadline.left, states)) is not None:
            found.append(reached)
            states = self.params.segment_states / 10
        return found
