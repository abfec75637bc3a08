"""Products read an expanded tensor once for its group, whatever the operators that expand it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.onnx.reader import read_onnx
from costmodel.formats.onnx.shapes import load_model
from costmodel.scratchpad.graph import operator_graph
from costmodel.workload.counting import counting_warnings
from costmodel.workload.network import Layer, Network

HEADS, PAIRS, ROWS, WIDTH = 8, 2, 5, 3
GROUP = HEADS // PAIRS

Nodes = list[onnx.NodeProto]


def node(kind: str, reads: str, makes: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        kind, reads.split(), makes.split(), name=f"{kind}_{makes.split()[0]}", **attributes
    )


def integers(name: str, *numbers: int) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


CONSTANTS = [
    integers("two", 2),
    integers("one", 1),
    integers("grouped", 1, PAIRS, GROUP, ROWS, WIDTH),
    integers("flat", 1, HEADS, ROWS, WIDTH),
    integers("times", 1, GROUP, 1, 1),
    integers("inner", 1, 1, GROUP, 1, 1),
    integers("each", *[head for head in range(PAIRS) for _ in range(GROUP)]),
    integers("same", *[0] * HEADS),
    integers("mixed", 0, 1, 1, 0, 1, 0, 0, 1),
    integers("swapped", 0, 4, 4, 0, 4, 0, 0, 4),
    integers("split", 1, 1),
    helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]),
    helper.make_tensor("zeros", TensorProto.FLOAT, [1, 1, GROUP, 1, 1], [0.0] * GROUP),
    helper.make_tensor("by_head", TensorProto.FLOAT, [HEADS, 1, 1], [2.0**head for head in range(HEADS)]),
    integers("ones", *[1] * HEADS),
    integers("apart", 1, PAIRS, GROUP, 1, WIDTH),
    integers("three", 3),
    helper.make_tensor("last", TensorProto.INT64, [5], [1, 1, 1, GROUP, 1]),
    integers("long", 1, PAIRS, ROWS * GROUP, WIDTH),
    helper.make_tensor("b_side", TensorProto.FLOAT, [1, PAIRS, 2, ROWS * GROUP], [0.0] * 80),
    integers("minus", -1),
    integers("parts", 1, WIDTH - 1),
    helper.make_tensor("width", TensorProto.FLOAT, [WIDTH], [1.0] * WIDTH),
    helper.make_tensor("angles", TensorProto.FLOAT, [ROWS, WIDTH], [0.1 * i for i in range(ROWS * WIDTH)]),
    integers("odd", 1, 3, HEADS * ROWS),
    integers("turned", 1, HEADS, WIDTH, ROWS),
    helper.make_tensor("where", TensorProto.INT64, [1, 1, 1, 1], [0]),
    helper.make_tensor("what", TensorProto.FLOAT, [1, 1, 1, 1], [0.0]),
]
TURN = node("Transpose", "g", "t", perm=[0, 1, 3, 2])
KEYS = [node("Transpose", "wide", "t", perm=[0, 1, 3, 2])]
REPEAT_KV = [
    node("Unsqueeze", "k two", "u"),
    node("Expand", "u grouped", "e"),
    node("Reshape", "e flat", "wide"),
]
WAYS: dict[str, Nodes] = {
    "expand between heads": [*REPEAT_KV, *KEYS],
    "expand of a singleton by broadcasting": [
        node("Unsqueeze", "k two", "u"),
        node("Expand", "u inner", "e"),
        node("Reshape", "e flat", "wide"),
        *KEYS,
    ],
    "tile of the heads": [node("Tile", "k times", "wide"), *KEYS],
    "tile within the heads": [
        node("Unsqueeze", "k two", "u"),
        node("Tile", "u inner", "e"),
        node("Reshape", "e flat", "wide"),
        *KEYS,
    ],
    "gather of the heads": [node("Gather", "k each", "wide", axis=1), *KEYS],
    "concatenation with itself": [node("Concat", "k k k k", "wide", axis=1), *KEYS],
    "heads split, expanded, concatenated": [
        node("Split", "k split", "k0 k1", axis=1),
        node("Tile", "k0 times", "e0"),
        node("Tile", "k1 times", "e1"),
        node("Concat", "e0 e1", "wide", axis=1),
        *KEYS,
    ],
    "added zeros": [
        node("Unsqueeze", "k two", "u"),
        node("Add", "u zeros", "e"),
        node("Reshape", "e flat", "wide"),
        *KEYS,
    ],
    "scaled and cast behind": [
        *REPEAT_KV,
        node("Mul", "wide half", "m"),
        node("Cast", "m", "c", to=TensorProto.FLOAT),
        node("Transpose", "c", "t", perm=[0, 1, 3, 2]),
    ],
    "normalised behind, step by step": [
        *REPEAT_KV,
        node("Mul", "wide wide", "square"),
        node("ReduceMean", "square minus", "mean"),
        node("Sqrt", "mean", "root"),
        node("Div", "wide root", "g"),
        TURN,
    ],
    "normalised behind": [*REPEAT_KV, node("LayerNormalization", "wide width", "g"), TURN],
    "halves swapped and rotated behind": [
        *REPEAT_KV,
        node("Split", "wide parts", "h0 h1", axis=3),
        node("Neg", "h1", "n1"),
        node("Concat", "n1 h0", "swapped_halves", axis=3),
        node("Mul", "swapped_halves angles", "m"),
        node("Add", "wide m", "g"),
        TURN,
    ],
    "transposed before": [
        node("Transpose", "k", "s", perm=[0, 1, 3, 2]),
        node("Tile", "s times", "t"),
    ],
}


def network(tmp_path: Path, ways: Nodes, product: onnx.NodeProto, results: str = "y") -> tuple[Network, Path]:
    inputs = [
        helper.make_tensor_value_info("q", TensorProto.FLOAT, (1, HEADS, 1, WIDTH)),
        helper.make_tensor_value_info("k", TensorProto.FLOAT, (1, PAIRS, ROWS, WIDTH)),
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results.split()]
    graph = helper.make_graph([*ways, product], "made", inputs, made, CONSTANTS)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "made.onnx"
    path.write_bytes(model.SerializeToString())
    return read_onnx(path), path


def words(layer: Layer) -> dict[str, int]:
    return {tensor.name: tensor.words(layer.sizes) for tensor in layer.tensors}


def distinct_elements(path: Path) -> tuple[int, int]:
    """How many elements of the network's inputs each operand of the product holds, by executing the graph."""
    model = load_model(path)
    nodes = [one for one in model.graph.node if one.op_type != "MatMul"]
    (product,) = (one for one in model.graph.node if one.op_type == "MatMul")
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in product.input)
    shapes = {"q": (1, HEADS, 1, WIDTH), "k": (1, PAIRS, ROWS, WIDTH)}
    rng = np.random.default_rng(5)
    drawn = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    left, right = (np.unique(made).size for made in ReferenceEvaluator(model).run(None, drawn))
    return left, right


