"""Loop orders: no order of the loops delivers fewer words than those that the exact mapper looks at."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from costmodel.mapping.counts.traffic import StridedLoop, delivered_words
from costmodel.workload.network import Layer, Tensor, convolution, gemm
from solvers.mapping.exact.orders import motions_of, orders_of, runs_together

TRANSPOSED = Layer(
    "transposed",
    (("C", 8), ("P", 8), ("R", 8)),
    (
        Tensor.of_terms("W", ((("C", 1),), (("R", 1),)), "weights"),
        Tensor.of_terms("I", ((("C", 1),), (("P", 1),)), "inputs"),
        Tensor.of_terms("O", ((("P", 1), ("R", 1)),), "outputs"),
    ),
)
LAYERS = (
    gemm("product", M=8, N=8, K=8),
    convolution("rows", K=8, C=8, P=8, Q=1, R=8, S=1),
    convolution("strided", K=8, C=1, P=8, Q=8, R=8, S=1, stride=(2, 1)),
    convolution("square", K=8, C=1, P=8, Q=8, R=4, S=4),
    TRANSPOSED,
)


def placed(
    layer: Layer, order: tuple[int, ...], bounds: dict[int, int], inside: dict[str, int]
) -> list[StridedLoop]:
    loops = []
    for index in order:
        if index in bounds:
            name = layer.dims[index][0]
            loops.append(StridedLoop(name, bounds[index], inside[name]))
    return loops


def deliveries(
    layer: Layer, tile: dict[str, int], inner: list[StridedLoop], outer: list[StridedLoop]
) -> tuple[int, ...]:
    """Words of every tensor into a tile below the block, and into the smaller one below ``inner`` loops."""
    below = dict(tile)
    for loop in inner:
        below[loop.dim] *= loop.bound
    return tuple(
        delivered_words(tensor, tensor.extents(covered), loops)
        for tensor in layer.tensors
        for covered, loops in ((below, outer), (tile, inner + outer))
    )


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_some_order_looked_at_is_as_good_as_any(layer: Layer) -> None:
    """For random factors, with random loops in a block further inside, counted by the readable model."""
    chance = random.Random(5)
    motions = motions_of(layer)
    for _ in range(40):
        dims = [index for index, (_, size) in enumerate(layer.dims) if size > 1]
        looped = frozenset(chance.sample(dims, chance.randint(1, min(4, len(dims)))))
        tile = {name: chance.choice([1, 1, 2, 3]) if size > 1 else 1 for name, size in layer.dims}
        some = chance.sample(dims, chance.randint(0, 2))
        inner = [StridedLoop(layer.dims[d][0], 2, tile[layer.dims[d][0]]) for d in some]
        inside = {name: tile[name] * (2 if name in {loop.dim for loop in inner} else 1) for name in tile}
        bounds = {dim: chance.choice([2, 2, 3]) for dim in looped}

        def words(order: tuple[int, ...]) -> tuple[int, ...]:
            return deliveries(layer, tile, inner, placed(layer, order, bounds, inside))  # noqa: B023

        looked_at = [words(order) for order in orders_of(motions, looped)]
        classes = {words(order) for order in orders_of(motions, looped, dominance=False)}
        for order in permutations(sorted(looped)):
            found = words(order)
            assert any(all(a <= b for a, b in zip(mine, found, strict=True)) for mine in looked_at)
            assert found in classes


def test_fixed_places_are_kept() -> None:
    layer = convolution("c", K=8, C=8, P=8, Q=8, R=3, S=3)
    names = {name: index for index, (name, _) in enumerate(layer.dims)}
    looped = frozenset(names[name] for name in "KCPR")
    first, last = (names["R"],), (names["K"],)
    orders = orders_of(motions_of(layer), looped, first, last)
    assert orders
    for order in orders:
        assert (order[0], order[-1]) == (names["R"], names["K"])
        assert sorted(order) == sorted(looped)


def test_a_product_needs_an_order_a_tensor() -> None:
    """Each of the three dims leaves one tensor in place, so three orders and one run at a time."""
    motions = motions_of(gemm("g", M=4, N=4, K=4))
    assert len(orders_of(motions, frozenset({0, 1, 2}))) == 3
    assert runs_together(motions, [0, 1, 2]) == (0, 1, 2, 4)
