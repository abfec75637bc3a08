"""Reuse patterns against every loop order there is."""

from __future__ import annotations

from itertools import permutations

import pytest

from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.mapping.cosa.patterns import reuse_patterns

CONVOLUTION = convolution("conv", K=4, C=3, P=2, Q=5, R=3, S=3)
DEPTHWISE = convolution("depthwise", K=4, C=4, P=2, Q=5, R=3, S=3, groups=4)
GROUPED = convolution("grouped", K=4, C=4, P=2, Q=5, R=3, S=1, groups=2)
POINTWISE = convolution("1x1", N=2, K=4, C=3, P=1, Q=1, R=1, S=1)

LAYERS = [
    CONVOLUTION,
    DEPTHWISE,
    GROUPED,
    POINTWISE,
    gemm("gemm", M=2, N=3, K=5),
    batched_matmul("matmul", B=2, M=2, N=3, K=5),
]
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)

Saved = dict[str, frozenset[str]]


def saved_by(layer: Layer, order: tuple[str, ...]) -> Saved:
    """Per tensor, the dims whose loops move nothing: the irrelevant ones with no relevant one inside."""
    saved = {}
    for tensor in layer.tensors:
        run = []
        for dim in order:
            if dim in tensor.dims:
                break
            run.append(dim)
        saved[tensor.name] = frozenset(run)
    return saved


def live_dims(layer: Layer) -> list[str]:
    return [dim for dim, size in layer.dims if size > 1]


@every_layer
def test_no_order_saves_what_no_pattern_saves(layer: Layer) -> None:
    patterns = reuse_patterns(layer)
    for order in permutations(live_dims(layer)):
        saved = saved_by(layer, order)
        assert any(all(dims <= p.free_dims(name) for name, dims in saved.items()) for p in patterns)


@every_layer
def test_every_pattern_is_an_order_and_needed(layer: Layer) -> None:
    patterns = reuse_patterns(layer)
    assert len({pattern.free for pattern in patterns}) == len(patterns)
    for pattern in patterns:
        order = tuple(dim for dim, _ in pattern.ordered(tuple((dim, 2) for dim in live_dims(layer))))
        assert saved_by(layer, order) == dict(pattern.free)
        for other in patterns:
            if other is not pattern:
                assert not all(dims <= other.free_dims(name) for name, dims in pattern.free)


@pytest.mark.parametrize(
    ("layer", "stationary"),
    [
        (CONVOLUTION, [("Weights",), ("Inputs",), ("Outputs",)]),
        (DEPTHWISE, [("Weights",), ("Outputs",)]),
        (POINTWISE, [("Weights",), ("Inputs",), ("Outputs",)]),
        (gemm("vector", M=1, N=3, K=5), [("A",), ("Z",)]),
    ],
)
def test_known_patterns(layer: Layer, stationary: list[tuple[str, ...]]) -> None:
    assert [pattern.stationary for pattern in reuse_patterns(layer)] == stationary
