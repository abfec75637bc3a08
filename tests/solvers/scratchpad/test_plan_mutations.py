"""Plans broken at random: the replay against a memory simulated byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings
from costmodel.scratchpad.plan import IDLE, Plan, Residency, TensorPlan, off_chip_bytes
from solvers.budget import Budget
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.problem import ScratchpadProblem, violations
from tests.solvers.scratchpad import random_graphs

SETTINGS = (
    ScratchpadSettings(),
    ScratchpadSettings(parameters=True),
    ScratchpadSettings(inputs_on_host=True),
    ScratchpadSettings(in_place=True),
    ScratchpadSettings(parameters=True, alignment_bytes=2),
)


class CrashError(Exception):
    """The simulated machine cannot go on."""


class Machine:
    """A scratchpad whose every byte remembers the tensor last written to it, and what was spilled."""

    def __init__(self, graph: OperatorGraph, size: int) -> None:
        self.graph, self.size = graph, size
        self.owner: list[str | None] = [None] * size
        self.spilled: set[str] = set()
        self.moved = 0

    def check(self, holds: bool) -> None:
        if not holds:
            raise CrashError

    def take(self, name: str, start: int, size: int, mine: frozenset[str]) -> None:
        """Write ``size`` bytes over nothing, or over what is the operator's to overwrite."""
        self.check(start >= 0 and start + size <= self.size)
        self.check(start % self.graph.settings.alignment_bytes == 0)
        before = {self.owner[byte] for byte in range(start, start + size)}
        self.check(not before - {None} or (before <= mine and start in self.starts(before)))
        self.owner[start : start + size] = [name] * size

    def starts(self, names: set[str | None]) -> set[int]:
        return {self.owner.index(name) for name in names}

    def release(self, name: str) -> None:
        self.owner = [None if own == name else own for own in self.owner]


def simulated(graph: OperatorGraph, plan: Plan, size: int) -> int:
    """Bytes moved; CrashError where the plan cannot be carried out."""
    machine = Machine(graph, size)
    known = sorted(t.name for t in graph.tensors)
    machine.check(sorted(t.tensor for t in plan.tensors) == known)
    machine.check(sorted(filter(None, plan.order)) == sorted(v.name for v in graph.operators))
    for tensor in plan.tensors:
        machine.check(bool(tensor.residencies))
        for one in tensor.residencies:
            machine.check(0 <= one.start < one.end <= len(plan.order))
        for one, two in zip(tensor.residencies, tensor.residencies[1:], strict=False):
            machine.check(one.end < two.start)
        machine.check(tensor.retrieved == tuple(r.start for r in tensor.residencies[1:]))
        machine.check(tensor.spilled in (None, tensor.residencies[0].end))
    held = sorted(v.name for v in graph.operators if v.parameter_bytes)
    machine.check(sorted(name for name, _ in plan.parameter_addresses) == held)
    for step in range(len(plan.order)):
        _spill(machine, plan, step)
        _run_step(machine, plan, step)
    _spill(machine, plan, len(plan.order))
    return machine.moved


def _spill(machine: Machine, plan: Plan, step: int) -> None:
    traffic = {t.name: t.traffic_bytes for t in machine.graph.tensors}
    for tensor in plan.tensors:
        if tensor.spilled == step:
            machine.spilled.add(tensor.tensor)
            machine.moved += traffic[tensor.tensor]


def _run_step(machine: Machine, plan: Plan, step: int) -> None:
    graph = machine.graph
    sizes = {t.name: (t.block_bytes, t.traffic_bytes) for t in graph.tensors}
    names = [t.name for t in graph.tensors]
    operator = next((v for v in graph.operators if v.name == plan.order[step] != IDLE), None)
    outputs = [names[t] for t in operator.outputs] if operator else []
    for tensor in plan.tensors:
        for number, residency in enumerate(tensor.residencies):
            if residency.start == step and tensor.tensor not in outputs:
                _bring(machine, tensor, number, residency.address, sizes[tensor.tensor])
    if operator:
        inputs = [names[t] for t in operator.inputs]
        parameters = dict(plan.parameter_addresses).get(operator.name)
        if parameters is not None:
            machine.take("parameters", parameters, operator.parameter_bytes, frozenset())
        machine.check(all(_there(plan, name, step) for name in inputs))
        ending = {t.tensor for t in plan.tensors if t.residencies[-1].end == step + 1}
        for index, name in zip(operator.outputs, outputs, strict=True):
            own = next(t for t in plan.tensors if t.tensor == name).residencies[0]
            machine.check(own.start == step)
            mine = frozenset(names[one] for one, two in operator.overwrites if two == index) & ending
            machine.take(name, own.address, sizes[name][0], mine)
    machine.release("parameters")
    for tensor in plan.tensors:
        if any(r.end == step + 1 for r in tensor.residencies):
            machine.release(tensor.tensor)


