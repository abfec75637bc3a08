"""Reference files give the published MAC counts, small models made here the layers worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import read_graph
from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.counting import counting_warnings, uncounted_rows
from costmodel.workload.network import Layer, Network, convolution, distinct_layers, gemm

DATA = Path(__file__).parents[3] / "data"


def value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """A parameter without data, as in a file whose weights lie elsewhere."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="missing.bin")
    return tensor


def integers(name: str, *numbers: int) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def saved(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    parameters: list[onnx.TensorProto],
    outputs: tuple[str, ...] = ("y",),
    **model: Any,
) -> Path:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "made", inputs, results, parameters)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    path = tmp_path / "made.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, **model).SerializeToString())
    return path


def only_layer(network: Network) -> Layer:
    (layer,) = network.layers
    return layer


def conv(tmp_path: Path, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Layer:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    return only_layer(read_onnx(saved(tmp_path, [node], [value("x", *x)], [weights("w", *w)])))


# ---- the reference files


@pytest.mark.parametrize(
    ("file", "macs", "layers", "distinct"),
    [
        ("resnet50_stripped", 4_089_184_256, 54, 24),
        ("mobilenet_v2_stripped", 300_774_272, 53, 31),
    ],
)
def test_published_mac_counts(file: str, macs: int, layers: int, distinct: int) -> None:
    network = read_onnx(DATA / "onnx" / f"{file}.onnx")
    assert network.macs == macs
    assert len(network.layers) == layers
    assert len(distinct_layers(network.layers)) == distinct
    assert counting_warnings(network) == ()


def test_bert_by_formula() -> None:
    tokens, width, heads, blocks = 128, 768, 12, 2
    projections = 4 * tokens * width * width + 2 * tokens * width * 4 * width
    products = 2 * heads * tokens * tokens * (width // heads)
    pooler = width * width
    network = read_onnx(DATA / "onnx" / "bert_l2_stripped.onnx")
    assert network.macs == blocks * (projections + products) + pooler
    assert read_onnx(DATA / "onnx" / "bert_l2_stripped.onnx", batch=8).macs == 8 * network.macs


@pytest.mark.parametrize(
    ("file", "graph", "batch"),
    [
        ("resnet50_stripped", "resnet50", None),
        ("resnet50_stripped", "resnet50", 4),
        ("mobilenet_v2_stripped", "mobilenet_v2", None),
        ("mobilenet_v2_stripped", "mobilenet_v2", 4),
        ("transformer_stripped", "transformer", None),
    ],
)
def test_same_layers_as_the_operator_graph(file: str, graph: str, batch: int | None) -> None:
    ours = read_onnx(DATA / "onnx" / f"{file}.onnx", batch)
    theirs = read_graph(DATA / "graphs" / f"{graph}.json.gz", batch)
    assert Counter(layer.shape for layer in ours.layers) == Counter(layer.shape for layer in theirs.layers)


def test_tiny_files_with_weights() -> None:
    resnet = read_onnx(DATA / "onnx" / "tiny_resnet.onnx")
    kinds = Counter(value.kind for value in resnet.values)
    # 6 convolutions, 5 ReLU, 2 additions, mean, reshape, classifier; the classifier's result is the output
    assert (kinds["input"], kinds["output"], kinds["activation"]) == (1, 1, 15)
    assert Counter(node.operator for node in resnet.nodes)["Conv"] == 6
    assert len(read_onnx(DATA / "onnx" / "tiny_transformer.onnx").layers) == 17


@pytest.mark.parametrize("file", ["tiny_transformer", "transformer_stripped"])
def test_batch_that_the_file_cannot_take_is_refused(file: str) -> None:
    # the sequence leads, the batch is the second axis
    with pytest.raises(InputError, match=r"Export the model with a symbolic batch") as caught:
        read_onnx(DATA / "onnx" / f"{file}.onnx", batch=20)
    assert f"{file}.onnx" in str(caught.value)


# ---- convolutions


def test_grouped_dilated_strided_convolution(tmp_path: Path) -> None:
    layer = conv(
        tmp_path, (2, 8, 33, 29), (12, 4, 3, 5), group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 4, 1, 4]
    )
    assert layer.shape == (
        convolution("x", N=2, K=12, C=8, P=17, Q=29, R=3, S=5, stride=(2, 1), dilation=(1, 2), groups=2).shape
    )


@pytest.mark.parametrize(
    ("auto_pad", "rows"), [("SAME_UPPER", 8), ("SAME_LOWER", 8), ("VALID", 7), ("NOTSET", 7)]
)
def test_auto_pad_shows_in_the_output_size(tmp_path: Path, auto_pad: str, rows: int) -> None:
    layer = conv(tmp_path, (1, 3, 15, 15), (4, 3, 3, 3), strides=[2, 2], auto_pad=auto_pad)
    assert (layer.sizes["P"], layer.sizes["Q"]) == (rows, rows)


def test_depthwise_convolution(tmp_path: Path) -> None:
    layer = conv(tmp_path, (1, 6, 8, 8), (6, 1, 3, 3), group=6)
    assert layer.shape == convolution("x", K=6, C=6, P=6, Q=6, R=3, S=3, groups=6).shape
    assert layer.macs == 6 * 6 * 6 * 9


def test_depthwise_with_two_results_a_channel_is_grouped(tmp_path: Path) -> None:
    layer = conv(tmp_path, (1, 6, 8, 8), (12, 1, 3, 3), group=6)
    assert (layer.sizes["G"], layer.sizes["K"], layer.sizes["C"]) == (6, 2, 1)


def test_one_dimensional_convolution(tmp_path: Path) -> None:
    layer = conv(tmp_path, (1, 4, 100), (8, 4, 5), strides=[2], dilations=[3])
    rows = (100 - 12 - 1) // 2 + 1
    assert layer.shape == (
        convolution("x", K=8, C=4, P=1, Q=rows, R=1, S=5, stride=(1, 2), dilation=(1, 3)).shape
    )


def test_three_dimensional_convolution(tmp_path: Path) -> None:
    layer = conv(tmp_path, (1, 3, 9, 16, 16), (8, 3, 3, 5, 5), strides=[2, 1, 1])
    assert (layer.sizes["D"], layer.sizes["T"]) == (4, 3)
    assert layer.macs == 8 * 3 * (4 * 12 * 12) * (3 * 5 * 5)
    words = {tensor.name: tensor.words(layer.sizes) for tensor in layer.tensors}
    # every input row is read: 3 * 2 + 2 + 1 = 9 deep, 16 x 16
    assert words == {"Weights": 8 * 3 * 75, "Inputs": 3 * 9 * 16 * 16, "Outputs": 8 * 4 * 144}


def test_quantised_convolution(tmp_path: Path) -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", names, ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 3, 8, 8))
    w = helper.make_tensor("w", TensorProto.UINT8, (4, 3, 3, 3), bytes(108), raw=True)
    parameters = [w]
    for name in names[1:3] + names[4:]:
        kind = TensorProto.FLOAT if name.endswith("s") else TensorProto.UINT8
        parameters.append(helper.make_tensor(name, kind, [], [1]))
    layer = only_layer(read_onnx(saved(tmp_path, [node], [x], parameters)))
    assert layer.shape == convolution("x", K=4, C=3, P=6, Q=6, R=3, S=3).shape


# ---- matrix products


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, trans_a: int, trans_b: int) -> None:
    a, b = (7, 5) if trans_a else (5, 7), (9, 7) if trans_b else (7, 9)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transA=trans_a, transB=trans_b)
    network = read_onnx(saved(tmp_path, [node], [value("x", *a)], [weights("w", *b)]))
    assert only_layer(network).shape == gemm("x", M=5, N=9, K=7).shape


