"""Choices, loops, scans and lists count as what ONNX's reference runs, or say why they are not counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.counting import uncounted_rows
from tests.costmodel.formats.onnx.graphs import floats, model, node, numbers, scalar, tensor, written


def branch(operand: str) -> onnx.GraphProto:
    """A product with a parameter of the body, and one more that reads it from outside."""
    nodes = [node("MatMul", f"{operand} inner", "p"), node("MatMul", "p outer", "q")]
    return helper.make_graph(nodes, "body", [], [tensor("q", 2, 5)], [floats("inner", 3, 4)])


def test_a_constant_condition_chooses_its_branch(tmp_path: Path) -> None:
    nothing = helper.make_graph([node("Identity", "x", "n")], "else", [], [tensor("n", 2, 3)])
    choose = node("If", "always", "y", then_branch=branch("x"), else_branch=nothing)
    parameters = [scalar("always", True), floats("outer", 4, 5)]
    network = read_onnx(written(tmp_path, model([choose], [tensor("x", 2, 3)], parameters)))
    assert [layer.sizes for layer in network.layers] == [
        {"M": 2, "N": 4, "K": 3},
        {"M": 2, "N": 5, "K": 4},
    ]
    assert network.value("y").shape == (2, 5)
    assert uncounted_rows(network) == []


def test_a_condition_that_depends_on_values_is_said(tmp_path: Path) -> None:
    nothing = helper.make_graph([node("Identity", "x", "n")], "else", [], [tensor("n", 2, 3)])
    nodes = [
        node("If", "when", "y0", then_branch=branch("x"), else_branch=nothing),
        node("MatMul", "x square", "y"),
    ]
    inputs = [tensor("x", 2, 3), tensor("when", kind=TensorProto.BOOL)]
    network = read_onnx(
        written(tmp_path, model(nodes, inputs, [floats("outer", 4, 5), floats("square", 3, 3)]))
    )
    (row,) = uncounted_rows(network)
    assert (row["node"], row["kind"]) == ("y0", "If")
    assert "only when it runs" in row["why"]
    assert network.macs == 2 * 3 * 3


def looping(times: onnx.TensorProto | None, goes_on: str) -> onnx.ModelProto:
    """A loop that multiplies what it carries, and lists every round's product with a row of the input."""
    body = helper.make_graph(
        [
            node("MatMul", "state w", "product"),
            node("Gather", "x i", "row", axis=0),
            node("Add", "product row", "next"),
            node("Less", "i five", "small"),
            node("Identity", goes_on, "on"),
        ],
        "body",
        [tensor("i", kind=TensorProto.INT64), tensor("before", kind=TensorProto.BOOL), tensor("state", 2, 3)],
        [tensor("on", kind=TensorProto.BOOL), tensor("next", 2, 3), tensor("product", 2, 3)],
    )
    inputs = [tensor("x", 4, 3), tensor("first", 2, 3)]
    parameters = [floats("w", 3, 3), scalar("five", 5), scalar("start", True)]
    if times is None:
        inputs.append(tensor("times", kind=TensorProto.INT64))
    else:
        parameters.append(times)
    nodes = [node("Loop", "times start first", "last all", body=body), node("MatMul", "all v", "y")]
    return model(nodes, inputs, [*parameters, floats("v", 3, 2)], "last y")


def test_a_loop_counts_as_often_as_it_runs(tmp_path: Path) -> None:
    made = looping(scalar("times", 4), "before")
    network = read_onnx(written(tmp_path, made))
    # by the operator's definition: what a round lists gets a new axis in front
    x, last, macs, listed = np.ones((4, 3)), np.ones((2, 3)), 0, []
    for i in range(4):
        listed.append(last @ np.ones((3, 3)))
        macs += listed[-1].size * 3
        last = listed[-1] + x[i]
    y = np.stack(listed) @ np.ones((3, 2))
    assert network.value("last").shape == last.shape
    assert network.value("y").shape == y.shape
    assert network.macs == macs + y.size * 3
    assert uncounted_rows(network) == []
    names = [layer.name for layer in network.layers]
    assert len(set(names)) == len(names) == 5


