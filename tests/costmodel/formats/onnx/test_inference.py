"""Shapes that ONNX's own inference does not give, and files whose shapes are one example's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.errors import InputError
from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.counting import uncounted_rows
from tests.costmodel.formats.onnx.graphs import floats, model, node, numbers, scalar, tensor, written


def test_a_noted_length_of_what_depends_on_values_is_not_taken(tmp_path: Path) -> None:
    """The rows that an expert gets: a traced file notes how many the example had."""
    nodes = [
        node("NonZero", "gate", "where"),
        node("Gather", "where first", "rows", axis=0),
        node("Gather", "x rows", "mine", axis=0),
        node("MatMul", "mine w", "y"),
        node("MatMul", "x w", "z"),
    ]
    noted = [tensor("rows", 5, kind=TensorProto.INT64), tensor("mine", 5, 4), tensor("y", 5, 3)]
    inputs = [tensor("x", 8, 4), tensor("gate", 8, kind=TensorProto.BOOL)]
    made = model(nodes, inputs, [scalar("first", 0), floats("w", 4, 3)], "y z", noted[:2])
    made.graph.output[0].CopyFrom(noted[2])
    network = read_onnx(written(tmp_path, made))
    (row,) = uncounted_rows(network)
    assert row == {
        "node": "y",
        "kind": "MatMul",
        "why": "the shape of mine is not known because of node where (NonZero)",
    }
    assert network.macs == 8 * 4 * 3


def test_a_noted_shape_of_an_operator_that_is_not_onnx_is_taken(tmp_path: Path) -> None:
    twist = helper.make_node("Twist", ["x"], ["t"], name="twist", domain="own")
    made = model([twist, node("MatMul", "t w", "y")], [tensor("x", 8, 4)], [floats("w", 4, 3)])
    made.graph.value_info.append(tensor("t", 2, 4))
    made.opset_import.append(helper.make_opsetid("own", 1))
    network = read_onnx(written(tmp_path, made))
    assert [layer.sizes for layer in network.layers] == [{"M": 2, "N": 3, "K": 4}]
    assert [row["node"] for row in uncounted_rows(network)] == ["twist"]


def test_reshapes_of_an_example_are_refused_at_other_lengths(tmp_path: Path) -> None:
    """ONNX's inference lets a reshape to another number of elements pass."""
    nodes = [node("Reshape", "x to", "r"), node("MatMul", "r w", "y")]
    path = written(tmp_path, model(nodes, [tensor("x", "seq", 4)], [numbers("to", 6, 4), floats("w", 4, 3)]))
    assert read_onnx(path, None, {"seq": 6}).macs == 6 * 4 * 3
    with pytest.raises(InputError, match=r"node r \(Reshape\) .*36 elements do not fill \(6, 4\).*traced"):
        read_onnx(path, None, {"seq": 9})


def test_what_does_not_broadcast_is_named(tmp_path: Path) -> None:
    """A loop over the steps of an example, unrolled into so many, does not fit another length."""
    nodes = [node("MatMul", "x w", "p"), node("Add", "p steps", "y")]
    path = written(tmp_path, model(nodes, [tensor("x", 9, 4)], [floats("w", 4, 3), floats("steps", 8, 3)]))
    with pytest.raises(InputError, match=r"node y \(Add\) of \(9, 3\), \(8, 3\)"):
        read_onnx(path)


def test_axes_from_the_end_of_a_transpose(tmp_path: Path) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, -1, -2]), node("MatMul", "t w", "y")]
    network = read_onnx(written(tmp_path, model(nodes, [tensor("x", 2, 3, 4)], [floats("w", 3, 5)])))
    assert network.value("t").shape == (2, 4, 3)
    assert network.macs == 2 * 4 * 3 * 5


