"""Symbolic lengths: stated, computed, missing, unknown; decoder blocks by both of PyTorch's exporters."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from costmodel.errors import InputError
from costmodel.formats.networks import load_layer, load_network
from costmodel.formats.onnx.reader import read_onnx
from costmodel.formats.onnx.symbols import symbols_of, value_of
from costmodel.workload.counting import counting_warnings

DATA = Path(__file__).parents[3] / "data" / "onnx"
BLOCKS = sorted(path.name for path in DATA.glob("llama_*.onnx"))
WIDTH, HEADS, PAIRS, HEAD, HIDDEN = 128, 8, 2, 16, 192


@pytest.mark.parametrize("file", BLOCKS)
@pytest.mark.parametrize(("batch", "seq", "past"), [(None, 1, 2048), (3, 5, 7)])
def test_a_decoder_block_reads_its_cache_once(file: str, batch: int | None, seq: int, past: int) -> None:
    network = read_onnx(DATA / file, batch, {"seq": seq, "past": past})
    samples, keys = batch or 1, past + seq
    linear = 2 * WIDTH * WIDTH + 2 * WIDTH * PAIRS * HEAD + 3 * WIDTH * HIDDEN
    attention = 2 * HEADS * keys * HEAD
    assert network.macs == samples * seq * (linear + attention)
    assert counting_warnings(network) == ()
    products = [layer for layer in network.layers if "B" in layer.sizes]
    assert [layer.sizes for layer in products] == [
        {"B": samples * PAIRS, "M": HEADS // PAIRS * seq, "N": keys, "K": HEAD},
        {"B": samples * PAIRS, "M": HEADS // PAIRS * seq, "N": HEAD, "K": keys},
    ]
    for layer in products:
        assert layer.tensor("B").words(layer.sizes) == samples * PAIRS * keys * HEAD


def test_both_exporters_ask_for_the_same_layers() -> None:
    found = {
        tuple(layer.shape for layer in read_onnx(DATA / file, None, {"seq": 4, "past": 12}).layers)
        for file in BLOCKS
    }
    assert len(BLOCKS) == 6
    assert len(found) == 1


def saved(tmp_path: Path, *inputs: tuple[str, tuple[int | str | None, ...]]) -> Path:
    """A product of every input's last axis with weights of 4 x 3."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
    nodes = [
        helper.make_node("MatMul", [name, "w"], [f"{name}_y"], name=f"times_{name}") for name, _ in inputs
    ]
    results = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None) for node in nodes]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.0] * 12)
    graph = helper.make_graph(nodes, "made", values, results, [weights])
    path = tmp_path / "made.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(model.SerializeToString())
    return path


def rows(path: Path, batch: int | None = None, /, **dims: int) -> list[int]:
    return [layer.sizes["M"] for layer in read_onnx(path, batch, dims).layers]


def test_lengths_follow_from_others(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        ("x", ("batch", "seq", 4)),
        ("mask", ("batch", "past + seq", 4)),
        ("half", ("batch", "Max(1, (past + 2*seq) // 2)", 4)),
    )
    assert rows(path, seq=5, past=7) == [5, 12, 8]
    assert rows(path, 2, seq=5, past=7) == [10, 24, 16]


def test_the_batch_may_be_stated_by_its_name(tmp_path: Path) -> None:
    path = saved(tmp_path, ("x", ("batch", "seq", 4)))
    assert rows(path, None, seq=5, batch=3) == rows(path, 3, seq=5) == [15]
    assert rows(path, 3, seq=5, batch=3) == [15]
    with pytest.raises(
        InputError, match=r"batch: expected the 3 that dims states as batch, or none, found 2"
    ):
        rows(path, 2, seq=5, batch=3)


def test_a_stated_first_axis_is_no_batch(tmp_path: Path) -> None:
    path = saved(tmp_path, ("x", ("seq", "batch", 4)))
    assert rows(path, seq=5, batch=2) == [10]
    with pytest.raises(InputError, match=r"axis 1: .*found batch.*State --dim batch=N"):
        rows(path, seq=5)