@pytest.mark.parametrize(("times", "goes_on"), [(None, "before"), (4, "small")])
def test_loops_whose_rounds_depend_on_values_are_said(
    tmp_path: Path, times: int | None, goes_on: str
) -> None:
    stated = None if times is None else scalar("times", times)
    network = read_onnx(written(tmp_path, looping(stated, goes_on)))
    loop, product = uncounted_rows(network)
    assert (loop["node"], loop["kind"]) == ("last", "Loop")
    assert product["why"] == "the shape of all is not known because of node last (Loop)"
    assert network.macs == 0


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_counts_every_step(tmp_path: Path, backwards: int) -> None:
    body = helper.make_graph(
        [
            node("MatMul", "state w", "made"),
            node("Add", "made step", "next"),
            node("MatMul", "next v", "out"),
        ],
        "body",
        [tensor("state", 2, 3), tensor("step", 2, 3)],
        [tensor("next", 2, 3), tensor("out", 2, 5)],
    )
    scan = node(
        "Scan",
        "first x",
        "last y",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[backwards],
        scan_output_axes=[2],
    )
    parameters = [floats("w", 3, 3), floats("v", 3, 5)]
    made = model([scan], [tensor("first", 2, 3), tensor("x", 2, 7, 3)], parameters, "last y")
    network = read_onnx(written(tmp_path, made))
    assert network.macs == 7 * (2 * 3 * 3 + 2 * 3 * 5)
    assert network.value("last").shape == (2, 3)
    assert network.value("y").shape == (2, 5, 7)
    assert uncounted_rows(network) == []


@pytest.mark.parametrize("results", [["last", ""], ["", "y"], ["last"]])
def test_results_that_nobody_reads_may_have_no_name(tmp_path: Path, results: list[str]) -> None:
    """Of scans and loops; as ONNX has optional results, an empty name stands for one that is not wanted."""
    body = helper.make_graph(
        [node("MatMul", "state w", "next"), node("Add", "next step", "out")],
        "body",
        [tensor("state", 2, 3), tensor("step", 2, 3)],
        [tensor("next", 2, 3), tensor("out", 2, 3)],
    )
    scan = helper.make_node("Scan", ["first", "x"], results, name="scan", body=body, num_scan_inputs=1)
    inputs = [tensor("first", 2, 3), tensor("x", 7, 2, 3)]
    wanted = " ".join(filter(None, results))
    network = read_onnx(written(tmp_path, model([scan], inputs, [floats("w", 3, 3)], wanted)))
    assert network.macs == 7 * 2 * 3 * 3
    assert network.value(wanted).shape == ((2, 3) if wanted == "last" else (7, 2, 3))

    made = looping(scalar("times", 4), "before")
    made.graph.node[0].output[:] = [{"last": "last", "y": "all", "": ""}[name] for name in results]
    del made.graph.node[1:]
    wanted = {"last": "last", "y": "all"}[wanted]
    del made.graph.output[1:]
    made.graph.output[0].name = wanted
    network = read_onnx(written(tmp_path, made))
    assert network.macs == 4 * 2 * 3 * 3
    assert network.value(wanted).shape == ((2, 3) if wanted == "last" else (4, 2, 3))


def test_lists_of_tensors_are_the_tensors(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", "x sizes", "pieces", axis=1),
        node("SequenceAt", "pieces one", "second"),
        node("MatMul", "second w", "p"),
        node("SequenceLength", "pieces", "count"),
        node("SequenceConstruct", "p p", "pair"),
        node("SequenceInsert", "pair p", "three"),
        node("ConcatFromSequence", "three", "y", axis=0),
        node("ConcatFromSequence", "three", "z", axis=1, new_axis=1),
    ]
    parameters = [numbers("sizes", 2, 4), scalar("one", 1), floats("w", 4, 5)]
    made = model(nodes, [tensor("x", 3, 6)], parameters, "y z count")
    network = read_onnx(written(tmp_path, made))
    assert [layer.sizes for layer in network.layers] == [{"M": 3, "N": 5, "K": 4}]
    y, z, count = map(np.asarray, ReferenceEvaluator(made).run(None, {"x": np.ones((3, 6), np.float32)}))
    assert (network.value("y").shape, network.value("z").shape) == (y.shape, z.shape)
    assert network.value("count").shape == count.shape
    assert uncounted_rows(network) == []


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_list_of_equal_pieces(tmp_path: Path, keepdims: int) -> None:
    nodes = [
        node("SplitToSequence", "x", "pieces", axis=0, keepdims=keepdims),
        node("SequenceAt", "pieces last", "row"),
        node("MatMul", "row w", "y"),
    ]
    parameters = [scalar("last", -1), floats("w", 6, 5)]
    network = read_onnx(written(tmp_path, model(nodes, [tensor("x", 3, 6)], parameters)))
    assert network.macs == 6 * 5
    assert network.value("y").shape == ((1, 5) if keepdims else (5,))