@pytest.mark.parametrize(
    ("a", "b", "sizes"),
    [
        ((2, 3, 5, 7), (7, 9), {"M": 30, "N": 9, "K": 7}),
        ((2, 3, 5, 7), (2, 3, 7, 9), {"B": 6, "M": 5, "N": 9, "K": 7}),
        ((2, 3, 5, 7), (3, 7, 9), {"B": 3, "M": 10, "N": 9, "K": 7}),
        ((2, 1, 5, 7), (2, 3, 7, 9), {"B": 2, "M": 5, "N": 27, "K": 7}),
        ((5, 7), (4, 7, 9), {"M": 5, "N": 36, "K": 7}),
        ((2, 5, 7), (7,), {"M": 10, "N": 1, "K": 7}),
        ((7,), (7, 9), {"M": 1, "N": 9, "K": 7}),
    ],
)
def test_matmul_broadcasting(
    tmp_path: Path, a: tuple[int, ...], b: tuple[int, ...], sizes: dict[str, int]
) -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    layer = only_layer(read_onnx(saved(tmp_path, [node], [value("a", *a), value("b", *b)], [])))
    assert layer.sizes == sizes


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("bhqd,bhkd->bhqk", {"B": 6, "M": 5, "N": 5, "K": 5}),
        ("abcd, ebfd -> aecf", None),  # b is in both but not in the result: summed along with d
        ("...qd,...kd->...qk", {"B": 6, "M": 5, "N": 5, "K": 5}),
        ("aqcd,bqcd", {"M": 2, "N": 2, "K": 75}),  # without an arrow the letters that are there once are kept
    ],
)
def test_einsum(tmp_path: Path, equation: str, sizes: dict[str, int] | None) -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    inputs = [value("a", 2, 3, 5, 5), value("b", 2, 3, 5, 5)]
    layer = only_layer(read_onnx(saved(tmp_path, [node], inputs, [])))
    assert layer.sizes == (sizes or {"M": 10, "N": 10, "K": 15})


