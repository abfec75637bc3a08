"""Plans of cut graphs: against all cuts of small graphs, the bound for all cuts, and the budgets below MR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from costmodel.formats.networks import load_network
from costmodel.scratchpad.cut import TensorCut, cut_graph, may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings
from costmodel.workload.network import Network
from solvers.budget import Budget
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.cutting.bounds import bound_of_all_cuts
from solvers.scratchpad.cutting.solver import solve_cut
from solvers.scratchpad.problem import ScratchpadProblem, cut_of, objective_of, violations
from tests.costmodel.scratchpad.cut_networks import graph_of
from tests.solvers.scratchpad.random_graphs import least_bytes

PLAIN = ScratchpadSettings()


SAME = {"padding": [1, 1]}
CHAIN = graph_of(
    ("a", "conv2d", ["image", "w3"], [1, 2, 3, 2], SAME),
    ("b", "conv2d", ["a", "w3"], [1, 2, 3, 2], SAME),
    image=[1, 2, 3, 2],
)
POINTWISE = graph_of(
    ("a", "conv2d", ["image", "w1"], [1, 2, 3, 2], {}),
    ("b", "conv2d", ["a", "w1"], [1, 2, 3, 2], {}),
    image=[1, 2, 3, 2],
)
GATED = graph_of(
    ("x", "conv2d", ["image", "w1"], [1, 2, 2, 3], {}),
    ("mean", "adaptive_avg_pool2d", ["x"], [1, 2, 1, 1], {"output_size": [1, 1]}),
    ("gate", "conv2d", ["mean", "w1"], [1, 2, 1, 1], {}),
    ("scaled", "mul", ["x", "gate"], [1, 2, 2, 3], {}),
    image=[1, 2, 2, 3],
)


def every_cut(divisible: DivisibleGraph) -> Iterator[dict[str, TensorCut]]:
    """All cuts into equal bands of rows and channels, kept or recomputed."""
    options = []
    for number, extent in enumerate(divisible.extents):
        own = [TensorCut(r, c) for r in range(1, extent.rows + 1) for c in range(1, extent.channels + 1)]
        again = [TensorCut(channels=c, recomputed=True) for c in range(1, extent.channels + 1)]
        options.append(own + again * may_recompute(divisible, number))
    names = [tensor.name for tensor in divisible.whole.tensors]
    for chosen in product(*options):
        yield dict(zip(names, chosen, strict=True))


def least_of_all_cuts(divisible: DivisibleGraph, size: int) -> float | None:
    """The least bytes of any cut, each proven by the solver of graphs that are not cut."""
    best = None
    for cuts in every_cut(divisible):
        graph = cut_graph(divisible, cuts).graph
        if graph.required_bytes > size:
            continue
        outcome = cosma.solve(ScratchpadProblem(graph, size), Budget(120))
        if outcome.status == "infeasible":  # no order keeps what must be live beside some piece
            continue
        assert outcome.status == "optimal"
        assert outcome.objective is not None
        best = outcome.objective if best is None else min(best, outcome.objective)
        if best == 0:
            break
    return best


@pytest.mark.parametrize(
    ("network", "size"),
    [(CHAIN, 20), (POINTWISE, 6), (GATED, 10), (GATED, 13)],
)
def test_plans_are_as_good_as_the_best_of_all_cuts(network: Network, size: int) -> None:
    """Below MR; every cut of the small graph is planned and proven, and the bound is below all of them."""
    divisible = divisible_graph(network, PLAIN)
    problem = ScratchpadProblem(divisible.whole, size, divisible)
    assert divisible.whole.required_bytes > size
    best = least_of_all_cuts(divisible, size)
    assert best is not None
    outcome = solve_cut(problem, Budget(60), lambda part, left: cosma.solve(part, left))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert outcome.objective == objective_of(problem, outcome.solution) == best
    assert outcome.bound is not None
    assert outcome.bound <= best


def test_rows_are_recomputed_where_the_halo_does_not_fit() -> None:
    """Three channels between two windows of 3 rows: kept, their halo is larger than the image."""
    same = {"padding": [1, 0]}
    wide = graph_of(
        ("a", "conv2d", ["image", "up"], [1, 3, 3, 1], same),
        ("b", "conv2d", ["a", "down"], [1, 1, 3, 1], same),
        image=[1, 1, 3, 1],
        up=[3, 1, 3, 1],
        down=[1, 3, 3, 1],
    )
    divisible = divisible_graph(wide, PLAIN)
    kept = cut_graph(divisible, {"image": TensorCut(3), "a": TensorCut(3, 3), "b": TensorCut(3)})
    assert cosma.solve(ScratchpadProblem(kept.graph, 7), Budget(30)).objective == 4
    problem = ScratchpadProblem(divisible.whole, 7, divisible)
    outcome = solve_cut(problem, Budget(30), lambda part, left: cosma.solve(part, left))
    assert (outcome.status, outcome.objective) == ("optimal", 0)
    assert outcome.solution is not None
    cut = cut_of(problem, outcome.solution)
    assert cut is not None
    # each of 3 channels: rows 1 and 2, all 3, and rows 2 and 3, of which 4 are made again; 3 products a row
    assert cut.recomputed_macs == 3 * 4 * 3
    assert "36 multiply-accumulates are made again" in outcome.note


def test_the_bound_of_a_gate_is_what_its_map_lacks_twice() -> None:
    """All of `x` (12 bytes) is there before the first row of `scaled`, which reads all of it."""
    divisible = divisible_graph(GATED, PLAIN)
    # and for each of its channels the gate, or the mean or a sum so far from which it follows: 2 bytes
    assert [bound_of_all_cuts(divisible, size) for size in (14, 12, 11, 8, 5)] == [0, 4, 6, 12, 18]
    # a second gate has a map of its own, and the first one's bytes are not counted again
    twice = graph_of(
        *((n, k, i, s, a) for n, k, i, s, a in OPS_OF_GATE),
        ("mean2", "adaptive_avg_pool2d", ["scaled"], [1, 2, 1, 1], {"output_size": [1, 1]}),
        ("gate2", "conv2d", ["mean2", "w1"], [1, 2, 1, 1], {}),
        ("scaled2", "mul", ["scaled", "gate2"], [1, 2, 2, 3], {}),
        image=[1, 2, 2, 3],
    )
    assert bound_of_all_cuts(divisible_graph(twice, PLAIN), 8) == 20


OPS_OF_GATE: list[tuple[str, str, list[str], list[int], dict[str, Any]]] = [
    ("x", "conv2d", ["image", "w1"], [1, 2, 2, 3], {}),
    ("mean", "adaptive_avg_pool2d", ["x"], [1, 2, 1, 1], {"output_size": [1, 1]}),
    ("gate", "conv2d", ["mean", "w1"], [1, 2, 1, 1], {}),
    ("scaled", "mul", ["x", "gate"], [1, 2, 2, 3], {}),
]


def test_an_input_of_the_host_comes_back_without_a_spill() -> None:
    gated = graph_of(
        ("mean", "adaptive_avg_pool2d", ["image"], [1, 2, 1, 1], {"output_size": [1, 1]}),
        ("gate", "conv2d", ["mean", "w1"], [1, 2, 1, 1], {}),
        ("scaled", "mul", ["image", "gate"], [1, 2, 2, 3], {}),
        image=[1, 2, 2, 3],
    )
    for on_host, bound, best in ((False, 12, 18), (True, 6, 9)):
        settings = ScratchpadSettings(inputs_on_host=on_host)
        divisible = divisible_graph(gated, settings)
        assert bound_of_all_cuts(divisible, 8) == bound
        problem = ScratchpadProblem(divisible.whole, 8, divisible)
        outcome = solve_cut(problem, Budget(10), lambda part, left: cosma.solve(part, left))
        assert (outcome.status, outcome.objective) == ("optimal", best)
        assert best == least_of_all_cuts(divisible, 8)


def test_a_budget_below_any_piece_is_infeasible() -> None:
    divisible = divisible_graph(POINTWISE, PLAIN)
    # a row of a channel has 2 bytes: one is read and added to another one
    assert [divisible.least_bytes(number) for number in (0, 1)] == [4, 4]
    for size, status in ((3, "infeasible"), (4, "feasible")):
        problem = ScratchpadProblem(divisible.whole, size, divisible)
        outcome = solve_cut(problem, Budget(5), lambda part, left: cosma.solve(part, left))
        assert (outcome.status == "infeasible") == (status == "infeasible"), outcome.note
    assert (
        "however it is cut"
        in solve_cut(
            ScratchpadProblem(divisible.whole, 3, divisible),
            Budget(5),
            lambda part, left: cosma.solve(part, left),
        ).note
    )


@pytest.mark.parametrize("parameters", [False, True])
def test_networks_are_planned_below_their_largest_operator(parameters: bool) -> None:
    settings = ScratchpadSettings(parameters=parameters)
    divisible = divisible_graph(load_network("resnet18"), settings)
    size = 400_000
    assert divisible.whole.required_bytes > size
    problem = ScratchpadProblem(divisible.whole, size, divisible)
    outcome = solve_cut(problem, Budget(5), lambda part, left: cosma.solve(part, left))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    cut = cut_of(problem, outcome.solution)
    assert cut is not None
    assert len(cut.graph.operators) > len(divisible.whole.operators)
    assert "pieces" in outcome.note


def test_a_plan_with_cuts_that_the_problem_does_not_allow_is_none() -> None:
    divisible = divisible_graph(CHAIN, PLAIN)
    problem = ScratchpadProblem(divisible.whole, 20, divisible)
    plan = solve_cut(problem, Budget(10), lambda part, left: cosma.solve(part, left)).solution
    assert plan is not None
    assert plan.cuts
    assert violations(replace(problem, divisible=None), plan)
    other = replace(plan, cuts=(("image", TensorCut(rows=9)),))
    assert any("bands" in reason for reason in violations(problem, other))
    assert violations(problem, replace(plan, cuts=()))


def test_the_best_of_a_cut_is_that_of_every_order_and_replacement() -> None:
    """The optimum that the tests above take for a cut, against an enumeration of all orders and gaps."""
    divisible = divisible_graph(POINTWISE, PLAIN)
    cuts = {"image": TensorCut(1, 2), "a": TensorCut(3), "b": TensorCut(1, 1)}
    graph = cut_graph(divisible, cuts).graph
    for size in (graph.required_bytes, graph.required_bytes + 2):
        outcome = cosma.solve(ScratchpadProblem(graph, size), Budget(120))
        assert outcome.objective == least_bytes(graph, size)
