"""Graphs cut into bands: what each piece reads, by its definition, and what it computes, number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.networks import load_network
from costmodel.scratchpad.cut import Cuts, TensorCut, cut_graph
from costmodel.scratchpad.cut_check import cut_violations
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from costmodel.workload.attributes import Attributes
from costmodel.workload.network import Network
from tests.costmodel.scratchpad.cut_networks import (
    graph_of,
    mixed_network,
    numbers_of,
    random_cuts,
    run_pieces,
)

PLAIN = ScratchpadSettings()


def in_rows(network: Network, limit: int) -> OperatorGraph:
    """The graph with all tensors in bands of rows of at most so many bytes, or of one row."""
    divisible = divisible_graph(network, PLAIN)
    cuts = {
        tensor.name: TensorCut(rows=max(1, min(extent.rows, -(-tensor.traffic_bytes // limit))))
        for tensor, extent in zip(divisible.whole.tensors, divisible.extents, strict=True)
    }
    return cut_graph(divisible, cuts).graph


def network(*ops: tuple[str, str, list[str], list[int], dict[str, Any]], rows: int = 12) -> Network:
    """A network of such operators over an image of 2 channels."""
    return graph_of(*ops, image=[1, 2, rows, 4])


def pieces(graph: OperatorGraph, node: str) -> list[list[str]]:
    """The names of what each piece of a node reads, from the first rows to the last."""
    found = {
        int(operator.name.rpartition("#")[2]): [graph.tensors[t].name for t in operator.inputs]
        for operator in graph.operators
        if operator.name.startswith(f"{node}#")
    }
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize(
    ("kind", "kernel", "stride", "padding", "dilation"),
    [("conv2d", 3, 1, 1, 1), ("conv2d", 3, 2, 1, 1), ("conv2d", 3, 1, 2, 2), ("max_pool2d", 2, 2, 0, 1)],
)
def test_a_piece_reads_the_bands_that_its_rows_need(
    kind: str, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    """Row by row and tap by tap, as the operator is defined; rows of padding are in no band."""
    rows = 12
    out = (rows + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1
    attrs = {"stride": [stride, 1], "padding": [padding, 1], "dilation": [dilation, 1]}
    if kind == "max_pool2d":
        attrs = {"kernel_size": [kernel, 1], "stride": [stride, 1]}
    inputs = ["image", "w3"] if kind == "conv2d" else ["image"]
    graph = in_rows(network(("a", kind, inputs, [1, 2, out, 4], attrs)), 35)
    bands = [t.name for t in graph.tensors if t.name.startswith("image#")]
    edges = [index * rows // len(bands) for index in range(len(bands) + 1)]
    read = pieces(graph, "a")
    made = [index * out // len(read) for index in range(len(read) + 1)]
    assert len(read) > 1
    for number, names in enumerate(read):
        taps = {
            row * stride - padding + tap * dilation
            for row in range(made[number], made[number + 1])
            for tap in range(kernel)
        }
        span = range(max(0, min(taps)), min(rows, max(taps) + 1))
        wanted = [b for b, name in enumerate(bands) if any(edges[b] <= row < edges[b + 1] for row in span)]
        assert names == [bands[b] for b in wanted]


def test_onnx_states_the_same_windows_by_other_names() -> None:
    def pieces_of(**attrs: Any) -> list[list[str]]:
        plain = network(("a", "conv2d", ["image", "w3"], [1, 2, 6, 4], {"stride": [2, 1], "padding": [1, 1]}))
        (node,) = plain.nodes
        stated = replace(plain, nodes=(replace(node, attributes=Attributes(attrs)),))
        return pieces(in_rows(stated, 35), "a")

    torch = pieces_of(stride=[2, 1], padding=[1, 1])
    assert len(torch) > 1
    assert pieces_of(strides=[2, 1], pads=[1, 1, 1, 1]) == torch
    # a window that does not make 6 rows of 12 is not guessed at: the operator stays whole
    assert pieces_of(stride=[2, 1], padding=[4, 1]) == []


def test_what_is_spread_over_rows_is_read_whole_and_an_average_adds_up() -> None:
    graph = in_rows(
        network(
            ("a", "conv2d", ["image", "w1"], [1, 2, 12, 4], {}),
            ("mean", "adaptive_avg_pool2d", ["a"], [1, 2, 1, 1], {"output_size": [1, 1]}),
            ("scaled", "mul", ["a", "mean"], [1, 2, 12, 4], {}),
            ("joined", "cat", ["scaled", "image"], [1, 4, 12, 4], {"dim": 1}),
        ),
        40,
    )
    sums = pieces(graph, "mean")
    assert sums[0] == ["a#0"]
    assert all(names == [f"mean#sum{n - 1}", f"a#{n}"] for n, names in enumerate(sums) if n)
    assert all(names == [f"a#{n}", "mean"] for n, names in enumerate(pieces(graph, "scaled")))
    last = next(operator for operator in graph.operators if operator.name == f"mean#{len(sums) - 1}")
    assert [graph.tensors[t].name for t in last.outputs] == ["mean"]
    # the joined tensor is twice as large and has finer bands
    assert len(pieces(graph, "joined")) > len(pieces(graph, "scaled"))


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "densenet121.fused", "s3d.fused"])
def test_bands_add_up_to_their_tensors(name: str) -> None:
    whole_network = load_network(name)
    whole = operator_graph(whole_network)
    graph = in_rows(whole_network, 100_000)
    sizes: dict[str, int] = {}
    for tensor in graph.tensors:
        if "#sum" not in tensor.name:
            base = tensor.name.partition("#")[0]
            sizes[base] = sizes.get(base, 0) + tensor.traffic_bytes
    assert sizes == {tensor.name: tensor.traffic_bytes for tensor in whole.tensors}
    arriving = {tensor.name for tensor in whole.tensors if tensor.given}
    assert all(t.given == (t.name.partition("#")[0] in arriving) for t in graph.tensors)
    assert graph.required_bytes < whole.required_bytes


@pytest.mark.parametrize("seed", range(40))
def test_pieces_make_the_numbers_of_the_whole_operators(seed: int) -> None:
    """Convolutions (strided, grouped, depthwise), pooling, a gate, sums and joins, cut at random.

    A piece sees NaN in place of all that it does not read, so nothing that it lacks stays unseen.
    """
    settings = ScratchpadSettings(
        parameters=bool(seed % 2), in_place=bool(seed % 3), alignment_bytes=1 + seed % 4
    )
    whole_network = mixed_network()
    divisible = divisible_graph(whole_network, settings)
    cuts = random_cuts(divisible, seed)
    cut = cut_graph(divisible, cuts)
    whole = numbers_of(whole_network)
    made = run_pieces(whole_network, cut, whole)
    assert set(made) == {node.outputs[0] for node in whole_network.nodes}
    for name, numbers in made.items():
        # rows that a stride skips are in no band of a tensor that is recomputed for its reader
        wanted = np.where(np.isnan(numbers), np.nan, whole[name]) if cuts[name].recomputed else whole[name]
        assert np.allclose(numbers, wanted, equal_nan=cuts[name].recomputed), name
    assert cut_violations(cut, cuts) == []


def test_every_operator_of_the_small_network_is_cut_in_every_way() -> None:
    """So that the test above tests something: rows, channels, sums, recomputed bands, parts of parameters."""
    divisible = divisible_graph(mixed_network(), ScratchpadSettings(parameters=True))
    assert all(division.rows or division.channels for division in divisible.divisions)
    assert [d.sums for d in divisible.divisions if d.sums] == ["channels", "rows", "channels", "channels"]
    cuts = [random_cuts(divisible, seed) for seed in range(1, 40, 2)]
    assert any(own["wide"].recomputed for own in cuts)
    assert any(cut_graph(divisible, own).recomputed_macs for own in cuts)
    contents = [content for own in cuts for content in cut_graph(divisible, own).contents]
    assert {bool(c.summed) for c in contents if c.of < 0} == {False, True}


def test_recomputed_rows_are_counted() -> None:
    """Two 3 x 3 convolutions of 12 rows in 3 bands: bands of 4 rows read 5, 6 and 5 rows of the first."""
    chain = network(
        ("a", "conv2d", ["image", "w3"], [1, 2, 12, 4], {"padding": [1, 1]}),
        ("b", "conv2d", ["a", "w3"], [1, 2, 12, 4], {"padding": [1, 1]}),
    )
    divisible = divisible_graph(chain, PLAIN)
    cut = cut_graph(divisible, {"a": TensorCut(recomputed=True), "b": TensorCut(rows=3)})
    assert [t.traffic_bytes for t in cut.graph.tensors if t.name.startswith("a#")] == [40, 48, 40]
    assert cut.recomputed_macs == (5 + 6 + 5 - 12) * 4 * 2 * 2 * 9
    assert cut.recomputed_elements == 0


def test_recomputed_rows_of_pooling_are_counted_in_elements() -> None:
    """Of 12 rows in windows of 3 bands of 4 rows read 5, 6 and 5: 4 of them, of 2 channels and 4 columns."""
    pooled = network(
        (
            "a",
            "max_pool2d",
            ["image"],
            [1, 2, 12, 4],
            {"kernel_size": [3, 1], "padding": [1, 0], "stride": [1, 1]},
        ),
        ("b", "conv2d", ["a", "w3"], [1, 2, 12, 4], {"padding": [1, 1]}),
    )
    cut = cut_graph(divisible_graph(pooled, PLAIN), {"a": TensorCut(recomputed=True), "b": TensorCut(rows=3)})
    assert (cut.recomputed_elements, cut.recomputed_macs) == ((5 + 6 + 5 - 12) * 2 * 4, 0)


def test_without_cuts_the_graph_is_the_whole_one() -> None:
    for name in ("resnet18", "bert_base", "densenet121.fused"):
        for settings in (PLAIN, ScratchpadSettings(parameters=True, in_place=True)):
            divisible = divisible_graph(load_network(name), settings)
            cut = cut_graph(divisible, {})
            assert set(cut.graph.operators) == set(divisible.whole.operators)
            assert cut.graph.tensors == divisible.whole.tensors
            assert cut.recomputed_macs == 0


def test_parameters_in_parts_add_up() -> None:
    """Each element of an operator's parameters is in one part, however output and input are cut."""
    whole_network = load_network("resnet18")
    divisible = divisible_graph(whole_network, ScratchpadSettings(parameters=True))
    cuts = {
        t.name: TensorCut(1, min(3, e.channels))
        for t, e in zip(divisible.whole.tensors, divisible.extents, strict=True)
    }
    cut = cut_graph(divisible, cuts)
    parts: dict[int, int] = {}
    for tensor, content in zip(cut.graph.tensors, cut.contents, strict=True):
        if content.of < 0:
            parts[content.operator] = parts.get(content.operator, 0) + tensor.traffic_bytes
    wanted = {n: o.parameter_bytes for n, o in enumerate(divisible.whole.operators) if o.parameter_bytes}
    assert parts == wanted