@pytest.mark.parametrize(
    ("equation", "macs"),
    [
        ("ij,kl->ik", 0),  # both are summed by themselves, then multiplied element by element
        ("ij,ij->ij", 0),
        ("ij->ji", 0),
        ("ij,jk,kl->il", 4 * 4 * 4 + 4 * 4 * 4),
        ("ij,i,jl->il", 4 * 4 * 4),  # scaled first
        ("ij,jk->k", 4 * 4),  # i is summed before
    ],
)
def test_macs_of_einsums_are_those_of_products_that_sum(tmp_path: Path, equation: str, macs: int) -> None:
    words = equation.split("->")[0].split(",")
    inputs = [value(f"x{i}", *[4] * len(word)) for i, word in enumerate(words)]
    node = helper.make_node("Einsum", [one.name for one in inputs], ["y"], equation=equation)
    network = read_onnx(saved(tmp_path, [node], inputs, []))
    assert network.macs == macs
    assert not network.nodes[0].opaque


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("bij,bjk->bik", [(4, 3, 5), (1, 5, 6)], 4 * 3 * 5 * 6),
        ("bqhd,bkhd->bhqk", [(2, 5, 8, 4), (2, 7, 1, 4)], 2 * 8 * 5 * 7 * 4),  # one head of keys for all
        ("...ij,...jk->...ik", [(4, 1, 3, 5), (1, 2, 5, 6)], 4 * 2 * 3 * 5 * 6),
        ("ij,jk->ik", [(3, 1), (5, 6)], 0),  # j is summed before
        ("bij,bjk,bkl->bil", [(1, 3, 5), (4, 5, 6), (1, 6, 2)], 4 * (3 * 5 * 6 + 3 * 6 * 2)),
    ],
)
def test_an_einsum_broadcasts_axes_of_length_1(
    tmp_path: Path, equation: str, shapes: list[tuple[int, ...]], macs: int
) -> None:
    """The result's shape is NumPy's; its elements times the lengths that are summed over are the MACs."""
    inputs = [value(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    node = helper.make_node("Einsum", [one.name for one in inputs], ["y"], equation=equation)
    network = read_onnx(saved(tmp_path, [node], inputs, []))
    assert network.value("y").shape == np.einsum(equation, *(np.ones(shape) for shape in shapes)).shape
    assert network.macs == macs
    assert not network.nodes[0].opaque


def test_an_einsum_with_a_diagonal_is_opaque(tmp_path: Path) -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation="ii,ij->ij")
    network = read_onnx(saved(tmp_path, [node], [value("a", 3, 3), value("b", 3, 3)], []))
    assert network.nodes[0].opaque


# ---- batch


def symbolic(tmp_path: Path) -> Path:
    """Convolution and classifier with a batch called N, flattened by a shape that is computed."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Shape", ["c"], ["s"], end=1),
        helper.make_node("Concat", ["s", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["c", "t"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"]),
    ]
    parameters = [weights("w", 4, 3, 3, 3), integers("rest", -1), weights("v", 144, 10)]
    return saved(tmp_path, nodes, [value("x", "N", 3, 8, 8)], parameters)


@pytest.mark.parametrize(("batch", "images"), [(None, 1), (1, 1), (6, 6)])
def test_symbolic_batch(tmp_path: Path, batch: int | None, images: int) -> None:
    convolved, classified = read_onnx(symbolic(tmp_path), batch).layers
    assert convolved.sizes["N"] == images
    assert classified.sizes == {"M": images, "N": 10, "K": 144}


@pytest.mark.parametrize("target", [(2, 144), (2, -1), (-1, 144), (0, 144)])
def test_fixed_batch_is_replaced_also_in_constant_shapes(tmp_path: Path, target: tuple[int, int]) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "t"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"]),
    ]
    parameters = [weights("w", 4, 3, 3, 3), integers("t", *target), weights("v", 144, 10)]
    path = saved(tmp_path, nodes, [value("x", 2, 3, 8, 8)], parameters)
    assert only_classifier(read_onnx(path))["M"] == 2
    assert only_classifier(read_onnx(path, batch=3)) == {"M": 3, "N": 10, "K": 144}


def only_classifier(network: Network) -> dict[str, int]:
    return network.layers[-1].sizes


def test_symbolic_axis_other_than_the_batch(tmp_path: Path) -> None:
    path = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [value("x", 1, "tokens")], [])
    with pytest.raises(InputError, match=r"made\.onnx: input x\.axis 1: .*found tokens"):
        read_onnx(path)


# ---- what stays opaque


def test_unknown_operator_is_named_and_kept(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Twist", ["x"], ["t"], domain="own", name="twisted"),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    network = read_onnx(saved(tmp_path, nodes, [value("x", 1, 3)], []))
    twisted, relu = network.nodes
    assert (twisted.opaque, twisted.operator, twisted.inputs, twisted.outputs) == (
        True,
        "own.Twist",
        ("x",),
        ("t",),
    )
    assert not relu.opaque
    (row,) = uncounted_rows(network)
    assert (row["node"], row["kind"]) == ("twisted", "own.Twist")
    (warning,) = counting_warnings(network)
    assert "1 of 2 operators are not counted: 1 own.Twist" in warning


def test_convolution_behind_an_unknown_shape_is_opaque(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Twist", ["x"], ["t"], domain="own"),
        helper.make_node("Conv", ["t", "w"], ["y"]),
    ]
    network = read_onnx(saved(tmp_path, nodes, [value("x", 1, 3, 8, 8)], [weights("w", 4, 3, 3, 3)]))
    assert [node.opaque for node in network.nodes] == [True, True]
    assert network.macs == 0


def test_a_standard_operator_that_is_not_modelled(tmp_path: Path) -> None:
    x, *rest = [(5, 1, 3), (1, 16, 3), (1, 16, 4)]
    parameters = [weights(f"w{i}", *shape) for i, shape in enumerate(rest)]
    node = helper.make_node("LSTM", ["x", *(p.name for p in parameters)], ["y"], hidden_size=4)
    network = read_onnx(saved(tmp_path, [node], [value("x", *x)], parameters))
    assert network.nodes[0].opaque
    assert network.value("y").elements > 1


def test_control_flow_is_opaque_and_reads_what_its_bodies_read(tmp_path: Path) -> None:
    def body(operand: str) -> onnx.GraphProto:
        node = helper.make_node("Relu", [operand], [f"{operand}_out"])
        return helper.make_graph([node], operand, [], [value(f"{operand}_out", 1, 3)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("a"), else_branch=body("b"))
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, ())
    network = read_onnx(saved(tmp_path, [node], [condition, value("a", 1, 3), value("b", 1, 3)], []))
    assert network.nodes[0].opaque
    assert set(network.nodes[0].inputs) == {"c", "a", "b"}


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["p", "w"], ["q"], nodes, opsets)


def test_functions_of_the_file_are_counted_at_every_call(tmp_path: Path) -> None:
    inner = function("Block", helper.make_node("MatMul", ["p", "w"], ["q"]))
    outer = function(
        "Twice",
        helper.make_node("Block", ["p", "w"], ["r"], domain="own"),
        helper.make_node("Block", ["r", "w"], ["q"], domain="own"),
    )
    nodes = [
        helper.make_node("Twice", ["x", "m"], ["t"], domain="own"),
        helper.make_node("Block", ["t", "m"], ["y"], domain="own"),
    ]
    path = saved(tmp_path, nodes, [value("x", 2, 3)], [weights("m", 3, 3)], functions=[inner, outer])
    assert [layer.sizes for layer in read_onnx(path).layers] == [{"M": 2, "N": 3, "K": 3}] * 3


def test_functions_that_grow_without_bound_stay_calls(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(30)]
    functions = [
        function(
            name,
            helper.make_node(after, ["p", "w"], ["r"], domain="own"),
            helper.make_node(after, ["r", "w"], ["q"], domain="own"),
        )
        for name, after in pairwise(names)
    ]
    functions.append(function(names[-1], helper.make_node("MatMul", ["p", "w"], ["q"])))
    node = helper.make_node("f0", ["x", "m"], ["y"], domain="own")
    network = read_onnx(
        saved(tmp_path, [node], [value("x", 2, 3)], [weights("m", 3, 3)], functions=functions)
    )
    assert network.nodes[0].opaque
    endless = [function("f0", helper.make_node("f0", ["p", "w"], ["q"], domain="own"))]
    network = read_onnx(saved(tmp_path, [node], [value("x", 2, 3)], [weights("m", 3, 3)], functions=endless))
    assert network.nodes[0].opaque


# ---- attributes


def attributes_of_node(tmp_path: Path, node: onnx.NodeProto, *parameters: onnx.TensorProto) -> dict[str, Any]:
    network = read_onnx(saved(tmp_path, [node], [value("x", 1, 8, 6, 6)], list(parameters)))
    return dict(network.nodes[0].attributes)


def test_what_a_node_states_is_kept_with_the_defaults_of_its_operator_set(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 1, 0], strides=[2, 1], group=2)
    found = attributes_of_node(tmp_path, node, weights("w", 4, 4, 3, 3))
    assert found == {"pads": (1, 0, 1, 0), "strides": (2, 1), "group": 2, "auto_pad": "NOTSET"}
    assert attributes_of_node(tmp_path, helper.make_node("Softmax", ["x"], ["y"])) == {"axis": -1}


def test_constant_operands_are_attributes(tmp_path: Path) -> None:
    node = helper.make_node("Slice", ["x", "from", "to", "along"], ["y"])
    bounds = integers("from", -4, 1), integers("to", 8, 5), integers("along", 1, -1)
    found = attributes_of_node(tmp_path, node, *bounds)
    assert found == {"starts": (-4, 1), "ends": (8, 5), "axes": (1, -1)}
    node = helper.make_node("Reshape", ["x", "to"], ["y"])
    assert attributes_of_node(tmp_path, node, integers("to", 0, -1)) == {"allowzero": 0, "shape": (0, -1)}
    node = helper.make_node("Gather", ["x", "which"], ["y"], axis=1)
    which = helper.make_tensor("which", TensorProto.INT64, [], [-2])
    assert attributes_of_node(tmp_path, node, which) == {"axis": 1, "indices": -2}


def test_operands_that_follow_from_shapes_are_attributes(tmp_path: Path) -> None:
    """Half of the channels, as exporters write it: Shape, Gather, Div, and the slice up to there."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["channels"]),
        helper.make_node("Div", ["channels", "two"], ["half"]),
        helper.make_node("Slice", ["x", "zero", "half", "one"], ["y"]),
    ]
    parameters = [integers("zero", 0), integers("one", 1), integers("two", 2)]
    path = saved(tmp_path, nodes, [value("x", "N", 10, 4, 4)], parameters)
    assert read_onnx(path).nodes[-1].attributes == {"starts": (0,), "ends": (5,), "axes": (1,)}


