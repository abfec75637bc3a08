"""Orders in which runs are looked for, and arenas that keep long residencies from short ones."""

from __future__ import annotations

from random import Random

from costmodel.scratchpad.cut import cut_graph
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from solvers.budget import always_in_time
from solvers.scratchpad.cutting.orders import hoisted, in_order, narrowing, orders
from solvers.scratchpad.cutting.two_sided import two_sided_plans
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.problem import ScratchpadProblem, violations
from solvers.scratchpad.replacement import Schedule
from tests.costmodel.scratchpad.cut_networks import mixed_network, random_cuts
from tests.solvers.scratchpad.random_graphs import forked_graph, random_graph


def test_orders_are_topological_and_differ() -> None:
    for seed in range(30):
        graph = forked_graph(seed) if seed % 2 else random_graph(seed, 9)
        found = list(orders(graph, 1.0))
        assert found[0] == tuple(range(len(graph.operators)))
        assert len(set(found)) == len(found)
        for order in (*found, narrowing(graph), hoisted(graph, found[-1])):
            made = {tensor for tensor, own in enumerate(graph.tensors) if own.given}
            for number in order:
                assert made.issuperset(graph.operators[number].inputs)
                made.update(graph.operators[number].outputs)
            assert sorted(order) == list(range(len(graph.operators)))


def test_what_makes_less_than_it_reads_comes_early() -> None:
    """x has 8 bytes; of it squeeze, at the graph's end, makes 2 by way of a copy."""
    sizes = {"image": 8, "x": 8, "y": 8, "z": 8, "copy": 8, "small": 2, "out": 8}
    number = {name: index for index, name in enumerate(sizes)}
    read = {"x": ["image"], "y": ["x"], "z": ["y"], "copy": ["x"], "small": ["copy"], "out": ["z", "small"]}
    graph = OperatorGraph(
        "squeezed",
        tuple(
            Operator(made, tuple(number[name] for name in names), (number[made],), 0)
            for made, names in read.items()
        ),
        tuple(GraphTensor(name, size, size, name == "image") for name, size in sizes.items()),
    )
    named = [graph.operators[step].name for step in hoisted(graph, range(6))]
    assert named == ["x", "copy", "small", "y", "z", "out"]


def test_a_graph_in_another_order_is_cut_alike() -> None:
    divisible = divisible_graph(mixed_network(), ScratchpadSettings())
    order = narrowing(divisible.whole)
    other = in_order(divisible, order)
    for seed in range(10):
        cuts = random_cuts(divisible, seed)
        pieces, others = (cut_graph(own, cuts).graph for own in (divisible, other))
        assert {own.name for own in pieces.operators} == {own.name for own in others.operators}
        assert set(pieces.tensors) == set(others.tensors)


def test_two_sided_plans_replay() -> None:
    """Random cuts in the least scratchpad or a little more: what is found replays, and often there is one."""
    found = 0
    for seed in range(40):
        random = Random(seed)
        settings = ScratchpadSettings(parameters=random.random() < 0.5, in_place=random.random() < 0.5)
        divisible = divisible_graph(mixed_network(), settings)
        graph = cut_graph(divisible, random_cuts(divisible, seed)).graph
        size = graph.required_bytes * random.choice((10, 12)) // 10
        order = Schedule(GraphMasks.of(graph), tuple(range(len(graph.operators))))
        problem = ScratchpadProblem(graph, size)
        plan = two_sided_plans(problem, order, 0, always_in_time)
        if plan is not None:
            found += 1
            assert violations(problem, plan) == []
    assert found > 20
