"""Boxes against what the compiled search of a leaf counts, for partitions of K, B, H and W."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.boxes.arrays import Array, groups, volume
from costmodel.schedule.boxes.images import image as image_of
from costmodel.schedule.boxes.partition import BoxPartition
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import OUTPUT_DIMS
from costmodel.schedule.layer_graph.sources import sources_of
from costmodel.schedule.leaf.counted_row import TrafficApart
from costmodel.schedule.leaf.geometry import kernel_space, placement_orders, ranges_of
from costmodel.schedule.leaf.kernels.leaf_kernel import search
from costmodel.schedule.leaf.kernels.leaf_values import FOUND, CheapestLeaf, KernelLeaf, PartitionTable
from costmodel.schedule.leaf.kernels.ranges_kernel import COUNTS
from costmodel.schedule.leaf.kernels.volumes_kernel import volumes
from costmodel.schedule.leaf.partitions import factorizations
from costmodel.schedule.leaf.streams import LeafRun, Placement, stream_row, streams_of
from costmodel.schedule.leaf.workspace import prices_of, workspace_of
from tests.costmodel.schedule.boxes.elements import random_layer
from tests.costmodel.schedule.boxes.messages import exchanged
from tests.costmodel.schedule.boxes.test_messages import random_graph
from tests.costmodel.schedule.chip_cases import chip
from tests.thorough import how_many

NETWORKS = ["set-resnet50", "set-googlenet", "kapla-mobilenet", "set-bert", "resnext50", "vit_b_16"]


def cut_layers(count: int) -> Iterator[tuple[NetworkLayer, int, tuple[int, int, int, int]]]:
    """Random layers and batches, cut among 2 to 12 tiles, of which some may have no part."""
    random = Random(13)
    for _ in range(count):
        layer, batch = random_layer(random), random.randint(1, 4)
        yield from _cut(random, layer, batch)


def _cut(
    random: Random, layer: NetworkLayer, batch: int
) -> Iterator[tuple[NetworkLayer, int, tuple[int, int, int, int]]]:
    every = factorizations(random.choice([2, 3, 4, 6, 8, 12]))
    without_idle = [
        parts
        for parts in every
        if all(part <= size for part, size in zip(parts, layer.sizes(batch), strict=True))
    ]
    fitting = every if random.random() < 0.2 else without_idle
    for parts in random.sample(fitting, min(2, len(fitting))):
        yield layer, batch, parts


def boxes_in_order(layer: NetworkLayer, batch: int, parts: tuple[int, int, int, int]) -> Array:
    """The boxes of a partition, W counting fastest."""
    return BoxPartition(tuple(zip(OUTPUT_DIMS, parts, strict=True))).boxes(layer.space(batch))


@pytest.mark.slow
def test_parts_have_the_sizes_that_the_kernel_finds() -> None:
    """Each part's box of every tensor; the fullest tile; all tiles together; and which parts get the same."""
    compared, equal = 0, 0
    for layer, batch, parts in cut_layers(1500):
        ranges, sizes, found = ranges_of(12), layer.sizes(batch), np.zeros((1, 4), np.int64)
        volumes(kernel_space(layer), sizes, np.array([parts]), ranges, False, found)
        space, boxes = layer.space(batch), boxes_in_order(layer, batch, parts)
        for tensor in space.tensors:
            kind = {"outputs": 0, "inputs": 1, "weights": 2}[tensor.role]
            image = image_of(space, tensor, boxes)
            mine = volume(image)
            theirs = [_size(ranges, kind, which) for which in product(*(range(part) for part in parts))]
            assert mine.tolist() == theirs
            if kind:
                assert [int(mine.max()), int(mine.sum())] == found[0, 2 * kind - 2 : 2 * kind].tolist()
            members = groups(image).members
            assert list(members) == list(_together(ranges, kind, parts))
            if members:
                copies = [len(one) for one in members]
                assert ranges.counts[kind, COUNTS.fewest] <= min(copies)
                assert max(copies) <= ranges.counts[kind, COUNTS.most]
                assert len(members) <= ranges.counts[kind, COUNTS.trees]
                followed = np.prod(parts, where=ranges.follows[kind] > 0)
                equal += int(len(members) < followed and not ranges.skipped.any())
            compared += 1
    assert compared > 4000
    assert equal > 30


