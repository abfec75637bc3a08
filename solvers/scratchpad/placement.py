"""From an order and the gaps in which tensors are away to a plan with addresses: by packing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costmodel.scratchpad.plan import Plan, Residency, TensorPlan
from solvers.budget import Budget
from solvers.scratchpad.packing import Buffer, PackingProblem
from solvers.scratchpad.packing import solve as pack
from solvers.scratchpad.problem import ScratchpadProblem
from solvers.scratchpad.replacement import Gap, Schedule


class _Stay(NamedTuple):
    """A tensor's unbroken residency over the steps [start, end)."""

    tensor: int
    start: int
    end: int


def place(
    problem: ScratchpadProblem, schedule: Schedule, away: frozenset[Gap], budget: Budget
) -> Plan | None:
    """The schedule's plan with tensors ``away`` in some gaps; None where no addresses were found.

    A :class:`Gap` is the time of a tensor between two of its uses.
    """
    stays = stays_of(schedule, away)
    homes = _homes(schedule, stays)
    buffers = _tensor_buffers(schedule, stays, homes) + _parameter_buffers(schedule)
    outcome = pack(PackingProblem(tuple(buffers), problem.capacity_bytes), budget)
    if outcome.solution is None:
        return None
    return _plan(schedule, stays, homes, outcome.solution)


def stays_of(schedule: Schedule, away: frozenset[Gap]) -> tuple[_Stay, ...]:
    """Every unbroken residency, tensor by tensor, in the order of time."""
    breaks: dict[int, list[Gap]] = {}
    for gap in sorted(away):
        breaks.setdefault(gap.tensor, []).append(gap)
    return tuple(
        _Stay(tensor, start, end)
        for tensor, uses in enumerate(schedule.uses)
        for start, end in zip(
            (uses[0], *(gap.end for gap in breaks.get(tensor, ()))),
            (*(gap.first for gap in breaks.get(tensor, ())), uses[-1] + 1),
            strict=True,
        )
    )


def _homes(schedule: Schedule, stays: tuple[_Stay, ...]) -> dict[_Stay, _Stay]:
    """Each stay's home: itself, or that of the input over which an in-place operator writes it."""
    last = {stay.tensor: stay for stay in stays}
    first = {stay.tensor: stay for stay in reversed(stays)}
    homes = {stay: stay for stay in stays}
    for _, (source, target) in sorted(schedule.overwritten.items()):
        homes[first[target]] = homes[last[source]]
    return homes


def _tensor_buffers(
    schedule: Schedule, stays: tuple[_Stay, ...], homes: Mapping[_Stay, _Stay]
) -> list[Buffer]:
    """One buffer for each home (:func:`_homes`), from the first stay in it to the end of the last."""
    ends: dict[_Stay, int] = {}
    for stay in stays:
        home = homes[stay]
        ends[home] = max(stay.end, ends.get(home, 0))
    alignment, blocks = schedule.masks.graph.settings.alignment_bytes, schedule.masks.blocks
    return [
        Buffer(_name(home), home.start, end, blocks[home.tensor], alignment) for home, end in ends.items()
    ]


def _parameter_buffers(schedule: Schedule) -> list[Buffer]:
    graph = schedule.masks.graph
    alignment = graph.settings.alignment_bytes
    return [
        Buffer(f"parameters {operator}", step, step + 1, size, alignment)
        for step, operator in enumerate(schedule.order)
        if (size := graph.operators[operator].parameter_bytes)
    ]


def _name(stay: _Stay) -> str:
    return f"tensor {stay.tensor} from {stay.start}"


def _plan(
    schedule: Schedule,
    stays: tuple[_Stay, ...],
    homes: Mapping[_Stay, _Stay],
    addresses: Mapping[str, int],
) -> Plan:
    """The plan with these addresses, which are by the names of stays' homes and of operators' parameters."""
    graph = schedule.masks.graph
    residencies: list[list[Residency]] = [[] for _ in graph.tensors]
    for stay in stays:
        residencies[stay.tensor].append(Residency(stay.start, stay.end, addresses[_name(homes[stay])]))
    return Plan(
        tuple(graph.operators[operator].name for operator in schedule.order),
        tuple(_tensor_plan(schedule, tensor, tuple(own)) for tensor, own in enumerate(residencies)),
        tuple(
            (graph.operators[operator].name, addresses[f"parameters {operator}"])
            for operator in schedule.order
            if graph.operators[operator].parameter_bytes
        ),
    )


def _tensor_plan(schedule: Schedule, index: int, residencies: tuple[Residency, ...]) -> TensorPlan:
    graph = schedule.masks.graph
    tensor = graph.tensors[index]
    retrieved = tuple(residency.start for residency in residencies[1:])
    copied = index in graph.on_host
    spilled = residencies[0].end if retrieved and not copied else None
    return TensorPlan(tensor.name, residencies, spilled, retrieved)