def _bring(machine: Machine, tensor: TensorPlan, number: int, address: int, sizes: tuple[int, int]) -> None:
    """An arrival for nothing, or a retrieval of what the host has a copy of."""
    given = {t.name for t in machine.graph.tensors if t.given}
    if number == 0:
        machine.check(tensor.tensor in given)
    else:
        on_host = tensor.tensor in given and machine.graph.settings.inputs_on_host
        machine.check(on_host or tensor.tensor in machine.spilled)
        machine.moved += sizes[1]
    machine.take(tensor.tensor, address, sizes[0], frozenset())


def _there(plan: Plan, name: str, step: int) -> bool:
    tensor = next(t for t in plan.tensors if t.tensor == name)
    return any(r.start <= step < r.end for r in tensor.residencies)


def mutations(plan: Plan, random: Random) -> Iterator[Plan]:
    """The plan with one to three small changes, many times."""
    for _ in range(40):
        changed = plan
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            changed = _mutated(changed, random)
        yield changed


def _mutated(plan: Plan, random: Random) -> Plan:
    kind = random.randrange(5)
    if kind == 0:
        order = list(plan.order)
        one, two = random.randrange(len(order)), random.randrange(len(order))
        order[one], order[two] = order[two], order[one]
        return replace(plan, order=tuple(order))
    if kind == 1 and plan.parameter_addresses:
        addresses = [
            (name, place + random.choice((-2, -1, 0, 2))) for name, place in plan.parameter_addresses
        ]
        return replace(plan, parameter_addresses=tuple(random.choices(addresses, k=len(addresses))))
    index = random.randrange(len(plan.tensors))
    tensors = list(plan.tensors)
    tensors[index] = _mutated_tensor(tensors[index], random)
    return replace(plan, tensors=tuple(tensors))


def _mutated_tensor(tensor: TensorPlan, random: Random) -> TensorPlan:
    kind = random.randrange(4)
    stays = list(tensor.residencies)
    at = random.randrange(len(stays))
    nudge = random.choice((-2, -1, 1, 2))
    if kind == 0:
        stays[at] = replace(stays[at], address=stays[at].address + nudge)
    elif kind == 1:
        stays[at] = replace(stays[at], end=stays[at].end + nudge)
    elif kind == 2:
        return replace(tensor, spilled=random.choice((None, stays[0].end, stays[0].end + nudge)))
    elif stays[at].end - stays[at].start > 2:
        away = random.randrange(stays[at].start + 1, stays[at].end - 1)
        back = Residency(away + 1, stays[at].end, stays[at].address)
        stays[at : at + 1] = [replace(stays[at], end=away), back]
        spilled = stays[0].end if random.random() < 0.8 else None
        return TensorPlan(tensor.tensor, tuple(stays), spilled, tuple(r.start for r in stays[1:]))
    return replace(tensor, residencies=tuple(stays))


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_replays_exactly_if_a_simulated_memory_carries_it_out(seed: int) -> None:
    random = Random(seed)
    graph = random_graphs.random_graph(seed, 6, SETTINGS[seed % 5])
    problem = ScratchpadProblem(graph, graph.required_bytes + random.choice((0, 1, 4)))
    plan = cosma.solve(problem, Budget()).solution
    if plan is None:
        pytest.skip("this graph has no plan in place")
    assert simulated(graph, plan, problem.budget_bytes) == off_chip_bytes(graph, plan)
    runs = breaks = 0
    for changed in mutations(plan, random):
        try:
            moved = simulated(graph, changed, problem.budget_bytes)
        except CrashError:
            breaks += 1
            assert violations(problem, changed), changed
        else:
            runs += 1
            assert violations(problem, changed) == [], changed
            assert moved == off_chip_bytes(graph, changed)
    assert breaks > 10
    assert runs > 0
