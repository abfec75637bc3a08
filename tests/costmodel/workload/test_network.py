"""Layers and networks: projections against enumeration, shapes, and what is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.workload.attributes import Attributes
from costmodel.workload.network import (
    Layer,
    Network,
    Node,
    Tensor,
    Value,
    batched_matmul,
    convolution,
    distinct_layers,
    gemm,
)
from costmodel.workload.projection import Projection, Stride

CONV: dict[str, Any] = {"N": 2, "K": 4, "C": 6, "P": 5, "Q": 3, "R": 3, "S": 2}


@given(
    st.fixed_dictionaries({dim: st.integers(1, 4) for dim in "PQRS"}),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_extents_are_the_box_around_the_touched_words(
    tile: dict[str, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> None:
    layer = convolution("c", K=1, C=1, P=4, Q=4, R=4, S=4, stride=stride, dilation=dilation)
    points = product(*(range(tile[dim]) for dim in "PQRS"))
    touched = {(p * stride[0] + r * dilation[0], q * stride[1] + s * dilation[1]) for p, q, r, s in points}
    box = tuple(max(word[axis] for word in touched) + 1 for axis in (0, 1))
    inputs = layer.tensor("Inputs")
    assert inputs.extents(tile) == (1, 1, *box)
    assert inputs.words(tile) == box[0] * box[1]


def test_convolution_sizes() -> None:
    layer = convolution("c", **CONV, stride=(2, 1))
    sizes = layer.sizes
    assert layer.macs == 2 * 4 * 6 * 5 * 3 * 3 * 2
    assert layer.tensor("Weights").words(sizes) == 4 * 6 * 3 * 2
    assert layer.tensor("Inputs").words(sizes) == 2 * 6 * (4 * 2 + 3) * (2 + 2)
    assert layer.output.words(sizes) == 2 * 4 * 5 * 3


def test_groups_share_the_work() -> None:
    """Two groups of half the channels: half the MACs and weights, the same inputs and outputs."""
    whole, grouped = convolution("c", **CONV), convolution("c", **CONV, groups=2)
    assert grouped.macs * 2 == whole.macs
    assert grouped.tensor("Weights").words(grouped.sizes) * 2 == whole.tensor("Weights").words(whole.sizes)
    for name in ("Inputs", "Outputs"):
        assert grouped.tensor(name).words(grouped.sizes) == whole.tensor(name).words(whole.sizes)


def test_depthwise_has_only_c() -> None:
    layer = convolution("d", K=6, C=6, P=5, Q=3, R=3, S=2, groups=6)
    assert "K" not in layer.sizes
    assert "G" not in layer.sizes
    assert layer.output.dims == {"N", "C", "P", "Q"}
    one_channel = convolution("c", K=1, C=1, P=5, Q=3, R=3, S=2)
    assert "K" in one_channel.sizes


def test_steps_and_slides() -> None:
    inputs = convolution("c", **CONV, stride=(2, 1), dilation=(1, 3)).tensor("Inputs")
    assert inputs.steps == {
        "N": (1, 0, 0, 0),
        "C": (0, 1, 0, 0),
        "P": (0, 0, 2, 0),
        "R": (0, 0, 1, 0),
        "Q": (0, 0, 0, 1),
        "S": (0, 0, 0, 3),
    }
    assert inputs.slides
    assert not convolution("c", **CONV).output.slides


def test_products_of_matrices() -> None:
    assert batched_matmul("b", B=1, M=2, N=3, K=4).shape == gemm("g", M=2, N=3, K=4).shape
    batched = batched_matmul("b", B=5, M=2, N=3, K=4)
    assert batched.macs == 5 * 24
    assert all("B" in tensor.dims for tensor in batched.tensors)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("stride", {"stride": (0, 1)}),
        ("stride", {"stride": (1, -2)}),
        ("dilation", {"dilation": (1, 0)}),
        ("groups", {"groups": 4}),
        ("groups", {"groups": 0}),
        ("K", {"K": 0}),
        ("P", {"P": -3}),
        ("C", {"C": 6.0}),
        ("N", {"N": True}),
        ("MACs", {"K": 2**40, "C": 2**20}),
        ("words of Inputs", {"stride": (2**58, 1)}),
    ],
)
def test_bad_convolutions_name_the_key(key: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        convolution("conv1", **{**CONV, **changes})
    assert caught.value.key == key
    assert "conv1" in str(caught.value)


X = Tensor.of_terms("X", ((("M", 1),),), "inputs")
OUT = Tensor.of_terms("Out", ((("M", 1),),), "outputs")


PADDED = Layer(
    "padded",
    (("K", 4), ("C", 3), ("P", 3), ("R", 3)),
    (
        Tensor(
            "X",
            (
                Projection((Stride("K", 3, 2), Stride("C"))),
                Projection((Stride("P", 2), Stride("R")), length=5, offset=-1),
            ),
            "inputs",
        ),
        Tensor.of_terms("Out", ((("K", 1),), (("P", 1),)), "outputs"),
    ),
)
"""Two groups of two outputs from three inputs each, and windows with a row of padding on either side."""


@pytest.mark.parametrize(
    ("dims", "tensors", "expected"),
    [
        ((("M", 2),), (X,), "exactly one output"),
        ((("M", 2),), (OUT, OUT), "exactly one output"),
        ((("M", 2), ("M", 3)), (X, OUT), "every dim once"),
        ((("M", 2),), (X, X, OUT), "every tensor's name once"),
        ((("K", 2),), (X, OUT), "dims among ['K']"),
    ],
)
def test_bad_layers(dims: Any, tensors: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        Layer("l", dims, tensors)
    assert expected in caught.value.expected


@pytest.mark.parametrize(
    ("axes", "role"),
    [
        (((("M", 0),),), "inputs"),
        (((("M", -1),),), "inputs"),
        (((("M", 1.5),),), "inputs"),
        (((("M", 1),), (("M", 1),)), "inputs"),
        (((("M", 1), ("M", 2)),), "inputs"),
        (((("M", 1),),), "bias"),
    ],
)
def test_bad_tensors(axes: Any, role: Any) -> None:
    with pytest.raises(InputError):
        Tensor.of_terms("T", axes, role)


def test_json_keeps_the_shape() -> None:
    layers = [
        convolution("c", **CONV, stride=(2, 3)),
        convolution("g", **CONV, groups=2),
        gemm("g", M=1, N=2, K=3),
        gemm("g", M=1, N=2, K=3).continued,
        PADDED,
    ]
    for layer in layers:
        # stored answers are found by this text: only what is not as usual is in it
        assert ("begun" in json.dumps(layer.to_json())) == layer.output.begun
        assert Layer.from_json(json.loads(json.dumps(layer.to_json()))) == layer


def test_only_outputs_have_partial_sums() -> None:
    layer = gemm("g", M=1, N=2, K=3)
    assert [tensor.begun for tensor in layer.continued.tensors] == [False, False, True]
    assert layer.continued.shape != layer.shape
    with pytest.raises(InputError, match="only outputs have some"):
        replace(layer.tensors[0], begun=True)


def test_counters_of_mappings_know_no_divisors() -> None:
    """Groups within one dim are for boxes; a nest to be mapped has a dim over its groups."""
    assert [PADDED.length(axis) for axis in PADDED.tensor("X").axes] == [6, 5]
    assert PADDED.output.terms == ((("K", 1),), (("P", 1),))
    with pytest.raises(InputError, match="a dim over groups"):
        PADDED.tensor("X").terms
    with pytest.raises(InputError, match="a dim over groups"):
        PADDED.tensor("X").steps


def test_equal_shapes_are_one_layer() -> None:
    a, b, other = gemm("a", M=1, N=2, K=3), gemm("b", M=1, N=2, K=3), gemm("c", M=3, N=2, K=1)
    assert a != b
    assert distinct_layers([a, other, b]) == [(a, 2), (other, 1)]


VALUES = (Value("x", (1, 3), "input"), Value("w", (3, 2), "parameter"), Value("y", (1, 2), "output"))
NODE = Node("fc", "linear", ("x", "w"), ("y",), (gemm("fc", M=1, N=2, K=3),))


def test_network_adds_up() -> None:
    network = Network("n", (NODE,), VALUES)
    assert network.macs == 6
    assert [layer.name for layer in network.layers] == ["fc"]
    assert network.value("w").elements == 6


@pytest.mark.parametrize(
    ("nodes", "values", "expected"),
    [
        ((NODE,), VALUES[:2], "declares"),
        ((NODE,), (*VALUES, VALUES[0]), "all different"),
        ((NODE, NODE), VALUES, "made once"),
        ((Node("relu", "relu", ("y",), ("y",)), NODE), VALUES, "topological order"),
    ],
)
def test_bad_networks(nodes: Any, values: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        Network("n", nodes, values)
    assert expected in caught.value.expected


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError):
        NODE.layers[0].tensor("Weights")
    with pytest.raises(InputError):
        Network("n", (NODE,), VALUES).value("z")


def test_attributes_are_values() -> None:
    one, same = (Attributes({"axes": axes, "mode": "edge"}) for axes in ([1, 2], (1, 2)))
    assert one == same
    assert hash(one) == hash(same)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Attributes({"axes": (1, 2)})
    assert (one.numbers("axes"), one.number("axis", 3), one.text("mode", "")) == ((1, 2), 3, "edge")
    for wrong in (
        lambda: one.number("axes"),
        lambda: one.numbers("mode"),
        lambda: one.numbers("steps"),
        lambda: one.text("axes", ""),
        lambda: Attributes({"axes": True}).numbers("axes"),
        lambda: Attributes({"where": {}}),
    ):
        with pytest.raises(InputError):
            wrong()
