"""ONNX graphs made in tests: nodes in a line, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def node(kind: str, reads: str, makes: str, **attributes: Any) -> onnx.NodeProto:
    """A node named after its first result; ``reads`` and ``makes`` are names with spaces between them."""
    made = makes.split()
    return helper.make_node(
        kind, [x if x != "-" else "" for x in reads.split()], made, name=made[0], **attributes
    )


def tensor(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def numbers(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def scalar(name: str, value: int | bool) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.bool_ if isinstance(value, bool) else np.int64), name)


def floats(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    parameters: list[onnx.TensorProto],
    results: str = "y",
    noted: list[onnx.ValueInfoProto] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results.split()]
    graph = helper.make_graph(nodes, "made", inputs, outputs, parameters, value_info=noted or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def written(tmp_path: Path, made: onnx.ModelProto) -> Path:
    path = tmp_path / "made.onnx"
    path.write_bytes(made.SerializeToString())
    return path
