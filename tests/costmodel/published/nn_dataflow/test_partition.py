"""nn-dataflow's division of layers among nodes: parts, positions and hops, word by word and by
enumeration."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.multi_nodes import load_multi_node
from costmodel.published.nn_dataflow.blocking import Blocking, DeliveryCosts, scheme_cost
from costmodel.published.nn_dataflow.hardware import NnDataflowHardware
from costmodel.published.nn_dataflow.hops import Layout, corner_layout, distance, tree_hops, unit_hops
from costmodel.published.nn_dataflow.layers import LayerShape
from costmodel.published.nn_dataflow.partition import (
    BATP,
    INPP,
    OFMP,
    OUTP,
    Partition,
    largest_part,
    nearly_divides,
    partitions,
    piece,
    words,
)
from costmodel.published.nn_dataflow.row_stationary import processing_passes

CONV = LayerShape("convolution", 4, 8, 8, 8, 3, 3)
STRIDED = LayerShape("convolution", 6, 4, 6, 4, 3, 2, 2, 2)
POOL = LayerShape("local", 8, 8, 4, 4, 2, 2, 2, 2)
FC = LayerShape("convolution", 16, 12, 1, 1, 1, 1)
LAYERS = {"conv": CONV, "strided": STRIDED, "pool": POOL, "fc": FC}
NODES = (2, 4)
BATCH = 4


def divided(name: str) -> list[Partition]:
    return list(partitions(LAYERS[name], BATCH, NODES))


@pytest.mark.parametrize("name", LAYERS)
def test_partitions_use_every_node_once(name: str) -> None:
    found = divided(name)
    assert found
    assert len(set(found)) == len(found)
    for partition in found:
        assert partition.nodes == NODES
        positions = [partition.position(index) for index in partition.indices()]
        assert sorted(positions) == [(row, column) for row in range(2) for column in range(4)]


@pytest.mark.parametrize("name", LAYERS)
def test_pieces_are_the_whole_layer(name: str) -> None:
    layer = LAYERS[name]
    for partition in divided(name):
        part = largest_part(layer, BATCH, partition)
        assert 0 < part.occupied <= 1
        made: dict[object, int] = {}
        for index in partition.indices():
            one = piece(layer, BATCH, partition, index)
            made[one.outputs] = made.get(one.outputs, 0) + 1
            assert words(one.outputs) <= prod(
                (part.batch, part.layer.channels_out, part.layer.out_h, part.layer.out_w)
            )
        assert sum(map(words, made)) == BATCH * layer.channels_out * layer.out_h * layer.out_w  # type: ignore[arg-type]
        assert set(made.values()) == {partition.parts(INPP)}


def test_what_may_be_divided() -> None:
    for partition in divided("pool"):
        assert partition.parts(INPP) == 1
    for partition in divided("fc"):
        assert partition.parts(OFMP) == 1
    with pytest.raises(InputError, match="one part in input channels"):
        largest_part(POOL, 1, Partition((0, 1, 2, 3), ((1, 1), (1, 1), (1, 1), (1, 2))))
    one = LayerShape("convolution", 1, 1, 1, 1, 1, 1)
    (naive,) = partitions(one, 1, (2, 2))
    assert naive.sizes[OUTP] == (2, 2)


@pytest.mark.parametrize(
    ("total", "parts", "allowed"),
    [(12, 4, True), (11, 4, True), (10, 4, False), (100, 9, True), (96, 10, True), (3, 4, False)],
)
def test_nearly_dividing(total: int, parts: int, allowed: bool) -> None:
    """By one, or by a tenth of the padded size."""
    assert nearly_divides(total, parts) is allowed


def test_partitions_by_hand() -> None:
    """A column of two nodes, one sample, two output channels: every kind that can be divided, once."""
    layer = LayerShape("convolution", 2, 2, 2, 2, 1, 1)
    found = {partition.sizes for partition in partitions(layer, 1, (1, 2))}
    kinds = {next(kind for kind, sides in enumerate(sizes) if sides != (1, 1)) for sizes in found}
    assert kinds == {OUTP, OFMP, INPP}
    assert BATP in {
        next(kind for kind, sides in enumerate(one.sizes) if sides != (1, 1))
        for one in partitions(layer, 2, (1, 2))
    }


# --- hops, word by word


def where_words_are(layout: Layout) -> dict[tuple[int, ...], tuple[int, int]]:
    return {
        word: corner
        for ranges, corner in layout.parts()
        for word in product(*(range(*one) for one in ranges))
    }


@pytest.mark.parametrize("name", LAYERS)
def test_hops_word_by_word(name: str) -> None:
    layer = LAYERS[name]
    source = Partition((0, 1, 2, 3), ((1, 1), (1, 1), (2, 4), (1, 1)))
    rows = layer.window_h + (layer.out_h - 1) * layer.stride_h
    columns = layer.window_w + (layer.out_w - 1) * layer.stride_w
    inputs = corner_layout(source, (BATCH, layer.channels_in, rows, columns))
    for partition in divided(name)[::5]:
        outputs = corner_layout(partition, (BATCH, layer.channels_out, layer.out_h, layer.out_w))
        filters, brought, taken = unit_hops(layer, BATCH, partition, inputs, outputs)
        held = {
            word: corner
            for ranges, corner in inputs.parts()
            for word in product(*(range(*r) for r in ranges))
        }
        expected_inputs = expected_filters = 0
        for index in partition.indices():
            one, position = piece(layer, BATCH, partition, index), partition.position(index)
            wanted = product(*(range(*ranges) for ranges in one.inputs))
            expected_inputs += sum(distance(held[word], position) for word in wanted)
            nearest = min(distance(corner, position) for corner in product((0, 1), (0, 3)))
            channels = (one.inputs[1][1] - one.inputs[1][0]) * (one.outputs[1][1] - one.outputs[1][0])
            expected_filters += channels * layer.window_h * layer.window_w * nearest * layer.has_filters
        assert (brought, filters) == (expected_inputs, expected_filters)
        if partition.parts(INPP) == 1:
            stored = where_words_are(outputs)
            assert taken == sum(
                distance(stored[word], partition.position(index))
                for index in partition.indices()
                for word in product(*(range(*r) for r in piece(layer, BATCH, partition, index).outputs))
            )
        trees = unit_hops(layer, BATCH, partition, inputs, outputs, forward=True)
        assert trees[0] <= filters
        assert trees[1] <= brought


PLACES = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=3)


@given(PLACES, PLACES)
def test_the_greedy_tree_is_the_shortest(
    sources: set[tuple[int, int]], positions: set[tuple[int, int]]
) -> None:
    """Against every spanning tree of so few positions; sources count as one."""
    lacking = sorted(positions - sources)
    if not lacking:
        assert tree_hops(sources, positions) == 0
        return
    edges = [
        (min(distance(source, position) for source in sources), 0, number)
        for number, position in enumerate(lacking, start=1)
    ]
    edges += [
        (distance(one, other), a, b) for (a, one), (b, other) in combinations(enumerate(lacking, start=1), 2)
    ]
    best = min(
        sum(length for length, _, _ in chosen)
        for chosen in combinations(edges, len(lacking))
        if connects(chosen, len(lacking) + 1)
    )
    assert tree_hops(sources, lacking) == best


def connects(edges: tuple[tuple[int, int, int], ...], count: int) -> bool:
    reached = {0}
    for _ in edges:
        reached |= {b for _, a, b in edges if a in reached} | {a for _, a, b in edges if b in reached}
    return len(reached) == count


# --- the cost of a divided layer


@pytest.mark.parametrize("forward", [False, True])
def test_divided_layers_have_their_floors(forward: bool) -> None:
    """Operations are all done; DRAM moves each tensor once at least; one node alone needs no hops."""
    hardware = NnDataflowHardware.of(load_multi_node("kapla-4x4", "released"))
    layer, batch = LayerShape("convolution", 16, 32, 14, 14, 3, 3), 4
    source = Partition((0, 1, 2, 3), ((1, 1), (1, 1), (4, 4), (1, 1)))
    inputs = corner_layout(source, (batch, 16, 16, 16))
    tensors = (16 * 32 * 9, batch * 16 * 16 * 16, batch * 32 * 14 * 14)
    for partition in list(partitions(layer, batch, (4, 4)))[::20]:
        part = largest_part(layer, batch, partition)
        outputs = corner_layout(partition, (batch, 32, 14, 14))
        hops = unit_hops(layer, batch, partition, inputs, outputs, forward)
        delivery = DeliveryCosts(hops, partition.sharing() if forward else (1, 1, 1))
        for unit in processing_passes(part.layer, part.batch, hardware.array, part.occupied):
            blocking = Blocking((unit.loop_counts, (1, 1, 1), (1, 1, 1)), ((0, 1, 2), (0, 1, 2)))
            cost = scheme_cost(unit, blocking, hardware, delivery)
            assert cost.operations == pytest.approx(layer.operations(batch))
            assert cost.cycles >= layer.operations(batch) / (16 * 64)
            assert all(w >= t * (1 - 1e-9) for w, t in zip(cost.accesses[0], tensors, strict=True))
            assert cost.noc_energy == pytest.approx(
                sum(h * f for h, f in zip(hops, cost.fetches[0], strict=True)) * hardware.costs.hop
            )
