"""Operators without layers: why, how many multiply-accumulates as NumPy does them, and who is to blame."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.errors import InputError
from costmodel.formats.networks import load_layer
from costmodel.formats.onnx.reader import read_onnx
from costmodel.scratchpad.graph import operator_graph
from costmodel.workload.counting import counting_warnings, mapped_layers, size_warnings, uncounted_rows
from costmodel.workload.network import Network

Shapes = Mapping[str, tuple[int, ...]]


def saved(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    shapes: Shapes,
    parameters: Shapes,
) -> Path:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    held = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape).ravel())
        for name, shape in parameters.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output if name]
    graph = helper.make_graph(nodes, "made", inputs, results, held)
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 23), ("com.microsoft", 1))]
    path = tmp_path / "made.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


def only(network: Network) -> dict[str, Any]:
    (row,) = uncounted_rows(network)
    return row


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers_say_their_macs(tmp_path: Path, kind: str, gates: int, directions: int) -> None:
    steps, samples, inputs, hidden = 3, 2, 5, 4
    parameters = {"w": (directions, gates * hidden, inputs), "r": (directions, gates * hidden, hidden)}
    way = {"direction": "bidirectional"} if directions == 2 else {}
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden, **way)
    network = read_onnx(saved(tmp_path, [node], {"x": (steps, samples, inputs)}, parameters))
    # a matrix-vector product with each of both matrices in every step of every sample and direction
    macs = sum(
        np.ones((gates * hidden, width)).size
        for width in (inputs, hidden)
        for _ in product(range(steps), range(samples), range(directions))
    )
    assert only(network)["macs"] == macs


def test_attention_is_counted_as_the_reference_computes_it(tmp_path: Path) -> None:
    """The scores and values have the shapes that ONNX's own reference makes, past keys included."""
    shapes = {
        "q": (2, 8, 3, 4),
        "k": (2, 2, 3, 4),
        "v": (2, 2, 3, 6),
        "pk": (2, 2, 5, 4),
        "pv": (2, 2, 5, 6),
    }
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "ak", "av", "qk"], name="a")
    path = saved(tmp_path, [node], shapes, {})
    scores, values = read_onnx(path).layers
    fed = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    y, ak, _, qk = map(np.asarray, ReferenceEvaluator(str(path)).run(None, fed))
    assert scores.macs == qk.size * shapes["q"][-1]
    assert values.macs == y.size * qk.shape[-1]
    assert scores.tensor("B").words(scores.sizes) == ak.size
    assert scores.sizes == {"B": 4, "M": 12, "N": 8, "K": 4}


def test_packed_attention_and_heads_that_do_not_divide(tmp_path: Path) -> None:
    shapes = {"q": (2, 3, 32), "k": (2, 5, 8), "v": (2, 5, 8)}
    node = helper.make_node("Attention", list(shapes), ["y"], name="a", q_num_heads=8, kv_num_heads=2)
    scores, values = read_onnx(saved(tmp_path, [node], shapes, {})).layers
    assert scores.sizes == {"B": 4, "M": 12, "N": 5, "K": 4}
    assert values.sizes == {"B": 4, "M": 12, "N": 4, "K": 5}


def test_what_follows_an_opaque_node_names_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("GroupQueryAttention", ["x"], ["g"], domain="com.microsoft", name="attend"),
        helper.make_node("Relu", ["g"], ["h"], name="relu"),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="project"),
    ]
    network = read_onnx(saved(tmp_path, nodes, {"x": (2, 4)}, {"w": (4, 3)}))
    attend, project = uncounted_rows(network)
    assert (attend["node"], attend["kind"]) == ("attend", "com.microsoft.GroupQueryAttention")
    assert (project["node"], project["kind"]) == ("project", "MatMul")
    assert project["why"] == (
        "the shape of h is not known because of node attend (com.microsoft.GroupQueryAttention)"
    )
    (warning,) = size_warnings(network)
    assert "tensors are of unknown size and count as 0 bytes, the first g, made by node attend" in warning


def test_one_line_says_how_many_of_what_kind_and_which_fraction(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DeformConv", ["x", "w", "o"], ["a"], name="deform"),
        helper.make_node("MatMul", ["a", "m"], ["b"], name="multiply"),
        helper.make_node("NonsenseNorm", ["b"], ["c"], domain="com.microsoft", name="norm"),
        helper.make_node("NonsenseNorm", ["c"], ["y"], domain="com.microsoft", name="norm2"),
    ]
    parameters = {"w": (3, 2, 1, 1), "m": (4, 6)}
    network = read_onnx(saved(tmp_path, nodes, {"x": (1, 2, 5, 4), "o": (1, 2, 5, 4)}, parameters))
    assert network.macs == 3 * 5 * 4 * 6
    (warning,) = counting_warnings(network)
    assert "made: 3 of 4 operators are not counted: 2 com.microsoft.NonsenseNorm, 1 DeformConv" in warning
    fraction = 120 / (120 + 360)
    assert f"1 of them ask for 120 MACs, {fraction:.1%} of all that are known" in warning


def test_a_model_of_nothing_else_is_an_error(tmp_path: Path) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    network = read_onnx(saved(tmp_path, [node], {"x": (3, 2, 5)}, {"w": (1, 16, 5), "r": (1, 16, 4)}))
    with pytest.raises(InputError, match=r"network made: expected an operator .* counted, found 1 LSTM"):
        mapped_layers(network)


def test_contradictions_are_the_mappers_business_only(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=[3, 3])
    x = {"x": (1, 5, 8, 8)}
    network = read_onnx(saved(tmp_path, [node], x, {"w": (4, 3, 3, 3)}))
    assert operator_graph(network).total_bytes > 0
    with pytest.raises(InputError, match=r"made\.onnx: node conv: expected an input \(N, C, \*rows\)"):
        network.layers


def test_a_layer_that_is_not_counted_is_refused_with_the_reason(tmp_path: Path) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="remember", hidden_size=4)
    path = saved(tmp_path, [node], {"x": (3, 2, 5)}, {"w": (1, 16, 5), "r": (1, 16, 4)})
    for spec, message in (
        (f"{path}/remember", "remember: .*LSTM: the operator is not"),
        (path, "1 LSTM"),
    ):
        with pytest.raises(InputError, match=message):
            load_layer(str(spec))
