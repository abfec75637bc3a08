"""The bound for all cuts: its tables against every set of rows, what it says is live against the least peak
of cuts at random, and its bytes against the optimum of such cuts."""

from __future__ import annotations

from itertools import combinations
from operator import add
from random import Random
from typing import Any

import pytest

from costmodel.scratchpad.cut import TensorCut, cut_graph, may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, RowWindow, divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings
from costmodel.workload.network import Network
from solvers.budget import Budget, always_in_time
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.cutting import bounds
from solvers.scratchpad.cutting.bounds import bounds_of_cuts
from solvers.scratchpad.cutting.frontiers import (
    Live,
    LiveWindow,
    Rows,
    _least_union,
    _readers,
    _spans,
    always_made,
)
from solvers.scratchpad.cutting.proofs import Proof, added_up
from solvers.scratchpad.cutting.recomputed import Recomputable, least_live
from solvers.scratchpad.cutting.strips import strips
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.peak import minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem
from solvers.scratchpad.replacement import Schedule
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


def window_of(divisible: DivisibleGraph) -> LiveWindow:
    """The window of all operators."""
    return LiveWindow(Rows(divisible, always_made(divisible)), 0, len(divisible.whole.operators))


def recomputable_of(divisible: DivisibleGraph) -> Recomputable:
    every = range(len(divisible.whole.tensors))
    return Recomputable(divisible, frozenset(t for t in every if may_recompute(divisible, t)))


