"""Winograd's and packed forms of convolutions against their definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.workload.convolution_forms import packed, winograd
from costmodel.workload.network import Layer, Tensor, convolution, gemm


def touched(layer: Layer, tensor: Tensor) -> set[tuple[int, ...]]:
    """The elements of a tensor that the nest touches, point by point."""
    found = set()
    for point in product(*(range(size) for _, size in layer.dims)):
        at = dict(zip(layer.sizes, point, strict=True))
        found.add(tuple(sum(step * at[dim] for dim, step in axis) for axis in tensor.terms))
    return found


def test_winograd_touches_what_the_convolution_touches() -> None:
    plain = convolution("conv", N=1, K=2, C=3, P=4, Q=6, R=3, S=3)
    form = winograd(plain)
    assert touched(form, form.tensor("Inputs")) == touched(plain, plain.tensor("Inputs"))
    assert touched(form, form.output) == touched(plain, plain.output)
    assert len(touched(form, form.tensor("Weights"))) * 9 == 16 * len(touched(plain, plain.tensor("Weights")))
    assert form.macs * 9 == plain.macs * 4


def test_so_many_products_are_enough() -> None:
    """F(2, 3) of Lavin and Gray along one axis: four products of sums, two outputs."""
    rng = np.random.default_rng(0)
    inputs, weights = rng.normal(size=4), rng.normal(size=3)
    products = np.array(
        [
            (inputs[0] - inputs[2]) * weights[0],
            (inputs[1] + inputs[2]) * weights.sum() / 2,
            (inputs[2] - inputs[1]) * (weights[0] - weights[1] + weights[2]) / 2,
            (inputs[1] - inputs[3]) * weights[2],
        ]
    )
    outputs = [products[:3].sum(), products[1] - products[2] - products[3]]
    assert outputs == pytest.approx(np.correlate(inputs, weights))
    row = winograd(convolution("row", K=1, C=1, P=2, Q=2, R=3, S=3))
    assert row.macs == len(products) ** 2


def test_odd_rows_are_rounded_up() -> None:
    form = winograd(convolution("conv", K=2, C=3, P=13, Q=12, R=3, S=3))
    assert form.output.words(form.sizes) == 2 * 14 * 12


def test_packed_pixels_are_channels() -> None:
    plain = convolution("conv", N=2, K=8, C=4, P=7, Q=7, R=3, S=3, stride=(2, 2))
    form = packed(plain)
    assert form.shape == convolution("conv", N=2, K=8, C=16, P=7, Q=7, R=2, S=2).shape
    assert packed(form).shape == form.shape


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        (convolution("five", K=2, C=3, P=4, Q=4, R=5, S=5), "5 x 5 with stride 1 x 1"),
        (convolution("strided", K=2, C=3, P=4, Q=4, R=3, S=3, stride=(2, 2)), "3 x 3 with stride 2 x 2"),
        (
            convolution("dilated", K=2, C=3, P=4, Q=4, R=3, S=3, dilation=(2, 2)),
            "without groups and dilation",
        ),
        (convolution("grouped", K=4, C=4, P=4, Q=4, R=3, S=3, groups=2), "without groups and dilation"),
        (gemm("product", M=4, N=4, K=4), "without groups and dilation"),
    ],
)
def test_other_layers_are_refused(layer: Layer, found: str) -> None:
    with pytest.raises(InputError, match=found):
        winograd(layer)