def test_first_axes_of_other_names(tmp_path: Path) -> None:
    assert rows(saved(tmp_path, ("x", ("b0", 4)), ("y", ("b1", 4))), 6) == [6, 6]
    both = saved(tmp_path, ("x", ("batch", "seq", 4)), ("positions", ("seq", 4)))
    with pytest.raises(InputError, match="found seq"):
        rows(both)
    assert rows(both, seq=9) == [9, 9]


def test_all_missing_lengths_are_named_with_the_remedy(tmp_path: Path) -> None:
    path = saved(tmp_path, ("x", ("batch", "seq", 4)), ("cache", ("batch", "past + seq", 4)))
    with pytest.raises(InputError) as caught:
        read_onnx(path)
    message = str(caught.value)
    assert "made.onnx: input x.axis 1: " in message
    assert "State --dim past=N --dim seq=N, in a study {network: FILE, dims: {past: N, seq: N}}" in message
    with pytest.raises(InputError, match=r"input cache\.axis 1: .*State --dim past=N, in"):
        read_onnx(path, None, {"seq": 3})


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"sequence": 3}, r"dims: expected symbolic lengths .*\(batch, seq\), found sequence"),
        ({"seq": -1}, r"dims\.seq: expected a whole length of at least 0, found -1"),
        ({"seq": True}, "found True"),
        ({"seq": 2**63}, r"dims\.seq: expected lengths of at most 9,223,372,036,854,775,807"),
    ],
)
def test_dims_that_cannot_be(tmp_path: Path, dims: dict[str, int], message: str) -> None:
    path = saved(tmp_path, ("x", ("batch", "seq", 4)))
    with pytest.raises(InputError, match=message):
        read_onnx(path, None, dims)


def test_fixed_lengths_cannot_be_stated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it has none"):
        read_onnx(saved(tmp_path, ("x", (2, 4))), None, {"seq": 3})
    with pytest.raises(InputError, match="no dims but for ONNX files"):
        load_network("resnet18", None, {"seq": 3})


def test_a_layer_of_a_file_with_stated_lengths(tmp_path: Path) -> None:
    path = saved(tmp_path, ("x", ("batch", "seq", 4)))
    assert load_layer(f"{path}/times_x", {"seq": 6}).sizes == {"M": 6, "N": 3, "K": 4}


@pytest.mark.parametrize(
    ("length", "symbols", "value"),
    [
        ("seq", {"seq"}, 5),
        ("past + seq - 1", {"past", "seq"}, 11),
        ("2*seq//3", {"seq"}, 3),
        ("min(seq, past)", {"seq", "past"}, 5),
        ("Max(past)", {"past"}, 7),
        ("seq - 5", {"seq"}, 0),
        ("seq - 6", {"seq"}, None),
        ("seq % 0", {"seq"}, None),
        ("odd name", {"odd name"}, None),
        ("other", {"other"}, None),
        ("__import__('os')", {"__import__('os')"}, None),
        ("seq ** 99", {"seq ** 99"}, None),
        ("(" * 400, {"(" * 400}, None),
    ],
)
def test_sums_and_products_of_symbols(length: str, symbols: set[str], value: int | None) -> None:
    assert symbols_of(length) == symbols
    assert value_of(length, {"seq": 5, "past": 7}) == value


def test_shapes_computed_by_comparison_and_choice(tmp_path: Path) -> None:
    """An expansion to a shape in which -1 stands for what is there, as PyTorch's first exporter writes it."""

    def numbers(name: str, *values: int) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)

    nodes = [
        helper.make_node("ConstantOfShape", ["three"], ["ones"], value=numbers("", 1)),
        helper.make_node("Mul", ["ones", "minus"], ["absent"]),
        helper.make_node("Equal", ["asked", "absent"], ["left"]),
        helper.make_node("Where", ["left", "ones", "asked"], ["shape"]),
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("MatMul", ["wide", "w"], ["y"]),
    ]
    parameters = [numbers("three", 3), numbers("minus", -1), numbers("asked", 8, -1, -1)]
    parameters.append(helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.0] * 12))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, "seq", 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "made", [x], [y], parameters)
    path = tmp_path / "made.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(model.SerializeToString())
    network = read_onnx(path, None, {"seq": 6})
    assert network.value("y").shape == (8, 6, 3)
    assert network.layers[0].sizes == {"M": 6, "N": 3, "K": 4, "G": 8}