def test_bodies_inside_bodies_keep_their_names_apart(tmp_path: Path) -> None:
    inner = helper.make_graph([node("MatMul", "state w", "q")], "inner", [], [tensor("q", 2, 3)])
    other = helper.make_graph([node("Identity", "state", "q")], "other", [], [tensor("q", 2, 3)])
    body = helper.make_graph(
        [
            node("If", "always", "next", then_branch=inner, else_branch=other),
            node("Identity", "before", "on"),
        ],
        "body",
        [tensor("i", kind=TensorProto.INT64), tensor("before", kind=TensorProto.BOOL), tensor("state", 2, 3)],
        [tensor("on", kind=TensorProto.BOOL), tensor("next", 2, 3)],
    )
    parameters = [scalar("times", 3), scalar("always", True), floats("w", 3, 3)]
    made = model([node("Loop", "times - x", "y", body=body)], [tensor("x", 2, 3)], parameters)
    network = read_onnx(written(tmp_path, made))
    assert [layer.sizes for layer in network.layers] == [{"M": 2, "N": 3, "K": 3}] * 3


def counting(condition: list[onnx.NodeProto], start: int, step: str = "two", **more: int) -> onnx.ModelProto:
    """A loop of a product for every step of a counter, as long as ``condition`` makes its ``on`` true."""
    inputs = [
        tensor("i", kind=TensorProto.INT64),
        tensor("before", kind=TensorProto.BOOL),
        tensor("state", 2, 3),
        tensor("at", kind=TensorProto.INT64),
    ]
    body = helper.make_graph(
        [node("MatMul", "state w", "product"), node("Add", f"at {step}", "next"), *condition],
        "body",
        inputs,
        [
            tensor("on", kind=TensorProto.BOOL),
            tensor("product", 2, 3),
            tensor("next", kind=TensorProto.INT64),
        ],
    )
    parameters = [floats("w", 3, 3), scalar("two", 2), scalar("five", 5), scalar("start", start)]
    parameters += [scalar(name, value) for name, value in more.items()]
    nodes = [
        node("Less", "start five", "first"),
        node("Loop", f"{'most' if 'most' in more else '-'} first x start", "y last", body=body),
    ]
    return model(nodes, [tensor("x", 2, 3)], parameters)


def reference_rounds(start: int, most: int | None) -> int:
    at, rounds, on = start, 0, start < 5
    while on and (most is None or rounds < most):
        at, rounds = at + 2, rounds + 1
        on = at < 5
    return rounds


@pytest.mark.parametrize(("start", "most"), [(0, None), (4, None), (5, None), (0, 2), (0, 9), (0, 0)])
def test_a_loop_whose_condition_follows_from_its_counter(
    tmp_path: Path, start: int, most: int | None
) -> None:
    more = {} if most is None else {"most": most}
    network = read_onnx(
        written(tmp_path, counting([node("Less", "next five", "on")], start, step="two", **more))
    )
    assert network.macs == reference_rounds(start, most) * 2 * 3 * 3
    assert uncounted_rows(network) == []
    assert network.value("y").shape == (2, 3)


def test_a_loop_whose_condition_depends_on_elements_is_not_begun(tmp_path: Path) -> None:
    condition = [node("ReduceSum", "product", "total", keepdims=0), node("Less", "total limit", "on")]
    made = counting(condition, 0)
    made.graph.initializer.append(helper.make_tensor("limit", TensorProto.FLOAT, [], [9.0]))
    network = read_onnx(written(tmp_path, made))
    (row,) = uncounted_rows(network)
    assert (row["node"], row["kind"], network.macs) == ("y", "Loop", 0)


def test_a_loop_that_appends_to_a_list_under_a_condition_of_the_graph_around_it(tmp_path: Path) -> None:
    """As TorchScript writes ``for`` with ``append``: a list is carried, the condition a constant outside."""
    listed = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [
            node("Gather", "x i", "row", axis=0),
            node("MatMul", "row w", "product"),
            node("SequenceInsert", "before product", "after"),
            node("Identity", "always", "on"),
        ],
        "body",
        [
            tensor("i", kind=TensorProto.INT64),
            tensor("c", kind=TensorProto.BOOL),
            listed("before", TensorProto.FLOAT, None),
        ],
        [tensor("on", kind=TensorProto.BOOL), listed("after", TensorProto.FLOAT, None)],
    )
    nodes = [
        node("SequenceEmpty", "", "none"),
        node("Loop", "times always none", "all", body=body),
        node("ConcatFromSequence", "all", "y", axis=0),
    ]
    parameters = [floats("w", 3, 5), scalar("times", 4), scalar("always", True)]
    network = read_onnx(written(tmp_path, model(nodes, [tensor("x", 4, 2, 3)], parameters)))
    assert network.macs == 4 * 2 * 3 * 5
    assert network.value("y").shape == (8, 5)
    assert uncounted_rows(network) == []
