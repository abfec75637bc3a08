"""Layers too large for a chip: parts that fit, compute the same, and can be scheduled."""

from __future__ import annotations

from typing import Any

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tree.tree import Cut, Leaf
from solvers.schedule.fitting import fitted, too_large
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

EDGE = load_chip("set-edge")


def work(graph: LayerGraph) -> int:
    return sum(layer.operations for layer in graph.layers)


def test_what_fits_stays_as_it_is() -> None:
    for name in ("set-resnet50", "bert_base", "mobilenet_v2"):
        graph = load_layer_graph(name)
        assert fitted(graph, EDGE) is graph
    assert fitted(load_layer_graph("alexnet"), load_chip("set-cloud")) is not None


def test_large_products_are_cut_into_as_few_parts_as_fit() -> None:
    graph = load_layer_graph("alexnet")
    cut = fitted(graph, EDGE)
    assert work(cut) == work(graph)
    names = [layer.name for layer in cut.layers]
    sizes = {layer.name: layer.k for layer in cut.layers}
    # 9,216 x 4,096 bytes of weights for 16 tiles of 1 MiB
    assert [name for name in names if "[" in name] == [
        "fc6[0]",
        "fc6[1]",
        "fc6[2]",
        "fc7[0]",
        "fc7[1]",
    ]
    assert [sizes[f"fc6[{i}]"] for i in range(3)] == [1366, 1365, 1365]
    # half as many would need more than a tile has, however they were cut
    room = EDGE.tile.buffer.size_bytes - EDGE.tile.output_stream_bytes
    assert -(-2048 // 16) * 9216 > room >= -(-1366 // 16) * 9216
    index = cut.index
    assert cut.layers[index["fc7[1]"]].producers == tuple(index[f"fc6[{i}]"] for i in range(3))
    assert cut.layers[index["fc8"]].producers == (index["fc7[0]"], index["fc7[1]"])


def test_a_graph_that_was_cut_can_be_scheduled() -> None:
    graph = fitted(load_layer_graph("alexnet"), EDGE)
    costs = solved_costs(TileCostDemand(graph, EDGE.tile, EDGE.tiles, 1), TileMapper("nvdla"))
    tree = Cut("T", 1, 1, tuple(Leaf(layer.name, 1) for layer in graph.layers))
    evaluation = ChipEvaluator(graph, EDGE, 1, costs, (1, 1)).evaluate(tree)
    weights = sum(one.k * one.group_c * one.r * one.s for one in graph.layers if one.has_weights)
    assert evaluation.dram_bytes > weights


def test_training_steps_are_cut_where_layers_read_whole_producers() -> None:
    """Errors of large products are cut as the products are; updates take the whole chip, read all parts."""
    graph = load_layer_graph("alexnet.training")
    cut = fitted(graph, EDGE)
    assert work(cut) == work(graph)
    pieces = {layer.name for layer in cut.layers if "[" in layer.name}
    assert pieces == {"fc6[0]", "fc6[1]", "fc6[2]", "fc7[0]", "fc7[1]", "fc7.error[0]", "fc7.error[1]"}
    update = cut.layers[cut.index["fc6.update"]]
    assert update.weight_producers == (cut.index["fc7.error[0]"], cut.index["fc7.error[1]"])
    inception = load_layer_graph("googlenet.training")
    assert fitted(inception, EDGE) is inception


def test_layers_that_are_read_in_part_stay_whole() -> None:
    """Two layers of 30 MB of weights for 16 tiles of 1 MiB: the one read in part is not cut."""

    def product(name: str, c: int, k: int, *producers: int, **more: Any) -> NetworkLayer:
        external = 0 if producers else c
        return NetworkLayer(
            name, "fc", c, k, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, (0, 1, 2), external, producers, **more
        )

    layers = (
        product("read in part", 6000, 5000),
        product("cut", 6000, 5000),
        product("half", 2500, 10, 0, channels=((2500, 5000),)),
        product("both", 10000, 10, 0, 1, channels=((0, 5000), (0, 5000))),
    )
    found = fitted(LayerGraph("halves", layers), EDGE)
    assert [layer.name for layer in found.layers] == ["read in part", "cut[0]", "cut[1]", "half", "both"]
    assert found.layers[3].channels == ((2500, 5000),)
    assert found.layers[4].producers == (0, 1, 2)
    assert found.layers[4].channels == ((0, 5000), (0, 2500), (0, 2500))


def test_layers_that_fit_no_tiles_are_named() -> None:
    """A softmax over 1,500 x 1,500 scores of 20 heads does not fit 16 tiles of 1 MiB, however it is cut."""
    whisper = fitted(load_layer_graph("whisper_large_v3"), EDGE)
    named = {layer.name.split(".")[-1] for layer in too_large(whisper, EDGE)}
    assert "softmax" in named
    for name in ("set-resnet50", "bert_base", "alexnet"):
        assert not list(too_large(fitted(load_layer_graph(name), EDGE), EDGE))
