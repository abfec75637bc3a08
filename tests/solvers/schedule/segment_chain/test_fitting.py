"""Layers too large for a chip: parts that fit, compute the same, and can be scheduled."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.tree import Cut, Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule.fitting import fitted, summed_in_groups, too_large
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer

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


def experts(count: int, most: int) -> LayerGraph:
    """``most`` of ``count`` experts for each of three tokens; each makes two rows of four channels."""
    tokens: dict[str, Any] = {"h": 3, "w": 1}
    layers = (
        layer("router", c=3, k=count, external_c=3, **tokens),
        layer("top", "topk", c=count, k=most, r=count, producers=(0,), **tokens),
        layer("made", "ptp", c=4 * count, k=4 * count, h=2, w=1, external_c=4 * count),
        layer(
            "sum",
            "combine",
            c=4 * count,
            r=most,
            groups=most,
            input_h=2,
            input_w=1,
            producers=(2,),
            weight_producers=(1,),
            **tokens,
        ),
        layer("after", "ptp", producers=(3,), **tokens),
    )
    return LayerGraph("experts", layers)


def test_a_sum_over_more_experts_than_tiles_hold_is_one_of_groups() -> None:
    """Of one channel a tile has two rows of each expert, and four choices of each token: 8 * 2 + 12 bytes."""
    graph = experts(8, 4)
    assert summed_in_groups(graph, chip(buffer=28, stream=0)) is graph
    for free, groups in ((27, 2), (20, 2), (19, 4), (16, 4)):
        found = summed_in_groups(graph, chip(buffer=free, stream=0))
        sums = [one for one in found.layers if one.kind == "combine"]
        added = [one for one in found.layers if one.kind == "eltwise"]
        assert (len(sums), len(added)) == (groups, groups - 1)
        assert 16 // groups + 12 <= free
        # every channel of every expert is in one group, and the rows that are added are as many as before
        read = [channel for one in sums for channel in range(*one.channels[0])]
        assert read == list(range(32))
        assert sum(one.operations for one in sums) == graph.layers[3].operations
        # who adds what: from the last layer down every group is reached once
        waiting, reached = [found.index["sum"]], list[str]()
        while waiting:
            one = found.layers[waiting.pop()]
            if one.kind == "eltwise":
                waiting += one.producers
            else:
                reached.append(one.name)
        assert sorted(reached) == [f"sum[{number}]" for number in range(groups)]
        assert found.layers[-1].producers == (found.index["sum"],)
    # a fourth of the experts takes 16 bytes, and there are no more groups than rows that are added
    too_small = chip(buffer=15, stream=0)
    assert summed_in_groups(graph, too_small) is graph


def test_a_sum_in_groups_runs_where_the_sum_did_not() -> None:
    small = chip(buffer=40, stream=8)
    grouped = summed_in_groups(experts(16, 4), small)
    tree = Cut("T", 1, 1, tuple(Leaf(one.name, 1) for one in grouped.layers))
    evaluation = ChipEvaluator(grouped, small, 1, FormulaCosts(grouped)).evaluate(tree)
    program = write_program(grouped, evaluation)
    assert violations(program) == []
    done = replay(program)
    assert done.operations == sum(one.operations for one in grouped.layers)
    assert done.dram_read_bits == evaluation.dram_read_bits
    assert done.dram_write_bits == evaluation.dram_write_bits
    whole = experts(16, 4)
    tree = Cut("T", 1, 1, tuple(Leaf(one.name, 1) for one in whole.layers))
    evaluator = ChipEvaluator(whole, small, 1, FormulaCosts(whole))
    with pytest.raises(NotPossibleError, match="sum: no partition of 1 samples among 4 tiles"):
        evaluator.evaluate(tree)