@pytest.mark.parametrize("way", WAYS)
def test_keys_are_read_once_for_the_query_heads_that_share_them(tmp_path: Path, way: str) -> None:
    found, path = network(tmp_path, WAYS[way], node("MatMul", "q t", "y"))
    (layer,) = found.layers
    assert layer.sizes == {"B": PAIRS, "M": GROUP, "N": ROWS, "K": WIDTH}
    assert layer.macs == HEADS * ROWS * WIDTH
    read = words(layer)
    assert (read["A"], read["B"]) == distinct_elements(path)
    assert counting_warnings(found) == ()


def test_one_head_for_all_is_one_product(tmp_path: Path) -> None:
    ways = [node("Gather", "k ones", "wide", axis=1), *KEYS]
    found, _ = network(tmp_path, ways, node("MatMul", "q t", "y"))
    assert found.layers[0].sizes == {"M": HEADS, "N": ROWS, "K": WIDTH}


def test_broadcasting_within_a_product_is_the_same_thing(tmp_path: Path) -> None:
    ways = [
        node("Transpose", "k", "s", perm=[0, 1, 3, 2]),
        node("Unsqueeze", "s two", "t"),
        node("Reshape", "q apart", "g"),
    ]
    found, _ = network(tmp_path, ways, node("MatMul", "g t", "y"))
    expanded, _ = network(tmp_path, WAYS["tile of the heads"], node("MatMul", "q t", "y"))
    assert found.layers[0].shape == expanded.layers[0].shape


def test_an_einsum_reads_once_too(tmp_path: Path) -> None:
    product = node("Einsum", "q wide", "y", equation="bhqd,bhkd->bhqk")
    found, _ = network(tmp_path, REPEAT_KV, product)
    assert found.layers[0].sizes == {"B": PAIRS, "M": GROUP, "N": ROWS, "K": WIDTH}


