"""The paper's four comparison schemes (Section V-A): two orders times two replacements, in a linear arena.

Tensors get their addresses one after the other, as the operators run. Where the tensors of an operator leave
no contiguous gap for the last of them, the memory is repacked: in an idle step its inputs are spilled, to be
retrieved at other addresses for the operator (Section II: the off-chip accesses that "repack" the memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from costmodel.scratchpad.plan import IDLE, Plan, Residency, TensorPlan
from solvers.budget import Budget, Deadline, InTime
from solvers.checks import check_choices
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.arena import Arena
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.peak import Order, ordered
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown
from solvers.scratchpad.replacement import Schedule

VERSION = "1"

Policy = Literal["belady", "greedy"]


@dataclass(frozen=True)
class Params:
    """The scheme: ``order`` is "default" or "minimum_peak" in the paper, and can be any that fixed_schedule
    has.

    ``replacement``: "belady" evicts what is needed again the latest, "greedy" what makes a gap for the fewest
    bytes off chip: of the retrieval, and of the spill where the host has no copy.
    """

    order: Order = "default"
    replacement: Policy = "belady"

    def __post_init__(self) -> None:
        check_choices("comparison", self, {"order": Order, "replacement": Policy})


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The plan that the scheme makes.

    INFEASIBLE if ``problem.budget_bytes`` are below MR, the bytes that one operator needs by itself. UNKNOWN
    if ``budget.wall_seconds`` end before there is a plan, and if only writing in place keeps within the
    bytes. The bound is 0, so a plan is OPTIMAL if it moves nothing, else FEASIBLE.
    """
    deadline = Deadline(budget.wall_seconds)
    watch = deadline.watch
    if refused := below_requirement(problem, watch):
        return refused
    masks = GraphMasks.of(problem.graph)
    # The order may take half of the time: the arena needs milliseconds, but an order that takes all of it
    # would leave no plan.
    order = ordered(problem.graph, params.order, budget.wall_seconds / 2)
    run = ArenaRun(problem, Schedule(masks, order), params.replacement)
    for operator in order:
        if not deadline.in_time():
            return unknown(f"not all operators were placed in {budget.wall_seconds:g} s", watch)
        if not run.step(operator):
            name = problem.graph.operators[operator].name
            return unknown(f"operator {name} does not fit without writing in place", watch)
    return answer(problem, run.plan(), 0.0, watch)


def first_plan(problem: ScratchpadProblem, schedule: Schedule, in_time: InTime) -> Plan | None:
    """The Belady plan for an order: the answer of better solvers whose time is up before they have another.

    It takes milliseconds. None if the time is up before, or if only writing in place keeps within
    ``problem.budget_bytes``.
    """
    run = ArenaRun(problem, schedule, "belady")
    for operator in schedule.order:
        if not in_time() or not run.step(operator):
            return None
    return run.plan()