def test_operands_known_only_when_the_network_runs_are_told_from_those_that_are_missing(
    tmp_path: Path,
) -> None:
    node = helper.make_node("Slice", ["x", "from", "to", "along"], ["y"])
    start = helper.make_tensor_value_info("from", TensorProto.INT64, (1,))
    path = saved(tmp_path, [node], [value("x", 1, 8), start], [integers("to", 8), integers("along", 1)])
    attributes = read_onnx(path).nodes[0].attributes
    assert attributes == {"starts": None, "ends": (8,), "axes": (1,)}
    with pytest.raises(InputError, match=r"starts: expected whole numbers, found .* when the network runs"):
        attributes.numbers("starts")
    assert attributes.numbers("steps", (1,)) == (1,)


def test_an_operand_read_twice_is_an_operand_twice(tmp_path: Path) -> None:
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=1)
    network = read_onnx(saved(tmp_path, [node], [value("x", 1, 8, 6, 6)], []))
    assert network.nodes[0].inputs == ("x", "x")


def test_constants_that_no_operator_can_take_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Div", ["one", "none"], ["size"], name="divide"),
        helper.make_node("Reshape", ["x", "size"], ["y"]),
    ]
    path = saved(tmp_path, nodes, [value("x", 1, 3)], [integers("one", 1), integers("none", 0)])
    with pytest.raises(InputError, match=r"made\.onnx: node divide"):
        read_onnx(path)