def _together(ranges: Any, kind: int, parts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The numbers of the parts that get each range that the kernel sends."""
    for first in product(*map(range, parts)):
        until = [
            int(ranges.until[kind, axis, part]) if ranges.follows[kind, axis] or part == 0 else 0
            for axis, part in enumerate(first)
        ]
        if all(until) and _size(ranges, kind, first):
            reached = product(*map(range, first, until))
            yield tuple(
                int(np.ravel_multi_index(which, parts)) for which in reached if not _is_skipped(ranges, which)
            )


def _size(ranges: Any, kind: int, which: tuple[int, ...]) -> int:
    """Bytes of one part, from the intervals that the kernel keeps for each dim of the data; 0 if skipped."""
    if _is_skipped(ranges, which):
        return 0
    parts = [which[axis] if axis >= 0 else 0 for axis in ranges.axis[kind]]
    first, end = (side[kind, range(4), parts] for side in (ranges.first, ranges.end))
    return int(np.prod(np.maximum(end - first, 0)))


def _is_skipped(ranges: Any, which: tuple[int, ...]) -> bool:
    return any(ranges.skipped[axis, part] for axis, part in enumerate(which))


@pytest.mark.slow
def test_messages_have_the_sizes_that_the_kernel_finds() -> None:
    """Bytes between all pairs of parts over all runs, of batches that may differ, on random graphs."""
    random, compared = Random(17), 0
    for _ in range(how_many(200, thorough=600)):
        graph, batch = random_graph(random), random.randint(1, 4)
        number, theirs = len(graph.layers) - 1, random.randint(1, 4)
        runs = theirs * random.randint(1, 2)
        for layer, _, parts in _cut(random, graph.layers[number], batch):
            producers = dict(_placed(random, graph, theirs))
            _compare(graph, layer, (batch, theirs, runs), parts, producers)
            compared += 1
    assert compared > how_many(150, thorough=500)


ELEMENTS = ElementBits(1, 1, 1, 1)
"""Of one bit each: counts of bits are counts of elements."""


def _placed(random: Random, graph: LayerGraph, batch: int) -> Iterator[tuple[int, Placement]]:
    for number, layer in enumerate(graph.layers[:-1]):
        cut = [parts for _, _, parts in _cut(random, layer, batch)] or [(1, 1, 1, 1)]
        yield number, Placement(batch, 0, cut[0], (0, 1, 2, 3))


def _compare(
    graph: LayerGraph,
    layer: NetworkLayer,
    batches: tuple[int, int, int],
    parts: tuple[int, int, int, int],
    producers: dict[int, Placement],
) -> None:
    """Compare all streams of the last layer; ``batches``: its own, the producers', and its runs."""
    batch, theirs, runs = batches
    number = len(graph.layers) - 1
    streams = [one for one in streams_of(graph, number) if one.kind != "outputs"]
    run = LeafRun(batch, 0, int(np.prod(parts)), runs, True)
    rows = np.array([stream_row(graph, one, run, producers, ELEMENTS) for one in streams], np.int64)
    on = chip(4, 3)
    workspace = workspace_of(on, len(streams))
    leaf = KernelLeaf(kernel_space(layer), layer.sizes(batch), 0, runs, rows)
    table = PartitionTable(
        np.array([parts]), np.zeros(1), np.ones(1, np.int64), np.ones(1), *placement_orders()
    )
    held = np.zeros((len(streams), 12), np.int64)
    apart = TrafficApart.of(rows, on)
    cheapest = CheapestLeaf(np.zeros(len(FOUND), int), held, *apart, np.zeros(1))
    search(workspace, leaf, table, prices_of(on, (1, 1)), cheapest, np.inf)
    space, boxes = layer.space(batch), boxes_in_order(layer, batch, parts)
    for index, source in enumerate(sources_of(graph, number, batch)):
        needed = source.needed(image_of(space, space.tensor(source.tensor), boxes))
        assert sorted(volume(needed).tolist()) == sorted(held[index, : len(boxes)].tolist())
        if source.producer is None:
            continue
        place = producers[source.producer]
        of = graph.layers[source.producer].space(theirs)
        made = image_of(of, of.output, boxes_in_order(graph.layers[source.producer], theirs, place.parts))
        expected = exchanged(needed, made, (batch, theirs), batch * runs)
        for part, which in enumerate(product(*(range(one) for one in parts))):
            if _is_skipped(workspace.ranges, which):
                assert not expected[part].any()
                continue
            axes = workspace.ranges.axis[int(rows[index, 0])]
            at = [which[axis] if axis >= 0 else 0 for axis in axes]
            sizes = []
            for their in product(*(range(one) for one in place.parts)):
                near = workspace.near[index, :, range(4), at]
                size = int(np.prod([workspace.common[index, d, at[d], their[d]] for d in range(4)]))
                inside = all(near[d, 0] <= their[d] <= near[d, 1] for d in range(4))
                sizes.append(size if inside else 0)
            assert expected[part].tolist() == sizes


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_networks(name: str) -> None:
    """What all tiles of a leaf hold, and what is read of DRAM, in a partition of each layer."""
    graph, random, compared = load_layer_graph(name), Random(name), 0
    for layer in graph.layers:
        for _, batch, parts in _cut(random, layer, 4):
            ranges, found = ranges_of(12), np.zeros((1, 4), np.int64)
            volumes(kernel_space(layer), layer.sizes(batch), np.array([parts]), ranges, False, found)
            space, boxes = layer.space(batch), boxes_in_order(layer, batch, parts)
            for tensor in space.tensors:
                if tensor.role == "outputs":
                    continue
                kind = {"inputs": 1, "weights": 2}[tensor.role]
                image = image_of(space, tensor, boxes)
                assert int(volume(image).sum()) == found[0, 2 * kind - 1]
                assert len(groups(image).boxes) == ranges.counts[kind, COUNTS.trees]
                compared += 1
    assert compared > 20
