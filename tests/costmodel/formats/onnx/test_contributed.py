"""ONNX Runtime's own operators: multiply-accumulates by closed forms, what follows them, and other forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from costmodel.errors import InputError
from costmodel.formats.onnx.reader import read_onnx
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.workload.counting import uncounted_rows
from costmodel.workload.network import Network
from costmodel.workload.stored_bits import StoredBits

Shapes = Mapping[str, tuple[int, ...]]
BATCH, ROWS, WIDTH, HEADS, SHARED, EACH, PAST = 2, 7, 64, 8, 2, 8, 5
KEYS, TOKENS = ROWS + PAST, BATCH * ROWS
FOUR, NINE = ((BATCH, HEADS, rows, EACH) for rows in (4, 9))
WITH_HEADS = {"num_heads": HEADS}
SCORES = 2 * BATCH * HEADS * ROWS * EACH  # scores and weighted values, of each key
CACHE = {"pk": (BATCH, SHARED, PAST, EACH), "pv": (BATCH, SHARED, PAST, EACH)}


def network(
    tmp_path: Path,
    operator: str,
    operands: str,
    shapes: Shapes,
    *,
    results: str = "y",
    behind: bool = True,
    domain: str = "com.microsoft",
    kinds: Mapping[str, int] | None = None,
    **attributes: Any,
) -> Network:
    """A file of one operator and, ``behind`` its first result, a product with 3 columns.

    ``operands`` in small letters are inputs, in capitals parameters; "-" is one that is left out.
    """
    names = ["" if name == "-" else name for name in operands.split()]
    made = ["" if name == "-" else name for name in results.split()]
    nodes = [helper.make_node(operator, names, made, "node", domain=domain, **attributes)]
    outputs = made[1:]
    if behind:
        nodes.append(helper.make_node("MatMul", [made[0], "LAST"], ["z"], "last"))
        outputs = ["z", *outputs]
    kinds = kinds or {}
    inputs, parameters = [], []
    for name, shape in shapes.items():
        kind = kinds.get(name, TensorProto.FLOAT)
        if name.islower():
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
            continue
        tensor = onnx.TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="missing.bin")
        parameters.append(tensor)
    graph = helper.make_graph(
        nodes, "made", inputs, [onnx.ValueInfoProto(name=name) for name in filter(None, outputs)], parameters
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "made.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return read_onnx(path)


X = {"x": (BATCH, ROWS, WIDTH)}
LAST = {"LAST": (WIDTH, 3)}
BEHIND = TOKENS * WIDTH * 3


@pytest.mark.parametrize(
    ("operator", "operands", "shapes", "attributes"),
    [
        ("SimplifiedLayerNormalization", "x G", X | {"G": (WIDTH,)}, {"domain": "", "axis": -1}),
        ("SkipSimplifiedLayerNormalization", "x r G B", X | {"G": (WIDTH,), "B": (WIDTH,)}, {}),
        ("SkipLayerNormalization", "x r G - B", X | {"G": (WIDTH,), "B": (WIDTH,)}, {}),
        (
            "RotaryEmbedding",
            "x p C S",
            X | {"p": (BATCH, ROWS), "C": (99, 4), "S": (99, 4)},
            {"num_heads": 8},
        ),
        ("FastGelu", "x B", X | {"B": (WIDTH,)}, {}),
        ("QuickGelu", "x", X, {"alpha": 1.702}),
        ("QLinearAdd", "x S Z r S Z S Z", X | {"S": (), "Z": ()}, {}),
    ],
)
def test_shapes_pass_through_work_on_elements(
    tmp_path: Path, operator: str, operands: str, shapes: Shapes, attributes: dict[str, Any]
) -> None:
    also = {"r": X["x"]} if " r " in operands else {}
    made = network(tmp_path, operator, operands, {**shapes, **also, **LAST}, **attributes)
    assert not uncounted_rows(made)
    assert made.macs == BEHIND


def test_the_sum_that_is_normalised_is_a_result_of_its_own(tmp_path: Path) -> None:
    shapes = {"x": (2, 3, 8), "r": (2, 3, 8), "G": (8,), "LAST": (8, 3)}
    made = network(tmp_path, "SkipSimplifiedLayerNormalization", "x r G", shapes, results="y - - s")
    assert [node.operator for node in made.nodes] == [
        "Add",
        "com.microsoft.SimplifiedLayerNormalization",
        "MatMul",
    ]
    assert made.value("s").kind == "output"
    assert made.value("s").shape == (2, 3, 8)
    assert layer_graph(made).layers  # a chip can have it


@pytest.mark.parametrize(
    ("operator", "operands", "shapes", "macs", "attributes"),
    [
        ("FusedMatMul", "x W", X | {"W": (32, WIDTH)}, TOKENS * WIDTH * 32, {"transB": 1}),
        ("FusedMatMul", "a W", {"a": (WIDTH, 5), "W": (WIDTH, 32)}, 5 * WIDTH * 32, {"transA": 1}),
        ("FusedGemm", "a W B", {"a": (5, 16), "W": (4, 16), "B": (4,)}, 5 * 64, {"transB": 1}),
        ("QGemm", "a S Z W S Z", {"a": (5, 16), "W": (4, 16), "S": (), "Z": ()}, 5 * 64, {"transB": 1}),
        ("DynamicQuantizeMatMul", "x W S", X | {"W": (WIDTH, 32), "S": ()}, TOKENS * WIDTH * 32, {}),
        ("MatMulNBits", "x W S", X | {"W": (32, 2, 16), "S": (64,)}, TOKENS * WIDTH * 32,
         {"N": 32, "K": WIDTH, "bits": 4, "block_size": 32}),
        ("FusedConv", "i W", {"i": (1, 3, 8, 8), "W": (4, 3, 3, 3)}, 64 * 4 * 27, {"pads": [1] * 4}),
        ("NhwcConv", "i W", {"i": (1, 8, 9, 3), "W": (4, 3, 3, 3)}, 4 * 5 * 4 * 27,
         {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("QLinearConv", "i S Z W S Z S Z", {"i": (1, 8, 8, 6), "W": (6, 1, 3, 3), "S": (), "Z": ()},
         36 * 6 * 9, {"channels_last": 1, "group": 6}),
        ("GroupQueryAttention", "q k v pk pv", CACHE | {"q": (BATCH, ROWS, HEADS * EACH),
         "k": (BATCH, ROWS, SHARED * EACH), "v": (BATCH, ROWS, SHARED * EACH)}, SCORES * KEYS,
         {"num_heads": HEADS, "kv_num_heads": SHARED}),
        ("GroupQueryAttention", "q - - pk pv", CACHE | {"q": (BATCH, ROWS, (HEADS + 2 * SHARED) * EACH)},
         SCORES * KEYS, {"num_heads": HEADS, "kv_num_heads": SHARED}),
        ("MultiHeadAttention", "x k v", X | {"k": (BATCH, 9, WIDTH), "v": (BATCH, 9, WIDTH)}, SCORES * 9,
         WITH_HEADS),
        ("MultiHeadAttention", "x k v", X | {"k": NINE, "v": NINE},
         SCORES * 9, WITH_HEADS),
        ("MultiHeadAttention", "x k v - - - pk pv", X | {"k": X["x"], "v": X["x"], "pk": FOUR,
         "pv": FOUR}, SCORES * (ROWS + 4), WITH_HEADS),
        ("MultiHeadAttention", "q", {"q": (BATCH, ROWS, HEADS, 3, EACH)}, SCORES * ROWS, WITH_HEADS),
        ("MultiHeadAttention", "x k", X | {"k": (BATCH, 9, HEADS, 2, EACH)}, SCORES * 9, WITH_HEADS),
        ("Attention", "x W B - p", X | {"W": (WIDTH, 3 * WIDTH), "B": (3 * WIDTH,), "p": (2, *FOUR)},
         TOKENS * WIDTH * 3 * WIDTH + SCORES * (ROWS + 4), WITH_HEADS),
        ("MoE", "x r W - V", X | {"r": (TOKENS, 4), "W": (4, WIDTH, 32), "V": (4, 32, WIDTH)},
         TOKENS * 2 * 2 * WIDTH * 32, {"k": 2}),
        # a gate in the first weights, all of them two to a byte
        ("QMoE", "x r W S - V T -", X | {"r": (TOKENS, 4), "W": (4, 64, 32), "S": (4, 64),
         "V": (4, 64, 16), "T": (4, 64)}, TOKENS * 3 * (64 + 32) * WIDTH, {"k": 3}),
    ],
)  # fmt: skip
def test_products_and_what_follows_them(
    tmp_path: Path, operator: str, operands: str, shapes: Shapes, macs: int, attributes: dict[str, Any]
) -> None:
    made = network(tmp_path, operator, operands, shapes, behind=False, **attributes)
    assert not uncounted_rows(made)
    assert made.macs == macs
    assert made.value("y").elements
    last = {"LAST": (made.value("y").shape[-1], 3)}
    followed = network(tmp_path, operator, operands, {**shapes, **last}, **attributes)
    assert followed.macs == macs + 3 * made.value("y").elements
    with pytest.raises(InputError, match="an operator that a chip's schedule can have"):
        layer_graph(made)


def test_present_keys_are_those_of_the_past_and_the_new_ones(tmp_path: Path) -> None:
    shapes = CACHE | {
        name: (BATCH, ROWS, n * EACH) for name, n in (("q", HEADS), ("k", SHARED), ("v", SHARED))
    }
    made = network(
        tmp_path, "GroupQueryAttention", "q k v pk pv", shapes, results="y nk nv", behind=False,
        num_heads=HEADS, kv_num_heads=SHARED,
    )  # fmt: skip
    assert made.value("nk").shape == made.value("nv").shape == (BATCH, SHARED, KEYS, EACH)
    (node,) = made.nodes
    assert [layer.sizes["B"] for layer in node.layers] == [BATCH * SHARED] * 2  # heads share keys


def test_bits_of_packed_weights(tmp_path: Path) -> None:
    shapes = X | {"W": (32, 2, 16), "S": (64,), "LAST": (32, 3)}
    kinds = {"x": TensorProto.FLOAT16, "W": TensorProto.UINT8}
    made = network(tmp_path, "MatMulNBits", "x W S", shapes, kinds=kinds, N=32, K=WIDTH, behind=False)
    (node,) = made.nodes
    assert StoredBits(made).of(node, node.layers[0]) == {"A": 16, "B": 4, "Z": 16}


def test_rows_of_a_packed_table(tmp_path: Path) -> None:
    shapes = {"T": (100, WIDTH // 2), "p": (BATCH, ROWS), "S": (100, 2), **LAST}
    made = network(
        tmp_path, "GatherBlockQuantized", "T p S", shapes, kinds={"p": TensorProto.INT64}, block_size=32
    )
    assert made.value("y").shape == (BATCH, ROWS, WIDTH)
    assert made.macs == BEHIND


@pytest.mark.parametrize(
    ("operator", "operands", "shapes", "attributes", "why"),
    [
        (
            "FusedMatMul",
            "x W",
            X | {"W": (WIDTH, 3)},
            {"transBatchA": 1},
            "supported with these operands",
        ),
        ("MatMulNBits", "x W S", X | {"W": (32, 2, 16), "S": (64,)}, {"N": 32, "K": 63}, "the 64 columns"),
        ("MultiHeadAttention", "x k", X | {"k": X["x"]}, {"num_heads": 8}, "the shape of y is not known"),
        (
            "MultiHeadAttention",
            "x k v",
            X | {"k": X["x"], "v": X["x"]},
            {"num_heads": 7},
            "heads that",
        ),
        (
            "MoE",
            "x r W - V",
            X | {"r": (5, 4), "W": (4, WIDTH, 32), "V": (4, 32, WIDTH)},
            {},
            "a score for each",
        ),
        ("DecoderMaskedMultiHeadAttention", "x", X, {"num_heads": 8}, "the operator is not supported"),
    ],
)
def test_other_forms_say_why_they_are_not_counted(
    tmp_path: Path, operator: str, operands: str, shapes: Shapes, attributes: dict[str, Any], why: str
) -> None:
    (row,) = uncounted_rows(network(tmp_path, operator, operands, shapes, behind=False, **attributes))
    assert row["kind"] == f"com.microsoft.{operator}"
    assert why in row["why"]
