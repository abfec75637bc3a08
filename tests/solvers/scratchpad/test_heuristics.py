"""Divide and conquer, the comparison schemes, serial parts, and replacement when packing says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.scratchpad.graph import OperatorGraph
from solvers.budget import Budget
from solvers.scratchpad import comparison, divide, fixed_schedule, packed
from solvers.scratchpad.arena import Arena
from solvers.scratchpad.masks import GraphMasks, bits
from solvers.scratchpad.parts import at_positions, positions, same_problem, serial_parts
from solvers.scratchpad.peak import MinimumPeak, minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem, objective_of, violations
from solvers.scratchpad.replacement import Schedule, best_replacement
from tests.solvers.scratchpad import random_graphs

BUDGET = Budget(wall_seconds=30)
Load = Callable[..., OperatorGraph]


@pytest.mark.slow
def test_divide_finds_the_optimum_of_a_searched_network(reference_graph: Load) -> None:
    graph = reference_graph("amoebanet_d")
    outcome = divide.solve(
        ScratchpadProblem(graph, graph.required_bytes), BUDGET, divide.Params(rounds=1, boundary_states=3)
    )
    assert outcome.objective == 1712256


@pytest.mark.parametrize("proven", [True, False])
def test_rounds_begin_again_where_the_order_of_minimum_peak_was_not_found(
    proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that ends early the first time gives an order that is no better than the graph's own."""
    graph = random_graphs.spilling_graph()
    problem = ScratchpadProblem(graph, graph.required_bytes)
    asked = list[float]()

    def search(graph: OperatorGraph, wall_seconds: float) -> MinimumPeak:
        asked.append(wall_seconds)
        found = minimum_peak(graph, 30)
        if proven or len(asked) > 1:
            return found
        return MinimumPeak(tuple(range(len(graph.operators))), found.peak_bytes + 1, found.bound_bytes)

    monkeypatch.setattr(divide, "minimum_peak", search)
    found = divide.divided(problem, Budget(300))
    assert found is not None
    least = random_graphs.least_bytes(graph, graph.required_bytes)
    assert least is not None
    assert found.cost >= least > 0
    assert len(asked) == (1 if proven else 2)
    # a third of the time, then half of what is left
    assert all(90 < seconds < 151 for seconds in asked)


def test_a_round_that_takes_all_its_time_leaves_some_for_the_order_that_it_began_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_graphs.spilling_graph()
    problem = ScratchpadProblem(graph, graph.required_bytes)

    def endless(conquest: Any, _segments: Any) -> None:
        """Nothing, by the end of the conquest's time."""
        watch = conquest.deadline.watch
        object.__setattr__(watch, "_wall", watch._wall - max(0.0, conquest.deadline.left))

    monkeypatch.setattr(divide._Conquest, "order", endless)
    found = divide.divided(problem, Budget(100.0))
    assert found is not None
    order = minimum_peak(graph).order
    expected = best_replacement(Schedule(GraphMasks.of(graph), order), problem.capacity_bytes, Budget())
    assert found.schedule.order == order
    assert expected is not None
    assert found.cost == expected.cost


def test_break_nodes_by_hand_cut_where_they_say() -> None:
    """Every order runs a sub-graph whole before the next; what leads to no break node comes last."""
    for seed in range(60):
        graph = random_graphs.random_graph(seed, operators=8)
        problem = ScratchpadProblem(graph, graph.required_bytes)
        nodes = ("operator5", "operator2")
        outcome = divide.solve(problem, BUDGET, divide.Params(break_nodes=nodes))
        assert outcome.solution is not None
        assert not violations(problem, outcome.solution)
        assert outcome.objective == objective_of(problem, outcome.solution)
        known = {operator.name for operator in graph.operators}
        segments = divide.sub_graphs(problem, nodes)
        assert sorted(v for segment in segments for v in segment) == list(range(len(graph.operators)))
        for number, node in ((0, "operator2"), (1, "operator5")):
            if node in known:
                assert node == graph.operators[segments[number][-1]].name
        placed: set[int] = set()
        for segment in segments:
            placed |= set(segment)
            makers = {graph.producers[t] for v in segment for t in graph.operators[v].inputs}
            assert makers - {None} <= placed


def test_every_operator_a_break_node_is_its_own_order() -> None:
    graph = random_graphs.random_graph(3, operators=8)
    names = [operator.name for operator in graph.operators]
    assert divide.sub_graphs(ScratchpadProblem(graph, 99), names) == [(v,) for v in range(len(names))]