def test_an_attribute_written_wrongly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"made\.onnx: node conv \(Conv\): .*found stride. Did you mean strides"
    ):
        conv(tmp_path, (1, 3, 8, 8), (4, 3, 3, 3), stride=[2, 2])
    # one that an exporter added of its own is not
    assert conv(tmp_path, (1, 3, 8, 8), (4, 3, 3, 3), exported_by="me").sizes["P"] == 6


# ---- names and kinds


def test_constants_are_parameters_and_nameless_nodes_get_names(tmp_path: Path) -> None:
    nodes = [
        helper.make_node(
            "Constant", [], ["k"], value=helper.make_tensor("", TensorProto.FLOAT, [1, 3], [1, 2, 3])
        ),
        helper.make_node("Add", ["x", "k"], ["a"], name="twice"),
        helper.make_node("Relu", ["a"], ["y"], name="twice"),
        helper.make_node("Relu", ["a"], ["z"]),
    ]
    network = read_onnx(saved(tmp_path, nodes, [value("x", 1, 3)], [], ("y", "z")))
    assert len({node.name for node in network.nodes}) == 3
    assert network.value("k").kind == "parameter"
    assert network.value("k").shape == (1, 3)
    assert [network.value(name).kind for name in "xayz"] == ["input", "activation", "output", "output"]


