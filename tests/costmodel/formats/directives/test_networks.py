"""Directives of every kind of layer: whole tensors from a graph, and counts by hand."""

from __future__ import annotations

from math import prod

import pytest

from costmodel.formats.directives.counts import accesses, parallelism
from costmodel.formats.directives.networks import memory_level
from costmodel.formats.directives.text import parse_layers
from costmodel.formats.directives.values import LayerScheme
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.training import training_graph

BATCH = 4
ROLES = ("inputs", "weights", "outputs")


def layer(name: str, kind: str, c: int, k: int, size: int, window: int, **more: object) -> NetworkLayer:
    """A square layer without padding."""
    stride = more.pop("stride", 1)
    assert isinstance(stride, int)
    reach = (size - 1) * stride + window
    sizes = {"h": size, "w": size, "r": window, "s": window, "stride_h": stride, "stride_w": stride}
    padding = {"pad_h": 0, "pad_w": 0, "input_h": reach, "input_w": reach}
    return NetworkLayer(name, kind, c, k, **sizes, **padding, **more)  # type: ignore[arg-type]


GRAPH = LayerGraph(
    "kinds",
    (
        layer("conv", "conv", 3, 8, 12, 3, external_c=3),
        layer("depthwise", "groupconv", 8, 8, 10, 3, groups=8, producers=(0,)),
        layer("grouped", "groupconv", 8, 12, 10, 1, groups=4, producers=(1,)),
        layer("pool", "pool", 12, 12, 5, 2, stride=2, producers=(2,)),
        layer("other", "pool", 12, 12, 5, 2, stride=2, producers=(2,)),
        layer("sum", "eltwise", 24, 12, 5, 1, operands=2, producers=(3, 4)),
        layer("fc", "fc", 12, 7, 1, 5, producers=(5,)),
    ),
)


def test_names_dims_and_words_of_every_kind() -> None:
    found = {
        one.name: [(tile.name, dict(tile.sizes)) for tile in memory_level(GRAPH, i, BATCH).tensors]
        for i, one in enumerate(GRAPH.layers)
    }
    assert found["conv"] == [
        ("input", {"N": 4, "C": 3, "Xi": 14, "Yi": 14}),
        ("w.conv", {"C": 3, "K": 8, "R": 3, "S": 3}),
        ("conv", {"N": 4, "K": 8, "Xo": 12, "Yo": 12}),
    ]
    assert found["depthwise"][1:] == [
        ("w.depthwise", {"C": 8, "R": 3, "S": 3}),
        ("depthwise", {"N": 4, "C": 8, "Xo": 10, "Yo": 10}),
    ]
    assert found["grouped"][1] == ("w.grouped", {"G": 4, "C": 2, "K": 3, "R": 1, "S": 1})
    assert found["pool"] == [
        ("grouped", {"N": 4, "C": 12, "Xi": 10, "Yi": 10}),
        ("pool", {"N": 4, "C": 12, "Xo": 5, "Yo": 5}),
    ]
    assert [name for name, _ in found["sum"]] == ["pool", "other", "sum"]
    assert found["fc"][0] == ("sum", {"N": 4, "C": 12, "Xi": 5, "Yi": 5})


@pytest.mark.parametrize("network", ["resnet", "lstm", "zfnet"])
def test_words_are_those_of_the_graph(network: str) -> None:
    graph = load_graph(network)
    for index, one in enumerate(graph.layers):
        level = memory_level(graph, index, 1)
        assert level.tensors[-1].words == one.k * one.h * one.w
        if one.has_weights:
            weights = one.operations // (one.h * one.w)
            assert level.tensors[-2].words == weights


def test_training_steps_have_the_words_of_their_loop_nests() -> None:
    """Errors of strides, groups, pooling and flattening, and updates: every layer with products."""
    training, counted = training_graph(GRAPH, input_error=True), 0
    for index, one in enumerate(training.layers):
        level = memory_level(training, index, BATCH)
        if one.has_weights:
            nest = one.nest(BATCH)
            words: dict[str, int] = {tensor.role: tensor.words(nest.sizes) for tensor in nest.tensors}
            assert [tile.words for tile in level.tensors] == [words[role] for role in ROLES]
            counted += 1
    assert counted == 3 * 4
    pool = memory_level(training, training.index["pool.error"], BATCH).tensors
    assert [dict(tile.sizes) for tile in pool] == [
        {"N": 4, "C": 12, "Xo": 5, "Yo": 5},
        {"N": 4, "C": 12, "Xi": 10, "Yi": 10},
    ]
    update = memory_level(training, training.index["conv.update"], BATCH).tensors
    assert [tile.name for tile in update] == ["input", "depthwise.error", "conv.update"]
    assert update[-1].output


