"""Networks as layer graphs: against the released program's graphs, by counting, and node by node."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import read_graph
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.networks import load_network
from costmodel.formats.operator_networks import network_names
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.workload.attributes import Attributes
from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.library.inception import googlenet
from costmodel.workload.library.transformer import bert_base
from costmodel.workload.network import Network, Node, Pooling, Value, batched_matmul, convolution, gemm

DATA = Path(__file__).parents[3] / "data"


def shape(layer: NetworkLayer, padding: bool = True) -> tuple[Any, ...]:
    window = (
        layer.r,
        layer.s,
        layer.stride_h,
        layer.stride_w,
        *((layer.pad_h, layer.pad_w) if padding else ()),
    )
    sizes = layer.c, layer.k, layer.h, layer.w, layer.input_h, layer.input_w
    return layer.kind, sizes, window, layer.operands, layer.groups, layer.order, layer.external_c


def structure(graph: LayerGraph, padding: bool = True) -> Counter[Any]:
    """Every layer with all that it is computed from, without names: equal for equal graphs.

    Without ``padding``, windows may begin elsewhere: the released program states no padding, and puts half of
    what reaches over the edges before the first row (of windows of 7 every 2 over 224 rows 2, not 3).
    """
    found: list[Any] = []
    for layer in graph.layers:
        inputs = sorted(found[i] for i in layer.producers)
        weights = sorted(found[i] for i in layer.weight_producers)
        found.append(hash((shape(layer, padding), tuple(inputs), tuple(weights))))
    return Counter(found)


def macs(graph: LayerGraph) -> int:
    return sum(layer.operations for layer in graph.layers if layer.has_weights)


def weight_bytes(graph: LayerGraph) -> int:
    layers = [layer for layer in graph.layers if layer.has_weights and not layer.weight_producers]
    return sum(layer.k * layer.group_c * layer.r * layer.s for layer in layers)


def kinds(graph: LayerGraph) -> dict[str, int]:
    return dict(Counter(layer.kind for layer in graph.layers))


REFUSED = {
    "yolov8n": "node up10 (upsample_nearest2d): expected an operator that a chip's schedule can have",
    "sd_unet": "node down0.0.transformer.own.scores",
    "dit_xl_2": "node block0.attention.scores",
}
"""Networks that no schedule can have yet, with the node that says why."""


@pytest.mark.parametrize("name", REFUSED)
def test_networks_that_no_schedule_can_have(name: str) -> None:
    with pytest.raises(InputError) as caught:
        load_layer_graph(name)
    assert REFUSED[name] in str(caught.value)


WITH_HEADS = {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 100, "hidden_act": "silu"}
LIKE_MAMBA = WITH_HEADS | {
    "architectures": ["Mamba2ForCausalLM"],
    "num_heads": 8,
    "head_dim": 16,
    "state_size": 16,
    "n_groups": 2,
    "expand": 2,
    "conv_kernel": 4,
    "chunk_size": 8,
}


@pytest.fixture
def like_mamba(tmp_path: Path) -> Path:
    """Eight heads of 16 channels, with a state of 16; four heads share what writes and reads it."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LIKE_MAMBA))
    return file


def test_a_step_without_tokens_before_has_no_schedule_yet(like_mamba: Path) -> None:
    """A convolution over one token is padded along an axis of which no layer says that it is rows."""
    with pytest.raises(InputError) as caught:
        load_layer_graph(str(like_mamba), {"seq": 1})
    why = "node block0.filter.padded (pad): expected constants around rows or columns"
    assert why in str(caught.value)