def test_results_that_no_node_makes(tmp_path: Path) -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    path = saved(tmp_path, [relu], [value("x", 1, 3)], [weights("w", 2)], ("x", "w", "y"))
    network = read_onnx(path)
    assert [network.value(name).kind for name in "xwy"] == ["input", "parameter", "output"]
    path = saved(tmp_path, [relu], [value("x", 1, 3)], [], ("y", "nowhere"))
    with pytest.raises(InputError, match="output nowhere"):
        read_onnx(path)


def test_old_files_list_parameters_among_the_inputs(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    inputs = [value("w", 4, 3, 3, 3), value("x", 1, 3, 8, 8)]
    network = read_onnx(saved(tmp_path, [node], inputs, [weights("w", 4, 3, 3, 3)]), batch=2)
    assert only_layer(network).sizes["N"] == 2
    assert network.value("w").kind == "parameter"


# ---- damage


def test_missing_file() -> None:
    with pytest.raises(InputError, match=r"none\.onnx: .* no such file"):
        read_onnx("none.onnx")


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file(tmp_path: Path, part: float) -> None:
    data = (DATA / "onnx" / "tiny_resnet.onnx").read_bytes()
    path = tmp_path / "short.onnx"
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match=r"short\.onnx"):
        read_onnx(path)


