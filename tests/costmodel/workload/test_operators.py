"""The table of operators: complete rows, and columns held against ONNX's reference and layer graphs."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.formats.onnx import operators as onnx_names
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.network import Network
from costmodel.workload.operators import (
    ALSO_CALLED,
    SCHEDULED,
    TABLE,
    UNKNOWN,
    Elements,
    Nest,
    OperatorKind,
    OperatorRole,
    kinds_of,
)

STANDARD = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def onnx_kind(name: str) -> OperatorKind:
    return onnx_names.kind_of(helper.make_node(name, ["x"], ["y"]))


def test_every_known_name_has_a_complete_row() -> None:
    assert set(ALSO_CALLED.values()) <= TABLE.keys()
    assert ALSO_CALLED.keys().isdisjoint(TABLE)
    assert set(onnx_names._IRREGULAR.values()) <= TABLE.keys()
    assert set(onnx_names._IRREGULAR) <= set(STANDARD)
    for name, row in TABLE.items():
        assert row.name == name
        assert row.role in get_args(OperatorRole)
        assert row.role != UNKNOWN.role, name
        assert row.elements in get_args(Elements), name
        assert (row.nest is None) is (row.role not in ("products", "attention")), name
        assert (row.factors == ()) is (row.nest is None), name
        assert row.nest is None or row.nest in get_args(Nest), name
    assert get_args(OperatorRole)[-1] == UNKNOWN.role
    assert set(get_args(OperatorRole)) - {UNKNOWN.role} >= SCHEDULED


def test_each_row_is_the_kind_of_some_name() -> None:
    """A row that no reader can reach is dead; rows without a name of ONNX's are PyTorch's."""
    of_onnx = {onnx_kind(name).name for name in STANDARD}
    assert "t" in of_onnx  # a transpose that states no order
    only_pytorch = TABLE.keys() - of_onnx
    assert {"linear", "addmm", "hardtanh", "layer", "masked_fill", "stack"} <= only_pytorch
    assert len(of_onnx - {UNKNOWN.name}) > 140


def test_fused_and_strange_names() -> None:
    assert [kind.name for kind in kinds_of("conv2d+_softmax+relu")] == ["convolution", "softmax", "relu"]
    assert kinds_of("frobnicate") == (UNKNOWN,)
    assert onnx_kind("LSTM") is onnx_kind("NoSuchOperator") is UNKNOWN
    elsewhere = helper.make_node("Relu", ["x"], ["y"], domain="com.example")
    assert onnx_names.kind_of(elsewhere) is UNKNOWN


POINTWISE = [name for name in STANDARD if onnx_kind(name).elements == "pointwise"]


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_operators_compute_each_element_by_itself(name: str) -> None:
    """Shuffled operands give the shuffled result; in place, it is as wide as an operand."""
    rng = np.random.default_rng(5)
    order = rng.permutation(24)
    model, feeds = _model_of(name, rng)
    results: list[np.ndarray[Any, Any]] = []
    for where in (np.arange(24), order):
        shuffled = {key: values.ravel()[where].reshape(4, 6) for key, values in feeds.items()}
        computed: Any = ReferenceEvaluator(model).run(None, shuffled)
        results.append(computed[0])
    assert results[0].shape == (4, 6)
    np.testing.assert_array_equal(results[1].ravel(), results[0].ravel()[order])
    if onnx_kind(name).in_place:
        assert results[0].dtype in {values.dtype for values in feeds.values()}


def _model_of(name: str, rng: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """The operator on as many operands as it must have (two where it takes any number)."""
    schema = onnx.defs.get_schema(name, 21 if name != "Swish" else 24)
    variadic = schema.inputs[0].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    count = 2 if variadic else schema.min_input
    types = [_type_of(schema, schema.inputs[0 if variadic else i].type_str) for i in range(count)]
    keys = [f"x{i}" for i in range(count)]
    needed: dict[str, dict[str, Any]] = {
        "Cast": {"to": TensorProto.INT64},
        "BitShift": {"direction": "LEFT"},
    }
    graph = helper.make_graph(
        [helper.make_node(name, keys, ["y"], **needed.get(name, {}))],
        name,
        [helper.make_tensor_value_info(key, kind, (4, 6)) for key, kind in zip(keys, types, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24 if name == "Swish" else 21)])
    feeds: dict[str, np.ndarray[Any, Any]] = {}
    for key, kind in zip(keys, types, strict=True):
        numbers = rng.uniform(1.1 if name == "Acosh" else 0.1, 1.9 if name == "Acosh" else 0.9, (4, 6))
        scale = 1 if kind == TensorProto.FLOAT else 7
        feeds[key] = (numbers * scale).astype(helper.tensor_dtype_to_np_dtype(kind))
    return model, feeds


def _type_of(schema: onnx.defs.OpSchema, type_name: str) -> int:
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(
        type_name, [type_name]
    )
    kind = next(kind for kind in ("float", "bool", "uint8", "int64") if f"tensor({kind})" in allowed)
    return int(TensorProto.DataType.Value(kind.upper()))


def _one(name: str) -> Network:
    """The operator after a convolution, as a network of its own."""
    build = NetworkBuilder(name)
    x = build.convolution("before", build.input("x", (1, 4, 8, 8)), Convolution(4, 3, activation=""))
    role = TABLE[kinds_of(name)[0].name].role
    if role == "products":
        build.convolution("it", x, Convolution(6, 3, activation=""))
    elif role == "elementwise":
        other = build.convolution("other", build.input("y", (1, 4, 8, 8)), Convolution(4, activation=""))
        build.operator("it", name, (x, other), (1, 4, 8, 8))
    elif role == "pooling":
        build.max_pool("it", x, Pool(2, 2))
    elif role == "reduction":
        build.operator("it", name, (x,), (1, 4), dim=(2, 3))
    else:
        build.operator("it", name, (x,), (1, 4, 8, 8))
    return build.network()


@pytest.mark.parametrize(
    ("name", "times", "error"),
    [
        ("conv2d", 0, "conv"),
        ("softmax", 1, "ptp"),
        ("layer_norm", 1, "ptp"),
        ("add", 2, "ptp"),
        ("mul", 2, "ptp"),
        ("max_pool2d", 4, "pool"),
        ("mean", 64, "pool"),
        ("sum", 64, "pool"),
    ],
)
def test_the_vector_work_and_the_errors_of_a_chips_layers(name: str, times: int, error: str) -> None:
    """``times``: operations of vector units for an element of the result, of windows as long as they are.

    ``error``: the kind of the layers that bring errors back; those of windows scatter.
    """
    graph = layer_graph(_one(name))
    it = next(layer for layer in graph.layers if layer.name == "it")
    assert it.operations * (not it.has_weights) == it.k * it.h * it.w * times
    step = training_graph(graph)
    errors = [layer for layer in step.layers if layer.part == "error" and layer.name.startswith("it.error")]
    updates = [layer for layer in step.layers if layer.name == "it.update"]
    assert len(updates) == it.has_weights == (error == "conv")
    assert {layer.kind for layer in errors} == {error}
    assert all(layer.scatters for layer in errors) is (error == "pool")
