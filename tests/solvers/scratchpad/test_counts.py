"""States that count operators that are alike: what is live, the bound, the order, the solver with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from random import Random

import pytest
from large_graphs import llama_block

from costmodel.limits import recording
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from solvers.budget import Budget, always_in_time
from solvers.outcome import Status
from solvers.scratchpad.cosma import counts
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.cosma.classes import Classes
from solvers.scratchpad.cosma.counts import CountedSearch, named
from solvers.scratchpad.cosma.search import PlanSearch, Reached, start
from solvers.scratchpad.masks import GraphMasks, bits
from solvers.scratchpad.parts import Part, serial_parts
from solvers.scratchpad.problem import ScratchpadProblem, violations
from tests.solvers.scratchpad import random_graphs
from tests.solvers.scratchpad.test_estimate import BARE, fork, graph_of, join
from tests.thorough import how_many

SETTINGS = (
    ScratchpadSettings(),
    ScratchpadSettings(inputs_on_host=True),
    ScratchpadSettings(parameters=True),
    ScratchpadSettings(in_place=True, alignment_bytes=2),
)


def classes_of(graph: OperatorGraph, part: Part | None = None) -> Classes:
    masks = GraphMasks.of(graph)
    part = part or Part(start(masks), masks.all_operators)
    classes = Classes.of(masks, part.start.state, part.operators)
    assert classes is not None
    return classes


def graphs(seed: int) -> list[OperatorGraph]:
    settings = SETTINGS[seed % len(SETTINGS)]
    return [
        random_graphs.grouped_heads(seed, 2, 2, settings),
        random_graphs.grouped_heads(seed, 1, 4, settings),
        random_graphs.grouped_heads(seed, 3, 1, settings),
        random_graphs.forked_graph(seed, settings),
        random_graphs.unfused_graph(seed, settings),
        random_graphs.random_graph(seed, 8, settings),
    ]


def least(graph: OperatorGraph, capacity: int) -> int:
    reached = PlanSearch(GraphMasks.of(graph), capacity).run(60)
    assert reached is not None
    return reached.state.cost


@pytest.mark.parametrize("seed", range(how_many(30, thorough=200)))
def test_members_of_a_class_read_and_are_read_alike(seed: int) -> None:
    for graph in graphs(seed):
        classes = classes_of(graph)
        of_operator = {v: r for r, own in enumerate(classes.operators) for v in own.members}
        assert sorted(of_operator) == list(range(len(graph.operators)))
        for own in classes.operators:
            looks = {
                tuple(
                    sorted(
                        (graph.tensors[t].block_bytes, *sorted(of_operator[v] for v in graph.consumers[t]))
                        for t in graph.operators[member].inputs
                    )
                )
                for member in own.members
            }
            assert len(looks) == 1


@pytest.mark.parametrize("seed", range(how_many(30, thorough=300)))
def test_what_is_live_is_within_its_bounds_in_any_order(seed: int) -> None:
    random = Random(seed)
    for graph in graphs(seed):
        masks, classes = GraphMasks.of(graph), classes_of(graph)
        of_operator = {v: r for r, own in enumerate(classes.operators) for v in own.members}
        kinds = [(kind.block, kind.traffic, kind.on_host) for kind in classes.kinds]
        executed, ready, ran, made = 0, masks.sources, [0] * len(classes.operators), set[int]()
        while ready:
            operator = random.choice(list(bits(ready)))
            for number, _ in classes.operators[of_operator[operator]].reads:
                assert classes.tensors[number].allows(tuple(ran), of_operator[operator])
            executed |= 1 << operator
            ready = masks.ready_after(operator, ready, executed)
            ran[of_operator[operator]] += 1
            made |= {*graph.operators[operator].inputs, *graph.operators[operator].outputs}
            live = Counter(
                (masks.blocks[t], masks.traffic[t], bool(masks.on_host >> t & 1))
                for t in made
                if masks.readers[t] & ~executed
            )
            for k, kind in enumerate(kinds):
                own = [tensor for tensor in classes.tensors if tensor.kind == k]
                fewest = sum(tensor.least_live(tuple(ran)) for tensor in own)
                assert fewest <= live[kind] <= sum(tensor.most_live(tuple(ran)) for tensor in own)


@pytest.mark.parametrize("seed", range(how_many(60, thorough=600)))
def test_no_plan_costs_less_than_the_bound(seed: int) -> None:
    for graph in graphs(seed):
        for more in (0, 1, 3):
            capacity = graph.required_bytes + more
            search = CountedSearch(classes_of(graph), capacity)
            assert search.run(always_in_time) is not None
            assert search.bound <= least(graph, capacity)


@pytest.mark.parametrize("seed", range(how_many(20, thorough=100)))
def test_no_enumerated_plan_costs_less_than_the_bound(seed: int) -> None:
    random = Random(seed)
    names, wide = "abc"[: random.randint(2, 3)], random.randint(3, 7)
    sizes = {"i": random.randint(1, 3), "h": random.randint(2, 5), "end": 1}
    less = random.randint(1, 4)
    sizes |= {f"{name}{step}": size for name in names for step, size in enumerate((wide, less))}
    told = [told for name in names for told in (f"h > {name}0", f"{name}0 > {name}1")]
    graph = graph_of(sizes, "i > h", *told, f"{' '.join(f'{name}1' for name in names)} > end")
    search = CountedSearch(classes_of(graph), graph.required_bytes)
    search.run(always_in_time)
    enumerated = random_graphs.least_bytes(graph, graph.required_bytes)
    assert enumerated is not None
    assert search.bound <= enumerated


@pytest.mark.parametrize("seed", range(how_many(40, thorough=400)))
def test_the_bound_is_the_optimum_where_every_tensor_has_a_size_of_its_own(seed: int) -> None:
    """Then a kind is a tensor and a class an operator, and nothing is left open."""
    plain = random_graphs.random_graph(seed, 8, SETTINGS[seed % 3])
    sizes = Random(seed).sample(range(2, 3 * len(plain.tensors)), len(plain.tensors))
    tensors = tuple(
        replace(tensor, traffic_bytes=size, block_bytes=size)
        for tensor, size in zip(plain.tensors, sizes, strict=True)
    )
    graph = replace(plain, tensors=tensors)
    for more in (0, 2):
        capacity = graph.required_bytes + more
        search = CountedSearch(classes_of(graph), capacity)
        assert search.run(always_in_time) is not None
        reached = PlanSearch(GraphMasks.of(graph), capacity, switches=BARE).run(60)
        assert reached is not None
        assert search.bound == reached.state.cost


def test_the_bound_meets_optima_above_nothing() -> None:
    for graph, capacity in ((fork(), 9), (join(), 10)):
        search = CountedSearch(classes_of(graph), capacity)
        assert search.run(always_in_time) is not None
        assert 0 < search.bound <= least(graph, capacity)
    met = 0
    for seed in range(40):
        graph = random_graphs.grouped_heads(seed, 2, 2)
        search = CountedSearch(classes_of(graph), graph.required_bytes)
        search.run(always_in_time)
        met += search.bound == least(graph, graph.required_bytes) > 0
    assert met >= 5


@pytest.mark.parametrize("seed", range(how_many(20, thorough=100)))
def test_bounds_of_parts_and_of_searches_cut_short_are_bounds(seed: int) -> None:
    for graph in graphs(seed):
        masks = GraphMasks.of(graph)
        for part in serial_parts(masks):
            state, looks = part.start.state, count()
            reached = PlanSearch(masks, graph.required_bytes, [Reached(state, ())], part.goal).run(60)
            assert reached is not None
            classes = classes_of(graph, part)
            search = CountedSearch(classes, graph.required_bytes)
            way = search.run(lambda looks=looks: next(looks) < 5)  # type: ignore[misc]
            early = search.bound
            way = way or search.run(always_in_time)
            assert early <= search.bound <= reached.state.cost
            assert way is not None
            order = named(masks, classes, way, state.executed)
            assert sorted(order) == list(bits(part.operators))
            below = CountedSearch(classes, graph.required_bytes, upper_bound=search.bound)
            assert below.run(always_in_time) is None
            assert below.bound == search.bound


@pytest.mark.parametrize("seed", range(how_many(20, thorough=100)))
def test_named_orders_keep_precedence(seed: int) -> None:
    for graph in graphs(seed):
        masks, classes = GraphMasks.of(graph), classes_of(graph)
        way = [r for r, own in enumerate(classes.operators) for _ in own.members]
        Random(seed).shuffle(way)
        executed = 0
        for operator in named(masks, classes, way, 0):
            assert not masks.predecessors[operator] & ~executed
            executed |= 1 << operator
        assert executed == masks.all_operators


def test_classes_are_not_looked_for_where_there_are_too_many_or_no_time_is_left() -> None:
    graph = random_graphs.grouped_heads(1, 2, 2)
    masks = GraphMasks.of(graph)
    state, number = start(masks).state, len(classes_of(graph).operators)
    assert Classes.of(masks, state, masks.all_operators, number) == classes_of(graph)
    assert Classes.of(masks, state, masks.all_operators, number - 1) is None
    assert Classes.of(masks, state, masks.all_operators, in_time=lambda: False) is None


def test_nothing_goes_through_too_few_bytes() -> None:
    graph = random_graphs.grouped_heads(1, 2, 2)
    search = CountedSearch(classes_of(graph), graph.required_bytes - 1)
    assert search.run(always_in_time) is None
    assert search.bound == float("inf")


def test_too_many_states_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MOST_COUNTED", 2)
    graph = random_graphs.grouped_heads(1, 2, 2)
    search = CountedSearch(classes_of(graph), graph.required_bytes)
    with recording() as reached:
        assert search.run(always_in_time) is None
    assert search.bound <= least(graph, graph.required_bytes)
    assert [limit.what for limit in reached] == ["states of counts that wait"]


def short_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first searches end at once, and every graph is searched by counts."""
    monkeypatch.setattr(cosma, "FIRST_SEARCH_END", 0.0)
    monkeypatch.setattr(cosma, "ALIKE", 1)


