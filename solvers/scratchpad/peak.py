"""The order with the least peak footprint (Eqs. 13-15), exact: a minimax search over executed sets.

Without spills (Eq. 13) the set of operators that have run decides what is live. So a state is such a set, and
the best way to it is the one with the smallest peak. States are taken in the order of that peak; of equal
ones, those in which most operators have run come first.

Safe moves: an operator runs at once if its step fits under the peak reached so far and it leaves no more
bytes live than before. Proof. Take any completion from here and move the operator to its front. The steps
that used to precede it now hold the outputs that it keeps instead of the inputs that it frees (nobody else
reads these): no more bytes, by the condition. Its own step fits under the peak already reached. The steps
that used to follow it are the same. So the completion's peak, together with the peak so far, has not grown.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from costmodel.scratchpad.graph import OperatorGraph
from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget, Deadline, InTime
from solvers.checks import check_switches
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.cosma.search import operators_of
from solvers.scratchpad.masks import GraphMasks, bits
from solvers.scratchpad.parts import Part, at_positions, positions, same_problem, serial_parts
from solvers.scratchpad.placement import place
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown
from solvers.scratchpad.replacement import Schedule

VERSION = "2"
ORDER_FRACTION = 0.75
"""Fraction of the time that finding an order may take; the rest is for packing."""
SEARCH_FRACTION = 0.75
"""Fraction of the order's time that the search may take; then an order is finished greedily."""


Order = Literal["default", "minimum_peak"]
"""The graph's own order, or one of least peak footprint."""


@dataclass(frozen=True)
class Params:
    """``safe_moves`` off searches every interleaving of operators; the answer is the same."""

    safe_moves: bool = True

    def __post_init__(self) -> None:
        check_switches("peak", self, "safe_moves")


class MinimumPeak(NamedTuple):
    """A schedule, its peak in bytes, and a proven lower bound on every schedule's (MP where they meet)."""

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int

    @property
    def proven(self) -> bool:
        """Whether no schedule has a lower peak."""
        return self.peak_bytes == self.bound_bytes


