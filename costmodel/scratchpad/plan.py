"""A memory plan for an operator graph, replayed step by step: is it valid, and what does it move off chip?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from costmodel.scratchpad.cut import TensorCut
from costmodel.scratchpad.graph import OperatorGraph

IDLE = ""
"""A step of a plan's order in which no operator runs: what leaves in it can be elsewhere at the next."""


@dataclass(frozen=True)
class Residency:
    """A tensor at one address over the timesteps ``start`` <= t < ``end``."""

    start: int
    end: int
    address: int


@dataclass(frozen=True)
class TensorPlan:
    """What happens to one tensor: when it is resident and where, when it is spilled and retrieved.

    A spill at step t takes it away from t on and leaves a copy with the host; a retrieval at step t brings
    it back from t on (S and R of Section III-B).
    """

    tensor: str
    residencies: tuple[Residency, ...]
    spilled: int | None = None
    retrieved: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Operators in the order they run, one a timestep (or none: IDLE); per tensor its plan; per operator with
    parameters in the scratchpad the address of their block.

    ``cuts``: how tensors of the graph are cut, by name. Then operators and tensors are those of the cut graph
    (:func:`costmodel.scratchpad.cut.cut_graph`)."""

    order: tuple[str, ...]
    tensors: tuple[TensorPlan, ...]
    parameter_addresses: tuple[tuple[str, int], ...] = ()
    cuts: tuple[tuple[str, TensorCut], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data: ``order``, ``tensors`` by name with ``residency`` (start, end exclusive, address),
        ``spilled_at`` and ``retrieved_at`` steps, ``parameters`` (operator -> address), and, where tensors
        are cut, ``cuts`` (tensor -> how)."""
        cuts = {"cuts": {name: asdict(cut) for name, cut in self.cuts}} if self.cuts else {}
        return {
            **cuts,
            "order": list(self.order),
            "tensors": {
                tensor.tensor: {
                    "residency": [
                        {"start": r.start, "end": r.end, "address": r.address} for r in tensor.residencies
                    ],
                    "spilled_at": tensor.spilled,
                    "retrieved_at": list(tensor.retrieved),
                }
                for tensor in self.tensors
            },
            "parameters": dict(self.parameter_addresses),
        }


def off_chip_bytes(graph: OperatorGraph, plan: Plan) -> int:
    """Bytes of non-compulsory off-chip access: every spill and every retrieval (Eq. 12)."""
    traffic = {tensor.name: tensor.traffic_bytes for tensor in graph.tensors}
    return sum(
        traffic[tensor.tensor] * ((tensor.spilled is not None) + len(tensor.retrieved))
        for tensor in plan.tensors
    )


def violations(graph: OperatorGraph, plan: Plan, budget_bytes: int) -> list[str]:
    """Why the plan cannot run in a scratchpad of that size; empty when it can. Knows no solver.

    Replayed are: every operator once and after its inputs' makers (Eqs. 5-7), inputs and outputs resident at
    the operator's step (Eq. 5), residencies that begin at a creation, an arrival or a retrieval and last
    unbroken at one address (Eqs. 1-3, 11), at most one spill, ahead of every retrieval (Eqs. 4, 8), blocks
    that do not overlap (Eq. 10) and stay within the budget (Eq. 9).
    """
    names = [operator.name for operator in graph.operators]
    if Counter(name for name in plan.order if name != IDLE) != Counter(names):
        return ["order: not every operator exactly once"]
    known = {tensor.name for tensor in graph.tensors}
    if Counter(tensor.tensor for tensor in plan.tensors) != Counter(known):
        return ["tensors: not every tensor of the graph exactly once"]
    steps = {name: step for step, name in enumerate(plan.order)}
    plans = {tensor.tensor: tensor for tensor in plan.tensors}
    found = [reason for tensor in plan.tensors for reason in _broken_residency(tensor, len(plan.order))]
    if found:
        return found
    times = [steps[name] for name in names]
    return [
        *_untimely(graph, plans, times),
        *_broken_transfers(graph, plans),
        *_misplaced(graph, plan, times, budget_bytes),
    ]


def _broken_residency(tensor: TensorPlan, steps: int) -> Iterator[str]:
    if not tensor.residencies:
        yield f"{tensor.tensor}: never resident"
    for residency in tensor.residencies:
        if not 0 <= residency.start < residency.end <= steps:
            yield f"{tensor.tensor}: resident over [{residency.start}, {residency.end}) of {steps} steps"
    for one, two in pairwise(tensor.residencies):
        # two that touch are one residency, of which the second half was never retrieved
        if one.end >= two.start:
            yield f"{tensor.tensor}: resident until {one.end} and again from {two.start}, without a step away"


