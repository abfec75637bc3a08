"""Tensor replacement for a fixed order (Eqs. 16 and 17): between which uses each tensor stays resident.

Between two uses a tensor either stays resident or is away for the whole gap, because leaving late or coming
back early saves nothing and takes capacity. So the optimum of Eqs. 16 and 17 under Eqs. 1-8, with the sum of
sizes standing in for addresses (Eqs. 9-11), is that of a program with

* a Boolean for each gap: the tensor stays;
* a row for each step: what stays fits beside the tensors of the operator;
* a Boolean for each tensor: it is spilled, as it must be if it is away in any gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from solvers.budget import LEAST_SECONDS, Budget, Deadline, OutOfTimeError
from solvers.scratchpad.masks import GraphMasks, mask_of

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class Gap(NamedTuple):
    """The steps ``first`` <= t < ``end`` strictly between two uses of a tensor."""

    tensor: int
    first: int
    end: int


class Replacement(NamedTuple):
    """The gaps in which tensors are away, the bytes that costs, and a proven lower bound on the least."""

    away: frozenset[Gap]
    cost: int
    bound: int


@dataclass(frozen=True)
class Schedule:
    """Operators of ``masks.graph`` in the order they run."""

    masks: GraphMasks
    order: tuple[int, ...]

    @cached_property
    def times(self) -> dict[int, int]:
        """The step of each operator."""
        return {operator: step for step, operator in enumerate(self.order)}

    @cached_property
    def uses(self) -> tuple[tuple[int, ...], ...]:
        """Per tensor the steps at which it must be resident: its reads, and its creation by an operator."""
        graph, times = self.masks.graph, self.times
        return tuple(
            tuple(sorted(times[operator] for operator in (*consumers, *(() if maker is None else (maker,)))))
            for consumers, maker in zip(graph.consumers, graph.producers, strict=True)
        )

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Every gap of at least one step."""
        return tuple(
            Gap(tensor, before + 1, after)
            for tensor, uses in enumerate(self.uses)
            for before, after in pairwise(uses)
            if after > before + 1
        )

    @cached_property
    def overwritten(self) -> dict[int, tuple[int, int]]:
        """Step -> the (input, output) pair of an in-place operator that writes the output over the input."""
        executed, found = 0, {}
        for step, operator in enumerate(self.order):
            executed |= 1 << operator
            if pair := self.masks.overwritten(operator, executed):
                found[step] = pair
        return found

    @cached_property
    def base_bytes(self) -> tuple[int, ...]:
        """Per step the bytes of the operator's own inputs, outputs and parameters."""
        masks, graph = self.masks, self.masks.graph
        return tuple(
            masks.bytes_of(masks.inputs[operator] | mask_of(graph.operators[operator].outputs))
            + graph.operators[operator].parameter_bytes
            - (masks.blocks[self.overwritten[step][1]] if step in self.overwritten else 0)
            for step, operator in enumerate(self.order)
        )

    @cached_property
    def staying(self) -> tuple[tuple[int, ...], ...]:
        """Per step the indices of the gaps that it lies in."""
        present: list[list[int]] = [[] for _ in self.order]
        for index, gap in enumerate(self.gaps):
            for step in range(gap.first, gap.end):
                present[step].append(index)
        return tuple(map(tuple, present))

    def crowded(self, capacity: int) -> dict[tuple[int, ...], int]:
        """Gaps that share a step -> the bytes left for them, for steps at which not all of them can stay."""
        blocks = self.masks.blocks
        rows: dict[tuple[int, ...], int] = {}
        for base, present in zip(self.base_bytes, self.staying, strict=True):
            left = capacity - base
            if sum(blocks[self.gaps[index].tensor] for index in present) > left:
                # steps with the same gaps have the same row, so the tightest of them says it all
                rows[present] = min(left, rows.get(present, left))
        return rows

    def cost(self, away: frozenset[Gap]) -> int:
        """Bytes retrieved and spilled (Eq. 12) with the tensors away in those gaps."""
        masks = self.masks
        # what the host has already is never written out
        spilled = {gap.tensor for gap in away if not masks.on_host >> gap.tensor & 1}
        return sum(masks.traffic[gap.tensor] for gap in away) + sum(masks.traffic[t] for t in spilled)


def best_replacement(
    schedule: Schedule, capacity: int, budget: Budget, forbidden: Sequence[frozenset[Gap]] = ()
) -> Replacement | None:
    """The cheapest replacement that fits, by CP-SAT; None if there is none, or none in time.

    A ``forbidden`` set of gaps is one whose tensors could not be packed. Neither it nor a subset of it is an
    answer again: with more tensors resident packing is harder.
    """
    deadline = Deadline(budget.wall_seconds)
    rows = schedule.crowded(capacity)
    if any(left < 0 for left in rows.values()):
        return None
    if not rows and not forbidden:
        return Replacement(frozenset(), 0, 0)
    try:
        program = _ReplacementProgram(schedule, rows, forbidden, deadline)
    except OutOfTimeError:
        return None
    return program.solved(budget.seed, deadline)


class _ReplacementProgram:
    """The program of the module's docstring, with the bytes of Eq. 12 as its objective.

    Raises OutOfTimeError if it is not written down by the ``deadline``.
    """

    def __init__(
        self,
        schedule: Schedule,
        rows: dict[tuple[int, ...], int],
        forbidden: Sequence[frozenset[Gap]],
        deadline: Deadline,
    ) -> None:
        from ortools.sat.python import cp_model

        self.schedule = schedule
        self.model = cp_model.CpModel()
        gaps = range(len(schedule.gaps))
        # a gap in no row may stay at no cost, so it needs no variable, but forbidden sets speak of all gaps
        affected = gaps if forbidden else sorted({index for present in rows for index in present})
        self.stays = {index: self.model.new_bool_var(f"stays{index}") for index in affected}
        blocks = schedule.masks.blocks
        for present, left in rows.items():
            deadline.check()
            self.model.add(sum(blocks[schedule.gaps[i].tensor] * self.stays[i] for i in present) <= left)
        for away in forbidden:
            self.model.add_bool_or([~self.stays[i] for i in gaps if schedule.gaps[i] not in away])
        self._minimise_bytes(deadline)

    def _minimise_bytes(self, deadline: Deadline) -> None:
        masks = self.schedule.masks
        free = masks.on_host
        spilled: dict[int, cp_model.IntVar] = {}
        terms: list[cp_model.LinearExprT] = []
        for index, stays in self.stays.items():
            deadline.check()
            tensor = self.schedule.gaps[index].tensor
            terms.append(masks.traffic[tensor] * (1 - stays))
            if free >> tensor & 1:
                continue
            if tensor not in spilled:
                spilled[tensor] = self.model.new_bool_var(f"spilled{tensor}")
                terms.append(masks.traffic[tensor] * spilled[tensor])
            self.model.add_bool_or([spilled[tensor], stays])
        self.model.minimize(sum(terms))

    def solved(self, seed: int, deadline: Deadline) -> Replacement | None:
        """The best choice of gaps in which tensors are away, as far as time allows; None without one."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        # a study runs many solves at once, and with one worker equal seeds give equal answers
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_time_in_seconds = max(deadline.left, LEAST_SECONDS)
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        away = frozenset(
            self.schedule.gaps[index]
            for index, stays in self.stays.items()
            if not solver.boolean_value(stays)
        )
        cost = self.schedule.cost(away)
        bound = cost if status == cp_model.OPTIMAL else round(solver.best_objective_bound)
        return Replacement(away, cost, bound)
