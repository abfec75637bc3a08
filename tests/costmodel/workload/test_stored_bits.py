"""Widths of a layer's tensors: those of ONNX's types, and of integers behind QDQ and QLinear operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.library.residual import resnet18
from costmodel.workload.network import Layer, Network
from costmodel.workload.stored_bits import StoredBits
from tests.costmodel.formats.onnx.graphs import model, node, tensor, written


def bits(network: Network) -> list[dict[str, int | None]]:
    stored = StoredBits(network)
    return [stored.of(one, layer) for one in network.nodes for layer in one.layers]


def quantities(kind: int) -> list[onnx.TensorProto]:
    zero = helper.make_tensor("zero", kind, [], [0])
    return [numpy_helper.from_array(np.array(0.5, np.float32), "scale"), zero]


def test_operands_behind_dequantization_have_the_bits_of_the_integers(tmp_path: Path) -> None:
    nodes = [
        node("DequantizeLinear", "w scale four", "wide"),
        node("Transpose", "wide", "turned", perm=[1, 0]),
        node("QuantizeLinear", "x scale zero", "qx"),
        node("DequantizeLinear", "qx scale zero", "fx"),
        node("MatMul", "fx turned", "p"),
        node("QuantizeLinear", "p scale zero", "qy"),
        node("DequantizeLinear", "qy scale zero", "fy"),
        node("MatMul", "fy v", "y"),
    ]
    parameters = [
        *quantities(TensorProto.INT8),
        helper.make_tensor("four", TensorProto.INT4, [], [0]),
        helper.make_tensor("w", TensorProto.INT4, [5, 4], [1] * 20),
        numpy_helper.from_array(np.ones((5, 2), np.float32), "v"),
    ]
    network = read_onnx(written(tmp_path, model(nodes, [tensor("x", 3, 4)], parameters, opset=21)))
    assert bits(network) == [{"A": 8, "B": 4, "Z": 8}, {"A": 8, "B": 32, "Z": 32}]


def test_layers_say_their_bits_and_which_operands_are_no_parameters(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "p"), node("Transpose", "p", "t", perm=[1, 0]), node("MatMul", "x t", "y")]
    parameters = [numpy_helper.from_array(np.ones((4, 4), np.float16), "w")]
    inputs = [tensor("x", 4, 4, kind=TensorProto.FLOAT16)]
    first, second = StoredBits(read_onnx(written(tmp_path, model(nodes, inputs, parameters)))).stated()
    assert dict(first.bits)["B"] == 16
    assert first.caches == ()
    assert second.caches == ("B",)
    assert first.shape != second.shape
    assert Layer.from_json(second.to_json()) == second


def test_convolutions_of_the_library_have_no_caches() -> None:
    assert all(layer.caches == () for layer in StoredBits(resnet18()).stated())


def test_integer_operators(tmp_path: Path) -> None:
    nodes = [
        node("QLinearMatMul", "x scale zero w scale zero scale zero", "p"),
        node("MatMulInteger", "p v", "y"),
    ]
    parameters = [
        *quantities(TensorProto.UINT8),
        *(helper.make_tensor(name, TensorProto.UINT8, [4, 4], [1] * 16) for name in ("w", "v")),
    ]
    inputs = [tensor("x", 3, 4, kind=TensorProto.UINT8)]
    network = read_onnx(written(tmp_path, model(nodes, inputs, parameters)))
    assert bits(network) == [{"A": 8, "B": 8, "Z": 8}, {"A": 8, "B": 8, "Z": 32}]


def test_attention_of_half_floats_with_a_cache_of_bytes(tmp_path: Path) -> None:
    half = TensorProto.FLOAT16
    nodes = [
        node("DequantizeLinear", "k scale", "fk"),
        node("DequantizeLinear", "v scale", "fv"),
        node("Attention", "q fk fv", "y"),
    ]
    inputs = [
        tensor("q", 1, 8, 3, 4, kind=half),
        *(tensor(name, 1, 2, 9, 4, kind=TensorProto.INT8) for name in ("k", "v")),
    ]
    scale = numpy_helper.from_array(np.array(0.5, np.float16), "scale")
    network = read_onnx(written(tmp_path, model(nodes, inputs, [scale], opset=23)))
    assert bits(network) == [{"A": 16, "B": 8, "Z": 16}, {"A": 16, "B": 8, "Z": 16}]


def test_a_network_without_types_has_none() -> None:
    assert all(set(one.values()) == {None} for one in bits(resnet18()))
