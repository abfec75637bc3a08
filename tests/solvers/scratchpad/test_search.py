"""The best-first search against enumeration; its switches; why the safe-move rule has a last condition."""

from __future__ import annotations

from itertools import product

import pytest

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from solvers.scratchpad.cosma.moves import Moves, State
from solvers.scratchpad.cosma.search import PlanSearch, Switches, operators_of
from solvers.scratchpad.masks import GraphMasks
from tests.solvers.scratchpad import random_graphs

SETTINGS = (
    ScratchpadSettings(),
    ScratchpadSettings(inputs_on_host=True),
    ScratchpadSettings(parameters=True),
    ScratchpadSettings(in_place=True),
)


PLAIN = Switches()


def optimum(graph: OperatorGraph, capacity: int, switches: Switches = PLAIN) -> int | None:
    search = PlanSearch(GraphMasks.of(graph), capacity, switches=switches)
    reached = search.run(60)
    assert reached is not None or search.exhausted
    return None if reached is None else reached.state.cost


@pytest.mark.parametrize("seed", range(60))
def test_the_optimum_is_the_enumerated_one(seed: int) -> None:
    graph = random_graphs.random_graph(seed, 6, SETTINGS[seed % 4])
    capacity = graph.required_bytes + seed % 3
    assert optimum(graph, capacity) == random_graphs.least_bytes(graph, capacity)


@pytest.mark.parametrize("seed", range(100, 130))
def test_switches_and_seeds_change_no_optimum(seed: int) -> None:
    settings = SETTINGS[seed % 4]
    for graph in (
        random_graphs.random_graph(seed, 9, settings),
        random_graphs.unfused_graph(seed, settings, 2),
    ):
        found = {
            optimum(graph, graph.required_bytes + 1, Switches(safe, dominance, ties, *others))
            for safe, dominance, ties in product((True, False), (True, False), (0, 1))
            # safe_chains, estimate, safe_first and late_chains: all, none, and all but one of them
            for others in (
                (True,) * 4,
                (False,) * 4,
                *(tuple(n != off for n in range(4)) for off in range(4)),
            )
        }
        assert len(found) == 1


def test_every_order_found_is_topological() -> None:
    graph = random_graphs.random_graph(5, 10)
    reached = PlanSearch(GraphMasks.of(graph), graph.required_bytes).run(60)
    assert reached is not None
    assert operators_of(reached.path) in set(random_graphs.orders(graph))


def test_an_upper_bound_prunes_and_becomes_the_bound() -> None:
    graph = random_graphs.spilling_graph()
    least = random_graphs.least_bytes(graph, graph.required_bytes)
    search = PlanSearch(GraphMasks.of(graph), graph.required_bytes)
    search.tighten(float(least or 0))
    assert search.run(60) is None
    assert search.exhausted
    assert search.bound == least


def trap() -> OperatorGraph:
    """v joins d1 and d2 into o of their size, which frees nothing; before or after u makes its large z."""
    sizes = {"i": 1, "d1": 1, "d2": 1, "x": 1, "o": 2, "z": 3, "y": 1, "w": 1}
    names = list(sizes)

    def operator(name: str, inputs: str, outputs: str) -> Operator:
        made, read = (tuple(names.index(t) for t in tensors.split()) for tensors in (outputs, inputs))
        return Operator(name, read, made, 0)

    return OperatorGraph(
        "trap",
        (
            operator("p", "i", "d1 d2 x"),
            operator("v", "d1 d2", "o"),
            operator("u", "x", "z"),
            operator("shrink", "z", "y"),
            operator("last", "o y", "w"),
        ),
        tuple(GraphTensor(name, size, size, name == "i") for name, size in sizes.items()),
    )


class WithoutLastCondition(Moves):
    """The safe-move rule as often told: fits, and leaves no more bytes live."""

    def at_once(self, state: State, operator: int, goal: int) -> tuple[tuple[int, ...], State]:
        dead = self.masks.dying(operator, state.executed | 1 << operator)
        missing = self.masks.inputs[operator] & ~state.resident
        if (
            missing
            or self.excess(state, operator) > 0
            or self.masks.kept_bytes[operator] > self.masks.bytes_of(dead)
        ):
            return (), state
        return (operator,), self.ran(state, operator)


def test_without_its_last_condition_the_safe_move_rule_is_wrong() -> None:
    graph = trap()
    assert random_graphs.least_bytes(graph, 5) == 2
    assert optimum(graph, 5) == 2
    search = PlanSearch(GraphMasks.of(graph), 5)
    search.moves = WithoutLastCondition(search.masks, 5)
    told = search.run(60)
    assert told is not None
    assert told.state.cost == 4
