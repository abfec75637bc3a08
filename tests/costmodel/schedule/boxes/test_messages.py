"""Sources and messages against sets of elements, on random graphs: concatenations, slices, operands."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.boxes.arrays import Array, Box, boxes_of
from costmodel.schedule.boxes.images import image, whole
from costmodel.schedule.boxes.partition import BoxPartition
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.sources import sources_of
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.network import Layer
from tests.costmodel.schedule.boxes.elements import Numbers, numbered, random_layer, touched_of
from tests.costmodel.schedule.boxes.messages import exchanged, loads, of_run, transfers
from tests.thorough import how_many


def random_graph(random: Random) -> LayerGraph:
    """Producers, and a last layer that reads them: side by side, in part, as operands or as weights."""
    last = random_layer(random)
    operand = last.k if last.kind == "eltwise" else last.c
    layers: list[NetworkLayer] = []
    channels: list[tuple[int, int]] = []
    left, external = last.c, 0
    if random.random() < 0.3:
        external = random.randint(1, left)
        left -= external
    while left:
        at = last.c - left
        if at % operand == 0 and left >= operand and random.random() < 0.5:  # a slice is a whole operand
            first, behind, k = random.randint(0, 2), random.randint(0, 2), operand
        else:
            first, behind, k = 0, 0, random.randint(1, left)
        layers.append(_producer(random, f"p{len(layers)}", first + k + behind, last))
        channels.append((first, first + k))
        left -= k
    inputs = tuple(range(len(layers)))
    weights: tuple[int, ...] = ()
    if last.has_weights and random.random() < 0.4:
        weights = (len(layers),)
        of = replace(last, input_h=last.group_c, input_w=last.r * last.s)
        layers.append(replace(_producer(random, "w", last.k, of), h=of.input_h, w=of.input_w))
        channels.append((0, last.k))
    last = replace(
        last, name="last", external_c=external, producers=inputs, weight_producers=weights,
        channels=tuple(channels),
    )  # fmt: skip
    return LayerGraph("random", (*layers, last))


def _producer(random: Random, name: str, k: int, reader: NetworkLayer) -> NetworkLayer:
    h, w = reader.input_h + random.randint(0, 1), reader.input_w + random.randint(0, 1)
    return replace(
        random_layer(Random(0), "ptp"), name=name, c=k, k=k, h=h, w=w, input_h=h, input_w=w, external_c=k
    )


def random_partition(random: Random, space: Layer, dims: str) -> BoxPartition:
    known = [dim for dim in dims if dim in space.index]
    cut = random.sample(known, random.randint(1, len(known)))
    return BoxPartition(tuple((dim, random.randint(1, 3)) for dim in cut))


def element_numbers(graph: LayerGraph, samples: int) -> list[Numbers]:
    """Numbers [k, n, h, w] of the outputs of all layers, all different; the last array is the input's."""
    found, first = [], 0
    last = graph.layers[-1]
    shapes = [(one.k, samples, one.h, one.w) for one in graph.layers]
    for shape in [*shapes, (last.external_c, samples, last.input_h, last.input_w)]:
        found.append(numbered(*shape) + first)
        first += found[-1].size
    return found


def read_numbers(graph: LayerGraph, numbers: list[Numbers], batch: int) -> Numbers:
    """The numbers [c, n, rows, columns] that the last layer reads as inputs of its first batch."""
    last = graph.layers[-1]
    images = [numbers[-1]]
    for producer, (first, end) in zip(last.producers, last.channels, strict=False):
        images.append(numbers[producer][first:end, :, : last.input_h, : last.input_w])
    return np.concatenate(images)[:, :batch]


def inside(numbers: Numbers, box: Box) -> set[int]:
    return set(numbers[tuple(slice(*ends) for ends in box)].ravel().tolist())


def jumps(space: Layer, box: Box) -> bool:
    ranges = {dim: box[number] for dim, number in space.index.items()}
    return any(axis.jumps(ranges) for tensor in space.tensors for axis in tensor.axes)


