"""Serial parts: found again by their definition, and in a time that grows with the graph and no faster."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from solvers.scratchpad import parts
from solvers.scratchpad.masks import GraphMasks
from tests.solvers.scratchpad.random_graphs import forked_graph, random_graph

SETTINGS = (ScratchpadSettings(), ScratchpadSettings(inputs_on_host=True, parameters=True))


def chain(operators: int) -> OperatorGraph:
    """Every operator reads the tensor before it."""
    nodes = tuple(Operator(f"o{v}", (v,), (v + 1,), 0) for v in range(operators))
    return OperatorGraph(
        "chain", nodes, tuple(GraphTensor(f"t{t}", 4, 4, t == 0) for t in range(operators + 1))
    )


def joined(graphs: list[OperatorGraph], settings: ScratchpadSettings) -> OperatorGraph:
    """The graphs one after the other: the last tensor of one is the first input of the next."""
    operators: list[Operator] = []
    tensors: list[GraphTensor] = []
    for graph in graphs:
        first = max(0, len(tensors) - 1)
        tensors += [
            GraphTensor(f"t{first + t}", tensor.traffic_bytes, tensor.block_bytes, tensor.given)
            for t, tensor in enumerate(graph.tensors)
            if first + t >= len(tensors)
        ]
        operators += [
            Operator(
                f"o{len(operators) + v}",
                tuple(first + t for t in node.inputs),
                tuple(first + t for t in node.outputs),
                node.parameter_bytes,
            )
            for v, node in enumerate(graph.operators)
        ]
    return OperatorGraph("joined", tuple(operators), tuple(tensors), settings)


def cuts_by_definition(graph: OperatorGraph) -> list[tuple[set[int], set[int]]]:
    """(executed, resident) behind every cut but the last operator that is comparable with all others."""
    count = len(graph.operators)
    makers = [{graph.producers[t] for t in node.inputs} - {None} for node in graph.operators]
    before: list[set[int]] = []
    for v in range(count):
        before.append(set().union(*({m} | before[m] for m in makers[v] if m is not None)))
    comparable = [
        v for v in range(count) if all(u in before[v] or v in before[u] for u in range(count) if u != v)
    ]
    found = []
    for v in sorted(comparable, key=lambda u: len(before[u]))[:-1]:
        executed = before[v] | {v}
        arrived = {
            t
            for t in range(len(graph.tensors))
            if graph.producers[t] in executed
            or (graph.producers[t] is None and executed & set(graph.consumers[t]))
        }
        live = {t for t in arrived if set(graph.consumers[t]) - executed}
        if live <= set(graph.operators[v].outputs):
            found.append((executed, live))
    return found


def members(mask: int) -> set[int]:
    return {index for index in range(mask.bit_length()) if mask >> index & 1}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(40))
def test_every_cut_is_found_and_no_other(seed: int, settings: ScratchpadSettings) -> None:
    """Forks, forks in a row (which have cuts), and graphs with several inputs and outputs."""
    row = joined([forked_graph(seed + k, settings) for k in range(3)], settings)
    for graph in (row, random_graph(seed, 3 + seed % 9, settings), chain(1 + seed % 5)):
        masks = GraphMasks.of(graph)
        found = parts.serial_parts(masks)
        expected = cuts_by_definition(graph)
        states = [part.start.state for part in found[1:]]
        assert [(members(state.executed), members(state.resident)) for state in states] == expected
        assert all(one.goal == two.start.state.executed for one, two in pairwise(found))
        assert found[-1].goal == masks.all_operators
        for state in states:
            waiting = [v for v in range(len(graph.operators)) if not state.executed >> v & 1]
            ready = {v for v in waiting if not masks.predecessors[v] & ~state.executed}
            on_host = {t for v in waiting for t in graph.operators[v].inputs if graph.tensors[t].given}
            assert members(state.ready) == ready
            assert members(state.host) == (on_host if graph.settings.inputs_on_host else set())
            assert state.bytes == sum(graph.tensors[t].block_bytes for t in members(state.resident))


def test_graphs_in_a_row_fall_apart() -> None:
    """So the comparison above is not one of empty lists."""
    row = joined([forked_graph(k) for k in range(3)], ScratchpadSettings())
    assert len(parts.serial_parts(GraphMasks.of(row))) > 3
    assert len(parts.serial_parts(GraphMasks.of(chain(50)))) == 50


def lines_run(operators: int) -> int:
    """Lines of the module that a chain's parts and their comparison take."""
    masks, lines = GraphMasks.of(chain(operators)), 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        for part in parts.serial_parts(masks):
            parts.same_problem(masks, part)
    finally:
        sys.settrace(None)
    return lines


def test_twice_the_operators_take_twice_the_work() -> None:
    """Lines are counted, no second is measured; each cut that looked at the whole graph took four times."""
    assert lines_run(400) < 2.2 * lines_run(200)