@pytest.mark.parametrize("seed", range(how_many(6, thorough=40)))
def test_the_solver_answers_the_same_with_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short_first(monkeypatch)
    for graph in graphs(seed)[:4]:
        problem = ScratchpadProblem(graph, graph.required_bytes)
        found = [cosma.solve(problem, Budget(5), cosma.Params(counts=on)) for on in (True, False)]
        assert found[0].objective == found[1].objective
        for outcome in found:
            assert outcome.solution is not None
            assert not violations(problem, outcome.solution)
            assert outcome.bound is not None
            assert outcome.objective is not None
            assert outcome.bound <= outcome.objective


def test_a_plan_that_costs_the_counted_bound_is_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    short_first(monkeypatch)
    graph = small_llama()
    problem = ScratchpadProblem(graph, graph.required_bytes + 2 * SLIM)
    counted, without = (
        cosma.solve(problem, Budget(20), cosma.Params(divide=False, counts=on)) for on in (True, False)
    )
    assert counted.status is Status.OPTIMAL
    assert counted.objective == counted.bound == 4 * SLIM
    assert counted.solution is not None
    assert not violations(problem, counted.solution)
    assert without.status is Status.FEASIBLE
    assert without.bound == 0


SLIM = 64 * 16
"""Bytes of one head's queries."""


def small_llama() -> OperatorGraph:
    """Eight heads in two groups: of queries, scores and the stream, 1, 4 and 8 times a head's queries."""
    return operator_graph(llama_block(8, 2, tokens=64, width=128, hidden=43))


@pytest.mark.slow
@pytest.mark.parametrize("more", range(3))
def test_the_exact_search_of_a_block_finds_nothing_below_the_bound(more: int) -> None:
    graph = small_llama()
    capacity = graph.required_bytes + more * SLIM
    masks, total = GraphMasks.of(graph), 0.0
    for part in serial_parts(masks):
        search = CountedSearch(classes_of(graph, part), capacity)
        assert search.run(always_in_time) is not None
        total += search.bound
    assert 0 < total <= least(graph, capacity)
