"""The bound on the bytes to come, against what the search without it finds; chains of safe moves."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from solvers.scratchpad.cosma.estimate import WideStepEstimate
from solvers.scratchpad.cosma.moves import Moves, State
from solvers.scratchpad.cosma.search import PlanSearch, Reached, Switches, start
from solvers.scratchpad.masks import GraphMasks, bits
from tests.solvers.scratchpad import random_graphs

PLAIN = Switches(safe_moves=False, safe_chains=False, estimate=False)
BARE = replace(PLAIN, dominance=False, safe_first=False, late_chains=False, twins=False)
"""A search without any of its tricks."""
SETTINGS = (
    ScratchpadSettings(),
    ScratchpadSettings(inputs_on_host=True),
    ScratchpadSettings(parameters=True),
)


def graph_of(sizes: dict[str, int], *operators: str) -> OperatorGraph:
    """Operators told as "inputs > outputs"; the first tensor is given."""
    names = list(sizes)
    nodes = []
    for index, told in enumerate(operators):
        read, made = (tuple(names.index(name) for name in side.split()) for side in told.split(">"))
        nodes.append(Operator(f"o{index}", read, made, 0))
    tensors = tuple(GraphTensor(name, size, size, name == names[0]) for name, size in sizes.items())
    return OperatorGraph("told", tuple(nodes), tensors)


def estimated(masks: GraphMasks, estimate: WideStepEstimate, state: State) -> int:
    return estimate.bytes_to_come(masks.all_operators & ~state.executed, state.resident, state.host)


def random_state(search: PlanSearch, random: Random) -> State:
    """Some operators into the graph, with random evictions where some are needed and at times besides."""
    state = start(search.masks).state
    for _ in range(random.randint(0, len(search.masks.graph.operators) - 1)):
        operator = random.choice(list(bits(state.ready)))
        excess = search.moves.excess(state, operator)
        ways = (
            list(search._evictions(state, state.resident & ~search.masks.inputs[operator], excess))
            if excess > 0
            else [(state.cost, 0)]
        )
        cost, evicted = random.choice(ways)
        size = state.bytes - search.masks.bytes_of(evicted)
        left = state._replace(
            resident=state.resident & ~evicted, host=state.host | evicted, bytes=size, cost=cost
        )
        state = search.moves.ran(left, operator)
    return state


@pytest.mark.parametrize("seed", range(120))
def test_no_state_s_bytes_to_come_are_overestimated(seed: int) -> None:
    graph = random_graphs.forked_graph(seed, SETTINGS[seed % 3])
    masks, capacity = GraphMasks.of(graph), graph.required_bytes + seed % 2
    state = random_state(PlanSearch(masks, capacity, switches=PLAIN), Random(seed))
    cheapest = PlanSearch(masks, capacity, [Reached(state, ())], switches=PLAIN).run(60)
    assert cheapest is not None
    estimate = WideStepEstimate(masks, capacity, masks.all_operators & ~state.executed)
    assert estimated(masks, estimate, state) <= cheapest.state.cost - state.cost


@pytest.mark.parametrize("seed", range(120, 240))
def test_neither_the_estimate_nor_chains_change_an_optimum(seed: int) -> None:
    graph = random_graphs.forked_graph(seed, SETTINGS[seed % 3])
    masks, capacity = GraphMasks.of(graph), graph.required_bytes + seed % 2
    reached, plain = PlanSearch(masks, capacity).run(60), PlanSearch(masks, capacity, switches=PLAIN).run(60)
    assert reached is not None
    assert plain is not None
    assert reached.state.cost == plain.state.cost


def fork() -> OperatorGraph:
    """Three branches off a hub of 4 bytes; each widens to 5 after a copy, which leaves room for nothing."""
    sizes = {"i": 1, "hub": 4, "end": 1}
    for branch in "abc":
        sizes |= {f"{branch}{step}": size for step, size in enumerate((4, 5, 1))}
    branches = [
        f"{b} > {a}" for n in "abc" for b, a in (("hub", f"{n}0"), (f"{n}0", f"{n}1"), (f"{n}1", f"{n}2"))
    ]
    return graph_of(sizes, "i > hub", *branches, "a2 b2 c2 > end")


def test_a_fork_retrieves_its_hub_between_each_two_branches_and_spills_it_once() -> None:
    graph = fork()
    masks = GraphMasks.of(graph)
    state = start(masks).state
    estimate = WideStepEstimate(masks, 9, masks.all_operators)
    assert graph.required_bytes == 9
    # and of the three branches' ends of a byte, two are spilled for the last of them
    assert estimated(masks, estimate, state) == 4 + 2 * 4 + 2 * (1 + 1)
    reached = PlanSearch(masks, 9).run(60)
    plain = PlanSearch(masks, 9, switches=PLAIN).run(60)
    assert reached is not None
    assert plain is not None
    assert reached.state.cost == plain.state.cost == 16


def test_what_is_away_already_is_not_counted_again() -> None:
    masks = GraphMasks.of(fork())
    estimate = WideStepEstimate(masks, 9, masks.all_operators)
    moves = Moves(masks, 9)
    state = moves.ran(moves.ran(start(masks).state, 0), 1)
    hub = masks.kept[0]
    away = state._replace(resident=state.resident & ~hub, host=hub)
    assert estimated(masks, estimate, state) == 16
    assert estimated(masks, estimate, away) == 8


def join() -> OperatorGraph:
    """Three branches off small tensors; each widens to 8 and ends with 2 bytes that wait for the end."""
    sizes = {"i": 1, "hub": 1, "end": 1}
    for branch in "abc":
        sizes |= {f"{branch}{step}": size for step, size in enumerate((8, 2))}
    branches = [f"{b} > {a}" for n in "abc" for b, a in (("hub", f"{n}0"), (f"{n}0", f"{n}1"))]
    return graph_of(sizes, "i > hub", *branches, "a1 b1 c1 > end")


def test_what_waits_for_a_meeting_is_spilled_for_the_last_wide_step() -> None:
    graph = join()
    masks = GraphMasks.of(graph)
    estimate = WideStepEstimate(masks, 10, masks.all_operators)
    assert graph.required_bytes == 10
    # of three ends of 2 bytes two are there when the last branch takes all 10; and the hub of a byte is away
    # in each branch
    assert estimated(masks, estimate, start(masks).state) == 2 * (2 + 2) + 1 + 2
    reached = PlanSearch(masks, 10, switches=PLAIN).run(60)
    assert reached is not None
    assert reached.state.cost == 11
    moves, state = Moves(masks, 10), start(masks).state
    for operator in (0, 1, 2):
        state = moves.ran(state, operator)
    assert estimated(masks, estimate, state) == 8 + 2
    ends = masks.kept[2]
    assert estimated(masks, estimate, state._replace(resident=state.resident & ~ends, host=ends)) == 4 + 2


def chain(middle: int) -> OperatorGraph:
    """x grows to 5, shrinks to ``middle`` and ends at 2, beside y, which waits for it."""
    sizes = {"i": 1, "x": 3, "y": 1, "p": 5, "q": middle, "r": 2, "end": 1}
    return graph_of(sizes, "i > x y", "x > p", "p > q", "q > r", "r y > end")


def test_a_chain_that_ends_no_larger_than_it_was_anywhere_runs_at_once() -> None:
    for middle, expected in ((3, (1, 2)), (4, (1, 2, 3)), (1, (1, 2))):
        moves = Moves(GraphMasks.of(chain(middle)), 10)
        state = moves.ran(start(moves.masks).state, 0)
        members, after = moves.at_once(state, 1, moves.masks.all_operators)
        assert members == expected
        for member in members:
            state = moves.ran(state, member)
        assert after == state
        state = moves.ran(start(moves.masks).state, 0)
        assert Moves(moves.masks, 10, 1).at_once(state, 1, moves.masks.all_operators) == ((), state)
        assert moves.at_once(state, 1, 0b11) == ((), state)


def test_no_chain_runs_at_once_that_was_smaller_in_between_or_does_not_fit() -> None:
    sizes = {"i": 1, "x": 4, "y": 1, "p": 5, "q": 3, "r": 4, "end": 1}
    graph = graph_of(sizes, "i > x y", "x > p", "p > q", "q > r", "r y > end")
    moves = Moves(GraphMasks.of(graph), 10)
    state = moves.ran(start(moves.masks).state, 0)
    shrunk = moves.ran(moves.ran(state, 1), 2)
    copied = state._replace(host=moves.masks.kept[0])
    but_the_last = 0b1111
    assert moves.at_once(state, 1, but_the_last)[0] == (1, 2)
    assert moves.at_once(shrunk, 3, but_the_last) == ((), shrunk)
    assert moves.at_once(copied, 1, but_the_last) == ((), copied)
    assert Moves(moves.masks, 9).at_once(state, 1, but_the_last) == ((), state)
