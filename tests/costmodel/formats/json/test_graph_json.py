"""Reference graphs give the published MAC counts; contradictory graphs are refused by file and operator."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import network_of_graph, read_graph
from costmodel.workload.counting import counting_warnings, uncounted_rows
from costmodel.workload.network import convolution, distinct_layers, gemm

GRAPHS = Path(__file__).parents[3] / "data" / "graphs"


def graph(op: str, shapes: dict[str, list[Any]], **attrs: Any) -> dict[str, Any]:
    """A graph of one operator; ``y`` is its result, ``w...`` are parameters, all others inputs."""
    kinds = {"y": "output"}
    return {
        "name": "made",
        "tensors": [
            {"name": n, "shape": s, "kind": kinds.get(n, "parameter" if n[0] == "w" else "input")}
            for n, s in shapes.items()
        ],
        "ops": [
            {
                "name": "op",
                "type": op,
                "inputs": [name for name in shapes if name != "y"],
                "outputs": ["y"],
                "attrs": attrs,
            }
        ],
    }


@pytest.mark.parametrize("file", sorted(path.name for path in GRAPHS.glob("*.gz")))
def test_every_operator_of_the_reference_graphs_is_known(file: str) -> None:
    network = read_graph(GRAPHS / file)
    assert counting_warnings(network) == ()
    assert len(network.layers) > 20


@pytest.mark.parametrize(
    ("file", "macs"),
    [
        ("resnet18", 1_814_073_344),
        ("resnet50", 4_089_184_256),
        ("resnext50_32x4d", 4_230_479_872),
        ("mobilenet_v2", 300_774_272),
        ("googlenet", 1_498_376_192),
        # torchvision publishes 17.98 GMACs, and 40.52 for frames of a quarter of the area
        ("s3d", 17_978_771_456),
        ("r2plus1d_18", 162_075_709_440),
    ],
)
def test_published_mac_counts(file: str, macs: int) -> None:
    assert read_graph(GRAPHS / f"{file}.json.gz").macs == macs


@pytest.mark.parametrize("name", ["resnet18", "bert_base"])
def test_fused_and_raw_graphs_have_the_same_layers(name: str) -> None:
    fused, raw = (read_graph(GRAPHS / f"{name}.{end}") for end in ("json.gz", "raw.json.gz"))
    assert [layer.shape for layer in fused.layers] == [layer.shape for layer in raw.layers]
    assert len(fused.nodes) < len(raw.nodes)


def test_bert_by_formula() -> None:
    tokens, width, heads = 128, 768, 12
    projections = 4 * tokens * width * width + 2 * tokens * width * 4 * width
    products = 2 * heads * tokens * tokens * (width // heads)
    network = read_graph(GRAPHS / "bert_base.json.gz")
    assert network.macs == 12 * (projections + products) + width * width
    assert len(distinct_layers(network.layers)) == 6


def test_fused_attention_has_scores_and_values() -> None:
    network = read_graph(GRAPHS / "transformer.json.gz")
    pairs = [node.layers for node in network.nodes if node.operator == "scaled_dot_product_attention"]
    assert len(pairs) == 18
    # 32 sentences x 8 heads of width 64; 10 tokens in, 20 out
    sizes = {
        tuple((layer.sizes["M"], layer.sizes["N"], layer.sizes["K"]) for layer in pair) for pair in pairs
    }
    assert sizes == {
        ((10, 10, 64), (10, 64, 10)),
        ((20, 20, 64), (20, 64, 20)),
        ((20, 10, 64), (20, 64, 10)),
    }
    assert all(layer.sizes["B"] == 256 for pair in pairs for layer in pair)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "gpt2_small", "vit_b_16", "s3d", "amoebanet_d"])
def test_batch_scales_every_layer(name: str) -> None:
    one, eight = (read_graph(GRAPHS / f"{name}.json.gz", batch) for batch in (None, 8))
    assert [layer.macs for layer in eight.layers] == [8 * layer.macs for layer in one.layers]
    weights = [value for value in one.values if value.kind == "parameter"]
    assert [value for value in eight.values if value.kind == "parameter"] == weights


def test_batch_that_the_graph_cannot_take() -> None:
    with pytest.raises(InputError, match=r"transformer\.json\.gz: batch.*leading axes \[10, 20\]"):
        read_graph(GRAPHS / "transformer.json.gz", batch=4)


# ---- single operators


def test_some_rows_of_a_packed_projection() -> None:
    """Keys and values of 2 x 64 channels out of a projection that also has 64 of queries."""
    shapes = {"x": [5, 64], "w": [192, 64], "y": [5, 128]}
    (layer,) = network_of_graph(graph("linear", shapes, weight_shape=[128, 64])).layers
    assert layer.shape == gemm("", M=5, N=128, K=64).shape
    for wrong in ([128, 32], [256, 64], [64, 64]):  # other channels, more rows than there are, too few
        with pytest.raises(InputError):
            _ = network_of_graph(graph("linear", shapes, weight_shape=wrong)).layers


def test_grouped_dilated_convolution() -> None:
    shapes = {"x": [2, 8, 33, 29], "w": [12, 4, 3, 5], "y": [2, 12, 17, 29]}
    attrs = {
        "stride": [2, 1],
        "padding": [1, 4],
        "dilation": [1, 2],
        "groups": 2,
        "weight_shape": [12, 4, 3, 5],
    }
    (layer,) = network_of_graph(graph("conv2d+relu", shapes, **attrs)).layers
    expected = convolution("", N=2, K=12, C=8, P=17, Q=29, R=3, S=5, stride=(2, 1), dilation=(1, 2), groups=2)
    assert layer.shape == expected.shape


def test_one_number_holds_for_all_axes() -> None:
    shapes = {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3], "y": [1, 4, 3, 3]}
    (short,), (written_out,) = (
        network_of_graph(graph("conv2d", shapes, stride=stride)).layers for stride in ([2], [2, 2])
    )
    assert short.shape == written_out.shape


@pytest.mark.parametrize(
    ("op", "shapes", "sizes"),
    [
        ("addmm", {"wb": [9], "x": [5, 7], "w": [7, 9], "y": [5, 9]}, {"M": 5, "N": 9, "K": 7}),
        ("bmm", {"a": [4, 5, 7], "b": [4, 7, 9], "y": [4, 5, 9]}, {"B": 4, "M": 5, "N": 9, "K": 7}),
        (
            "baddbmm",
            {"c": [4, 5, 9], "a": [4, 5, 7], "b": [4, 7, 9], "y": [4, 5, 9]},
            {"B": 4, "M": 5, "N": 9, "K": 7},
        ),
        ("matmul", {"a": [2, 3, 5, 7], "w": [7, 9], "y": [2, 3, 5, 9]}, {"M": 30, "N": 9, "K": 7}),
        # two heads of width 4 viewed out of rows of 8, the second operand transposed
        ("matmul", {"a": [1, 5, 8], "b": [1, 6, 8], "y": [1, 2, 5, 6]}, {"B": 2, "M": 5, "N": 6, "K": 4}),
        ("linear", {"x": [3, 5, 7], "w": [18, 7], "y": [3, 5, 6]}, {"M": 15, "N": 6, "K": 7}),
    ],
)
def test_matrix_products(op: str, shapes: dict[str, list[int]], sizes: dict[str, int]) -> None:
    (layer,) = network_of_graph(graph(op, shapes)).layers
    assert layer.sizes == sizes


def test_attention_with_apart_queries_keys_and_values() -> None:
    shapes = {"q": [2, 4, 5, 8], "k": [2, 4, 6, 8], "v": [2, 4, 6, 8], "y": [2, 4, 5, 8]}
    scores, values = network_of_graph(graph("scaled_dot_product_attention", shapes)).layers
    assert (scores.sizes, values.sizes) == (
        {"B": 8, "M": 5, "N": 6, "K": 8},
        {"B": 8, "M": 5, "N": 8, "K": 6},
    )


def test_same_shape_as_gemm() -> None:
    (layer,) = network_of_graph(graph("linear", {"x": [5, 7], "w": [9, 7], "y": [5, 9]})).layers
    assert layer.shape == gemm("", M=5, N=9, K=7).shape


@pytest.mark.parametrize("op", ["twist", "twist+relu", "relu+twist"])
def test_unknown_operator_is_opaque(op: str) -> None:
    network = network_of_graph(graph(op, {"x": [1, 3], "y": [1, 3]}))
    assert network.nodes[0].opaque
    assert network.nodes[0].inputs == ("x",)
    assert uncounted_rows(network) == [{"node": "op", "kind": op, "why": "twist is not supported"}]


def test_unknown_operator_fused_behind_a_product_keeps_its_layer() -> None:
    network = network_of_graph(graph("linear+twist", {"x": [5, 7], "w": [9, 7], "y": [5, 9]}))
    assert network.nodes[0].opaque
    assert network.macs == 5 * 7 * 9


def test_attributes_are_kept() -> None:
    attrs = {"dim": -1, "start": 2, "end": None, "scale": 0.5, "mode": "exact", "nested": [[1, 2], [3]]}
    node = network_of_graph(graph("slice", {"x": [1, 6], "y": [1, 4]}, **attrs)).nodes[0]
    assert node.attributes == {
        "dim": -1, "start": 2, "scale": 0.5, "mode": "exact", "nested": ((1, 2), (3,))
    }  # fmt: skip


def test_attributes_of_other_kinds_are_refused() -> None:
    with pytest.raises(InputError, match=r"op op: attrs.where: expected numbers, text or lists of them"):
        network_of_graph(graph("slice", {"x": [1, 6], "y": [1, 4]}, where={"dim": 1}))


def test_transposed_convolutions_are_not_taken_for_convolutions() -> None:
    shapes = {"x": [1, 4, 8, 8], "w": [4, 4, 3, 3], "y": [1, 4, 10, 10]}
    (node,) = network_of_graph(graph("convolution", shapes, transposed=True)).nodes
    assert node.kind.name == "transposed_convolution"
    assert node.layers[0].macs == 8 * 8 * 4 * 4 * 3 * 3
    (by_name,) = network_of_graph(graph("conv_transpose2d", shapes)).nodes
    assert by_name.layers == node.layers
    (plain,) = network_of_graph(graph("convolution", shapes, transposed=False)).nodes
    assert plain.layers[0].macs == 10 * 10 * 4 * 4 * 3 * 3


@pytest.mark.parametrize(
    ("attrs", "hint"),
    [({"strides": [2, 2]}, "stride"), ({"group": 2}, "groups"), ({"dilations": 2}, "dilation")],
)
def test_attributes_written_wrongly_are_refused(attrs: dict[str, Any], hint: str) -> None:
    with pytest.raises(InputError, match=rf"op op: attrs: .*Did you mean {hint}\?"):
        network_of_graph(graph("conv2d", CONV, **attrs))


def test_keys_written_wrongly_are_refused_and_notes_are_not() -> None:
    data = graph("conv2d", CONV)
    data["ops"][0] |= {"flops": 3, "comment": "mine"}
    assert network_of_graph(data).macs
    data["ops"][0]["attr"] = {"stride": 2}
    with pytest.raises(InputError, match=r"op op: .*found attr. Did you mean attrs\?"):
        network_of_graph(data)


# ---- damage


CONV = {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3], "y": [1, 4, 6, 6]}


@pytest.mark.parametrize(
    "data",
    [
        graph("conv2d", {**CONV, "x": [1, 5, 8, 8]}),
        graph("conv2d", {**CONV, "y": [1, 5, 6, 6]}),
        graph("conv2d", {**CONV, "y": [1, 4, 36]}),
        graph("conv2d", CONV, stride=[1, 1, 1]),
        graph("conv2d", CONV, stride=[0, 1]),
        graph("conv2d", CONV, stride=[-1, 1]),
        graph("conv2d", CONV, stride="two"),
        graph("conv2d", CONV, groups=3),
        graph("conv2d", CONV, groups="a"),
        graph("conv2d", CONV, weight_shape=[4, 3, 5, 5]),
        graph("conv2d", {"x": [1, 3, 8, 8], "y": [1, 4, 6, 6]}),
        graph("conv2d", {**CONV, "y": [1, 4, 0, 6]}),
        graph("linear", {"x": [5, 7], "w": [9, 7], "y": [5, 10]}),
        graph("matmul", {"a": [5, 7], "b": [8, 9], "y": [5, 9]}),
        graph("scaled_dot_product_attention", {"q": [1, 5], "y": [1, 0, 4]}),
        graph("relu", {"x": [1, -3], "y": [1, 3]}),
        graph("relu", {"x": [1.5], "y": [1]}),
        {**graph("relu", CONV), "ops": [{"name": "op", "type": "relu", "inputs": ["q"], "outputs": ["y"]}]},
        {**graph("relu", CONV), "ops": [{"name": "op", "type": "relu", "inputs": "x", "outputs": ["y"]}]},
        {**graph("relu", CONV), "ops": 2 * graph("relu", CONV)["ops"]},
        {**graph("relu", CONV), "tensors": [{"name": "x", "shape": [1], "kind": "weight"}]},
        {**graph("relu", CONV), "tensors": {}},
        {"name": "made"},
        [],
        None,
    ],
)
def test_contradictory_graphs_are_refused(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"made\.json"):
        read_graph(path).layers


def test_operators_out_of_order(tmp_path: Path) -> None:
    data = graph("relu", {"x": [1], "a": [1], "y": [1]})
    data["tensors"][1]["kind"] = "activation"
    data["ops"] = [
        {"name": "second", "type": "relu", "inputs": ["a"], "outputs": ["y"]},
        {"name": "first", "type": "relu", "inputs": ["x"], "outputs": ["a"]},
    ]
    with pytest.raises(InputError, match="topological order"):
        network_of_graph(data)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"name": "x", ', "valid JSON"),
        (b"[" * 100_000, "ordinary depth"),
        (b'{"name": ' + b"9" * 10_000 + b"}", "valid JSON"),
        (b'"\xff"', "UTF-8"),
        (gzip.compress(b"{}", mtime=0)[:-6], "a whole gzip file"),
        (b"\x1f\x8bnot gzip at all", "a whole gzip file"),
        (gzip.compress(bytes(70 * 1024 * 1024), mtime=0), "at most 67,108,864 bytes"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=found) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))
