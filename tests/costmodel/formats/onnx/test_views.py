"""The views of random chains of ONNX operators show the elements that ONNX's reference computes."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from costmodel.formats.onnx.attributes import attributes_of
from costmodel.formats.onnx.operators import kind_of
from costmodel.formats.onnx.shapes import inferred_at
from costmodel.formats.onnx.views import Views
from costmodel.workload.network import Node
from costmodel.workload.views import View

OPSET = 18


class Chain:
    """Operators that only move data, each on what the one before it made."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4)))
        self.first = self.shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "x"

    def integers(self, *numbers: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers))
        return name

    def add(self, kind: str, reads: list[str], shape: tuple[int, ...], **attributes: Any) -> None:
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.last, *reads], [made], name=made, **attributes))
        self.last, self.shape = made, shape

    def step(self) -> None:
        rng, shape, rank = self._rng, self.shape, len(self.shape)
        axis = rng.randrange(rank)
        length = shape[axis]
        kind = rng.choice(
            ["Reshape", "Transpose", "Expand", "Tile", "Gather", "Slice", "Unsqueeze", "Concat"]
        )
        if kind == "Reshape":
            cut = rng.choice([d for d in range(1, prod(shape) + 1) if prod(shape) % d == 0])
            self.add(kind, [self.integers(cut, -1)], (cut, prod(shape) // cut))
        elif kind == "Transpose":
            order = rng.sample(range(rank), rank)
            self.add(kind, [], tuple(shape[i] for i in order), perm=order)
        elif kind == "Expand":
            wide = tuple(n if n > 1 else rng.choice([1, 3]) for n in shape)
            self.add(kind, [self.integers(*wide)], wide)
        elif kind == "Tile":
            times = [rng.choice([1, 1, 2]) for _ in shape]
            self.add(kind, [self.integers(*times)], tuple(n * t for n, t in zip(shape, times, strict=True)))
        elif kind == "Gather":
            positions = [i // 2 - rng.choice([0, length]) for i in range(2 * length)]
            self.add(
                kind, [self.integers(*positions)], (*shape[:axis], 2 * length, *shape[axis + 1 :]), axis=axis
            )
        elif kind == "Slice":
            self._slice(axis, length)
        elif kind == "Unsqueeze":
            self.add(kind, [self.integers(axis)], (*shape[:axis], 1, *shape[axis:]))
        else:
            self.add(kind, [self.last], (*shape[:axis], 2 * length, *shape[axis + 1 :]), axis=axis)

    def _slice(self, axis: int, length: int) -> None:
        rng = self._rng
        start, step = rng.randrange(-length, length), rng.choice([1, 1, 2, -1])
        end = rng.choice([2**40, length]) if step > 0 else rng.choice([-(2**40), -length - 1])
        count = len(range(length)[slice(start, None, step)])
        bounds = [self.integers(n) for n in (start, end, axis - rng.choice([0, len(self.shape)]), step)]
        self.add("Slice", bounds, (*self.shape[:axis], count, *self.shape[axis + 1 :]))

    def model(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.first)
        y = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "chain", [x], [y], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def view_of(model: onnx.ModelProto, name: str) -> View | None:
    found = inferred_at(model, None)
    constants = found.constants
    views = Views(found.shapes, constants)
    for node in model.graph.node:
        attributes = attributes_of(node, constants, OPSET)
        read, made, kinds = tuple(node.input), tuple(node.output), (kind_of(node),)
        views.add(Node(node.name, node.op_type, read, made, attributes=attributes, kinds=kinds))
    return views.of(name)


def elements(view: View) -> np.ndarray[Any, np.dtype[np.int64]]:
    shown = np.array(view.offset)
    for axis in view.axes:
        along = np.zeros(1, dtype=int)
        for digit in axis:
            along = (along[:, None] + np.arange(digit.size) * digit.stride).ravel()
        shown = shown[..., None] + along
    return shown


@pytest.mark.slow
def test_random_chains_show_what_the_reference_computes() -> None:
    rng, followed, lost = random.Random(7), 0, 0
    for _ in range(400):
        chain = Chain(rng)
        for _ in range(rng.randint(1, 5)):
            if prod(chain.shape) < 500:
                chain.step()
        if not chain.nodes:
            continue
        model = chain.model()
        numbers = np.arange(prod(chain.first), dtype=np.float32).reshape(chain.first)
        (computed,) = ReferenceEvaluator(model).run(None, {"x": numbers})
        assert isinstance(computed, np.ndarray)
        view = view_of(model, chain.last)
        assert view is not None
        assert view.shape == computed.shape == chain.shape
        if view.origin == "x":
            followed += 1
            assert (elements(view) == computed).all(), model
        else:  # a tensor of its own, which says so if something in it repeats
            lost += 1
            assert view.lost or np.unique(computed).size == computed.size, model
    assert followed > 5 * lost