def _untimely(graph: OperatorGraph, plans: dict[str, TensorPlan], times: list[int]) -> Iterator[str]:
    """Operators that run before an input is there, tensors that are there before they are made."""
    for index, tensor in enumerate(graph.tensors):
        residencies = plans[tensor.name].residencies
        maker = graph.producers[index]
        if maker is not None and residencies[0].start != times[maker]:
            yield f"{tensor.name}: made at step {times[maker]}, resident from {residencies[0].start}"
        for reader in graph.consumers[index]:
            if not any(r.start <= times[reader] < r.end for r in residencies):
                name = graph.operators[reader].name
                yield f"{name}: input {tensor.name} is not resident at step {times[reader]}"
            if maker is not None and times[reader] <= times[maker]:
                yield f"{graph.operators[reader].name}: runs before {tensor.name} is made"


def _broken_transfers(graph: OperatorGraph, plans: dict[str, TensorPlan]) -> Iterator[str]:
    for number, tensor in enumerate(graph.tensors):
        plan = plans[tensor.name]
        again = tuple(residency.start for residency in plan.residencies[1:])
        if plan.retrieved != again:
            yield f"{tensor.name}: retrieved at {plan.retrieved}, but resident again from {again}"
        if again and plan.spilled is None and number not in graph.on_host:
            yield f"{tensor.name}: retrieved without a spill"
        if plan.spilled is not None and plan.spilled != plan.residencies[0].end:
            yield f"{tensor.name}: spilled at {plan.spilled}, resident until {plan.residencies[0].end}"


class _Block(NamedTuple):
    """Bytes [address, address + size) over the steps [start, end).

    ``tensor`` is its index, -1 for parameters; ``last`` whether the tensor is never resident again, so that
    an in-place operator may write over it.
    """

    address: int
    size: int
    start: int
    end: int
    name: str
    tensor: int
    last: bool


def _misplaced(graph: OperatorGraph, plan: Plan, times: list[int], budget_bytes: int) -> Iterator[str]:
    """Blocks outside the scratchpad, misaligned, or over one another; parameters without one block each."""
    held = Counter(operator.name for operator in graph.operators if operator.parameter_bytes)
    if Counter(name for name, _ in plan.parameter_addresses) != held:
        yield "parameters: not every operator's block exactly once"
    blocks = [*_tensor_blocks(graph, plan), *_parameter_blocks(graph, plan, times)]
    alignment = graph.settings.alignment_bytes
    for block in blocks:
        end = block.address + block.size
        if block.address < 0 or end > budget_bytes:
            yield f"{block.name}: from {block.address} to {end} of {budget_bytes} bytes"
        if block.address % alignment:
            yield f"{block.name}: address {block.address} is no multiple of {alignment}"
    starting: dict[int, list[_Block]] = {}
    for block in blocks:
        starting.setdefault(block.start, []).append(block)
    running = {step: operator for operator, step in enumerate(times)}
    present: list[_Block] = []
    # Blocks are compared step by step and not pair by pair: whether two may lie on top of each other depends
    # on the operator that runs (in-place operators).
    for step in range(len(plan.order)):
        present = [block for block in present if block.end > step] + starting.get(step, [])
        yield from _overlaps(graph, running.get(step), step, present)


def _tensor_blocks(graph: OperatorGraph, plan: Plan) -> Iterator[_Block]:
    indices = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
    for tensor in plan.tensors:
        index = indices[tensor.tensor]
        size = graph.tensors[index].block_bytes
        for r in tensor.residencies:
            last = r is tensor.residencies[-1]
            yield _Block(r.address, size, r.start, r.end, tensor.tensor, index, last)


def _parameter_blocks(graph: OperatorGraph, plan: Plan, times: list[int]) -> Iterator[_Block]:
    """One block for every address given to an operator's parameters."""
    indices = {operator.name: index for index, operator in enumerate(graph.operators)}
    for name, address in plan.parameter_addresses:
        index = indices.get(name)
        if index is not None:
            size = graph.operators[index].parameter_bytes
            yield _Block(address, size, times[index], times[index] + 1, f"parameters of {name}", -1, True)


def _overlaps(graph: OperatorGraph, operator: int | None, step: int, present: list[_Block]) -> Iterator[str]:
    """Blocks that share bytes at a step; sorted by address only those up to the farthest end so far can."""
    by_address = sorted((block for block in present if block.size), key=lambda block: block[:2])
    farthest: list[_Block] = []
    for block in by_address:
        farthest = [other for other in farthest if other.address + other.size > block.address]
        for other in farthest:
            if not _written_over(graph, operator, step, (other, block)):
                yield f"step {step}: {other.name} and {block.name} overlap at address {block.address}"
        farthest.append(block)


def _written_over(graph: OperatorGraph, operator: int | None, step: int, pair: tuple[_Block, _Block]) -> bool:
    """Whether one is the input that the other, the running operator's output, overwrites."""
    if operator is None or pair[0].address != pair[1].address:
        return False
    return any(
        (source.tensor, target.tensor) in graph.operators[operator].overwrites
        and source.end == step + 1
        and source.last
        for source, target in (pair, pair[::-1])
    )
