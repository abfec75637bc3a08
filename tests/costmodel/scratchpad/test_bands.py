"""Graphs cut into bands of rows: what each piece reads, by its definition; nothing lost; plans below MR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.networks import load_network
from costmodel.scratchpad.bands import banded_graph
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from costmodel.workload.attributes import Attributes
from costmodel.workload.network import Network
from solvers.budget import Budget
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.problem import ScratchpadProblem, violations
from tests.solvers.scratchpad.random_graphs import least_bytes

PLAIN = ScratchpadSettings()


def network(*ops: tuple[str, str, list[str], list[int], dict[str, Any]], rows: int = 12) -> Network:
    """A network of (name, type, inputs, shape of the output, attributes) over an image of 2 channels."""
    shapes = {"image": [1, 2, rows, 4], "w3": [2, 2, 3, 3], "w1": [2, 2, 1, 1]}
    kinds = {"image": "input", "w3": "parameter", "w1": "parameter"}
    shapes |= {name: shape for name, _, _, shape, _ in ops}
    data = {
        "name": "small",
        "ops": [
            {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "attrs": attrs}
            for name, kind, inputs, _, attrs in ops
        ],
        "tensors": [
            {"name": name, "shape": shape, "kind": kinds.get(name, "activation")}
            for name, shape in shapes.items()
        ],
    }
    return network_of_graph(data)


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
    graph = banded_graph(network(("a", kind, inputs, [1, 2, out, 4], attrs)), PLAIN, 70)
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
        return pieces(banded_graph(stated, PLAIN, 70), "a")

    torch = pieces_of(stride=[2, 1], padding=[1, 1])
    assert len(torch) > 1
    assert pieces_of(strides=[2, 1], pads=[1, 1, 1, 1]) == torch
    # a window that does not make 6 rows of 12 is not guessed at: the operator stays whole
    assert pieces_of(stride=[2, 1], padding=[4, 1]) == []


def test_what_is_spread_over_rows_is_read_whole_and_an_average_adds_up() -> None:
    graph = banded_graph(
        network(
            ("a", "conv2d", ["image", "w1"], [1, 2, 12, 4], {}),
            ("mean", "adaptive_avg_pool2d", ["a"], [1, 2, 1, 1], {"output_size": [1, 1]}),
            ("scaled", "mul", ["a", "mean"], [1, 2, 12, 4], {}),
            ("joined", "cat", ["scaled", "image"], [1, 4, 12, 4], {"dim": 1}),
        ),
        PLAIN,
        80,
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
    graph = banded_graph(whole_network, PLAIN, 400_000)
    sizes: dict[str, int] = {}
    for tensor in graph.tensors:
        if "#sum" not in tensor.name:
            base = tensor.name.partition("#")[0]
            sizes[base] = sizes.get(base, 0) + tensor.traffic_bytes
    assert sizes == {tensor.name: tensor.traffic_bytes for tensor in whole.tensors}
    arriving = {tensor.name for tensor in whole.tensors if tensor.given}
    assert all(t.given == (t.name.partition("#")[0] in arriving) for t in graph.tensors)
    if name != "s3d.fused":  # of clips, which have no rows here: nothing is cut
        assert graph.required_bytes <= 400_000 < whole.required_bytes


def test_a_graph_that_fits_is_not_cut_and_parameters_are_refused() -> None:
    small = load_network("resnet50")
    whole = operator_graph(small)
    assert banded_graph(small, PLAIN, whole.required_bytes) == whole
    with pytest.raises(InputError, match="no parameters with bands"):
        banded_graph(small, ScratchpadSettings(parameters=True), 10_000)


CHAIN = network(
    ("a", "conv2d", ["image", "w3"], [1, 2, 4, 4], {"padding": [1, 1]}),
    ("b", "conv2d", ["a", "w3"], [1, 2, 4, 4], {"padding": [1, 1]}),
    rows=4,
)


@pytest.mark.parametrize("size", [50, 56, 60])
def test_a_chain_below_what_its_layers_need_is_proven(size: int) -> None:
    """The whole layers need 64 bytes; the optimum of the cut is that of every order and replacement."""
    assert operator_graph(CHAIN).required_bytes == 64
    graph = banded_graph(CHAIN, PLAIN, size)
    assert graph.required_bytes <= size
    problem = ScratchpadProblem(graph, size)
    outcome = cosma.solve(problem, Budget(30))
    assert outcome.solution is not None
    assert not violations(problem, outcome.solution)
    assert outcome.status == "optimal"
    assert outcome.objective == least_bytes(graph, size)