@pytest.mark.parametrize(
    ("operator", "operands", "attributes"),
    [("GroupNormalization", "x scale bias", {"num_groups": 2}), ("MeanVarianceNormalization", "x", {})],
)
def test_normalisations_that_onnx_defines_by_functions(
    tmp_path: Path, operator: str, operands: str, attributes: dict[str, int]
) -> None:
    """The shape is that of ONNX's reference; its inference gives none, or refuses the node."""
    nodes = [node(operator, operands, "n", **attributes), node("Conv", "n w", "y")]
    parameters = [floats("scale", 4), floats("bias", 4), floats("w", 5, 4, 3, 3)]
    made = model(nodes, [tensor("x", 2, 4, 6, 7)], parameters, "n y", opset=21)
    network = read_onnx(written(tmp_path, made))
    n, y = map(np.asarray, ReferenceEvaluator(made).run(None, {"x": np.ones((2, 4, 6, 7), np.float32)}))
    assert (network.value("n").shape, network.value("y").shape) == (n.shape, y.shape)
    assert network.macs == y.size * 4 * 3 * 3
    assert uncounted_rows(network) == []


def test_repetition_by_one_hot_and_tile(tmp_path: Path) -> None:
    """``repeat_interleave`` as the TorchScript exporter writes it: a shape of nothing, concatenated."""
    nodes = [
        node("OneHot", "axis depth values", "times", axis=-1),
        node("Shape", "times", "all"),
        node("Slice", "all zero zero zero", "none"),
        node("Concat", "none minus", "flat", axis=0),
        node("Reshape", "times flat", "repeats"),
        node("Tile", "x repeats", "wide"),
        node("MatMul", "wide w", "y"),
    ]
    parameters = [
        *(numbers(name, value) for name, value in (("zero", 0), ("axis", 1), ("minus", -1))),
        scalar("depth", 3),
        numbers("values", 1, 4),
        floats("w", 5, 6),
    ]
    made = model(nodes, [tensor("x", 2, 3, 5)], parameters)
    network = read_onnx(written(tmp_path, made))
    (y,) = map(np.asarray, ReferenceEvaluator(made).run(None, {"x": np.ones((2, 3, 5), np.float32)}))
    assert network.value("y").shape == y.shape == (2, 12, 6)
    assert network.macs == y.size * 5


def cached(tmp_path: Path) -> Path:
    nodes = [
        node("Concat", "past k", "keys", axis=1),
        node("Transpose", "keys", "turned", perm=[0, 2, 1]),
        node("MatMul", "q turned", "scores"),
        node("Add", "scores mask", "masked"),
        node("MatMul", "masked keys", "y"),
        node("MatMul", "past w", "z"),
    ]
    inputs = [
        tensor("q", 1, "seq", 4),
        tensor("k", 1, "seq", 4),
        tensor("past", 1, "past", 4),
        tensor("mask", 1, "seq", "s64"),
    ]
    return written(tmp_path, model(nodes, inputs, [floats("w", 4, 3)], "y z"))


def test_a_cache_may_be_empty_and_a_masks_length_follows(tmp_path: Path) -> None:
    path = cached(tmp_path)
    assert read_onnx(path, None, {"seq": 3, "past": 5}).macs == 2 * (3 * 8 * 4) + 5 * 4 * 3
    empty = read_onnx(path, None, {"seq": 3, "past": 0})
    assert [layer.name for layer in empty.layers] == ["scores", "y"]
    assert empty.macs == 2 * (3 * 3 * 4)
    assert uncounted_rows(empty) == []
    assert read_onnx(path, None, {"seq": 3, "past": 5, "s64": 8}).value("mask").shape == (1, 3, 8)


def test_a_length_that_products_need_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"input past\.axis 1: .*State --dim past=N"):
        read_onnx(cached(tmp_path), None, {"seq": 3})