@pytest.mark.parametrize(("tokens", "past"), [(16, 0), (19, 0), (8, 5), (5, 5), (24, 8)])
def test_scans_over_chunks(like_mamba: Path, tokens: int, past: int) -> None:
    """Chunks of 8 tokens: every product once a chunk, and a chain of steps that carry the state."""
    dims = {"seq": tokens, "past": past}
    network, graph = load_network(like_mamba, None, dims), load_layer_graph(like_mamba, dims)
    assert macs(graph) == network.macs
    chunks, chunk = -(-tokens // 8), min(8, tokens)
    layers = {layer.name: layer for layer in graph.layers}

    def each(name: str) -> list[NetworkLayer]:
        return [layer for layer in graph.layers if layer.name.split("[")[0] == f"block0.{name}"]

    for name, rows, k, c in (
        ("scores", chunk, 2 * chunk, 2 * 16),  # two groups
        ("within", chunk, 8 * 16, 8 * chunk),
        ("states", 16, 8 * 16, 8 * chunk),
        ("read", chunk, 8 * 16, 8 * 16),
    ):
        found = each(name)
        assert {layer.h for layer in found} == {rows}
        assert sum(layer.k for layer in found) == chunks * k
        assert sum(layer.c for layer in found) == chunks * c
    # one step for each chunk behind which there is a state to carry; it reads the step before and its factors
    carried = [layer for layer in graph.layers if layer.kind == "carry"]
    assert len(carried) == chunks - (not past)
    names = [layer.name for layer in graph.layers]
    for number, layer in enumerate(carried):
        inputs, factors = graph.reads(layer)
        assert (layer.k, layer.h, layer.groups, layer.operations) == (128, 16, 8, 3 * 128 * 16)
        before = graph.layers[inputs[0].producer]
        if number:
            assert before == carried[number - 1]
        else:
            assert before.name == ("block0.carried.0" if past else "block0.states[0]")
        (pooled,) = (graph.layers[read.producer] for read in factors)
        first = (number + (not past)) * 8
        assert (pooled.kind, pooled.pad_h, pooled.r) == ("pool", -first, min(8, tokens - first))
    # no layer reads the state behind the last chunk: it is a result, and the other ones are read
    read = {number for layer in graph.layers for number in (*layer.producers, *layer.weight_producers)}
    unread = [name for number, name in enumerate(names) if number not in read]
    assert unread == [carried[-1].name, "lm_head"]
    # a decay reads the factors of its own chunk
    decays = [layer for layer in graph.layers if layer.kind == "decay"]
    assert len(decays) == 3 * chunks
    assert {layer.factors for layer in decays} == {(8, chunk, 1)}
    assert layers["block0.carried.0"].external_c == 128


@pytest.mark.parametrize("past", [1, 8])
def test_a_step_with_a_state(like_mamba: Path, past: int) -> None:
    """The token is written into the state as it decays; the state is the weights of what reads it."""
    dims = {"seq": 1, "past": past}
    network, graph = load_network(like_mamba, None, dims), load_layer_graph(like_mamba, dims)
    assert macs(graph) == network.macs
    written, state, read = (
        graph.layers[graph.index[f"block0.{name}"]] for name in ("written", "state", "read")
    )
    assert (written.kind, written.k, written.h, written.factors) == ("outer", 128, 16, (2 * 16, 1, 1))
    assert written.operations == 2 * 128 * 16
    assert (state.kind, state.external_c, state.factors) == ("carry", 128, (8, 1, 1))
    assert state.operations == 3 * 128 * 16
    assert [graph.layers[number].name for number in state.producers] == ["block0.written"]
    assert (read.k, read.h, read.groups, read.operations) == (128, 1, 8, 128 * 16)
    assert [graph.layers[number].name for number in read.weight_producers] == ["block0.state"]
    assert "transpose" not in kinds(graph)


@pytest.mark.parametrize("tokens", [5, 8])
def test_a_scan_of_one_chunk(like_mamba: Path, tokens: int) -> None:
    dims = {"seq": tokens}
    network, graph = load_network(like_mamba, None, dims), load_layer_graph(like_mamba, dims)
    assert macs(graph) == network.macs
    layers = {layer.name: layer for layer in graph.layers}
    steps = graph.index["block0.decays.exp"]
    scaled, decayed, lasting = (layers[f"block0.{name}"] for name in ("scaled", "decayed", "lasting"))
    assert (scaled.kind, scaled.k, scaled.groups, scaled.operations) == ("scale", 128, 8, 2 * 128 * tokens)
    for layer, width in ((decayed, tokens), (lasting, 16)):
        assert (layer.kind, layer.k, layer.h, layer.groups) == ("decay", 8 * width, tokens, 8)
        assert layer.weight_producers == (steps,)
        assert layer.factors == (8, tokens, 1)
    # scores of the first group for four heads, then those of the second
    reads, _ = graph.reads(decayed)
    names = [(graph.layers[one.producer].name, one.channels) for one in reads]
    assert names == [("block0.scores[0]", tokens)] * 4 + [("block0.scores[1]", tokens)] * 4
    states = layers["block0.states"]
    assert (states.groups, states.k, states.h, states.c) == (8, 128, 16, 8 * tokens)


EXPORTS = {
    "exports/gpt2.pt2": {"s22": 8},  # a mask behind queries, keys and values
    "exports/llama_sdpa.pt2": {"s22": 8},  # the same with shared heads
    "exports/heads_folded.pt2": {"s27": 4, "s57": 8, "s14": 8},  # caches of heads, rows and channels
    "onnx/llama_dynamo_sdpa_stripped.onnx": {"seq": 8, "past": 8},
    "onnx/llama_script_eager_stripped.onnx": {"seq": 1, "past": 8},
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exported_attention_with_masks_and_caches(name: str) -> None:
    """Masks that come from the network's input cost nothing, caches are copied in front of the new rows."""
    network, graph = (
        load_network(DATA / name, None, EXPORTS[name]),
        load_layer_graph(DATA / name, EXPORTS[name]),
    )
    assert macs(graph) == network.macs
    copied = [layer for layer in graph.layers if layer.kind == "pool"]
    caches = sum(layer.external_c * layer.input_h for layer in copied)
    stated = [value for value in network.values if value.kind == "input" and len(value.shape) == 4]
    assert caches == sum(value.elements for value in stated if value.shape[1] > 1)


def test_weighted_channels_are_products_on_a_chip() -> None:
    network, graph = load_network("efficientnet_b0"), load_layer_graph("efficientnet_b0")
    weighted = sum(value.elements for value in network.values if value.name.endswith(".weighted"))
    assert macs(graph) == network.macs + weighted


@pytest.mark.parametrize("name", sorted(set(network_names()) - {*REFUSED, "efficientnet_b0"}))
def test_macs_and_weights_are_those_of_the_network(name: str) -> None:
    network, graph = load_network(name), load_layer_graph(name)
    assert macs(graph) == network.macs
    values = {value.name: value for value in network.values}
    read = {input_ for node in network.nodes if node.layers for input_ in node.inputs}
    read = {name for name in read if not name.endswith(".bias")}
    assert weight_bytes(graph) == sum(
        v.elements for n, v in values.items() if n in read and v.kind == "parameter"
    )


def resnet50_of_2015() -> Network:
    """ResNet-50 as first published, and as the released program has it: strides in the first 1x1."""
    build = NetworkBuilder("resnet50")
    x = build.convolution("conv1", build.input("image", (1, 3, 224, 224)), Convolution(64, 7, stride=2))
    x = build.max_pool("maxpool", x, Pool(3, 2, padding=1))
    for stage, (channels, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(depth):
            stride, name = (2 if stage and not i else 1), f"{stage}.{i}"
            y = build.convolution(f"{name}.a", x, Convolution(channels, 1, stride))
            y = build.convolution(f"{name}.b", y, Convolution(channels, 3))
            y = build.convolution(f"{name}.c", y, Convolution(4 * channels, activation=""))
            if not i:
                x = build.convolution(f"{name}.br", x, Convolution(4 * channels, 1, stride, activation=""))
            x = build.add(f"{name}.add", y, x, "relu")
    build.linear("fc", build.average_pool("avgpool", x), 1000)
    return build.network()


def test_convolutional_networks_are_the_released_programs() -> None:
    # operands of a sum and branches of a concatenation in any order
    assert structure(layer_graph(resnet50_of_2015()), False) == structure(load_graph("resnet"), False)
    # the paper's third branch is 5x5; the library's last pooling is 2x2, as in deployed networks
    released = load_graph("goog")
    pool = next(i for i, layer in enumerate(released.layers) if shape(layer)[:2] == ("pool", LAST_POOL))
    layers = list(released.layers)
    layers[pool] = replace(layers[pool], r=2, s=2)
    expected = LayerGraph("goog", tuple(layers))
    assert structure(layer_graph(googlenet(third_branch=5)), False) == structure(expected, False)


LAST_POOL = (832, 832, 7, 7, 14, 14)


def test_attention_is_the_released_programs() -> None:
    """The released BERT: one block of width 1024, 16 heads, 512 tokens, and a projection."""
    build = NetworkBuilder("bert")
    ids, table = build.input("ids", (1, 512)), build.parameter("table", (1000, 1024))
    x = build.operator("embedding", "embedding", (table, ids), (1, 512, 1024))
    parts = tuple(build.linear(part, x, 1024) for part in ("query", "key", "value"))
    y = build.linear("output", build.attention("attention", parts, 16), 1024)
    x = build.add("add1", x, y)
    y = build.linear("contract", build.linear("expand", x, 2048, "gelu"), 1024)
    build.linear("projection", build.add("add2", x, y), 1000)
    network = build.network()
    graph = layer_graph(network)
    # keys are projected and transposed head by head, the softmax is a layer
    assert structure(graph) == structure(load_graph("bert"))
    assert macs(graph) == network.macs


@pytest.mark.slow
def test_sources_of_one_network_give_one_graph() -> None:
    expected = structure(load_layer_graph("resnet50"))
    assert structure(load_layer_graph(DATA / "onnx" / "resnet50_stripped.onnx")) == expected
    assert structure(load_layer_graph(DATA / "graphs" / "resnet50.json.gz")) == expected
    for name in ("resnet18", "bert_base"):
        fused, raw = (read_graph(DATA / "graphs" / f"{name}{kind}.json.gz") for kind in ("", ".raw"))
        assert structure(layer_graph(fused)) == structure(layer_graph(raw))
    mobile = structure(load_layer_graph("mobilenet_v2"))
    assert structure(load_layer_graph(DATA / "onnx" / "mobilenet_v2_stripped.onnx")) == mobile


@pytest.mark.parametrize("name", ["amoebanet_d", "gpt2_small", "vit_b_16"])
def test_graph_files(name: str) -> None:
    network = read_graph(DATA / "graphs" / f"{name}.json.gz")
    assert macs(layer_graph(network)) == network.macs


def test_attention_of_onnx() -> None:
    network = load_network(DATA / "onnx" / "bert_l2_stripped.onnx", 1)
    graph = layer_graph(network)
    assert macs(graph) == network.macs
    products = [layer for layer in graph.layers if layer.weight_producers]
    assert len(products) == 4
    # scores read transposed keys, one head each; values are read as they are
    sources = [{graph.layers[i].kind for i in layer.weight_producers} for layer in products]
    assert sources == [{"transpose"}, {"conv"}] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["densenet121", "inception_v2", "shufflenet", "squeezenet", "bvlc_alexnet"])
def test_models_that_come_with_onnx(name: str) -> None:
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    network = load_network(path)
    assert macs(layer_graph(network)) == network.macs > 0


def test_names() -> None:
    assert layer_graph_names()[:5] == [
        "set-resnet50",
        "set-googlenet",
        "set-inception-resnet",
        "set-pnasnet",
        "set-transformer",
    ]
    assert load_layer_graph("set-resnet50") == load_layer_graph("resnet") == load_graph("resnet")
    # of a name that both have, the library's
    assert load_layer_graph("alexnet") == layer_graph(load_network("alexnet"))
    assert load_layer_graph("set-alexnet") == load_graph("alexnet") != load_layer_graph("alexnet")
    with pytest.raises(InputError, match="Did you mean set-resnet50"):
        load_layer_graph("set-resnet5")


def test_layer_graph_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"name": "mine", "layers": [{"name": "a"}]}')
    with pytest.raises(InputError, match=r"mine.json.*layers\[0\].*type"):
        load_layer_graph(path)


# --- node by node


def start(name: str = "net", channels: int = 8) -> tuple[NetworkBuilder, str]:
    build = NetworkBuilder(name)
    x = build.convolution("conv", build.input("image", (1, 3, 8, 8)), Convolution(channels, 3, activation=""))
    return build, x


def by_name(build: NetworkBuilder) -> dict[str, NetworkLayer]:
    graph = layer_graph(build.network())
    return {layer.name: layer for layer in graph.layers}


def test_an_activation_is_folded_where_nobody_else_reads_its_input() -> None:
    build, x = start()
    y = build.operator("relu", "relu", (x,), (1, 8, 8, 8))
    build.convolution("next", y, Convolution(4))
    assert list(by_name(build)) == ["conv", "next"]
    build.convolution("other", x, Convolution(4))
    assert list(by_name(build)) == ["conv", "relu", "next", "other"]


def test_a_chain_of_activations_is_one_layer_on_its_input() -> None:
    build, x = start()
    swish = build.operator("sigmoid", "sigmoid", (x,), (1, 8, 8, 8))
    swish = build.operator("mul", "mul", (x, swish), (1, 8, 8, 8))
    build.convolution("next", swish, Convolution(4))
    assert list(by_name(build)) == ["conv", "next"]
    build.add("sum", x, build.convolution("same", x, Convolution(8)))
    layers = by_name(build)
    assert [layer.kind for layer in layers.values()] == ["conv", "ptp", "conv", "conv", "eltwise"]
    assert layers["mul"].producers == (0,)


def test_a_normalisation_in_pieces_is_one_layer() -> None:
    build = NetworkBuilder("norm")
    tokens = (1, 6, 16)
    x = build.linear("fc", build.input("x", tokens), 16)
    one = (1, 6, 1)
    mean = build.operator("mean", "mean", (x,), one)
    shifted = build.operator("sub", "sub", (x, mean), tokens)
    variance = build.operator("variance", "mean", (build.operator("pow", "pow", (shifted,), tokens),), one)
    scale = build.operator("sqrt", "sqrt", (variance,), one)
    y = build.operator("div", "div", (shifted, scale), tokens)
    y = build.operator("gain", "mul", (y, build.parameter("gamma", (16,))), tokens)
    build.linear("next", y, 4)
    layers = by_name(build)
    assert {name: layer.kind for name, layer in layers.items()} == {
        "fc": "conv",
        "gain": "ptp",
        "next": "conv",
    }
    assert layers["next"].producers == (1,)


def test_poolings_and_means() -> None:
    build, x = start()
    build.max_pool("max", x, Pool(3, 2, padding=1))
    build.average_pool("average", x, 2)
    build.operator("global", "adaptive_avg_pool2d", (x,), (1, 8, 1, 1))
    build.operator("mean", "mean", (x,), (1, 8), dim=(2, 3))
    layers = by_name(build)
    window = {n: (lay.r, lay.stride_h, lay.pad_h, lay.input_h, lay.h) for n, lay in layers.items()}
    assert window["max"] == (3, 2, 1, 8, 4)
    assert window["average"] == (4, 4, 0, 8, 2)
    assert window["global"] == window["mean"] == (8, 8, 0, 8, 1)


def test_a_scale_of_every_channel_is_an_activation_as_weight() -> None:
    build, x = start()
    gate = build.convolution("gate", build.average_pool("squeeze", x), Convolution(8, activation="sigmoid"))
    build.operator("excite", "mul", (x, gate), (1, 8, 8, 8))
    layers = by_name(build)
    excite = layers["excite"]
    assert (excite.kind, excite.groups, excite.producers, excite.weight_producers) == (
        "groupconv",
        8,
        (0,),
        (2,),
    )
    # the only multiply-accumulates that the network does not count
    network = build.network()
    assert sum(one.operations for one in layers.values() if one.has_weights) == network.macs + 8 * 8 * 8


def test_readers_of_some_channels_split_the_layer() -> None:
    build, x = start()
    halves = [
        build.operator(f"half{i}", "slice", (x,), (1, 4, 8, 8), dim=1, start=4 * i, end=4 * i + 4)
        for i in range(2)
    ]
    pool = build.operator("pool", "adaptive_avg_pool2d", (halves[1],), (1, 4, 2, 2))
    third = build.operator("part", "slice", (pool,), (1, 1, 2, 2), dim=1, end=1)
    build.convolution("a", halves[0], Convolution(2))
    build.convolution("b", third, Convolution(2))
    layers = by_name(build)
    sizes = {name: layer.k for name, layer in layers.items()}
    assert sizes == {"conv[0]": 4, "conv[1]": 1, "conv[2]": 3, "pool[0]": 1, "pool[1]": 3, "a": 2, "b": 2}
    assert layers["a"].producers == (0,)


def test_activations_are_folded_into_the_part_that_they_read() -> None:
    build, x = start()
    left, right = (
        build.operator(f"half{i}", "slice", (x,), (1, 4, 8, 8), dim=1, start=start, end=start + 4)
        for i, start in enumerate((0, 4))
    )
    build.convolution("a", build.operator("relu", "relu", (left,), (1, 4, 8, 8)), Convolution(2))
    build.convolution("b", right, Convolution(2))
    assert list(by_name(build)) == ["conv[0]", "conv[1]", "a", "b"]


def test_an_activation_before_a_normalisation_stays_its_own() -> None:
    build = NetworkBuilder("positions")
    x = build.linear("fc", build.input("x", (1, 6, 16)), 16)
    x = build.add("position", x, build.parameter("p", (6, 16)))
    y = build.linear("next", build.layer_norm("norm", x), 16)
    build.add("sum", x, y)
    # the constant is added where the product is computed; the normalisation and the sum read that
    layers = by_name(build)
    assert list(layers) == ["fc", "norm", "next", "sum"]
    assert layers["sum"].producers == (0, 2)


def test_packed_projections() -> None:
    build = NetworkBuilder("packed")
    x = build.input("x", (1, 6, 16))
    y = build.attention("attention", (build.linear("qkv", x, 48),), 4)
    build.linear("output", y, 16)
    network = build.network()
    graph = layer_graph(network)
    layers = {layer.name: layer for layer in graph.layers}
    # queries, keys of four heads, values
    assert [layers[f"qkv[{i}]"].k for i in range(6)] == [16, 4, 4, 4, 4, 16]
    scores, values = layers["attention.scores"], layers["attention.values"]
    assert (scores.c, scores.k, scores.groups) == (16, 4 * 6, 4)
    assert (values.c, values.k, values.groups) == (4 * 6, 16, 4)
    assert [graph.layers[i].name for i in values.weight_producers] == ["qkv[5]"]
    assert macs(graph) == network.macs


def test_heads_that_share_keys() -> None:
    build = NetworkBuilder("grouped-query")
    x = build.input("x", (1, 6, 16))
    q, k, v = build.linear("q", x, 16), build.linear("k", x, 8), build.linear("v", x, 8)
    scores = batched_matmul("scores", B=4, M=6, N=6, K=4)
    s = build.operator("scores", "matmul", (q, k), (1, 4, 6, 6), scores)
    s = build.operator("softmax", "softmax", (s,), (1, 4, 6, 6))
    values = batched_matmul("values", B=4, M=6, N=4, K=6)
    build.operator("values", "matmul", (s, v), (1, 4, 6, 4), values)
    graph = layer_graph(build.network())
    layers = {layer.name: layer for layer in graph.layers}
    names = [[graph.layers[i].name for i in layers[one].weight_producers] for one in ("scores", "values")]
    turned = ["scores.transposed.0", "scores.transposed.0", "scores.transposed.1", "scores.transposed.1"]
    assert names == [turned, ["v[0]", "v[0]", "v[1]", "v[1]"]]


def test_products_across_tokens_read_a_transposed_input() -> None:
    build = NetworkBuilder("mixer")
    x = build.linear("fc", build.input("x", (1, 6, 16)), 16)
    weights = build.parameter("w", (10, 6))
    build.operator("mix", "matmul", (weights, x), (1, 10, 16), gemm("mix", M=10, N=16, K=6))
    layers = by_name(build)
    assert [layer.kind for layer in layers.values()] == ["conv", "transpose", "conv"]
    assert (layers["mix"].c, layers["mix"].h, layers["mix"].k) == (6, 16, 10)


def test_rows_one_after_the_other() -> None:
    build = NetworkBuilder("rows")
    parts = [
        build.linear(name, build.input(f"in_{name}", (1, rows, 8)), 4) for name, rows in (("a", 3), ("b", 5))
    ]
    build.linear("next", build.operator("cat", "cat", tuple(parts), (1, 8, 4)), 2)
    layers = by_name(build)
    assert [(one.kind, one.pad_h, one.input_h, one.h) for one in layers.values()][2:4] == [
        ("pool", 0, 3, 8),
        ("pool", 3, 5, 8),
    ]
    assert layers["cat"].kind == "eltwise"


def test_a_flattened_image() -> None:
    build, x = start()
    build.linear("fc", x, 10)
    fc = by_name(build)["fc"]
    assert (fc.kind, fc.c, fc.r, fc.s, fc.input_h, fc.input_w) == ("fc", 8, 8, 8, 8, 8)


def test_what_a_schedule_cannot_have_is_named() -> None:
    build, x = start()
    build.operator("grow", "upsample_nearest2d", (x,), (1, 8, 16, 16))
    with pytest.raises(InputError, match=r"network net: node grow \(upsample_nearest2d\)"):
        by_name(build)
    build, x = start()
    build.operator("pool", "max_pool2d", (x,), (1, 8, 0, 4))
    with pytest.raises(InputError, match="node pool"):
        by_name(build)
    build, x = start()
    y = build.max_pool("half", x, Pool(2, 2))
    build.operator("add", "add", (x, y), (1, 8, 8, 8))
    with pytest.raises(InputError, match=r"node add \(add\).*operands that lie alike"):
        by_name(build)
    with pytest.raises(InputError, match=r"node conv1 .*one sample.*batch of 1"):
        layer_graph(load_network("resnet18", 2))
    build, x = start()
    mean = build.operator("mean", "mean", (x,), (1, 1, 8, 8))
    build.convolution("attend", mean, Convolution(1))
    with pytest.raises(InputError, match=r"node attend .*only within a normalisation"):
        by_name(build)
    build, x = start()
    build.operator("rows", "index_select", (build.parameter("table", (10, 4)), x), (1, 8, 8, 8, 4))
    with pytest.raises(InputError, match=r"node rows .*indices that it computes"):
        by_name(build)
    build, x = start()
    build.operator("unknown", "relu", (x,), (0,))
    with pytest.raises(InputError, match=r"node unknown .*known shape"):
        by_name(build)
    for name, what in (("deeplabv3_resnet50", "a dilation of 1"), ("s3d", "one or two spatial axes")):
        with pytest.raises(InputError, match=rf"node conv.*{what}"):
            load_layer_graph(DATA / "graphs" / f"{name}.json.gz")


# --- what a file does not say


def refused(build: NetworkBuilder, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layer_graph(build.network())


def test_parts_of_unknown_position_are_refused() -> None:
    build, x = start()
    build.convolution("next", build.operator("half", "slice", (x,), (1, 4, 8, 8)), Convolution(2))
    refused(build, r"node half \(slice\): dim: .*State dim")
    build, x = start()
    build.operator("next", "relu", (build.operator("one", "select", (x,), (1, 8, 8), dim=3),), (1, 8, 8))
    refused(build, r"node one \(select\): index: .*State index")
    build = NetworkBuilder("tokens")
    build.linear("next", build.linear("fc", build.input("x", (1, 6, 16)), 8), 4)
    build.operator(
        "first", "linear", ("fc", build.parameter("w", (3, 8))), (1, 3), gemm("first", M=1, N=3, K=8)
    )
    refused(build, r"node first \(linear\): row: .*which 1 of 6 rows")


def test_the_parts_of_one_split_prove_where_they_are() -> None:
    build, x = start()
    network = build.network()
    parts = [Value("a", (1, 2, 8, 8), "activation"), Value("b", (1, 6, 8, 8), "activation")]
    pools = [Node(f"{name}.pool", "adaptive_avg_pool2d", (name,), (f"{name}.out",)) for name in "ab"]
    outputs = [Value("a.out", (1, 2, 1, 1), "output"), Value("b.out", (1, 6, 1, 1), "output")]
    made = (replace(v, kind="activation") if v.kind == "output" else v for v in network.values)
    split = Node("split", "split", (x,), ("a", "b"))
    values = (*made, *parts, *outputs)
    graph = layer_graph(Network("split", (*network.nodes, split, *pools), values))
    assert [(layer.name, layer.k) for layer in graph.layers[:2]] == [("conv[0]", 2), ("conv[1]", 6)]
    assert [layer.producers for layer in graph.layers[2:]] == [(0,), (1,)]
    # without the second part, the first may be either end
    alone = replace(split, outputs=("a",))
    values = tuple(value for value in values if value.name[0] != "b")
    with pytest.raises(InputError, match=r"node split \(split\): dim"):
        layer_graph(Network("split", (*network.nodes, alone, pools[0]), values))


def test_a_transpose_without_axes_is_known_where_all_lengths_differ() -> None:
    build = NetworkBuilder("turned")
    x = build.linear("fc", build.input("x", (1, 6, 16)), 8)
    turned = build.operator("turned", "transpose", (x,), (1, 8, 6))
    build.linear("next", turned, 4)
    assert [layer.kind for layer in layer_graph(build.network()).layers] == ["conv", "transpose", "conv"]
    build = NetworkBuilder("turned")
    x = build.linear("fc", build.input("x", (1, 8, 16)), 8)
    build.linear("next", build.operator("turned", "transpose", (x,), (1, 8, 8)), 4)
    refused(build, r"node turned \(transpose\): dims")


def test_a_product_of_square_operands_says_whether_one_is_transposed() -> None:
    def made(**attributes: bool) -> NetworkBuilder:
        build = NetworkBuilder("square")
        x = build.input("x", (1, 4, 16))
        q, k = build.linear("q", x, 8), build.linear("k", x, 8)
        layer = batched_matmul("scores", B=2, M=4, N=4, K=4)
        build.operator("scores", "matmul", (q, k), (1, 2, 4, 4), layer, **attributes)
        return build

    refused(made(), r"node scores \(matmul\): transposed")
    assert "transpose" in kinds(layer_graph(made(transposed=True).network()))
    assert "transpose" not in kinds(layer_graph(made(transposed=False).network()))


def test_statements_that_shapes_contradict_are_refused() -> None:
    build = NetworkBuilder("rows")
    x = build.linear("fc", build.input("x", (1, 6, 16)), 8)
    layer = gemm("next", M=6, N=3, K=8)
    build.operator("next", "linear", (x, build.parameter("w", (3, 8))), (1, 6, 3), layer, row=2)
    refused(build, r"node next \(linear\): row: .*all rows are read")
    for turned, shape in ((True, (1, 8, 6)), (False, (1, 6, 8))):
        build = NetworkBuilder("scores")
        x = build.input("x", (1, 4, 16))
        q, k = build.linear("q", x, 8), build.linear("k", build.input("y", (1, 6, 16)), 8)
        if turned:
            k = build.operator("turned", "permute", (k,), shape, dims=(0, 2, 1))
        layer = gemm("scores", M=4, N=6, K=8)
        build.operator("scores", "matmul", (q, k), (1, 4, 6), layer, transposed=turned)
        refused(build, r"node scores \(matmul\)")


def test_the_networks_input_beside_what_a_layer_computes() -> None:
    build, x = start()
    image = build.operator("some", "slice", ("image",), (1, 2, 8, 8), dim=1, start=1)
    rest = build.operator("rest", "slice", ("image",), (1, 1, 8, 8), dim=1, end=1)
    build.convolution("next", build.concatenate("cat", (image, x, rest)), Convolution(4))
    last = by_name(build)["next"]
    assert (last.external_c, last.c, last.producers) == (3, 11, (0,))
    build, x = start(channels=2)
    image = build.operator("some", "slice", ("image",), (1, 2, 8, 8), dim=1, start=1)
    joined = build.concatenate("cat", (x, image))
    build.convolution("next", joined, Convolution(4, groups=2))
    refused(build, r"layer next: expected the network's input before what layers compute")


def test_attention_over_as_many_tokens_as_a_head_is_wide() -> None:
    network = bert_base(sequence=64)
    graph = layer_graph(network)
    assert macs(graph) == network.macs
    assert kinds(graph)["transpose"] == 12 * 12
    scores = next(layer for layer in graph.layers if layer.name == "block0.attention.scores")
    assert {graph.layers[i].kind for i in scores.weight_producers} == {"transpose"}


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_fused_attention_of_heads_that_share_keys(kept: int) -> None:
    build = NetworkBuilder("fused")
    x = build.input("x", (1, 6, 16))
    heads = []
    for name, count in (("q", 4), ("k", kept), ("v", kept)):
        y = build.linear(name, x, 4 * count)
        y = build.operator(f"{name}.apart", "view", (y,), (1, 6, count, 4))
        heads.append(build.operator(f"{name}.heads", "permute", (y,), (1, count, 6, 4), dims=(0, 2, 1, 3)))
    layers = batched_matmul("s", B=4, M=6, N=6, K=4), batched_matmul("v", B=4, M=6, N=4, K=6)
    network = build.network()
    node = Node("attention", "scaled_dot_product_attention", tuple(heads), ("y",), layers)
    values = (*network.values, Value("y", (1, 4, 6, 4), "output"))
    graph = layer_graph(Network("fused", (*network.nodes, node), values))
    found = {layer.name: layer for layer in graph.layers}
    scores, weighted = found["attention.scores"], found["attention.values"]
    assert (scores.groups, scores.c, scores.k, weighted.k) == (4, 16, 24, 16)
    turned = [graph.layers[i].name for i in scores.weight_producers]
    each = (
        [f"attention.scores.transposed.{i}" for i in range(kept)]
        if kept > 1
        else ["attention.scores.transposed"]
    )
    assert turned == [name for name in each for _ in range(4 // kept)]


def test_operands_of_fused_operators_are_not_forgotten() -> None:
    build, x = start()
    y = build.convolution("other", x, Convolution(8))
    pooled = Node("fused", "max_pool2d+add", (x, y), ("fused",), pooling=Pooling((3, 3), (1, 1)),
                  attributes=Attributes({"padding": 1}))  # fmt: skip
    network = build.network()
    values = tuple(replace(v, kind="activation") if v.kind == "output" else v for v in network.values)
    values = (*values, Value("fused", (1, 8, 8, 8), "output"))
    layers = {one.name: one for one in layer_graph(Network("n", (*network.nodes, pooled), values)).layers}
    assert layers["fused.add"].kind == "eltwise"
    assert len(layers["fused.add"].producers) == 2


def test_windows_that_the_padding_does_not_explain_are_refused() -> None:
    build, x = start()
    weights = build.parameter("w", (4, 8, 3, 3))
    layer = convolution("odd", K=4, C=8, P=8, Q=8, R=3, S=3)
    build.operator("odd", "conv2d", (x, weights), (1, 4, 8, 8), layer, padding=0)
    refused(build, r"node odd \(conv2d\): padding: .*padded by \(0, 0\), found 8")
    build, x = start()
    pool = Node("odd", "max_pool2d", (x,), ("odd",), pooling=Pooling((3, 3), (1, 1)),
                attributes=Attributes({"dilation": 2}))  # fmt: skip
    network = build.network()
    values = (*network.values, Value("odd", (1, 8, 4, 4), "output"))
    with pytest.raises(InputError, match=r"node odd \(max_pool2d\): dilation: expected a dilation of 1"):
        layer_graph(Network("n", (*network.nodes, pool), values))


def test_windows_that_reach_nothing_but_padding_are_refused_by_the_node() -> None:
    builder = NetworkBuilder("padding")
    builder.max_pool("pool", builder.input("x", (1, 3, 4, 4)), Pool(kernel=1, stride=50, padding=20))
    with pytest.raises(InputError, match=r"node pool \(max_pool2d\).*windows over some of 4 rows"):
        layer_graph(builder.network())