@pytest.mark.parametrize("phase", range(3))
def test_cuts_keep_the_order_and_the_length(phase: int, reference_graph: Load) -> None:
    masks = GraphMasks.of(reference_graph("densenet121"))
    order = tuple(range(len(masks.graph.operators)))
    segments = divide.cuts(masks, order, 40, phase)
    assert tuple(operator for segment in segments for operator in segment) == order
    assert max(map(len, segments)) <= 40


def test_live_bytes_are_what_a_replay_holds() -> None:
    graph = random_graphs.random_graph(4, 8)
    order = next(random_graphs.orders(graph))
    used = [{*graph.operators[v].inputs, *graph.operators[v].outputs} for v in order]
    held = [
        sum(
            tensor.block_bytes
            for index, tensor in enumerate(graph.tensors)
            if any(index in own for own in used[: step + 1]) and any(index in own for own in used[step + 1 :])
        )
        for step in range(len(order))
    ]
    assert divide.live_bytes(GraphMasks.of(graph), order) == held


@pytest.mark.parametrize("order", ["default", "minimum_peak"])
@pytest.mark.parametrize("replacement", ["belady", "greedy"])
def test_comparison_schemes_replay_and_lose(order: Any, replacement: Any, reference_graph: Load) -> None:
    graph = reference_graph("transformer", parameters=True)
    problem = ScratchpadProblem(graph, graph.required_bytes)
    outcome = comparison.solve(problem, BUDGET, comparison.Params(order, replacement))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert (outcome.objective or 0) > 4915200


@pytest.mark.parametrize("network", ["lraspp_mobilenet_v3", "transformer", "vit_b_16"])
def test_belady_in_the_default_order_moves_what_the_reference_s_did(
    network: str, reference_graph: Load, optima: list[dict[str, Any]]
) -> None:
    cases = [c for c in optima if c["network"] == network and not c["parameters"]]
    for case in cases:
        problem = ScratchpadProblem(reference_graph(network), case["budget_bytes"])
        assert comparison.solve(problem, BUDGET).objective == case["default_belady"]


@pytest.mark.parametrize(
    "build",
    [
        lambda: comparison.Params(replacement="lru"),  # type: ignore[arg-type]
        lambda: comparison.Params(order="random"),  # type: ignore[arg-type]
        lambda: fixed_schedule.Params(order="random"),  # type: ignore[arg-type]
        lambda: divide.Params(segment=0),
    ],
)
def test_parameters_are_checked(build: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        build()


def test_the_arena_takes_the_tightest_gap() -> None:
    arena = Arena(100)
    assert [arena.allocate(name, size) for name, size in (("a", 30), ("b", 10), ("c", 20))] == [0, 30, 40]
    arena.free("a")
    assert arena.allocate("d", 35) == 60
    assert arena.allocate("e", 31) is None
    assert arena.allocate("f", 5) == 95
    assert arena.allocate("g", 30) == 0


def test_serial_parts_cover_the_graph_and_repeat(reference_graph: Load) -> None:
    masks = GraphMasks.of(reference_graph("vit_b_16"))
    parts = serial_parts(masks)
    assert sum(part.operators for part in parts) == masks.all_operators
    assert len({same_problem(masks, part) for part in parts}) < len(parts) / 4
    for part in parts:
        order = tuple(bits(part.operators))
        assert at_positions(positions(order, part), part) == order


def test_a_forbidden_replacement_does_not_come_back() -> None:
    graph = random_graphs.spilling_graph()
    schedule = Schedule(GraphMasks.of(graph), tuple(range(len(graph.operators))))
    first = best_replacement(schedule, graph.required_bytes, BUDGET)
    assert first is not None
    second = best_replacement(schedule, graph.required_bytes, BUDGET, [first.away])
    assert second is None or (not second.away <= first.away and second.cost >= first.cost)


def test_where_no_replacement_packs_one_with_slack_does(
    reference_graph: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = reference_graph("transformer")
    problem = ScratchpadProblem(graph, graph.required_bytes + 300_000)
    schedule = Schedule(GraphMasks.of(graph), tuple(range(len(graph.operators))))
    exact = packed.packed(problem, [schedule], BUDGET)
    monkeypatch.setattr(packed, "TRIES_PER_SCHEDULE", 0)
    slack = packed.packed(problem, [schedule], BUDGET)
    assert exact is not None
    assert slack is not None
    assert violations(problem, slack) == []
    assert objective_of(problem, slack) >= objective_of(problem, exact) > 0
