"""Partial sums: layers computed part by part in integers and added along the messages, against the whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.schedule.boxes.arrays import box_at, volume
from costmodel.schedule.boxes.images import image
from costmodel.schedule.boxes.messages import owned, reductions
from costmodel.schedule.boxes.partition import BoxPartition
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.workload.network import Layer
from tests.costmodel.schedule.boxes.elements import Numbers, Ranges, random_layer, windows


def products(layer: NetworkLayer, image: Numbers, weights: Numbers) -> Numbers:
    """Every product of a layer [K, N, P, Q, C, R, S]: inputs under windows times weights of the group."""
    under = windows(layer, image, (layer.h, layer.w))
    # the numbers -1 around the image are padding, and its own values are above 0
    under = np.where(under < 0, 0, under)
    of_groups = under.reshape(layer.groups, layer.group_c, *under.shape[1:])
    found = [
        of_groups[k // layer.group_k] * weights[k][:, None, None, None] for k in range(layer.k)
    ]  # [K, C, N, P, Q, R, S]
    return np.moveaxis(np.array(found), 1, 4)


def sums(space: Layer, every: Numbers, box: Ranges) -> Numbers:
    """The partial sums [K, N, P, Q] of the points of a box, zero outside of it."""
    kept = np.zeros(every.shape, bool)
    kept[tuple(slice(*box[dim]) for dim in "KNPQCRS")] = True
    return np.asarray(np.where(kept, every, 0).sum(axis=(4, 5, 6)))


@pytest.mark.parametrize("kind", ["conv", "fc", "groupconv"])
def test_partial_sums_add_up_to_the_layer(kind: str) -> None:
    """Any dims are cut, also those that are summed over: at the end one part has each output, whole."""
    random, values, sent = Random(kind), np.random.default_rng(1), 0
    for _ in range(150):
        layer, batch = random_layer(random, kind), random.randint(1, 2)
        inputs = values.integers(1, 9, (layer.c, batch, layer.input_h, layer.input_w))
        weights = values.integers(1, 9, (layer.k, layer.group_c, layer.r, layer.s))
        every = products(layer, inputs, weights)
        space = layer.space(batch)
        dims = random.sample("KNPQCRS", 3)
        boxes = BoxPartition(tuple((dim, random.randint(1, 3)) for dim in dims)).boxes(space)
        made = image(space, space.output, boxes)
        held = [sums(space, every, _ranges(space, boxes, part)) for part in range(len(boxes))]
        for message in reductions(made):
            (target,), at = message.targets, tuple(slice(*ends) for ends in message.box)
            assert message.source is not None
            held[target][at] += held[message.source][at]
            assert held[target][at].size == message.volume
            sent += 1
        whole, after = np.zeros_like(held[0]), owned(made)
        for part, outputs in enumerate(held):
            at = tuple(slice(*ends) for ends in box_at(after, part))
            whole[at] += outputs[at]
        assert whole.tolist() == every.sum(axis=(4, 5, 6)).tolist()
        assert int(volume(after).sum()) == whole.size
    assert sent > 200


def _ranges(space: Layer, boxes: Numbers, part: int) -> Ranges:
    return dict(zip(space.index, box_at(boxes, part), strict=True))


def test_errors_of_a_strided_layer_overlap_where_windows_do() -> None:
    layer = NetworkLayer("pool.error", "pool", 2, 2, 9, 9, 3, 3, 2, 2, 0, 0, 4, 4, part="error")
    space = layer.space(1)
    made = image(space, space.output, BoxPartition((("P", 2),)).boxes(space))
    with pytest.raises(InputError, match="expected parts that make equal boxes, or nothing in common"):
        reductions(made)
    apart = replace(layer, r=2, s=2, h=8, w=8).space(1)
    made = image(apart, apart.output, BoxPartition((("P", 2),)).boxes(apart))
    assert reductions(made) == []