def test_expanded_queries_are_columns_more(tmp_path: Path) -> None:
    ways = [*REPEAT_KV, node("Transpose", "q", "swung", perm=[0, 1, 3, 2])]
    found, path = network(tmp_path, ways, node("MatMul", "wide swung", "y"))
    (layer,) = found.layers
    assert layer.sizes == {"B": PAIRS, "M": ROWS, "N": GROUP, "K": WIDTH}
    assert words(layer)["A"] == distinct_elements(path)[0]


def test_repetitions_along_what_is_summed(tmp_path: Path) -> None:
    """Rows of B that repeat fours of k: A moves along all of k, B along one k in four."""
    ways = [node("Unsqueeze", "k three", "u"), node("Tile", "u last", "e"), node("Reshape", "e long", "t")]
    product = node("MatMul", "b_side t", "y")
    found, _ = network(tmp_path, ways, product)
    (layer,) = found.layers
    assert layer.macs == PAIRS * 2 * (ROWS * GROUP) * WIDTH
    assert words(layer) == {"A": 2 * ROWS * GROUP * PAIRS, "B": PAIRS * ROWS * WIDTH, "Z": PAIRS * 2 * WIDTH}


def test_a_sum_of_equal_products_is_counted_whole_and_said(tmp_path: Path) -> None:
    """Both operands repeat along the summed heads: one head's product, times their number, would do."""
    product = node("Einsum", "wide wide", "y", equation="bhqd,bhkd->bqk")
    found, _ = network(tmp_path, [node("Gather", "k same", "wide", axis=1)], product)
    (layer,) = found.layers
    assert layer.sizes == {"M": ROWS, "N": ROWS, "K": HEADS * WIDTH}
    (warning,) = counting_warnings(found)
    assert "node Einsum_y: it sums equal products: its operands are counted as read whole" in warning


@pytest.mark.parametrize(
    "ways",
    [
        [node("Gather", "k mixed", "wide", axis=1), *KEYS],
        [
            *REPEAT_KV,
            node("Gather", "wide swapped", "g", axis=1),
            TURN,
        ],
        [*REPEAT_KV, node("ScatterElements", "wide where what", "g"), TURN],
        [*REPEAT_KV, node("Reshape", "wide odd", "l"), node("Reshape", "l turned", "t")],
    ],
)
def test_what_cannot_be_followed_is_counted_whole_and_said(tmp_path: Path, ways: Nodes) -> None:
    found, _ = network(tmp_path, ways, node("MatMul", "q t", "y"))
    (layer,) = found.layers
    assert layer.sizes == {"B": HEADS, "M": 1, "N": ROWS, "K": WIDTH}
    (warning,) = counting_warnings(found)
    assert "1 operators may read less than is counted; node MatMul_y: " in warning
    assert any(one.name in warning for one in ways)


def test_what_is_another_for_every_head_is_read_whole_without_a_word(tmp_path: Path) -> None:
    ways = [*REPEAT_KV, node("Mul", "wide by_head", "g"), TURN]
    found, path = network(tmp_path, ways, node("MatMul", "q t", "y"))
    assert words(found.layers[0])["B"] == HEADS * ROWS * WIDTH == distinct_elements(path)[1]
    assert counting_warnings(found) == ()


def test_a_new_row_beside_the_cache_keeps_the_groups(tmp_path: Path) -> None:
    """Expanded first, then concatenated along the rows."""
    ways = [
        *REPEAT_KV,
        node("Concat", "wide wide", "g", axis=2),
        TURN,
    ]
    found, path = network(tmp_path, ways, node("MatMul", "q t", "y"))
    # the same rows twice are followed, too: N is rows of the cache, and a dim that moves only the output
    assert words(found.layers[0])["B"] == distinct_elements(path)[1]
    assert found.layers[0].macs == HEADS * 2 * ROWS * WIDTH


def test_a_grey_image_read_as_three_colours(tmp_path: Path) -> None:
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 6, 6))
    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 3, 3, 3), [0.0] * 108)
    nodes = [node("Expand", "x colours", "c"), node("Conv", "c w", "y")]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "made", [image], [result], [weights, integers("colours", 1, 3, 1, 1)])
    path = tmp_path / "made.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    )
    (layer,) = read_onnx(path).layers
    assert layer.macs == 4 * 3 * 9 * 16
    assert words(layer) == {"Weights": 108, "Inputs": 36, "Outputs": 64}


# ---- operator graphs, whose views are folded away