@pytest.mark.slow
def test_messages_are_the_elements_that_one_part_needs_and_the_other_makes() -> None:
    random, compared, moved = Random(7), 0, 0
    for _ in range(how_many(400, thorough=1500)):
        graph, batch = random_graph(random), random.randint(1, 3)
        last, numbers = graph.layers[-1], element_numbers(graph, batch)
        space = last.space(batch)
        boxes = random_partition(random, space, "KNPQCRS").boxes(space)
        images = read_numbers(graph, numbers, batch)
        needed_by = [_needed(graph, space, boxes, part, images, numbers) for part in range(len(boxes))]
        needed = _by_producer(graph, space, boxes, batch)
        for producer in range(len(graph.layers) - 1):
            theirs = graph.layers[producer].space(batch)
            partition = random_partition(random, theirs, "KNPQ")
            made = image(theirs, theirs.output, partition.boxes(theirs))
            by_part = [_made(numbers[producer], partition, part) for part in range(partition.parts)]
            found: dict[tuple[int, int], list[int]] = {}
            for one in needed[producer]:
                for sent in transfers(one, made):
                    elements = inside(numbers[producer], sent.box)
                    assert sent.source is not None
                    assert len(elements) == sent.volume
                    moved += sent.volume
                    for target in sent.targets:
                        found.setdefault((target, sent.source), []).extend(elements)
            for part, source in product(range(len(boxes)), range(partition.parts)):
                wanted = needed_by[part]
                if wanted is None:  # gaps: the box is more than what is touched
                    continue
                sets = found.get((part, source), [])
                assert set(sets) == wanted & by_part[source]
                compared += bool(sets)
                # only operands that are equal are sent twice
                assert len(set(sets)) == len(sets) or last.operands > 1
            if len(needed[producer]) == 1:
                volumes = exchanged(needed[producer][0], made, (batch, batch), batch)
                assert {pair: len(sets) for pair, sets in found.items()} == {
                    (part, source): volumes[part, source] for part, source in np.argwhere(volumes).tolist()
                }
        _check_input(graph, space, boxes, needed_by, numbers[-1], batch)
    assert compared > how_many(1200, thorough=5000)
    assert moved > how_many(12_000, thorough=50_000)


def _needed(
    graph: LayerGraph,
    space: Layer,
    boxes: Array,
    part: int,
    images: Numbers,
    numbers: list[Numbers],
) -> set[int] | None:
    """All elements that a part of the last layer reads; None where its boxes have gaps."""
    box: Box = tuple((int(first), int(end)) for first, end in boxes[part])
    if box[0] == (0, 0):
        return set()
    if jumps(space, box):
        return None
    last = graph.layers[-1]
    ranges = {dim: box[number] for dim, number in space.index.items()}
    read = touched_of(last, images.shape[1], ranges, images)
    found = {int(one) for name, some in read.items() if name.startswith("Inputs") for one in some}
    if last.weight_producers:
        weights = numbers[last.weight_producers[0]]
        by_filter = weights.reshape(last.k, weights.shape[1], last.group_c, last.r, last.s)
        found |= inside(by_filter, tuple(ranges[dim] for dim in "KNCRS"))
    return found


def _by_producer(graph: LayerGraph, space: Layer, boxes: Array, batch: int) -> list[list[Array]]:
    found: list[list[Array]] = [[] for _ in graph.layers]
    for source in sources_of(graph, len(graph.layers) - 1, batch):
        if source.producer is not None:
            found[source.producer].append(source.needed(image(space, space.tensor(source.tensor), boxes)))
    return found


def _made(numbers: Numbers, partition: BoxPartition, part: int) -> set[int]:
    """The outputs of one part: index i of n in p parts belongs to part i * p // n."""
    keep, step = np.ones(numbers.shape, bool), partition.parts
    for dim, parts in partition.cuts:
        step //= parts
        axis = "KNPQ".index(dim)
        length = numbers.shape[axis]
        mine = np.arange(length) * parts // length == part // step % parts
        keep &= mine.reshape([-1 if one == axis else 1 for one in range(4)])
    return set(numbers[keep].tolist())


