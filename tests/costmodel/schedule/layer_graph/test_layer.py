"""A layer's operations, computed rows and loop nest, against one another and counted one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from costmodel.schedule.boxes.images import touched, whole
from costmodel.schedule.layer_graph.layer import NetworkLayer
from tests.costmodel.schedule.boxes.elements import random_layer

LAYERS = 300


def scattering(random: Random) -> NetworkLayer:
    """The error layer of a random strided convolution or pooling: fields as of the error, windows forward."""
    forward = random_layer(random, random.choice(["conv", "pool", "groupconv"]))
    error = replace(
        forward,
        part="error",
        c=forward.k,
        k=forward.c,
        h=forward.input_h,
        w=forward.input_w,
        input_h=forward.h,
        input_w=forward.w,
        stride_h=forward.stride_h + 1,
    )
    assert error.scatters
    return error


def test_a_layer_that_scatters_computes_what_some_window_reaches() -> None:
    random = Random(1)
    for _ in range(LAYERS):
        layer = scattering(random)
        rows = {p * layer.stride_h - layer.pad_h + r for p in range(layer.input_h) for r in range(layer.r)}
        columns = {q * layer.stride_w - layer.pad_w + s for q in range(layer.input_w) for s in range(layer.s)}
        reached = len(rows & set(range(layer.h))), len(columns & set(range(layer.w)))
        assert layer.computed == reached, layer


def test_operations_are_counted_one_by_one() -> None:
    """For each output, and each input channel of its group and each position of the window, one product."""
    random, scattered = Random(2), 0
    for number in range(LAYERS):
        layer = scattering(random) if number % 3 == 0 else random_layer(random)
        k, c, h, w = layer.k, layer.c, layer.h, layer.w
        if layer.scatters:
            k, c, h, w = layer.c, layer.k, layer.input_h, layer.input_w
            scattered += 1
        products = c // layer.groups if layer.has_weights else layer.operands
        counted = sum(products for _ in product(range(k), range(h), range(w), range(layer.r * layer.s)))
        assert layer.operations == counted, layer
    assert scattered == LAYERS // 3


@pytest.mark.slow
def test_nest_and_space_are_one_statement() -> None:
    """The nest has G x K groups and channels where the space has K: equal points, and equal bytes touched."""
    random, nests = Random(3), 0
    for _ in range(LAYERS):
        layer, batch = random_layer(random), random.randint(1, 3)
        if not layer.has_weights:
            continue
        nest, space = layer.nest(batch), layer.space(batch)
        assert nest.macs == space.macs
        for name in ("Weights", "Outputs"):
            bytes_of = [touched(one, one.tensor(name), whole(one).tolist()) for one in (nest, space)]
            assert bytes_of[0] == bytes_of[1], (layer, name)
        rows, columns = space.tensor("Inputs").axes[2:]
        windows = {frozenset(stride[:2] for stride in axis.steps) for axis in nest.tensor("Inputs").axes}
        assert {frozenset(stride[:2] for stride in axis.steps) for axis in (rows, columns)} <= windows
        nests += 1
    assert nests > LAYERS // 4