def test_file_cut_before_its_operator_set(tmp_path: Path) -> None:
    model = onnx.load(DATA / "onnx" / "tiny_resnet.onnx")
    model.ClearField("opset_import")
    (tmp_path / "cut.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"cut\.onnx: expected an ONNX model"):
        read_onnx(tmp_path / "cut.onnx")


@pytest.mark.parametrize("data", [b"hello, world", b"\x00" * 100, b"PK\x03\x04" + bytes(60)])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other.onnx").write_bytes(data)
    with pytest.raises(InputError, match=r"other\.onnx"):
        read_onnx(tmp_path / "other.onnx")


@pytest.mark.parametrize(
    ("x", "attributes"),
    [
        ((1, 5, 8, 8), {}),  # channels that the weights do not have
        ((1, 3, 8, 8), {"group": 2}),
        ((1, 3, 8, 8), {"strides": [0, 0]}),
        ((1, 3, 8, 8), {"strides": [-1, -1]}),
        ((1, 3, 8, 8), {"kernel_shape": [5, 5]}),
    ],
)
def test_contradictory_convolution(tmp_path: Path, x: tuple[int, ...], attributes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"made\.onnx"):
        conv(tmp_path, x, (4, 3, 3, 3), **attributes)


def test_parameter_of_negative_length(tmp_path: Path) -> None:
    node = helper.make_node("Gemm", ["x", "w"], ["y"])
    with pytest.raises(InputError, match=r"made\.onnx: w: expected axes of at least 0"):
        read_onnx(saved(tmp_path, [node], [value("x", 5, 7)], [weights("w", 7, -9)]))


def test_nodes_out_of_order(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]
    with pytest.raises(InputError, match=r"made\.onnx"):
        read_onnx(saved(tmp_path, nodes, [value("x", 1, 3)], []))


def with_parameters_beside(tmp_path: Path) -> Path:
    """A file whose weights and whose shape of a reshape all lie in weights.bin."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    held = [
        numpy_helper.from_array(np.array([6, 4]), "s"),
        numpy_helper.from_array(np.ones((4, 5), np.float32), "w"),
    ]
    path = saved(tmp_path, nodes, [value("x", 2, 12)], held)
    onnx.save_model(
        onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return path


def test_a_shape_is_read_from_the_file_of_the_weights(tmp_path: Path) -> None:
    assert only_layer(read_onnx(with_parameters_beside(tmp_path))).sizes == {"M": 6, "N": 5, "K": 4}


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda file: file.unlink(), "found no such file. Put weights.bin into the folder of the ONNX file"),
        (lambda file: file.write_bytes(b""), "found 0 bytes, where the numbers are to start at byte 0"),
    ],
)
@pytest.mark.parametrize("doubled", [False, True])
def test_a_shape_in_a_missing_or_truncated_file(
    tmp_path: Path, spoil: Callable[[Path], object], found: str, doubled: bool
) -> None:
    path = with_parameters_beside(tmp_path)
    if doubled:  # the numbers go through arithmetic on their way
        model = onnx.load(path, load_external_data=False)
        model.graph.node.insert(0, helper.make_node("Mul", ["s", "one"], ["t"]))
        model.graph.initializer.append(integers("one", 1))
        model.graph.node[1].input[1] = "t"
        path.write_bytes(model.SerializeToString())
    spoil(tmp_path / "weights.bin")
    with pytest.raises(InputError) as caught:
        read_onnx(path)
    message = str(caught.value)
    assert "tensor s: expected its 2 numbers, which state a shape, in the file of weights" in message
    assert str(tmp_path / "weights.bin") in message
    assert found in message


def test_weights_need_no_file_and_are_not_blamed(tmp_path: Path) -> None:
    """The rows of a product follow from values; that its weights' file is missing does not matter."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["c", "w"], ["d"]),
        helper.make_node("MatMul", ["d", "x"], ["y"]),
    ]
    network = read_onnx(saved(tmp_path, nodes, [value("x", 4, 5)], [weights("w", 1)]))
    (row,) = uncounted_rows(network)
    assert "because of node NonZero_0" in row["why"]