def test_the_gates_of_an_lstm_cell() -> None:
    """Four products of the same state by weights of their own, then element by element."""
    graph = load_graph("lstm")
    gates = [one for one in graph.layers if one.kind == "fc"][:4]
    levels = [memory_level(graph, graph.index[gate.name], 1) for gate in gates]
    assert len({level.tensors[1].name for level in levels}) == 4
    together = next(one for one in graph.layers if one.kind == "eltwise")
    tiles = memory_level(graph, graph.index[together.name], 1).tensors
    assert len(tiles) == together.operands + 1
    assert len({tile.words for tile in tiles}) == 1


def scheme(index: int, inner: str) -> LayerScheme:
    (found,) = parse_layers(f"{GRAPH.layers[index].name}:\n{inner}")
    return LayerScheme(found.name, (*found.levels, memory_level(GRAPH, index, BATCH)))


def test_pooling_by_hand() -> None:
    """A window of a channel at a time: inputs and outputs move once, nothing is read back."""
    found = scheme(
        3,
        """
        GBUF:
          tensor{grouped}(N=1, C=3, Xi=2, Yi=10)
          tensor{pool}(N=1, C=3, Xo=1, Yo=5)
          stack(N+=1, 4)
          update(Xi+=2, Xo+=1)
          update(C+=3)
        """,
    )
    counts = accesses(found, "GBUF")
    assert counts["grouped"].next_reads == 4 * 12 * 100
    assert (counts["pool"].next_writes, counts["pool"].next_reads) == (4 * 12 * 25, 0)
    assert parallelism(found) == 4


def test_depthwise_by_hand() -> None:
    """Channels over nodes: filters once, inputs with two rows of halo for every strip of 5 rows."""
    found = scheme(
        1,
        """
        GBUF:
          tensor{conv}(N=1, C=2, Xi=12, Yi=7)
          tensor{w.depthwise}(C=2, R=3, S=3)
          tensor{depthwise}(N=1, C=2, Xo=10, Yo=5)
          stack(C+=2, 4)
          update(N+=1)
          update(Yi+=5, Yo+=5)
        """,
    )
    counts = accesses(found, "GBUF")
    assert counts["w.depthwise"].next_reads == 8 * 9
    assert counts["conv"].next_reads == 4 * 8 * 12 * 7 * 2
    assert counts["depthwise"].next_writes == 4 * 8 * 100


def test_element_by_element_by_hand() -> None:
    found = scheme(
        5,
        """
        GBUF:
          tensor{pool}(N=4, C=1, Xi=5, Yi=5)
          tensor{other}(N=4, C=1, Xi=5, Yi=5)
          tensor{sum}(N=4, C=1, Xo=5, Yo=5)
          update(C+=1)
        """,
    )
    words = {name: (one.next_reads, one.next_writes) for name, one in accesses(found, "GBUF").items()}
    assert words == {"pool": (1200, 0), "other": (1200, 0), "sum": (0, 1200)}


def test_fully_connected_by_hand() -> None:
    """Channels of inputs outermost: sums go out and come back three times of four."""
    found = scheme(
        6,
        """
        GBUF:
          tensor{sum}(N=4, C=3, Xi=5, Yi=5)
          tensor{w.fc}(C=3, K=1, R=5, S=5)
          tensor{fc}(N=4, K=1, Xo=1, Yo=1)
          update(K+=1)
          update(C+=3)
        """,
    )
    counts = accesses(found, "GBUF")
    assert counts["w.fc"].next_reads == prod((12, 7, 25))
    assert counts["sum"].next_reads == 4 * 12 * 25
    assert (counts["fc"].next_writes, counts["fc"].next_reads) == (4 * 28, 3 * 28)