class _State(NamedTuple):
    """A heap entry, sorted by the peak so far, then by how many operators ran; ``path`` is a linked list.

    ``last``: the operators that are the only ones left to read one of their inputs.
    """

    peak: int
    minus_executed: int
    ticket: int
    executed: int
    ready: int
    live_bytes: int
    last: int
    path: Any


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The minimum-peak order, packed without any spill: an answer where MP is within the budget.

    UNKNOWN with the bytes that are missing where it is not: this program has no spills (Eq. 13).
    """
    deadline = Deadline(budget.wall_seconds)
    watch = deadline.watch
    if refused := below_requirement(problem, watch):
        return refused
    found = minimum_peak(problem.graph, budget.wall_seconds * ORDER_FRACTION, params)
    if found.peak_bytes > problem.capacity_bytes:
        return unknown(f"without spills the peak is {_range(found)} bytes, the budget has less", watch)
    schedule = Schedule(GraphMasks.of(problem.graph), found.order)
    placed = place(problem, schedule, frozenset(), deadline.budget(budget.seed))
    if placed is None:
        return unknown("the tensors of the minimum-peak order could not be packed in time", watch)
    return answer(problem, placed, 0.0, watch)


def ordered(graph: OperatorGraph, order: Order, wall_seconds: float) -> tuple[int, ...]:
    """The operators in the order of that name."""
    if order == "default":
        return tuple(range(len(graph.operators)))
    return minimum_peak(graph, wall_seconds).order


def _range(found: MinimumPeak) -> str:
    return f"{found.peak_bytes}" if found.proven else f"{found.bound_bytes} to {found.peak_bytes}"


def minimum_peak(graph: OperatorGraph, wall_seconds: float = 60.0, params: Params = Params()) -> MinimumPeak:
    """The schedule of least peak footprint; at the time limit the best one known and the bound reached.

    Serial parts are searched one after the other, equal ones once. The graph's peak is the highest of the
    parts' peaks, so a part may use as much as an earlier one did at no cost. A part's peak adds to the proven
    bound only where it is above what earlier parts used, for theirs may be more than they needed.
    """
    deadline = Deadline(wall_seconds)
    search_end = Deadline(wall_seconds * SEARCH_FRACTION, deadline.watch)
    masks = GraphMasks.of(graph)
    order: list[int] = []
    peak = bound = graph.required_bytes
    known: dict[object, MinimumPeak] = {}
    for part in serial_parts(masks):
        kind = same_problem(masks, part)
        if kind not in known:
            found = _OrderSearch(masks, part, peak, params.safe_moves).run(
                search_end.in_time, deadline.in_time
            )
            proven = found.bound_bytes if found.bound_bytes > peak else 0
            known[kind] = MinimumPeak(positions(found.order, part), found.peak_bytes, proven)
        order += at_positions(known[kind].order, part)
        peak, bound = max(peak, known[kind].peak_bytes), max(bound, known[kind].bound_bytes)
    return MinimumPeak(tuple(order), peak, bound)


class _OrderSearch:
    """The minimax search through one part, in which any peak up to ``least`` is as good as another."""

    def __init__(self, masks: GraphMasks, part: Part, least: int, safe_moves: bool) -> None:
        self.masks, self.goal, self.safe_moves = masks, part.goal, safe_moves
        state = part.start.state
        self.heap = [_State(least, 0, 0, state.executed, state.ready, state.bytes, state.last, ())]
        self.best = {state.executed: least}
        self.tickets = 0

    def run(self, in_time: InTime, time_to_finish: InTime) -> MinimumPeak:
        """The least peak; when the search's time is up, that of the deepest state, completed greedily."""
        while True:
            state = heapq.heappop(self.heap)
            if state.executed == self.goal:
                return MinimumPeak(operators_of(state.path), state.peak, state.peak)
            # since this entry was made a better way to the same set was found, which has an entry of its own
            if self.best[state.executed] < state.peak:
                continue
            if not in_time():
                return self._finished_greedily(state, time_to_finish)
            for operator in bits(state.ready & self.goal):
                self._push(self._closed(self._ran(state, operator)))

    def _push(self, state: _State) -> None:
        known = self.best.get(state.executed)
        if known is None or state.peak < known:
            self.best[state.executed] = state.peak
            # of equal states the older one comes first, and paths are never compared
            self.tickets += 1
            heapq.heappush(self.heap, state._replace(ticket=self.tickets))

    def _footprint(self, state: _State, operator: int) -> tuple[int, int]:
        """Bytes during the operator's step, and live after it.

        It is asked for every ready operator of every state, so the set of dead tensors is not made.
        """
        masks, node = self.masks, self.masks.graph.operators[operator]
        readers, blocks = masks.readers, masks.blocks
        waiting = ~(state.executed | 1 << operator)
        during = state.live_bytes + masks.step_bytes[operator]
        after = state.live_bytes + masks.kept_bytes[operator]
        for tensor in node.inputs:
            if masks.given >> tensor & 1 and not readers[tensor] & state.executed:
                during += blocks[tensor]
                after += blocks[tensor]
            if not readers[tensor] & waiting:
                after -= blocks[tensor]
        if node.overwrites:
            during -= masks.overwritten_bytes(operator, masks.dying(operator, ~waiting))
        return during, after

    def _ran(self, state: _State, operator: int) -> _State:
        during, after = self._footprint(state, operator)
        executed = state.executed | 1 << operator
        return _State(
            max(state.peak, during),
            state.minus_executed - 1,
            0,
            executed,
            self.masks.ready_after(operator, state.ready, executed),
            after,
            self.masks.read_by(operator, state.last, executed)[1],
            (state.path, operator),
        )

    def _closed(self, state: _State) -> _State:
        """After every safe move (see the module's docstring)."""
        moved = self.safe_moves
        while moved:
            moved = False
            # others free nothing, and so leave more bytes live
            for operator in bits(state.ready & self.goal & (state.last | self.masks.keep_nothing)):
                during, after = self._footprint(state, operator)
                if during <= state.peak and after <= state.live_bytes:
                    state, moved = self._ran(state, operator), True
        return state

    def _finished_greedily(self, state: _State, in_time: InTime) -> MinimumPeak:
        """From the deepest state on, always the operator that raises the peak, then the live bytes, least.

        When the time for that is up, too, the rest runs in the graph's order.
        """
        bound = state.peak
        state = min([*self.heap, state], key=lambda other: (other.minus_executed, other.peak))
        while state.executed != self.goal:
            if not in_time():
                state = self._ran(state, next(bits(state.ready & self.goal)))
                continue
            state = self._closed(
                min(
                    (self._ran(state, operator) for operator in bits(state.ready & self.goal)),
                    key=lambda next_: (next_.peak, next_.live_bytes),
                )
            )
        return MinimumPeak(operators_of(state.path), state.peak, bound)
