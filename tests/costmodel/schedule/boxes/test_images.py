"""Boxes and their images against sets of elements, on thousands of random layers of all kinds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.schedule.boxes import images
from costmodel.schedule.boxes.arrays import box_at, boxes_of, groups, intersection, shifted, volume
from costmodel.schedule.boxes.partition import BoxPartition, part_of
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.workload.network import Layer, Tensor, batched_matmul
from costmodel.workload.projection import Projection, Stride
from tests.costmodel.schedule.boxes.elements import (
    Numbers,
    Ranges,
    numbered,
    random_box,
    random_layer,
    touched,
)
from tests.thorough import how_many


def image_of(space: Layer, name: str, box: Ranges) -> tuple[Numbers, bool]:
    """The element numbers in the image of a box, and whether an axis jumps over elements."""
    tensor = space.tensor(name)
    ranges = boxes_of([tuple(box[dim] for dim, _ in space.dims)])
    image = box_at(images.image(space, tensor, ranges), 0)
    numbers = numbered(*(space.length(one) for one in tensor.axes))
    found = numbers[tuple(slice(*ends) for ends in image)].ravel()
    assert len(found) == volume(boxes_of([image]))[0]
    return found, any(one.jumps(box) for one in tensor.axes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv", "fc", "groupconv", "pool", "eltwise", "ptp", "transpose"])
def test_the_image_of_a_box_is_what_its_points_touch(kind: str) -> None:
    random, equal, jumping = Random(kind), 0, 0
    for _ in range(how_many(200, thorough=500)):
        layer, batch = random_layer(random, kind), random.randint(1, 3)
        if layer.has_weights and random.random() < 0.3:
            layer = replace(layer, weight_producers=(0,))
        space = layer.space(batch)
        box = random_box(random, space.dims)
        for name, elements in touched(layer, batch, box).items():
            image, jumps = image_of(space, name, box)
            assert np.isin(elements, image).all()
            assert images.touched(space, space.tensor(name), tuple(box.values())) == len(elements)
            equal += not jumps
            jumping += jumps and len(elements) < len(image)
            assert jumps or elements.tolist() == image.tolist()
    assert equal > how_many(240, thorough=600)
    # with gaps: strides beyond windows, and columns of filters that another layer computes
    assert (jumping > how_many(2, thorough=20)) == (kind in ("conv", "fc", "groupconv", "pool"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv", "fc", "groupconv", "pool"])
def test_gradients_have_the_points_of_the_forward_layer(kind: str) -> None:
    """The error of a layer's inputs and the gradient of its weights: the same images in other roles."""
    random, scattered = Random(kind), 0
    for _ in range(200):
        layer, batch = random_layer(random, kind), random.randint(1, 3)
        error = replace(
            layer, part="error", c=layer.k, k=layer.c, h=layer.input_h, w=layer.input_w,
            input_h=layer.h, input_w=layer.w,
        )  # fmt: skip
        derived = {"update": replace(layer, part="update")} if layer.has_weights else {}
        derived |= {"error": error} if error.scatters else {}
        scattered += error.scatters
        for part, made in derived.items():
            space = made.space(batch)
            assert space.output.name == {"error": "Inputs", "update": "Weights"}[part]
            box = random_box(random, space.dims)
            for name, elements in touched(layer, batch, box).items():
                image, jumps = image_of(space, name, box)
                assert np.isin(elements, image).all()
                assert images.touched(space, space.tensor(name), tuple(box.values())) == len(elements)
                assert jumps or elements.tolist() == image.tolist()
    assert scattered > 50


def test_a_product_of_matrices_is_cut_along_any_dim() -> None:
    """Two heads of 4 x 6 = (4 x 5) (5 x 6), cut along rows and along the sum: four partial products."""
    space = batched_matmul("scores", B=2, M=4, N=6, K=5)
    boxes = BoxPartition((("M", 2), ("K", 2))).boxes(space)
    assert space.summed == {"K"}
    read = [images.image(space, space.tensor(name), boxes) for name in "ABZ"]
    assert [volume(image).tolist() for image in read] == [[12, 8, 12, 8], [36, 24, 36, 24], [24] * 4]
    assert [groups(image).volume for image in read] == [40, 60, 48]
    assert groups(read[2]).members == ((0, 1), (2, 3))


