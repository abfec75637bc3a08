"""Late chains, safe moves first and tails: against enumeration, and against the search without them."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph
from solvers.scratchpad.cosma.late import LateChain, late_chains
from solvers.scratchpad.cosma.moves import Moves
from solvers.scratchpad.cosma.search import PlanSearch, Reached, Switches, start
from solvers.scratchpad.masks import GraphMasks, bits
from tests.solvers.scratchpad import random_graphs
from tests.solvers.scratchpad.test_estimate import BARE, SETTINGS, graph_of, random_state
from tests.thorough import how_many


def chains_of(graph: OperatorGraph) -> list[LateChain]:
    masks = GraphMasks.of(graph)
    return list(late_chains(masks, masks.all_operators).values())


def in_a_row(order: tuple[int, ...], members: tuple[int, ...]) -> bool:
    first = order.index(members[0])
    return order[first : first + len(members)] == members


def least_bytes_in_a_row(graph: OperatorGraph, rows: list[tuple[int, ...]], capacity: int) -> int | None:
    """The least off-chip bytes of the orders in which each of the rows of operators runs without a break."""
    orders = [order for order in random_graphs.orders(graph) if all(in_a_row(order, row) for row in rows)]
    costs = (random_graphs.least_bytes_of_order(graph, order, capacity) for order in orders)
    return min((cost for cost in costs if cost is not None), default=None)


@pytest.mark.parametrize("seed", range(how_many(60, thorough=400)))
def test_some_best_order_runs_all_late_chains_in_a_row(seed: int) -> None:
    graph = random_graphs.unfused_graph(seed, SETTINGS[seed % 3], 2)
    capacity = graph.required_bytes + seed // 3 % 2
    rows = [chain.members for chain in chains_of(graph)]
    assert least_bytes_in_a_row(graph, rows, capacity) == random_graphs.least_bytes(graph, capacity)


def test_random_graphs_have_late_chains_and_bytes_to_move() -> None:
    graphs = [random_graphs.unfused_graph(seed, SETTINGS[seed % 3], 2) for seed in range(60)]
    late = [graph for graph in graphs if chains_of(graph)]
    assert len(late) > 40
    assert max(len(chain.members) for graph in late for chain in chains_of(graph)) >= 3
    assert sum(bool(random_graphs.least_bytes(graph, graph.required_bytes)) for graph in late) > 20


@pytest.mark.parametrize("seed", range(how_many(80, thorough=600)))
def test_neither_late_chains_nor_safe_moves_first_change_what_is_left_to_pay(seed: int) -> None:
    graph = random_graphs.unfused_graph(seed, SETTINGS[seed % 3], 3 + seed % 2)
    masks, random = GraphMasks.of(graph), Random(seed)
    capacity = graph.required_bytes + random.randint(0, 2)
    state = random_state(PlanSearch(masks, capacity, switches=BARE), random)
    # Segments of divide and conquer end before the graph does, at times in the middle of a chain.
    goal = state.executed | (2 << random.randrange(len(graph.operators))) - 1
    costs = set()
    for switches in (BARE, Switches(), Switches(late_chains=False), Switches(safe_first=False)):
        reached = PlanSearch(masks, capacity, [Reached(state, ())], goal, switches).run(60)
        assert reached is not None
        costs.add(reached.state.cost)
    assert len(costs) == 1


def branch() -> OperatorGraph:
    """h is copied and padded for x, and read for y."""
    sizes = {"i": 1, "h": 3, "copy": 3, "padded": 4, "x": 1, "y": 1, "end": 1}
    return graph_of(sizes, "i > h", "h > copy", "copy > padded", "padded > x", "h > y", "x y > end")


def test_a_copy_waits_until_it_is_padded() -> None:
    masks = GraphMasks.of(branch())
    (chain,) = late_chains(masks, masks.all_operators).values()
    assert chain == LateChain((1, 2), 0b110, source=0b10, others=0, makers=0, step_bytes=7)
    moves = Moves(masks, 8)
    state = moves.ran(start(masks).state, 0)
    # With the copy and the padded copy there is room for 1 byte, and h has 3.
    assert chain.excess(moves, state) == 2
    assert chain.may_leave(masks, state) == 0b10
    after = chain.ran(moves, state, 0b10)
    assert (after.executed, after.resident, after.host, after.bytes) == (0b111, 0b1000, 0b10, 4)
    # Without y's operator nobody reads h any more, so that it is neither in the way nor to be evicted.
    once = moves.ran(state, 4)
    assert chain.excess(moves, once) == 0
    assert chain.may_leave(masks, once) == 0b100000


def test_what_is_away_comes_back_for_a_late_chain_and_may_leave_at_once() -> None:
    masks = GraphMasks.of(branch())
    (chain,) = late_chains(masks, masks.all_operators).values()
    moves = Moves(masks, 8)
    away = moves.evicted(moves.ran(start(masks).state, 0), 0b10)
    assert away.bytes == 0
    assert chain.excess(moves, away) == 2
    assert chain.may_leave(masks, away) == 0b10
    after = chain.ran(moves, away, 0b10)
    assert (after.resident, after.host, after.bytes) == (0b1000, 0b10, 4)


def test_only_operators_to_run_are_late() -> None:
    masks = GraphMasks.of(branch())
    assert late_chains(masks, masks.all_operators & ~0b100) == {}
    assert late_chains(masks, masks.all_operators & ~0b10) == {}


def test_an_operator_that_shrinks_first_is_late_with_what_it_is_grown_to() -> None:
    """The chain's input is no larger than anything in it, though its second operator's is larger."""
    sizes = {"i": 1, "h": 1, "wide": 5, "less": 3, "wider": 9, "end": 1}
    graph = graph_of(sizes, "i > h", "h > wide", "wide > less", "less > wider", "wider h > end")
    assert [chain.members for chain in chains_of(graph)] == [(1, 2, 3)]


@pytest.mark.parametrize(
    "told",
    [
        ("i > h", "h > a", "a > b", "a b h > end"),  # two read what it makes
        ("i > h", "h i > a", "a > b", "b h > end"),  # it reads two tensors
        ("i > h", "h > a z", "a > b", "b h z > end"),  # another operator reads what it makes besides
    ],
)
def test_what_has_company_is_not_late(told: tuple[str, ...]) -> None:
    sizes = {"i": 5, "h": 3, "a": 3, "b": 4, "z": 3, "end": 1}
    used = {name for side in told for name in side.split()}
    graph = graph_of({name: size for name, size in sizes.items() if name in used}, *told)
    assert chains_of(graph) == []


def test_what_may_write_in_place_is_not_late() -> None:
    tensors = tuple(
        GraphTensor(f"t{index}", size, size, not index) for index, size in enumerate((3, 3, 4, 1))
    )
    for overwrites in ((), ((0, 1),)):
        nodes = (
            Operator("copy", (0,), (1,), 0, overwrites),
            Operator("pad", (1,), (2,), 0),
            Operator("end", (0, 2), (3,), 0),
        )
        late = [chain.members for chain in chains_of(OperatorGraph("in place", nodes, tensors))]
        assert late == ([] if overwrites else [(0, 1)])


def test_without_either_condition_a_row_costs_more() -> None:
    # i is larger than a: keeping i instead of a takes more room.
    larger = graph_of({"i": 4, "a": 3, "b": 4, "c": 1, "d": 4}, "i > a", "i > b", "b > c", "a c > d")
    assert larger.required_bytes == 8
    assert random_graphs.least_bytes(larger, 8) == 6
    assert least_bytes_in_a_row(larger, [(0, 3)], 8) == 8
    assert chains_of(larger) == []
    # b's step takes 10 bytes, of which the step after it takes 7.
    sizes = {"i": 5, "h": 7, "a": 3, "b": 5, "c": 2, "d": 5}
    wider = graph_of(sizes, "i > h", "h > a", "i > b", "a b > c", "a c > d")
    assert wider.required_bytes == 12
    assert random_graphs.least_bytes(wider, 12) == 10
    assert least_bytes_in_a_row(wider, [(2, 3)], 12) == 16
    assert chains_of(wider) == []


def contended() -> OperatorGraph:
    """h is read for a, which is to shrink to 2 bytes, and for w of 2; z grows to 3."""
    sizes = {"i": 1, "h": 4, "z": 1, "a": 4, "a2": 2, "w": 2, "z3": 3, "end": 1}
    return graph_of(sizes, "i > h z", "h > a", "a > a2", "h > w", "z > z3", "a2 w z3 > end")


def test_evictions_that_make_room_for_a_safe_move_are_made_for_it() -> None:
    masks = GraphMasks.of(contended())
    names = [tensor.name for tensor in masks.graph.tensors]
    ways: dict[bool, set[tuple[int, str]]] = {}
    for first in (False, True):
        search = PlanSearch(masks, 10, switches=Switches(estimate=False, late_chains=False, safe_first=first))
        state = search.moves.ran(search.moves.ran(start(masks).state, 0), 1)
        assert search._closed(Reached(state, ())).state == state
        search._heap = []
        assert search._expand(Reached(state, ()), lambda: True)
        ways[first] = {
            (entry.operator, " ".join(names[t] for t in bits(entry.evicted))) for entry in search._heap
        }
    # Operators 2 and 3 are safe and lack a byte each: they make 2 bytes of 4 that nobody else will read.
    # Where something but a leaves, operator 2 runs first, and where a leaves, operator 3.
    assert ways[False] == {(2, "h"), (2, "z"), (3, "a"), (3, "z"), (4, "h"), (4, "a")}
    assert ways[True] == {(2, "h"), (2, "z"), (3, "a")}


@pytest.mark.parametrize("seed", range(how_many(100, thorough=1000)))
def test_a_tail_is_what_would_run_at_once_one_by_one(seed: int) -> None:
    graph = random_graphs.unfused_graph(seed, SETTINGS[seed % 3], 3)
    masks, random = GraphMasks.of(graph), Random(seed)
    search = PlanSearch(masks, graph.required_bytes + 1, switches=BARE)
    single = Moves(masks, search.moves.capacity, longest_chain=1)
    state = random_state(search, random)
    for operator in bits(state.executed):
        members, after = search.moves.onward(state, operator, search.goal)
        told = state
        for member in members:
            ran, told = single.at_once(told, member, search.goal)
            assert ran == (member,)
        assert after == told


def tailed() -> OperatorGraph:
    sizes = {"i": 4, "h": 4, "a": 3, "b": 3, "c": 2, "y": 1, "end": 1}
    return graph_of(sizes, "i > h", "h > a", "a > b", "b > c", "i > y", "c y > end")


def test_a_tail_ends_where_its_goal_or_the_room_does() -> None:
    moves = Moves(GraphMasks.of(tailed()), 8)
    state = moves.ran(start(moves.masks).state, 0)
    every = moves.masks.all_operators
    assert moves.onward(state, 0, every)[0] == ()
    done = moves.ran(state, 4)
    members, after = moves.onward(done, 0, every)
    assert members == (1, 2, 3)
    assert (after.executed, after.resident, after.bytes) == (0b11111, 0b110000, 3)
    assert moves.onward(done, 0, every & ~0b1000) == ((), done)
    assert moves.onward(done._replace(host=0b10), 0, every)[0] == ()
    assert moves.onward(moves.evicted(done, 0b10), 0, every)[0] == ()