class ArenaRun:
    """The arena as the operators run; residencies, spills and retrievals as they come about."""

    def __init__(self, problem: ScratchpadProblem, schedule: Schedule, policy: Policy) -> None:
        self.graph, self.masks = problem.graph, schedule.masks
        self.uses = schedule.uses
        self.policy = policy
        self.arena = Arena(problem.capacity_bytes)
        self.index = {tensor.name: index for index, tensor in enumerate(self.graph.tensors)}
        self.order: list[str] = []
        self.executed = 0
        self.open: dict[int, tuple[int, int]] = {}
        self.closed: list[list[Residency]] = [[] for _ in self.graph.tensors]
        self.spilled: dict[int, int] = {}
        self.parameters: list[tuple[str, int]] = []

    def step(self, operator: int) -> bool:
        """Run one operator; False where its tensors do not fit together."""
        node = self.graph.operators[operator]
        wanted = [(self.graph.tensors[t].name, self.masks.blocks[t]) for t in (*node.inputs, *node.outputs)]
        if node.parameter_bytes:
            wanted.append((PARAMETERS, node.parameter_bytes))
        pinned = {name for name, _ in wanted}
        if sum(size for _, size in wanted) > self.arena.capacity:
            return False
        if not all(self._allocated(name, size, pinned) for name, size in self._missing(wanted)):
            self._repack(wanted, pinned)
        self._ran(operator, node.name)
        return True

    def _missing(self, wanted: list[tuple[str, int]]) -> list[tuple[str, int]]:
        return [(name, size) for name, size in wanted if name not in self.arena.blocks]

    def _allocated(self, name: str, size: int, pinned: set[str]) -> bool:
        """Allocate a block; until there is a gap, evict tensors that are not pinned, as the policy says."""
        while not self.allocate(name, size):
            victims = self.victims(size, pinned)
            if not victims:
                return False
            for victim in victims:
                self._evict(victim)
        return True

    def allocate(self, name: str, size: int) -> bool:
        """Give a block an address; False where no gap holds it."""
        return self.arena.allocate(name, size) is not None

    def victims(self, size: int, pinned: set[str]) -> tuple[str, ...]:
        """The tensors to evict next for a block of this size; none where nothing but pinned ones are left."""
        free = {name: self.price(name) for name in self.arena.blocks if name not in pinned}
        # Belady evicts one tensor a time, whatever lies beside it, until a gap is large enough; greedy
        # compares whole runs of neighbours that would leave a large enough gap.
        if self.policy == "belady":
            return (max(free, key=self.next_use),) if free else ()
        return self.cheapest_run(size, free)

    def cheapest_run(self, size: int, prices: Mapping[str, float]) -> tuple[str, ...]:
        """The neighbours that would leave a gap of this size and whose ``prices`` add up to the least.

        Empty where none leave such a gap.
        """
        holes = [hole for hole in self.arena.holes(prices) if hole.end - hole.start >= size]
        return min((one.victims for one in holes), key=lambda v: sum(prices[name] for name in v), default=())

    def price(self, name: str) -> int:
        """Bytes that evicting a tensor costs: its retrieval, and its spill if the host has no copy."""
        tensor = self.index[name]
        copied = tensor in self.spilled or self._on_host(tensor)
        return self.masks.traffic[tensor] * (1 if copied else 2)

    def _on_host(self, tensor: int) -> bool:
        return tensor in self.graph.on_host

    def next_use(self, name: str) -> int:
        """The next step at which a tensor is read."""
        return next(use for use in self.uses[self.index[name]] if use >= self.executed)

    def _evict(self, name: str) -> None:
        tensor, now = self.index[name], len(self.order)
        start, address = self.open.pop(tensor)
        self.closed[tensor].append(Residency(start, now, address))
        self.arena.free(name)
        if not self._on_host(tensor):
            # Spilled once: the copy on the host stays valid, as no operator changes a tensor that it has not
            # made.
            self.spilled.setdefault(tensor, now)

    def _repack(self, wanted: list[tuple[str, int]], pinned: set[str]) -> None:
        """Empty the arena and place the operator's blocks afresh.

        An idle step comes before if inputs of the operator have been in the arena, now or at any time before.
        Largest first they follow one another, and so fit when their sum does.
        """
        for name in list(self.arena.blocks):
            if self.index.get(name) in self.open:
                self._evict(name)
            else:
                self.arena.free(name)
        # Inputs that have been here before leave and come back at another address: both cannot happen within
        # the operator's own step.
        if any(self.closed[self.index[name]] for name in pinned if name in self.index):
            self.order.append(IDLE)
        for name, size in sorted(wanted, key=lambda block: -block[1]):
            self.arena.allocate(name, size)

    def _ran(self, operator: int, name: str) -> None:
        """Enter the operator's step, open the residencies that begin with it, close those of dead tensors."""
        now = len(self.order)
        self.order.append(name)
        self.executed += 1
        node = self.graph.operators[operator]
        for tensor in (*node.inputs, *node.outputs):
            address, _ = self.arena.blocks[self.graph.tensors[tensor].name]
            # An input that is resident already keeps its residency; only one that has just come begins a new
            # one.
            self.open.setdefault(tensor, (now, address))
            if self.uses[tensor][-1] < self.executed:
                start, address = self.open.pop(tensor)
                self.closed[tensor].append(Residency(start, now + 1, address))
                self.arena.free(self.graph.tensors[tensor].name)
        if PARAMETERS in self.arena.blocks:
            self.parameters.append((name, self.arena.blocks[PARAMETERS][0]))
            self.arena.free(PARAMETERS)

    def plan(self) -> Plan:
        tensors = [
            TensorPlan(
                self.graph.tensors[tensor].name,
                tuple(own),
                self.spilled.get(tensor),
                tuple(residency.start for residency in own[1:]),
            )
            for tensor, own in enumerate(self.closed)
        ]
        return Plan(tuple(self.order), tuple(tensors), tuple(self.parameters))


PARAMETERS = "\0parameters"
"""The running operator's parameter block; no tensor is called that."""