def test_parts_cut_every_dim_into_neighbours_that_differ_by_one_at_most() -> None:
    for length in range(1, 12):
        for parts in range(1, 14):
            found = [part_of(length, parts, part) for part in range(parts)]
            assert [index for first, end in found for index in range(first, end)] == list(range(length))
            lengths = {end - first for first, end in found}
            assert max(lengths) - min(lengths) <= 1
            assert [part for part, ends in enumerate(found) for _ in range(*ends)] == [
                index * parts // length for index in range(length)
            ]


@pytest.mark.slow
def test_the_boxes_of_a_partition_have_every_point_once() -> None:
    random = Random(5)
    for _ in range(300):
        space = random_layer(random).space(random.randint(1, 3))
        dims = random.sample([dim for dim, _ in space.dims], random.randint(1, len(space.dims)))
        partition = BoxPartition(tuple((dim, random.randint(1, 4)) for dim in dims))
        points = np.zeros([size for _, size in space.dims], int)
        boxes = partition.boxes(space)
        for part in range(partition.parts):
            points[tuple(slice(*ends) for ends in box_at(boxes, part))] += 1
        assert (points == 1).all()
        assert len(boxes) == partition.parts


def test_tiles_are_counted_along_the_last_cut_first() -> None:
    space = random_layer(Random(1), "ptp").space(1)
    space = replace(space, dims=(("K", 4), ("N", 1), ("P", 6), ("Q", 1)))
    boxes = BoxPartition((("K", 2), ("P", 3))).boxes(space)
    assert box_at(boxes, 4) == ((2, 4), (0, 1), (2, 4), (0, 1))


def test_empty_boxes_are_alike() -> None:
    empty = intersection(boxes_of([((0, 2), (1, 3))]), boxes_of([((2, 4), (1, 3))]))
    assert box_at(empty, 0) == ((0, 0), (0, 0))
    assert box_at(shifted(empty, (3, 4)), 0) == ((0, 0), (0, 0))
    assert len(groups(empty).boxes) == 0
    assert groups(empty).volume == 0


def test_a_part_without_outputs_and_one_under_padding_need_nothing() -> None:
    """Three parts of two rows; and rows that only padding lies above."""
    row = Projection((Stride("P", 2), Stride("R")), length=4, offset=-3)
    tensors = (
        Tensor("Inputs", (row,), "inputs"),
        Tensor("Outputs", (Projection((Stride("P"),)),), "outputs"),
    )
    space = Layer("padded", (("P", 2), ("R", 1)), tensors)
    boxes = BoxPartition((("P", 3),)).boxes(space)
    image = images.image(space, tensors[0], boxes)
    assert volume(boxes).tolist() == [1, 1, 0]
    assert volume(image).tolist() == [0, 0, 0]
    assert [images.touched(space, tensors[0], box_at(boxes, part)) for part in range(3)] == [0, 0, 0]


def test_what_is_no_space_and_no_partition() -> None:
    space = random_layer(Random(1), "ptp").space(1)
    with pytest.raises(InputError, match="cuts: expected dims among"):
        BoxPartition((("C", 2),)).boxes(space)
    with pytest.raises(InputError, match="different dims in at least 1 part"):
        BoxPartition((("K", 2), ("K", 2)))
    with pytest.raises(InputError, match="exactly one output tensor"):
        replace(space, tensors=space.tensors[:1])
    with pytest.raises(InputError, match="Inputs: expected dims among"):
        replace(space, dims=space.dims[:3])
    with pytest.raises(InputError, match="a tensor among"):
        space.tensor("Weights")
    with pytest.raises(InputError, match="positive whole coefficient"):
        Tensor("Z", (Projection((Stride("K", 0),)),), "outputs")
    with pytest.raises(InputError, match="a whole size of at least 1"):
        replace(space, dims=(("K", 0),))


def test_the_largest_layers_are_counted_exactly(large: NetworkLayer) -> None:
    space = large.space(4)
    boxes = BoxPartition((("K", 16), ("P", 16))).boxes(space)
    assert int(volume(boxes).sum()) == 4 * large.operations


@pytest.fixture
def large() -> NetworkLayer:
    return NetworkLayer("large", "conv", 3000, 5000, 300, 301, 3, 3, 1, 1, 1, 1, 300, 301)
