"""The bound for all cuts: its tables against every set of rows, what it says is live against the least peak
of cuts at random, and its bytes against the optimum of such cuts."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from costmodel.scratchpad.cut import TensorCut, cut_graph, may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, RowWindow, divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings
from costmodel.workload.network import Network
from solvers.budget import Budget, always_in_time
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.cutting.bounds import bound_of_all_cuts
from solvers.scratchpad.cutting.frontiers import _least_union, _readers, _Rows, _spans, _Window
from solvers.scratchpad.cutting.proofs import Proof, added_up
from solvers.scratchpad.peak import minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem
from tests.costmodel.scratchpad.cut_networks import graph_of, random_network
from tests.solvers.scratchpad.test_cutting import CHAIN, GATED, least_of_all_cuts

PLAIN = ScratchpadSettings()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_rows_that_any_set_of_rows_needs_and_is_read_by(size: int, stride: int, dilation: int) -> None:
    """Every set of output rows and of input rows, tap by tap; of dilated windows the tables may say less."""
    rows, before = 9, size // 2
    window = RowWindow(size, stride, before, dilation)
    made = (rows + 2 * before - (size - 1) * dilation - 1) // stride + 1
    needs = [
        {tap for k in range(size) if 0 <= (tap := row * stride - before + k * dilation) < rows}
        for row in range(made)
    ]
    read_by = [{row for row in range(made) if source in needs[row]} for source in range(rows)]
    spans = _spans(window, made, rows)
    for table, sets in ((_least_union(spans), needs), (_least_union(_readers(spans, rows)), read_by)):
        least = [
            min(len(set().union(*chosen)) for chosen in combinations(sets, count))
            for count in range(len(sets) + 1)
        ]
        if dilation == 1 or size == 1:
            assert list(table) == least
        else:
            assert all(mine <= true for mine, true in zip(table, least, strict=True))


def random_cut(divisible: DivisibleGraph, random: Random) -> dict[str, TensorCut]:
    """Fine or coarse bands, recomputed or kept; often every row for itself, which needs the least."""
    recomputed, fine = random.random() < 0.5, random.random() < 0.5
    cuts = {}
    for number, (tensor, extent) in enumerate(zip(divisible.whole.tensors, divisible.extents, strict=True)):
        channels = random.choice((1, extent.channels))
        if recomputed and may_recompute(divisible, number) and random.random() < 0.7:
            cuts[tensor.name] = TensorCut(channels=channels, recomputed=True)
        else:
            rows = extent.rows if fine else random.randint(1, extent.rows)
            cuts[tensor.name] = TensorCut(rows, channels)
    return cuts


def live_bytes(divisible: DivisibleGraph, recomputed: bool = True) -> int:
    """What the frontiers of the whole order prove to be live at some moment."""
    window = _Window(_Rows(divisible, recomputed), 0, len(divisible.whole.operators))
    return -(-window.live_bits(0, always_in_time) // 8)


def test_no_order_of_any_cut_has_a_lower_peak() -> None:
    """Small networks, cuts of each at random, and the peak of the best order that another search finds.

    The peak has what a piece reads and makes in it, which the frontier has not, so it may be higher.
    """
    positive = higher = 0
    for seed in range(60):
        random = Random(seed)
        settings = ScratchpadSettings(in_place=random.random() < 0.3)
        divisible = divisible_graph(random_network(seed), settings)
        live, once = live_bytes(divisible), live_bytes(divisible, recomputed=False)
        assert live <= once
        positive += live > 0
        higher += live < once
        for _ in range(4):
            cuts = random_cut(divisible, random)
            graph = cut_graph(divisible, cuts).graph
            if len(graph.operators) <= 40:
                twice = any(cut.recomputed for cut in cuts.values())
                assert (live if twice else once) <= minimum_peak(graph, 0.3).peak_bytes, seed
    assert positive > 30
    assert higher > 3


def test_no_plan_of_a_random_cut_moves_less() -> None:
    """Small networks in the least scratchpad of a cut; plans by the solver of that cut, until eight have one.

    A busy machine finds a plan for fewer of them, so there are more networks than a quiet one needs.
    """
    attacked = seed = 0
    while attacked < 8 and seed < 400:
        random = Random(seed)
        settings = ScratchpadSettings(in_place=random.random() < 0.3, inputs_on_host=random.random() < 0.3)
        divisible = divisible_graph(random_network(seed), settings)
        for _ in range(4):
            graph = cut_graph(divisible, random_cut(divisible, random)).graph
            size = graph.required_bytes
            bound = bound_of_all_cuts(divisible, size)
            if bound and len(graph.operators) <= 30:
                outcome = cosma.solve(ScratchpadProblem(graph, size), Budget(2.0))
                if outcome.objective is not None:
                    assert bound <= outcome.objective, (seed, size)
                    attacked += 1
        seed += 1
    assert attacked >= 8


def test_a_stream_of_residual_blocks_holds_its_halos() -> None:
    """Three blocks of a 3 x 1 window and a sum, 8 rows of 10 bytes each, in which nothing can be recomputed.

    By hand, when the last sum is about to make row r: rows r and r + 1 of its block's input are read again,
    by the next windows and sums, row r of its convolution is there, and the blocks before hold two rows each.
    """
    ops = []
    for number in range(3):
        source = f"sum{number - 1}" if number else "image"
        ops.append((f"conv{number}", "conv2d", [source, "w"], [1, 1, 8, 10], {"padding": [1, 0]}))
        ops.append((f"sum{number}", "add", [f"conv{number}", source], [1, 1, 8, 10], {}))
    network = graph_of(*ops, image=[1, 1, 8, 10], w=[1, 1, 3, 1])
    divisible = divisible_graph(network, PLAIN)
    assert live_bytes(divisible) == 70
    assert bound_of_all_cuts(divisible, 40) == 2 * 30
    assert bound_of_all_cuts(divisible, 70) == 0


def test_only_proofs_of_different_tensors_add_up() -> None:
    network = graph_of(
        *((f"a{n}", "conv2d", ["image" if not n else f"a{n - 1}", "w1"], [1, 2, 3, 2], {}) for n in range(5)),
        image=[1, 2, 3, 2],
    )
    graph = divisible_graph(network, PLAIN).whole
    made = [operator.outputs[0] for operator in graph.operators]
    proofs = [
        Proof(5, frozenset(made[:3])),
        Proof(4, frozenset(made[2:4])),
        Proof(3, frozenset(made[3:])),
        Proof(6, frozenset({made[1], made[4]})),
    ]
    assert added_up(graph, proofs) == 8
    assert added_up(graph, proofs[1:3]) == 4
    assert added_up(graph, []) == 0


@pytest.mark.parametrize(("network", "size"), [(CHAIN, 8), (GATED, 8), (GATED, 11)])
def test_no_cut_of_a_small_graph_moves_less(network: Network, size: int) -> None:
    """Every cut of it, each planned and proven."""
    divisible = divisible_graph(network, PLAIN)
    best = least_of_all_cuts(divisible, size)
    assert best is not None
    assert 0 < bound_of_all_cuts(divisible, size) <= best