@pytest.mark.parametrize("opset", [23, 24])
def test_attention_without_shapes_in_the_file(tmp_path: Path, opset: int) -> None:
    """Grouped heads, packed, behind reshapes whose shape is computed."""
    nodes = [
        node("Shape", "x", "s", end=2),
        node("Concat", "s minus", "to", axis=0),
        node("MatMul", "x wq", "q0"),
        node("Reshape", "q0 to", "q"),
        node("MatMul", "x wk", "k"),
        node("MatMul", "x wv", "v"),
        node("Attention", "q k v - pk pv", "y nk nv", q_num_heads=8, kv_num_heads=2),
    ]
    inputs = [
        tensor("x", "batch", "seq", 32),
        *(tensor(name, "batch", 2, "past", 4) for name in ("pk", "pv")),
    ]
    parameters = [numbers("minus", -1), floats("wq", 32, 32), floats("wk", 32, 8), floats("wv", 32, 8)]
    path = written(tmp_path, model(nodes, inputs, parameters, "y nk nv", opset=opset))
    network = read_onnx(path, None, {"batch": 2, "seq": 3, "past": 7})
    products = 2 * 3 * 32 * (32 + 8 + 8)
    assert network.macs == products + 2 * (2 * 8 * 3 * 10 * 4)
    assert network.value("nk").shape == (2, 2, 10, 4)
    empty = read_onnx(path, None, {"batch": 2, "seq": 3, "past": 0})
    assert empty.macs == products + 2 * (2 * 8 * 3 * 3 * 4)


@pytest.mark.parametrize(
    ("kind", "bits"), [("FLOAT", 32), ("BFLOAT16", 16), ("INT4", 4), ("FLOAT8E4M3FN", 8), ("BOOL", 8)]
)
def test_values_have_the_bits_of_their_types(tmp_path: Path, kind: str, bits: int) -> None:
    stored = tensor("x", 2, 3, kind=TensorProto.DataType.Value(kind))
    path = written(tmp_path, model([node("Identity", "x", "y")], [stored], [], opset=21))
    assert read_onnx(path).value("x").bits == read_onnx(path).value("y").bits == bits


def test_floats_of_several_types_and_a_cast_to_a_complex_one(tmp_path: Path) -> None:
    """PyTorch's TorchScript exporter writes complex128 where a model casts to bfloat16."""
    nodes = [
        node("Cast", "x", "c", to=TensorProto.COMPLEX128),
        node("Mul", "c h", "m"),
        node("Unsqueeze", "m one", "u"),
        node("MatMul", "u w", "y"),
    ]
    parameters = [floats("w", 4, 6), numbers("one", 1)]
    inputs = [tensor("x", 3, 4, kind=TensorProto.INT64), tensor("h", 4, kind=TensorProto.FLOAT16)]
    network = read_onnx(written(tmp_path, model(nodes, inputs, parameters)))
    assert network.macs == 3 * 4 * 6
    assert network.value("y").shape == (3, 1, 6)


def test_types_apart_do_not_hide_shapes_that_contradict_each_other(tmp_path: Path) -> None:
    nodes = [node("Add", "x h", "y")]
    inputs = [tensor("x", 3, 4), tensor("h", 5, kind=TensorProto.FLOAT16)]
    with pytest.raises(InputError, match=r"node y \(Add\) of \(3, 4\), \(5,\)"):
        read_onnx(written(tmp_path, model(nodes, inputs, [])))


def test_the_shape_of_a_scalar_is_of_whole_numbers(tmp_path: Path) -> None:
    """Exporters expand a number to the shape of the element that it is assigned to."""
    nodes = [
        node("Shape", "one", "shape"),
        node("Expand", "two shape", "wide"),
        node("Unsqueeze", "wide axes", "rows"),
        node("Concat", "rows rest", "target", axis=0),
        node("Reshape", "x target", "r"),
        node("MatMul", "r w", "y"),
    ]
    parameters = [scalar("one", 1), scalar("two", 2), numbers("axes", 0), numbers("rest", 6)]
    network = read_onnx(
        written(tmp_path, model(nodes, [tensor("x", 3, 4)], [*parameters, floats("w", 6, 5)]))
    )
    assert network.macs == 2 * 6 * 5