def live_bytes(divisible: DivisibleGraph) -> tuple[int, int]:
    """What is proven to be live at some moment: of all plans, and of those that make nothing twice."""
    window = window_of(divisible)
    once = window.live(range(len(divisible.whole.tensors)), Live(0), always_in_time)
    always = least_live(window, recomputable_of(divisible), once, 0, always_in_time)
    return -(-always // 8), -(-once.bits // 8)


def test_no_order_of_any_cut_has_a_lower_peak() -> None:
    """Small networks, cuts of each at random, and the peak of the best order that another search finds.

    The peak has what a piece reads and makes in it, which the frontier has not, so it may be higher.
    """
    positive = higher = 0
    for seed in range(60):
        random = Random(seed)
        settings = ScratchpadSettings(in_place=random.random() < 0.3)
        divisible = divisible_graph(random_network(seed), settings)
        live, once = live_bytes(divisible)
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
    assert higher > 0


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
            bound = bounds_of_cuts(divisible, size).all_cuts
            if bound and len(graph.operators) <= 30:
                outcome = cosma.solve(ScratchpadProblem(graph, size), Budget(2.0))
                if outcome.objective is not None:
                    assert bound <= outcome.objective, (seed, size)
                    attacked += 1
        seed += 1
    assert attacked >= 8


def chain(seed: int) -> Network:
    """Two to four convolutions in a row, of 3 rows or 1, or pooling, over few rows of a thin image.

    Layers in between are wider than the image, so that it is better to make rows again than to hold them.
    """
    random = Random(seed)
    columns, rows, shapes = random.randint(1, 2), random.randint(3, 5), dict[str, list[int]]()
    source, channels = "image", 1
    ops: list[tuple[str, str, list[str], list[int], dict[str, Any]]] = []
    shapes["image"] = [1, channels, rows, columns]
    weights: dict[str, list[int]] = {}
    for number in range(random.randint(2, 4)):
        name, out, size = f"made{number}", random.randint(1, 3), random.choice((1, 3, 3))
        pools = rows >= 4 and random.random() < 0.2
        if pools:
            out, rows = channels, rows // 2
            attributes: dict[str, Any] = {"kernel_size": [2, 1], "stride": [2, 1]}
            ops.append((name, "max_pool2d", [source], [1, out, rows, columns], attributes))
        else:
            weights[f"w{number}"] = [out, channels, size, 1]
            attributes = {"padding": [size // 2, 0]}
            ops.append((name, "conv2d", [source, f"w{number}"], [1, out, rows, columns], attributes))
        source, channels = name, out
    return graph_of(*ops, image=shapes["image"], **weights)


def nested_cuts(divisible: DivisibleGraph, random: Random) -> dict[str, TensorCut]:
    """Most tensors recomputed, in bands of single rows of those that are kept."""
    cuts = {}
    for number, (tensor, extent) in enumerate(zip(divisible.whole.tensors, divisible.extents, strict=True)):
        channels = random.choice((1, extent.channels))
        if may_recompute(divisible, number) and random.random() < 0.8:
            cuts[tensor.name] = TensorCut(channels=channels, recomputed=True)
        else:
            cuts[tensor.name] = TensorCut(random.choice((1, extent.rows, extent.rows)), channels)
    return cuts


def test_no_chain_of_recomputed_rows_has_a_lower_peak() -> None:
    """Towers of rows that are made again, against the best order of cuts that recompute nearly everything.

    Every tower of which a cut recomputes all tensors is asked for by itself, too. Counted are the networks in
    which towers prove more than the tensors that no plan can recompute.
    """
    networks = 0
    for seed in range(80):
        random = Random(seed)
        divisible = divisible_graph(chain(seed), ScratchpadSettings(in_place=random.random() < 0.3))
        names = [tensor.name for tensor in divisible.whole.tensors]
        live, once = live_bytes(divisible)
        window = window_of(divisible)
        recomputable = recomputable_of(divisible)
        towers = recomputable.towers(window)
        networks += 8 * live > window.live(recomputable.always_kept, Live(0), always_in_time).bits
        assert live <= once
        for _ in range(6):
            cuts = nested_cuts(divisible, random)
            graph = cut_graph(divisible, cuts).graph
            if len(graph.operators) <= 40:
                peak = minimum_peak(graph, 0.3).peak_bytes
                assert live <= peak, seed
                for tower in towers:
                    if all(cuts[names[tensor]].recomputed for tensor in tower.tensors):
                        assert tower.bits <= 8 * peak, (seed, tower)
    assert networks > 8


def three_windows(channels: int) -> Network:
    """Three windows of 3 rows over 5 rows of a byte, of which the middle one reads and makes ``channels``."""
    return graph_of(
        ("a", "conv2d", ["image", "up"], [1, channels, 5, 1], {"padding": [1, 0]}),
        ("b", "conv2d", ["a", "same"], [1, channels, 5, 1], {"padding": [1, 0]}),
        ("c", "conv2d", ["b", "down"], [1, 1, 5, 1], {"padding": [1, 0]}),
        image=[1, 1, 5, 1],
        up=[channels, 1, 3, 1],
        same=[channels, channels, 3, 1],
        down=[1, channels, 3, 1],
    )


@pytest.mark.parametrize(("low", "high"), [(12, 1), (6, 1), (4, 1), (4, 2)])
def test_a_plan_that_recomputes_a_tower_holds_little_more(low: int, high: int) -> None:
    """Two layers of 12 channels between thin ones, both recomputed, in so many bands of channels.

    One row of c needs 3 rows of b, all 5 of a and of the image: the band of b has 36 bytes and a's 60. The
    best order holds the 36, or sums that will be as many, and besides them what a piece reads of a and makes.
    A tower of twice as many bytes would be too high.
    """
    divisible = divisible_graph(three_windows(12), PLAIN)
    towers = recomputable_of(divisible).towers(window_of(divisible))
    b = [tensor.name for tensor in divisible.whole.tensors].index("b")
    (height,) = (tower.bits // 8 for tower in towers if tower.tensors == {b})
    cuts = {
        "a": TensorCut(channels=low, recomputed=True),
        "b": TensorCut(channels=high, recomputed=True),
        "c": TensorCut(5),
    }
    graph = cut_graph(divisible, cuts).graph
    # the graph's own order goes depth first, and is as good as any here
    order = Schedule(GraphMasks.of(graph), tuple(range(len(graph.operators))))
    held = [sum(graph.tensors[order.gaps[gap].tensor].block_bytes for gap in own) for own in order.staying]
    peak = max(map(add, order.base_bytes, held))
    assert height == 36
    assert height <= peak < 2 * height


def test_towers_of_a_chain_by_hand() -> None:
    """Three windows of 3 rows over 5 rows of a byte, of which the middle one reads and makes two channels.

    For the middle row of c, 3 rows of b are needed, all 5 of a and of the image. With only a recomputed, one
    row of b has 3 rows of a, and these 5 of the image.
    """
    divisible = divisible_graph(three_windows(2), PLAIN)
    names = [tensor.name for tensor in divisible.whole.tensors]
    towers = recomputable_of(divisible).towers(window_of(divisible))
    found = {"".join(sorted(names[tensor] for tensor in tower.tensors)): tower.bits // 8 for tower in towers}
    # of a: its band for a row of b is 6 bytes, and what that is made of 5; of b: 3 rows of 2 bytes, of 5 of a
    assert found == {"a": 5, "b": 6, "ab": 5}


def test_a_stream_of_residual_blocks_holds_its_halos() -> None:
    """Three blocks of a 3 x 1 window and a sum, 8 rows of 10 bytes each, in which nothing can be recomputed.

    By hand, when the last sum is about to make row r: rows r and r + 1 of its block's input are read again,
    by the next windows and sums, row r of its convolution is there, and the blocks before hold two rows each.
    """
    divisible = divisible_graph(residual_blocks(8), PLAIN)
    assert live_bytes(divisible) == (70, 70)
    assert bounds_of_cuts(divisible, 40) == (2 * 30, 2 * 30)
    assert bounds_of_cuts(divisible, 70) == (0, 0)


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
    assert 0 < bounds_of_cuts(divisible, size).all_cuts <= best


def residual_blocks(rows: int) -> Network:
    """Three blocks of a 3 x 1 window and a sum, of rows of 10 bytes, in which nothing can be recomputed."""
    ops = []
    for number in range(3):
        source = f"sum{number - 1}" if number else "image"
        ops.append((f"conv{number}", "conv2d", [source, "w"], [1, 1, rows, 10], {"padding": [1, 0]}))
        ops.append((f"sum{number}", "add", [f"conv{number}", source], [1, 1, rows, 10], {}))
    return graph_of(*ops, image=[1, 1, rows, 10], w=[1, 1, 3, 1])


def test_strips_of_a_stream_add_up() -> None:
    """Every 8 rows of the three blocks are a graph of 8 rows, of which 30 bytes do not fit in 40."""
    for parts in (1, 2, 3):
        assert bounds_of_cuts(divisible_graph(residual_blocks(8 * parts), PLAIN), 40).made_once >= 60 * parts
    strip, other = strips(divisible_graph(residual_blocks(16), PLAIN), 2)
    small = divisible_graph(residual_blocks(8), PLAIN)
    assert strip.extents == other.extents == small.extents
    for one, two, three in zip(strip.divisions, other.divisions, small.divisions, strict=True):
        assert one.reads == two.reads == three.reads


def tall_network(seed: int) -> Network:
    """Two or three layers over 8 to 12 rows: windows with and without a stride, sums, and pooling."""
    random, rows, shapes = Random(seed), random_rows(seed), dict[str, list[int]]()
    shapes["image"] = [1, random.randint(1, 2), rows, 1]
    ops: list[tuple[str, str, list[str], list[int], dict[str, Any]]] = []
    weights: dict[str, list[int]] = {}
    for number in range(random.randint(2, 3)):
        source, name = list(shapes)[-1], f"made{number}"
        _, channels, rows, columns = shapes[source]
        alike = [other for other, shape in shapes.items() if other != source and shape == shapes[source]]
        if alike and random.random() < 0.6:
            ops.append((name, "add", [source, random.choice(alike)], shapes[source], {}))
        else:
            stride, out = random.choice((1, 1, 1, 2)), random.choice((channels, channels, 2))
            size = random.choice((1, 3, 3))
            weights[f"w{number}"] = [out, channels, size, 1]
            made = [1, out, (rows + 2 * (size // 2) - size) // stride + 1, columns]
            attributes: dict[str, Any] = {"stride": [stride, 1], "padding": [size // 2, 0]}
            ops.append((name, "conv2d", [source, f"w{number}"], made, attributes))
        shapes[name] = ops[-1][3]
    return graph_of(*ops, image=shapes["image"], **weights)


def random_rows(seed: int) -> int:
    return Random(seed + 1000).randint(8, 12)


def test_no_plan_moves_less_than_strips_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tall networks in scratchpads as small as a cut of them allows; counted are those of which strips prove
    more than one moment does."""
    attacked = raised = seed = 0
    while (attacked < 30 or raised < 10) and seed < 400:
        random = Random(seed)
        divisible = divisible_graph(tall_network(seed), ScratchpadSettings(in_place=random.random() < 0.5))
        for _ in range(3):
            graph = cut_graph(divisible, random_cut(divisible, random)).graph
            size = graph.required_bytes
            bound = bounds_of_cuts(divisible, size).all_cuts
            if bound and len(graph.operators) <= 60:
                outcome = cosma.solve(ScratchpadProblem(graph, size), Budget(1.0))
                if outcome.objective is not None:
                    assert bound <= outcome.objective, (seed, size)
                    attacked += 1
                    with monkeypatch.context() as patch:
                        patch.setattr(bounds, "STRIPS", ())
                        raised += bound > bounds_of_cuts(divisible, size).all_cuts
        seed += 1
    assert attacked >= 30
    assert raised >= 10


def test_rows_that_strides_skip_are_not_surely_made() -> None:
    """Every second row of b is read, so one that recomputes b makes half of it, and of a what these need."""
    network = graph_of(
        ("a", "conv2d", ["image", "w"], [1, 1, 7, 1], {"padding": [1, 0]}),
        ("b", "conv2d", ["a", "w"], [1, 1, 7, 1], {"padding": [1, 0]}),
        ("c", "conv2d", ["b", "one"], [1, 1, 4, 1], {"stride": [2, 1]}),
        ("d", "conv2d", ["c", "w"], [1, 1, 4, 1], {"padding": [1, 0]}),
        image=[1, 1, 7, 1],
        w=[1, 1, 3, 1],
        one=[1, 1, 1, 1],
    )
    divisible = divisible_graph(network, PLAIN)
    names = [tensor.name for tensor in divisible.whole.tensors]
    assert {names[tensor] for tensor in always_made(divisible)} == {"image", "c", "d"}
