"""Twins: which branches are found, that a swap keeps the graph, and that no optimum changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from costmodel.limits import recording
from costmodel.scratchpad.graph import OperatorGraph
from solvers.scratchpad.cosma import twins
from solvers.scratchpad.cosma.moves import State
from solvers.scratchpad.cosma.search import PlanSearch, Reached, Switches
from solvers.scratchpad.cosma.twins import Twins
from solvers.scratchpad.masks import GraphMasks, bits, mask_of
from tests.solvers.scratchpad import random_graphs
from tests.solvers.scratchpad.test_estimate import BARE, SETTINGS, fork, graph_of, random_state
from tests.thorough import how_many


def found_in(graph: OperatorGraph) -> Twins:
    masks = GraphMasks.of(graph)
    return Twins(masks, masks.all_operators)


def exchanged(pairs: list[tuple[int, int]], members: int) -> int:
    """A set with each of the pairs exchanged."""
    twin = dict(pairs) | {b: a for a, b in pairs}
    return mask_of([twin.get(member, member) for member in bits(members)])


def graphs(seed: int) -> list[OperatorGraph]:
    settings = SETTINGS[seed % 3]
    return [
        random_graphs.grouped_heads(seed, 2, 2, settings),
        random_graphs.grouped_heads(seed, 1, 3, settings),
        random_graphs.forked_graph(seed, settings),
        random_graphs.unfused_graph(seed, settings),
        random_graphs.random_graph(seed, 8, settings),
    ]


@pytest.mark.parametrize("seed", range(how_many(20, thorough=200)))
def test_a_swap_takes_every_operator_to_one_that_does_the_same(seed: int) -> None:
    for graph in graphs(seed):
        masks = GraphMasks.of(graph)
        for family in found_in(graph).families:
            for one, two in combinations(family, 2):
                operators = list(zip(one.operators, two.operators, strict=True))
                tensors = list(zip(one.tensors, two.tensors, strict=True))
                assert not one.operator_set & two.operator_set
                for number, node in enumerate(graph.operators):
                    twin = next(bits(exchanged(operators, 1 << number)))
                    assert exchanged(tensors, masks.inputs[number]) == masks.inputs[twin]
                    assert exchanged(tensors, mask_of(node.outputs)) == mask_of(graph.operators[twin].outputs)
                    assert node.parameter_bytes == graph.operators[twin].parameter_bytes
                for own, twin in tensors:
                    assert (masks.blocks[own], masks.traffic[own]) == (
                        masks.blocks[twin],
                        masks.traffic[twin],
                    )
                    assert own in graph.on_host or twin not in graph.on_host


@pytest.mark.parametrize("seed", range(how_many(40, thorough=400)))
def test_twins_change_neither_an_optimum_nor_what_is_left_to_pay(seed: int) -> None:
    for graph in graphs(seed):
        masks, random = GraphMasks.of(graph), Random(seed)
        capacity = graph.required_bytes + random.randint(0, 2)
        state = random_state(PlanSearch(masks, capacity, switches=BARE), random)
        goal = state.executed | (2 << random.randrange(len(graph.operators))) - 1
        costs = set()
        for switches in (BARE, Switches(), replace(BARE, twins=True)):
            reached = PlanSearch(masks, capacity, [Reached(state, ())], goal, switches).run(60)
            assert reached is not None
            costs.add(reached.state.cost)
        assert len(costs) == 1


@pytest.mark.parametrize("seed", range(how_many(40, thorough=200)))
def test_the_optimum_of_equal_branches_is_the_enumerated_one(seed: int) -> None:
    random = Random(seed)
    names = "abc"[: random.randint(2, 3)]
    wide, less, hub = random.randint(3, 7), random.randint(1, 4), random.randint(2, 5)
    sizes = {"i": random.randint(1, 3), "h": hub, "end": 1}
    sizes |= {f"{name}{step}": size for name in names for step, size in enumerate((wide, less))}
    told = [told for name in names for told in (f"h > {name}0", f"{name}0 > {name}1")]
    graph = graph_of(sizes, "i > h", *told, f"{' '.join(f'{name}1' for name in names)} > end")
    assert [len(family) for family in found_in(graph).families] == [len(names)]
    reached = PlanSearch(GraphMasks.of(graph), graph.required_bytes).run(60)
    assert reached is not None
    assert reached.state.cost == random_graphs.least_bytes(graph, graph.required_bytes)


@pytest.mark.parametrize("seed", range(30))
def test_states_that_differ_by_a_swap_are_sorted_alike(seed: int) -> None:
    graph = random_graphs.grouped_heads(seed, 1, 4)
    search = PlanSearch(GraphMasks.of(graph), graph.required_bytes + 2, switches=BARE)
    state, random = random_state(search, Random(seed)), Random(seed)
    found = found_in(graph)
    (family,) = found.families
    one, two = random.sample(family, 2)
    operators = list(zip(one.operators, two.operators, strict=True))
    tensors = list(zip(one.tensors, two.tensors, strict=True))
    swapped = state._replace(
        executed=exchanged(operators, state.executed),
        resident=exchanged(tensors, state.resident),
        host=exchanged(tensors, state.host),
    )
    assert found.sorted(swapped) == found.sorted(state)
    assert found.sorted(found.sorted(state)) == found.sorted(state)
    assert found.sorted(state).executed.bit_count() == state.executed.bit_count()


@pytest.mark.parametrize("seed", range(10))
def test_groups_of_heads_are_twins_and_have_twins(seed: int) -> None:
    families = found_in(random_graphs.grouped_heads(seed, 3, 4)).families
    assert [(len(family), len(family[0].operators)) for family in families] == [(4, 3)] * 3 + [(3, 2 + 4 * 3)]
    *heads, groups = families
    for family in heads:
        inside = [group for group in groups if not family[0].operator_set & ~group.operator_set]
        assert len(inside) == 1
        assert not any(head.operator_set & ~inside[0].operator_set for head in family)


def test_only_operators_to_run_are_twins() -> None:
    masks = GraphMasks.of(random_graphs.grouped_heads(0, 1, 3))
    (family,) = Twins(masks, masks.all_operators).families
    assert len(family) == 3
    (fewer,) = Twins(masks, masks.all_operators & ~family[0].operator_set).families
    assert len(fewer) == 2
    assert Twins(masks, family[0].operator_set).families == []


def test_what_differs_anywhere_is_no_twin() -> None:
    told = ("i > h", "h > a", "a > a2", "h > b", "b > b2", "a2 b2 > end")
    sizes = {"i": 2, "h": 3, "a": 2, "a2": 1, "b": 2, "b2": 1, "end": 1}
    (family,) = found_in(graph_of(sizes, *told)).families
    assert [branch.operators for branch in family] == [(1, 2), (3, 4)]
    assert found_in(graph_of(sizes | {"b2": 2}, *told)).families == []
    # one more operator reads a branch's tensor; one branch has an operator more
    assert found_in(graph_of(sizes | {"c": 2}, *told[:-1], "a > c", "a2 b2 c > end")).families == []
    assert found_in(graph_of(sizes | {"b3": 1}, *told[:-1], "b2 > b3", "a2 b3 > end")).families == []
    # the ends are read by different operators
    assert found_in(graph_of(sizes | {"c": 1}, *told[:-1], "a2 > c", "b2 c > end")).families == []


def test_twins_need_fewer_states() -> None:
    expanded = []
    graph = random_graphs.grouped_heads(3, 2, 4)
    for on in (False, True):
        search = PlanSearch(GraphMasks.of(graph), graph.required_bytes, switches=Switches(twins=on))
        assert search.run(60) is not None
        expanded.append(search.expanded)
    assert expanded[1] * 5 < expanded[0]


def test_branches_larger_than_the_limit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fork()
    assert len(found_in(graph).families) == 1
    monkeypatch.setattr(twins, "LARGEST_BRANCH", 2)
    with recording() as reached:
        assert found_in(graph).families == []
    assert [limit.what for limit in reached] == ["operators of a twin branch"]


def test_a_state_without_twins_begun_stays_as_it_is() -> None:
    state = State(1, 0b10, 0b10, 0, 4, 0, 0)
    assert found_in(fork()).sorted(state) is state