def test_bands_of_an_input_that_strides_skip_do_not_arrive() -> None:
    strided = network(("a", "conv2d", ["image", "w1"], [1, 2, 2, 4], {"stride": [2, 1]}), rows=4)
    divisible = divisible_graph(strided, PLAIN)
    cuts = {"image": TensorCut(4), "a": TensorCut(2)}
    cut = cut_graph(divisible, cuts)
    assert [tensor.name for tensor in cut.graph.tensors] == ["image#0", "image#2", "a#0", "a#1"]
    assert cut_violations(cut, cuts) == []
    # a row that is needed cannot be left out, nor arrive twice
    first, second = cut.contents[:2]
    for rows in ((1, 2), (0, 1)):
        moved = second._replace(box=second.box._replace(rows=rows))
        assert cut_violations(replace(cut, contents=(first, moved, *cut.contents[2:])), cuts)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"image": TensorCut(rows=13)}, "from 1 to 12 bands"),
        ({"image": TensorCut(recomputed=True)}, "one reader"),
        ({"nothing": TensorCut()}, "tensors of the graph"),
    ],
)
def test_a_cut_that_its_tensor_cannot_have_is_an_error(wrong: Cuts, expected: str) -> None:
    divisible = divisible_graph(network(("a", "conv2d", ["image", "w1"], [1, 2, 12, 4], {})), PLAIN)
    with pytest.raises(InputError, match=expected):
        cut_graph(divisible, wrong)


def test_the_check_finds_what_is_missing_or_wrong() -> None:
    divisible = divisible_graph(mixed_network(), ScratchpadSettings(parameters=True))
    cuts = random_cuts(divisible, 1)
    cut = cut_graph(divisible, cuts)
    assert cut_violations(cut, cuts) == []
    for number, operator in enumerate(cut.graph.operators):
        for lost in operator.inputs:
            less = replace(operator, inputs=tuple(t for t in operator.inputs if t != lost), overwrites=())
            operators = (*cut.graph.operators[:number], less, *cut.graph.operators[number + 1 :])
            assert cut_violations(replace(cut, graph=replace(cut.graph, operators=operators)), cuts)
    for number, tensor in enumerate(cut.graph.tensors):
        for wrong in (
            replace(tensor, traffic_bytes=tensor.traffic_bytes - 1, block_bytes=tensor.block_bytes - 1),
            replace(tensor, parameters=not tensor.parameters),
        ):
            tensors = (*cut.graph.tensors[:number], wrong, *cut.graph.tensors[number + 1 :])
            assert cut_violations(replace(cut, graph=replace(cut.graph, tensors=tensors)), cuts)
