"""Transposed convolutions: the nest does what the operator does, executed in numpy point by point."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from costmodel.errors import InputError
from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.convolutions import Window, transposed_convolution_of
from tests.costmodel.formats.onnx.graphs import floats, model, node, tensor, written

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 3, 2), (4, 3, 2, 2), {"strides": [2, 2]}),
    ((1, 4, 3, 2), (4, 2, 3, 2), {"strides": [2, 1], "group": 2}),
    ((1, 2, 3, 3), (2, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((1, 2, 5), (2, 3, 3), {"strides": [2], "dilations": [2]}),
    ((1, 2, 2, 3, 2), (2, 2, 2, 1, 2), {"strides": [2, 1, 2]}),
]


Array = np.ndarray[Any, Any]


def executed(x: Array, w: Array, stated: dict[str, Any]) -> Array:
    """ONNX's reference, group by group: its own way with groups is wrong for several channels a group."""
    plain = {key: value for key, value in stated.items() if key != "group"}
    parts: list[Array] = []
    for one, weights in zip(
        *(np.split(a, stated.get("group", 1), i) for i, a in ((1, x), (0, w))), strict=True
    ):
        shapes = [tensor("x", *one.shape), tensor("w", *weights.shape)]
        made = model([node("ConvTranspose", "x w", "y", **plain)], shapes, [])
        parts += map(np.asarray, ReferenceEvaluator(made).run(None, {"x": one, "w": weights}))
    return np.concatenate(parts, 1)


@pytest.mark.parametrize(("x", "w", "stated"), CASES)
def test_the_points_of_the_nest_make_the_result(
    tmp_path: Path, x: tuple[int, ...], w: tuple[int, ...], stated: dict[str, Any]
) -> None:
    """Every point multiplies one input and one weight; their sums, added where they fall, are the result."""
    made = model([node("ConvTranspose", "x w", "y", **stated)], [tensor("x", *x), tensor("w", *w)], [])
    rng = np.random.default_rng(7)
    fed = {"x": rng.integers(-3, 4, x).astype(np.float32), "w": rng.integers(-3, 4, w).astype(np.float32)}
    expected = executed(fed["x"], fed["w"], stated)
    (layer,) = read_onnx(written(tmp_path, made)).layers
    groups, axes = stated.get("group", 1), len(x) - 2
    size = {"G": 1, "D": 1, "T": 1} | layer.sizes
    rows, taps = (("D", "P", "Q")[-axes:], ("T", "R", "S")[-axes:])
    stride, dilation = stated["strides"], stated.get("dilations", [1] * axes)
    pads = stated.get("pads", [0] * (2 * axes))[:axes]
    found = np.zeros_like(expected)
    dims = [dim for dim in size if dim in {*layer.sizes, "G"}]
    for point in product(*(range(size[dim]) for dim in dims)):
        at = dict(zip(dims, point, strict=True))
        channel, output = at["G"] * size["C"] + at["C"], at["G"] * size["K"] + at["K"]
        places = tuple(
            at[row] * s + at[tap] * d - pad
            for row, tap, s, d, pad in zip(rows, taps, stride, dilation, pads, strict=True)
        )
        if all(0 <= place < length for place, length in zip(places, found.shape[2:], strict=True)):
            read = fed["x"][(at["N"], channel, *(at[row] for row in rows))]
            found[(at["N"], output, *places)] += (
                read * fed["w"][(channel, at["K"], *(at[tap] for tap in taps))]
            )
    np.testing.assert_array_equal(found, expected)
    assert layer.macs == fed["x"].size * w[1] * int(np.prod(w[2:]))
    assert {t.role: t.words(layer.sizes) for t in layer.tensors if t.role != "outputs"} == {
        "inputs": fed["x"].size,
        "weights": fed["w"].size,
    }
    assert layer.sizes.get("G", 1) == groups


def test_only_outputs_that_overlap_or_are_cropped_are_noted(tmp_path: Path) -> None:
    notes = []
    for x, w, stated in CASES[:3]:
        made = model([node("ConvTranspose", "x w", "y", **stated)], [tensor("x", *x)], [floats("w", *w)])
        network = read_onnx(written(tmp_path, made))
        notes.append(network.nodes[0].note)
        (layer,) = network.layers
        assert bool(notes[-1]) is (layer.output.words(layer.sizes) != network.value("y").elements)
    assert [bool(note) for note in notes] == [False, True, True]


@pytest.mark.parametrize(
    ("x", "w", "y"),
    [
        ((1, 3, 4, 4), (2, 3, 2, 2), (1, 3, 8, 8)),
        ((1, 2, 4, 4), (2, 3, 2, 2), (1, 4, 8, 8)),
        ((1, 2, 4), (2, 3, 2, 2), (1, 3, 8, 8)),
    ],
)
def test_shapes_that_contradict_each_other(
    x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]
) -> None:
    with pytest.raises(InputError, match="layer up"):
        transposed_convolution_of("up", x, w, y, Window.of(2, (2,)))
