"""Widths of a layer's tensors: those of ONNX's types, and of integers behind QDQ and QLinear operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.formats.onnx.reader import read_onnx
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.library.residual import resnet18
from costmodel.workload.network import Layer, Network
from costmodel.workload.stored_bits import StoredBits
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.starts import any_mapping
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


def scales(made: onnx.ModelProto, tmp_path: Path) -> tuple[tuple[str, int, int], ...]:
    (layer,) = StoredBits(read_onnx(written(tmp_path, made))).stated()
    assert Layer.from_json(layer.to_json()) == layer
    return layer.scales


def dequantized(scale: tuple[int, ...], zero: bool = False, **attributes: int) -> onnx.ModelProto:
    """A product with int4 weights of 64 x 32 and scales of 16 bits, with int4 zero points or without."""
    count = int(np.prod(scale))
    parameters = [
        helper.make_tensor("w", TensorProto.INT4, [64, 32], [1] * 2048),
        numpy_helper.from_array(np.ones(scale, np.float16), "scale"),
        helper.make_tensor("zero", TensorProto.INT4, scale, [0] * count),
    ]
    operands = "w scale zero" if zero else "w scale"
    nodes = [node("DequantizeLinear", operands, "wide", **attributes), node("MatMul", "x wide", "y")]
    return model(nodes, [tensor("x", 3, 64, kind=TensorProto.FLOAT16)], parameters, opset=21)


def test_scales_that_groups_of_weights_share(tmp_path: Path) -> None:
    """Bits of scales and zero points over elements: all of them by hand, over all weights."""
    assert scales(dequantized((2, 32), axis=0, block_size=32), tmp_path) == (("B", 16, 32),)
    assert scales(dequantized((32,), zero=True, axis=1), tmp_path) == (("B", 16 + 4, 64),)
    assert scales(dequantized(()), tmp_path) == ()


def test_scales_of_weights_that_lie_packed_in_bytes(tmp_path: Path) -> None:
    """Of 64 weights of an output two groups of 32, whose zero points of 4 bits share a byte."""
    parameters = [
        numpy_helper.from_array(np.zeros((32, 2, 16), np.uint8), "w"),
        numpy_helper.from_array(np.ones(64, np.float16), "scale"),
        numpy_helper.from_array(np.zeros(32, np.uint8), "zero"),
    ]
    stated: dict[str, Any] = {"domain": "com.microsoft", "K": 64, "N": 32, "bits": 4, "block_size": 32}
    product = helper.make_node("MatMulNBits", ["x", "w", "scale", "zero"], ["y"], **stated)
    made = model([product], [tensor("x", 3, 64, kind=TensorProto.FLOAT16)], parameters)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert scales(made, tmp_path) == (("B", 16 + 4, 32),)


def test_scales_of_the_library() -> None:
    """GPT-OSS's experts have MXFP4; DeepSeek-V3's blocks of 128 x 128 are partial where 576 rows end."""
    (experts,) = {
        (dict(layer.bits)["B"], layer.scales)
        for layer in StoredBits(load_network("gpt_oss_20b", None, {"seq": 8, "blocks": 1})).stated()
        if ".experts." in layer.name
    }
    assert experts == (4, (("B", 8, 32),))
    layers = StoredBits(load_network("deepseek_v3", None, {"seq": 8, "blocks": 1})).stated()
    (latent,) = (layer for layer in layers if layer.name == "block0.attention.latent_down")
    assert (latent.sizes["N"], latent.scales) == (576, (("B", 32, 128 * 128),))


def test_a_scale_of_the_network_counts_as_one_of_the_study(tmp_path: Path) -> None:
    """Energy and cycles with the file's bits are those of the same precision, stated."""
    network = read_onnx(written(tmp_path, dequantized((2, 32), axis=0, block_size=32)))
    (layer,) = StoredBits(network).stated()
    others = {"activations": 16, "partial_sums": 32}
    found = []
    for precision in (
        {**others, "weights": {"bits": 4, "scale_bits": 16, "group": 32}},
        {**others, "weights": 8, "from_network": True},
        {**others, "weights": 4},
    ):
        architecture = load_architecture("simba", {"precision": precision})
        mapping = any_mapping(MappingSpace(architecture, layer))
        assert mapping is not None
        counted = evaluate(architecture, layer, mapping)
        found.append((counted.energy_pj, counted.cycles))
    stated, of_network, without = found
    assert of_network == stated
    assert without[0] < stated[0]
