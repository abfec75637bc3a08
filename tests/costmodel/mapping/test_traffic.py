"""Traffic against a literal simulation of item 3, enumeration of item 5, and hand counts."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.mapping.counts.traffic import (
    StridedLoop,
    content_accesses,
    delivered_words,
    distinct_sums,
    multicast_groups,
    nest_of,
    tensor_traffic,
)
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import Tensor, convolution
from costmodel.workload.projection import Axis

Vector = tuple[int, ...]


class Walk:
    """Item 3 as a state machine: iterations 0 and 1 of every loop, iteration 1 counted bound - 1 times."""

    def __init__(self, extents: Vector, loops: list[tuple[int, Vector]]) -> None:
        self.extents, self.loops = extents, loops
        self.position: Vector | None = None
        self.remembered: Vector | None = None
        self.words = 0
        self._run(len(loops) - 1, (0,) * len(extents), 1)

    def _run(self, loop: int, at: Vector, times: int) -> None:
        if loop < 0:
            self._step(at, times)
            return
        bound, stride = self.loops[loop]
        self._run(loop - 1, at, times)
        if bound > 1:
            self._run(loop - 1, tuple(a + s for a, s in zip(at, stride, strict=True)), times * (bound - 1))

    def _step(self, at: Vector, times: int) -> None:
        tile = prod(self.extents)
        before, self.position = self.position, at
        if before is None:
            self.words += times * tile
            return
        move = tuple(a - b for a, b in zip(at, before, strict=True))
        if not any(move):
            return
        if self.remembered in (None, move):
            self.remembered = move
            overlap = prod(max(0, e - abs(m)) for e, m in zip(self.extents, move, strict=True))
            self.words += times * (tile - overlap)
        else:
            self.remembered = None
            self.words += times * tile


def walked(tensor: Tensor, extents: Vector, loops: list[StridedLoop]) -> int:
    still = (0,) * len(extents)
    strides = [tuple(loop.inner * s for s in tensor.steps.get(loop.dim, still)) for loop in loops]
    return Walk(extents, [(loop.bound, s) for loop, s in zip(loops, strides, strict=True)]).words


WINDOW: tuple[Axis, ...] = (
    (("N", 1),),
    (("C", 1),),
    (("R", 2), ("P", 3)),
    (("S", 1), ("Q", 1)),
)
TENSORS = [
    Tensor.of_terms("Weights", ((("C", 1),), (("K", 1),), (("R", 1),), (("S", 1),)), "weights"),
    Tensor.of_terms("Inputs", WINDOW, "inputs"),
    Tensor.of_terms("Strided", ((("P", 2),), (("Q", 3),)), "inputs"),
    Tensor.of_terms("Volume", ((("P", 1), ("R", 1), ("K", 2)), (("N", 1),)), "inputs"),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: tensor.name)
def test_delivered_words_equal_the_walk(tensor: Tensor) -> None:
    for seed in range(400):
        extents, loops = random_nest(tensor, random.Random(seed))
        assert delivered_words(tensor, extents, loops) == walked(tensor, extents, loops), seed


def random_nest(tensor: Tensor, rng: random.Random) -> tuple[Vector, list[StridedLoop]]:
    covered = {dim: rng.choice([1, 1, 2, 3]) for dim in "NCKPQRS"}
    extents = tensor.extents(covered)
    loops = []
    for _ in range(rng.randrange(9)):
        dim, bound = rng.choice("NCKPQRS"), rng.choice([2, 2, 3, 5])
        loops.append(StridedLoop(dim, bound, covered[dim]))
        covered[dim] *= bound * rng.choice([1, 1, 2])  # a spatial loop may stand between
    return extents, loops


@pytest.mark.parametrize(
    ("loops", "words"),
    [
        ("", 4),
        ("P3", 4 + 2 + 2),
        ("P3 K3", 3 * (4 + 2 + 2)),  # jumping back is another direction: the whole tile again
        ("K3 P3", 4 + 2 + 2),  # nothing moves while K runs
        ("P3 C2", 2 * (4 + 2 + 2)),
        ("C2 P3", 2 * 3 * 4),
    ],
)
def test_sliding_window_by_hand(loops: str, words: int) -> None:
    """A tile of 4 rows (P2, R3) that slides by 2."""
    inputs = convolution("c", K=3, C=2, P=6, Q=1, R=3, S=1).tensor("Inputs")
    placed = [StridedLoop(loop[0], int(loop[1:]), 2 if loop[0] == "P" else 1) for loop in loops.split()]
    assert delivered_words(inputs, inputs.extents({"P": 2, "R": 3}), placed) == words


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9)), min_size=0, max_size=4))
def test_distinct_sums_equal_enumeration(terms: list[tuple[int, int]]) -> None:
    points = product(*(range(bound) for bound, _ in terms))
    values = {sum(i * stride for i, (_, stride) in zip(point, terms, strict=True)) for point in points}
    assert distinct_sums(terms) == len(values)


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: tensor.name)
def test_multicast_groups_equal_enumeration(tensor: Tensor) -> None:
    rng = random.Random(5)
    for _ in range(100):
        dims = rng.sample("NCKPQRS", rng.randrange(5))
        spatial = [StridedLoop(dim, rng.choice([2, 3, 4]), rng.choice([1, 2, 3, 6])) for dim in dims]
        assert multicast_groups(tensor, spatial) == len(child_positions(tensor, spatial)), spatial


def child_positions(tensor: Tensor, spatial: list[StridedLoop]) -> set[Vector]:
    tiles = set()
    for point in product(*(range(loop.bound) for loop in spatial)):
        moves = [
            tuple(i * loop.inner * step for step in tensor.steps.get(loop.dim, (0,) * len(tensor.terms)))
            for i, loop in zip(point, spatial, strict=True)
        ]
        tiles.add(tuple(map(sum, zip(*moves, strict=True))))
    return tiles


def test_equal_p_plus_r_positions_are_one_group() -> None:
    inputs = convolution("c", K=1, C=1, P=4, Q=1, R=3, S=1).tensor("Inputs")
    assert multicast_groups(inputs, [StridedLoop("P", 4, 1), StridedLoop("R", 3, 1)]) == 6


@pytest.mark.parametrize("seed", range(50))
def test_bypass_equals_timeloops_scaling(seed: int) -> None:
    """Item 7 as stated there: accesses times content(c) * fanout / sum(accesses * multicast), inside out."""
    rng = random.Random(seed)
    weights = TENSORS[0]
    levels = rng.randrange(2, 6)
    spatial = [
        [StridedLoop(dim, 2, 1) for dim in rng.sample("CKPQ", rng.randrange(3))] for _ in range(levels)
    ]
    delivered = sorted((rng.randrange(1, 1000) * 12 for _ in range(levels)), reverse=True)
    kept = [rng.random() < 0.5 for _ in range(levels - 1)] + [True]
    mapping = Mapping(tuple(LevelMapping((), (), (), frozenset()) for _ in range(levels)))
    nest = nest_of(mapping)._replace(spatial=spatial)
    groups = [multicast_groups(weights, block) for block in spatial]
    fanouts = [prod(loop.bound for loop in block) for block in spatial]
    accesses = [float(words * g) for words, g in zip(delivered, groups, strict=True)]
    for inner in range(levels - 1):
        if not kept[inner]:
            outer = inner + 1
            delivered_outside = accesses[outer] * fanouts[outer] / groups[outer]
            accesses[outer] *= accesses[inner] * fanouts[outer] / delivered_outside
    counted = content_accesses(weights, kept, delivered, nest)
    for level in range(levels):
        if kept[level]:
            assert counted[level] == pytest.approx(accesses[level], rel=1e-12)


def one_layer_mapping(*levels: str) -> Mapping:
    """Levels innermost first, as ``temporal / spatial``; all tensors kept; loops innermost first."""
    keep = frozenset({"Weights", "Inputs", "Outputs"})

    def loops(text: str) -> tuple[tuple[str, int], ...]:
        return tuple((loop[0], int(loop[1:])) for loop in text.split())

    parts = [text.partition("/") for text in levels]
    return Mapping(tuple(LevelMapping(loops(t), loops(s), (), keep) for t, _, s in parts))


def counts(mapping: Mapping, **dims: int) -> dict[str, list[tuple[int, int, int]]]:
    """Per tensor (reads, fills, updates), innermost level first."""
    sizes: dict[str, Any] = {**dict.fromkeys("KCPQRS", 1), **dims}
    layer = convolution("c", **sizes)
    nest = nest_of(mapping)
    return {
        tensor.name: [level[:3] for level in tensor_traffic(tensor, mapping, nest) if level]
        for tensor in layer.tensors
    }


def test_halo_and_partial_sums_by_hand() -> None:
    found = counts(one_layer_mapping("P2 R3", "P2"), P=4, R=3)
    assert found["Inputs"] == [(12, 6, 0), (6, 0, 0)]
    assert found["Weights"] == [(12, 3, 0), (3, 0, 0)]
    assert found["Outputs"] == [(8, 0, 12), (0, 0, 4)]


def test_loop_order_by_hand() -> None:
    outside = counts(one_layer_mapping("P2 R3", "P2 K2"), P=4, R=3, K=2)
    inside = counts(one_layer_mapping("P2 R3", "K2 P2"), P=4, R=3, K=2)
    assert outside["Inputs"][1][0] == 6 + 6
    assert outside["Weights"][1][0] == 6
    assert inside["Inputs"][1][0] == 6
    assert inside["Weights"][1][0] == 12


def test_multicast_and_reduction_by_hand() -> None:
    found = counts(one_layer_mapping("P2 / K4 C4", ""), P=2, K=4, C=4)
    assert found["Weights"][0] == (32, 16, 0)
    assert found["Inputs"][0] == (8, 8, 0)
    assert found["Outputs"][0] == (0, 0, 8)


def test_diagonal_multicast_by_hand() -> None:
    found = counts(one_layer_mapping("/ P4 R3", ""), P=4, R=3)
    assert (found["Inputs"][0][0], found["Weights"][0][0], found["Outputs"][0][2]) == (6, 3, 4)


def test_partial_sums_spilled_by_hand() -> None:
    found = counts(one_layer_mapping("C2", "K2 C2"), K=2, C=4)
    assert found["Outputs"] == [(6, 2, 8), (2, 0, 4)]


@given(st.integers(0, 2**32))
def test_a_layer_in_halves_reads_the_sums_of_the_first_half(seed: int) -> None:
    """A summed loop outside of all others runs the layer in halves, of which the second goes on with sums."""
    rng = random.Random(seed)
    layer = convolution("c", N=2, K=4, C=3, P=4, Q=2, R=3, S=1)
    dims = list(layer.sizes)
    blocks = []
    for _ in range(3):
        order = rng.sample(dims, len(dims))
        keep = frozenset(rng.sample(["Weights", "Inputs", "Outputs"], rng.randrange(4)))
        blocks.append((order, keep))
    factors: list[dict[str, int]] = [{}, {}, {}]
    for dim, size in layer.dims:
        for prime in {3: (3,), 2: (2,), 4: (2, 2)}.get(size, ()):
            level = factors[rng.randrange(3)]
            level[dim] = level.get(dim, 1) * prime
    # outputs leave every tile in each half: a loop outside of all tiles moves them
    factors[2]["N"], factors[0]["N"], factors[1]["N"] = 2, 1, 1
    every = frozenset({"Weights", "Inputs", "Outputs"})

    def mapped(outside: tuple[tuple[str, int], ...]) -> Mapping:
        levels = []
        for number, (order, keep) in enumerate(blocks):
            loops = [(dim, bound) for dim in order if (bound := factors[number].get(dim, 1)) > 1]
            temporal = (*loops, *outside) if number == 2 else tuple(loops)
            levels.append(LevelMapping(temporal, (), (), every if number == 2 else keep))
        return Mapping(tuple(levels))

    half, whole = mapped(()), mapped((("C", 2),))
    for tensor in layer.tensors:
        second = layer.continued.tensor(tensor.name)
        for all_of_it, first, rest in zip(
            tensor_traffic(tensor, whole, nest_of(whole)),
            tensor_traffic(tensor, half, nest_of(half)),
            tensor_traffic(second, half, nest_of(half)),
            strict=True,
        ):
            assert (all_of_it is None) == (first is None) == (rest is None)
            if all_of_it and first and rest:
                sums = [one + other for one, other in zip(first[:3], rest[:3], strict=True)]
                assert list(all_of_it[:3]) == sums


def test_bypassed_level_counts_nothing() -> None:
    mapping = one_layer_mapping("P2 / K4", "K2")
    inner = LevelMapping(mapping.levels[0].temporal, mapping.levels[0].spatial_x, (), frozenset({"Outputs"}))
    layer = convolution("c", K=8, C=1, P=2, Q=1, R=1, S=1)
    traffic = tensor_traffic(
        layer.tensor("Inputs"), nest_mapping := Mapping((inner, mapping.levels[1])), nest_of(nest_mapping)
    )
    assert traffic[0] is None
    outer = traffic[1]
    assert outer is not None
    assert outer.reads == 4  # one word a cycle, multicast to the four K