def folded(kind: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    *reads, made = shapes
    tensors = [{"name": name, "shape": shapes[name], "kind": "input"} for name in reads]
    tensors.append({"name": made, "shape": shapes[made], "kind": "output"})
    return {
        "name": "folded",
        "tensors": tensors,
        "ops": [{"name": "op", "type": kind, "inputs": reads, "outputs": [made], "attrs": {}}],
    }


@pytest.mark.parametrize(
    ("a", "b", "y", "sizes"),
    [
        ([1, 32, 128, 128], [1, 8, 128, 128], [1, 32, 128, 128], {"B": 8, "M": 512, "N": 128, "K": 128}),
        ([1, 8, 1, 64], [1, 2, 64, 9], [1, 8, 1, 9], {"B": 2, "M": 4, "N": 9, "K": 64}),
        ([1, 8, 1, 64], [1, 9, 128], [1, 8, 1, 9], {"B": 2, "M": 4, "N": 9, "K": 64}),
        ([3, 8, 1, 64], [3, 9, 64], [3, 8, 1, 9], {"B": 3, "M": 8, "N": 9, "K": 64}),
    ],
)
def test_a_product_of_more_heads_with_fewer(a: Any, b: Any, y: Any, sizes: dict[str, int]) -> None:
    (layer,) = network_of_graph(folded("matmul", {"a": a, "b": b, "y": y})).layers
    assert layer.sizes == sizes


def unequal(tmp_path: Path, pairs: int, stated: bool, wrong_sum: bool = False) -> Path:
    """ONNX of scores, softmax and values of 32 heads with ``pairs``; the results' shapes stated or not."""
    shapes = {"q": (1, 32, 16, 4), "k": (1, pairs, 4, 16), "v": (1, pairs, 16, 4), "one": (1, 3, 3, 3)}
    nodes = [
        node("MatMul", "q k", "s"),
        node("Softmax", "s", "p"),
        node("MatMul", "p v", "y"),
        node("Add", "y one" if wrong_sum else "y y", "z"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 32, 16, 4 if name == "y" else 16))
        for name in "spy"
    ]
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "made", inputs, [result], value_info=info if stated else [])
    path = tmp_path / "unequal.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("stated", [False, True])
def test_onnx_products_of_more_heads_with_fewer(tmp_path: Path, stated: bool) -> None:
    found = read_onnx(unequal(tmp_path, 8, stated))
    assert [layer.sizes for layer in found.layers] == [
        {"B": 8, "M": 64, "N": 16, "K": 4},
        {"B": 8, "M": 64, "N": 4, "K": 16},
    ]
    assert found.value("z").shape == (1, 32, 16, 4)
    assert operator_graph(found).tensors


def test_onnx_products_that_nobody_can_count(tmp_path: Path) -> None:
    found = read_onnx(unequal(tmp_path, 7, stated=True))
    assert operator_graph(found).tensors
    with pytest.raises(InputError, match=r"unequal\.onnx: node MatMul_s: .*multiple of the other"):
        found.layers
    with pytest.raises(InputError, match=r"unequal\.onnx: shape inference: .*MatMul_s"):
        read_onnx(unequal(tmp_path, 7, stated=False))
    with pytest.raises(InputError, match=r"unequal\.onnx: shape inference"):
        read_onnx(unequal(tmp_path, 8, stated=False, wrong_sum=True))


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ([2, 8, 5, 4], [2, 2, 7, 4], [2, 2, 7, 4]),
        ([2, 5, 32], [2, 7, 8], [2, 7, 8]),
    ],
)
def test_fused_attention_with_fewer_key_value_heads(q: Any, k: Any, v: Any) -> None:
    kind = "scaled_dot_product_attention"
    scores, values = network_of_graph(folded(kind, {"q": q, "k": k, "v": v, "y": [2, 8, 5, 4]})).layers
    assert scores.sizes == {"B": 4, "M": 20, "N": 7, "K": 4}
    assert values.sizes == {"B": 4, "M": 20, "N": 4, "K": 7}
    packed = network_of_graph(folded(kind, {"q": q, "kv": [2, 7, 16], "y": [2, 8, 5, 4]}))
    assert [layer.sizes for layer in packed.layers] == [scores.sizes, values.sizes]


def test_a_graph_can_be_planned_whose_product_nobody_can_count() -> None:
    network = network_of_graph(folded("matmul", {"a": [1, 32, 4, 6], "b": [1, 7, 6, 5], "y": [1, 32, 4, 5]}))
    assert operator_graph(network).total_bytes == 32 * 24 + 7 * 30 + 32 * 20
    with pytest.raises(InputError, match=r"op op: expected .*multiple of the other.*7, 6, 5"):
        network.layers