def _check_input(
    graph: LayerGraph,
    space: Layer,
    boxes: Array,
    needed_by: list[set[int] | None],
    numbers: Numbers,
    batch: int,
) -> None:
    """What DRAM sends of the network's input is what parts need of it."""
    found: dict[int, set[int]] = {}
    for source in sources_of(graph, len(graph.layers) - 1, batch):
        if source.producer is None and source.tensor.startswith("Inputs"):
            first = int(source.tensor.removeprefix("Inputs") or 0) * graph.layers[-1].k
            for sent in loads(source.needed(image(space, space.tensor(source.tensor), boxes))):
                (low, high), *rest = sent.box
                for target in sent.targets:
                    elements = inside(numbers, ((low + first, high + first), *rest))
                    assert len(elements) == sent.volume
                    found.setdefault(target, set()).update(elements)
    for part, wanted in enumerate(needed_by):
        if wanted is not None:
            assert found.get(part, set()) == wanted & set(numbers.ravel().tolist())


def test_an_operand_that_is_read_twice_is_needed_twice() -> None:
    """x + x: one layer computes both operands, and each part needs its box of either."""
    one = replace(random_layer(Random(0), "ptp"), name="x", c=3, k=3, h=4, w=1, input_h=4, input_w=1)
    twice = replace(one, name="sum", kind="eltwise", c=6, operands=2, producers=(0, 0))
    graph = LayerGraph("twice", (replace(one, external_c=3), twice))
    space = twice.space(1)
    boxes = BoxPartition((("P", 2),)).boxes(space)
    found = sources_of(graph, 1, 1)
    assert [(source.tensor, source.producer, source.first) for source in found] == [
        ("Inputs0", 0, 0), ("Inputs1", 0, 0),
    ]  # fmt: skip
    for source in found:
        needed = source.needed(image(space, space.tensor(source.tensor), boxes))
        assert needed[:, 2].tolist() == [[0, 2], [2, 4]]


NETWORKS = [
    "set-transformer",
    "set-gpt-decode",
    "set-lstm",
    "set-inception-resnet",
    "kapla-googlenet",
    "gpt2",
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", [*NETWORKS, "resnext50", "mobilenet_v2", "googlenet"])
def test_sources_of_networks_cover_what_their_layers_read(name: str, training: bool) -> None:
    """Every channel of every tensor has one source, within the outputs of the layer that it names."""
    graph = load_layer_graph(name)
    if training and any(layer.weight_producers for layer in graph.layers):
        pytest.skip("products of two activations have no training step")
    graph = training_graph(graph) if training else graph
    for number, layer in enumerate(graph.layers):
        space, channels = layer.space(2), dict[str, list[int]]()
        for source in sources_of(graph, number, 2):
            first, end = source.box[0]
            channels.setdefault(source.tensor, []).extend(range(first, end))
            needed = source.needed(image(space, space.tensor(source.tensor), whole(space)[None]))
            if source.producer is not None:
                of = graph.layers[source.producer]
                assert (needed[0, :, 1] <= (of.k, 2, of.h, of.w)).all()
                assert (needed[0, :, 0] >= 0).all()
            assert needed[0, 0].tolist() == [first - source.first, end - source.first]
        for tensor in space.tensors:
            if tensor.role != "outputs":
                assert sorted(channels[tensor.name]) == list(range(space.length(tensor.axes[0])))


def test_batches_that_do_not_divide_one_another() -> None:
    """Elements over all runs, by the numbers of samples: consumer and producer cut their own batches."""
    random = Random(3)
    for _ in range(200):
        mine, theirs = random.randint(1, 6), random.randint(1, 6)
        samples = mine * theirs * random.randint(1, 2)
        cuts = random.randint(1, 3), random.randint(1, 3)
        needed, made = (
            boxes_of(
                [((0, 2), (part * batch // n, (part + 1) * batch // n), (0, 3), (0, 1)) for part in range(n)]
            )
            for batch, n in zip((mine, theirs), cuts, strict=True)
        )
        found = exchanged(needed, made, (mine, theirs), samples)
        for part, source in product(range(cuts[0]), range(cuts[1])):
            common = sum(
                needed[part, 1, 0] <= sample % mine < needed[part, 1, 1]
                and made[source, 1, 0] <= sample % theirs < made[source, 1, 1]
                for sample in range(samples)
            )
            assert found[part, source] == 6 * common


def test_a_run_has_its_own_samples() -> None:
    boxes = boxes_of([((0, 2), (1, 3), (0, 1), (0, 1)), ((0, 0), (0, 0), (0, 0), (0, 0))])
    assert of_run(boxes, 2, 4)[:, 1].tolist() == [[9, 11], [0, 0]]
