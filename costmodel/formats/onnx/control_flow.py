"""Control flow and sequences of an ONNX graph written out as plain operators, where the graph tells how.

A choice whose condition is constant becomes the chosen branch. A loop, or a scan, whose number of rounds is
known, by its count or by a condition that follows from constants, becomes that many copies of its body.
Lists of tensors become the tensors. All else stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from costmodel.formats.onnx.constants import STANDARD_DOMAINS, UNKNOWN, Constants
from costmodel.workload.digits import Shape

MOST_COPIES = 200_000
"""The most nodes that all written-out control flow of a graph may have together; the rest stays as it is."""


_Write = Callable[["WrittenOut", onnx.NodeProto], "list[onnx.NodeProto] | None"]


class WrittenOut:
    """Writes out control flow and lists, node by node in topological order.

    ``constants`` and ``shapes`` are the caller's; they grow while it goes on. Parameters of bodies are handed
    to the caller as they come up (:meth:`parameters`).
    """

    def __init__(self, constants: Constants, shapes: Mapping[str, Shape], opset: int) -> None:
        self._constants = constants
        self._shapes = shapes
        self._opset = opset
        self._lists: dict[str, list[str]] = {}
        """By list of tensors, the tensors in it."""
        self._rounds: dict[str, int] = {}
        """By loop that is written out round by round, the number of its last one."""
        self._copies = 0
        self._new: list[TensorProto] = []

    def parameters(self) -> list[TensorProto]:
        """The parameters that came up since the last call."""
        found, self._new = self._new, []
        return found

    def of(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The nodes that do the work of ``node``; None for a node that stays as it is."""
        if node.domain not in STANDARD_DOMAINS:
            return None
        if node.op_type in self._LISTS:
            return self._LISTS[node.op_type](self, node)
        if node.op_type == "Identity" and node.input[0] in self._lists:
            self._lists[node.output[0]] = self._lists[node.input[0]]
            return []
        write = self._FLOW.get(node.op_type)
        if write is None or self._copies > MOST_COPIES:
            return None
        made = write(self, node)
        self._copies += len(made or ())
        return made

    def without_lists(self, names: Sequence[str]) -> list[str]:
        """The names, with the tensors of a list in the place of each list that was written out."""
        return [
            one
            for name in names
            for one in (self.without_lists(self._lists[name]) if name in self._lists else (name,))
        ]

    # ---- choices and loops

    def _chosen(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        condition = self._constants.get(node.input[0])
        if condition is None:
            return None
        branch = _graphs(node)["then_branch" if bool(condition.flat[0]) else "else_branch"]
        return self._copy(branch, _label(node), {}, list(node.output))

    def _repeated(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The rounds of a loop that always runs its number of rounds, if that is constant."""
        body = _graphs(node)["body"]
        rounds, first = (node.input[i] if i < len(node.input) else "" for i in range(2))
        count = self._constants.get(rounds)
        starts = not first or (first in self._constants and bool(self._constants[first].flat[0]))
        if count is None or count.size != 1 or not starts or not _goes_on(body, self._constants):
            return self._one_round(node, body, rounds, first)
        carried = list(node.input[2:])
        listed, times = len(body.output) - 1 - len(carried), int(count.flat[0])
        if times < 1 or times * len(body.node) > MOST_COPIES:
            return None
        label, nodes, pieces = _label(node), list[onnx.NodeProto](), list[list[str]]()
        for i in range(times):
            one = f"{label}/{i}"
            number = self._parameter(f"{one}/number", np.array(i, np.int64))
            names = dict(zip((v.name for v in body.input), (number, self._true(), *carried), strict=True))
            carried = [f"{one}/{v.name}" for v in body.output[1 : 1 + len(carried)]]
            pieces.append([f"{one}/{v.name}/piece" for v in body.output[len(body.output) - listed :]])
            nodes += self._copy(body, one, names, ["", *carried, *pieces[-1]])
        for made, name in zip(carried, node.output, strict=False):
            if name:
                nodes.append(helper.make_node("Identity", [made], [name], name=f"{label}/{name}"))
        for i, name in enumerate(node.output[len(carried) :]):
            nodes += self._joined(name, [piece[i] for piece in pieces], 0)
        return nodes

    def _one_round(
        self, node: onnx.NodeProto, body: onnx.GraphProto, rounds: str, first: str
    ) -> list[onnx.NodeProto] | None:
        """The next round of a loop whose condition follows from constants, and the loop that does the others.

        When that loop is read, this round's condition has a value. None for a loop that lists results, and
        where the condition follows from the inputs' elements.
        """
        start = first or self._true()
        count = self._constants.get(rounds)
        carried = list(node.input[2:])
        if start not in self._constants or (rounds and count is None) or len(body.output) > len(carried) + 1:
            return None
        label = _label(node)
        if not bool(self._constants[start].flat[0]) or (count is not None and int(count.flat[0]) < 1):
            return [
                helper.make_node("Identity", [read], [name], name=f"{label}/{name}")
                for read, name in zip(carried, node.output, strict=False)
                if name
            ]
        pairs = zip(body.input[2:], carried, strict=True)
        given = {value.name for value, name in pairs if name in self._constants}
        if not _is_decidable(body, {*given, *(value.name for value in body.input[:2])}, self._constants):
            return None
        i = self._rounds[label] = self._rounds.get(label, -1) + 1
        one = f"{label}/{i}"
        number = self._parameter(f"{one}/number", np.array(i, np.int64))
        names = dict(zip((v.name for v in body.input), (number, self._true(), *carried), strict=True))
        made = [f"{one}/{v.name}" for v in body.output]
        rest = onnx.NodeProto()
        rest.CopyFrom(node)
        left = "" if count is None else self._parameter(f"{one}/left", count - 1)
        rest.input[:] = [left, *made]
        rest.name = label
        return [*self._copy(body, one, names, made), rest]

    def _scanned(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The rounds of a scan over operands of known length."""
        body, stated = _graphs(node)["body"], {a.name: a for a in node.attribute}
        if self._opset < 9 or "num_scan_inputs" not in stated:  # the first kind of scan had a batch axis
            return None
        many = stated["num_scan_inputs"].i
        carried, read = list(node.input[: len(node.input) - many]), list(node.input[len(node.input) - many :])
        listed = len(body.output) - len(carried)
        axes, ways, out_axes, out_ways = (
            list(stated[key].ints) if key in stated else [0] * size
            for key, size in (
                ("scan_input_axes", many),
                ("scan_input_directions", many),
                ("scan_output_axes", listed),
                ("scan_output_directions", listed),
            )
        )
        lengths = {
            self._shapes[name][axis] if name in self._shapes else UNKNOWN
            for name, axis in zip(read, axes, strict=True)
        }
        if len(lengths) != 1 or UNKNOWN in lengths:
            return None
        (times,) = lengths
        if times * len(body.node) > MOST_COPIES:
            return None
        label, nodes, pieces = _label(node), list[onnx.NodeProto](), list[list[str]]()
        for i in range(times):
            one = f"{label}/{i}"
            taken = []
            for k, (name, axis, backwards) in enumerate(zip(read, axes, ways, strict=True)):
                index = self._parameter(
                    f"{one}/index{k}", np.array(times - 1 - i if backwards else i, np.int64)
                )
                taken.append(f"{one}/read{k}")
                nodes.append(
                    helper.make_node("Gather", [name, index], [taken[-1]], name=taken[-1], axis=axis)
                )
            names = dict(zip((v.name for v in body.input), (*carried, *taken), strict=True))
            carried = [f"{one}/{v.name}" for v in body.output[: len(carried)]]
            pieces.append([f"{one}/{v.name}/piece" for v in body.output[len(body.output) - listed :]])
            nodes += self._copy(body, one, names, [*carried, *pieces[-1]])
        for made, name in zip(carried, node.output, strict=False):
            if name:
                nodes.append(helper.make_node("Identity", [made], [name], name=f"{label}/{name}"))
        for i, name in enumerate(node.output[len(carried) :]):
            parts = [piece[i] for piece in pieces]
            nodes += self._joined(name, parts[::-1] if out_ways[i] else parts, out_axes[i])
        return nodes

    def _copy(
        self, body: onnx.GraphProto, label: str, names: Mapping[str, str], results: Sequence[str]
    ) -> list[onnx.NodeProto]:
        """The nodes of a body, its tensors called ``label``/NAME, its inputs as ``names`` say.

        ``results`` are the names that its outputs get, "" for one that nobody reads.
        """
        new = dict(names)
        for tensor in body.initializer:
            copied = TensorProto()
            copied.CopyFrom(tensor)
            copied.name = new[tensor.name] = f"{label}/{tensor.name}"
            self._new.append(copied)
        nodes = []
        for i, inner in enumerate(body.node):
            node = onnx.NodeProto()
            node.CopyFrom(inner)
            node.name = f"{label}/{inner.name or f'{inner.op_type}_{i}'}"
            node.input[:] = [new.get(name, name) for name in inner.input]
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    _rename_captured(graph, new)
            for name in filter(None, inner.output):
                new[name] = f"{label}/{name}"
            node.output[:] = [new[name] if name else "" for name in inner.output]
            nodes.append(node)
        for value, result in zip(body.output, results, strict=False):
            read = new.get(value.name, value.name)
            if result and read != result:
                nodes.append(helper.make_node("Identity", [read], [result], name=f"{label}/{result}/result"))
        return nodes

    # ---- lists of tensors

    def _list_of(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        self._lists[node.output[0]] = list(node.input)
        return []

    def _pieces(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """A tensor cut into a list: as a split, and squeezed where the cuts are to vanish."""
        stated = {a.name: a.i for a in node.attribute}
        shape = self._shapes.get(node.input[0], (UNKNOWN,))
        sizes = node.input[1] if len(node.input) > 1 else ""
        if UNKNOWN in shape or (sizes and sizes not in self._constants):
            return None
        axis = stated.get("axis", 0) % len(shape)
        asked = self._constants[sizes] if sizes else np.array(1)
        length = shape[axis]
        if asked.ndim:
            parts = [int(size) for size in asked]
        else:
            step = int(asked)
            parts = [min(step, length - first) for first in range(0, length, step)]
        made = [f"{node.output[0]}/{i}" for i in range(len(parts))]
        self._lists[node.output[0]] = made
        kept = bool(sizes) or stated.get("keepdims", 1)
        cut = made if kept else [f"{name}/kept" for name in made]
        label = _label(node)
        nodes = [self._split(label, node.input[0], cut, parts, axis)]
        for name, piece in zip(made, cut, strict=True):
            if not kept:
                nodes.append(self._with_axes("Squeeze", piece, name, axis))
        return nodes

    def _split(self, label: str, read: str, made: list[str], parts: list[int], axis: int) -> onnx.NodeProto:
        if len(made) == 1:
            return helper.make_node("Identity", [read], made, name=label)
        if self._opset < 13:
            return helper.make_node("Split", [read], made, name=label, axis=axis, split=parts)
        sizes = self._parameter(f"{label}/sizes", np.array(parts, np.int64))
        return helper.make_node("Split", [read, sizes], made, name=label, axis=axis)

    def _taken(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found, index = self._lists.get(node.input[0]), self._constants.get(node.input[1])
        if found is None or index is None or not -len(found) <= int(index.flat[0]) < len(found):
            return None
        return [
            helper.make_node("Identity", [found[int(index.flat[0])]], node.output, name=_label(node)),
        ]

    def _lengthened(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found = self._lists.get(node.input[0])
        index = self._constants.get(node.input[2]) if len(node.input) > 2 else None
        if found is None or (len(node.input) > 2 and index is None):
            return None
        end = len(found) if index is None else int(index.flat[0])
        self._lists[node.output[0]] = [*found[:end], node.input[1], *found[end:]]
        return []

    def _length(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found = self._lists.get(node.input[0])
        if found is None:
            return None
        number = numpy_helper.from_array(np.array(len(found), np.int64))
        return [helper.make_node("Constant", [], node.output, name=_label(node), value=number)]

    def _chained(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found = self._lists.get(node.input[0])
        stated = {a.name: a.i for a in node.attribute}
        if not found:
            return None
        if stated.get("new_axis", 0):
            return self._joined(node.output[0], found, stated["axis"])
        return [helper.make_node("Concat", found, node.output, name=_label(node), axis=stated["axis"])]

    # ---- parts

    def _joined(self, name: str, pieces: Sequence[str], axis: int) -> list[onnx.NodeProto]:
        """Tensors one after the other along a new axis; nothing where the result has no name."""
        if not name:
            return []
        wide = [f"{name}/{i}/wide" for i in range(len(pieces))]
        nodes = [
            self._with_axes("Unsqueeze", one, more, axis) for one, more in zip(pieces, wide, strict=True)
        ]
        return [*nodes, helper.make_node("Concat", wide, [name], name=f"{name}/joined", axis=axis)]

    def _with_axes(self, operator: str, read: str, made: str, axis: int) -> onnx.NodeProto:
        if self._opset < 13:
            return helper.make_node(operator, [read], [made], name=f"{made}/{operator}", axes=[axis])
        axes = self._parameter(f"{made}/axes", np.array([axis], np.int64))
        return helper.make_node(operator, [read, axes], [made], name=f"{made}/{operator}")

    def _true(self) -> str:
        return self._parameter("/always", np.array(True))

    def _parameter(self, name: str, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        if name not in self._constants:
            self._new.append(numpy_helper.from_array(value, name))
            self._constants[name] = value
        return name

    _FLOW: ClassVar[Mapping[str, _Write]] = {"If": _chosen, "Loop": _repeated, "Scan": _scanned}
    _LISTS: ClassVar[Mapping[str, _Write]] = {
        "SequenceConstruct": _list_of,
        "SequenceEmpty": _list_of,
        "SplitToSequence": _pieces,
        "SequenceAt": _taken,
        "SequenceInsert": _lengthened,
        "SequenceLength": _length,
        "ConcatFromSequence": _chained,
    }


def _label(node: onnx.NodeProto) -> str:
    return node.name or next(iter(node.output))


def _graphs(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    return {attribute.name: attribute.g for attribute in node.attribute}


def _is_decidable(body: onnx.GraphProto, given: set[str], outside: Constants) -> bool:
    """Whether a loop's condition follows from shapes and constants alone.

    Constants are the body's inputs in ``given``, its own parameters, and ``outside``, those around it.
    """
    makers = {output: node for node in body.node for output in node.output}
    known = given | {tensor.name for tensor in body.initializer}
    taken = {value.name for value in body.input}
    pending, seen = [body.output[0].name], set[str]()
    while pending:
        name = pending.pop()
        node = makers.get(name)
        if node is None and name not in known and (name in taken or name not in outside):
            return False
        if node is not None and has_graphs(node):
            return False
        if node is not None and name not in seen and node.op_type not in ("Shape", "Size"):
            pending += filter(None, node.input)
        seen.add(name)
    return True


def _goes_on(body: onnx.GraphProto, outside: Constants) -> bool:
    """Whether the condition of a loop's next round is always true, or is what it was.

    ``outside`` are the constants of the graph around it.
    """
    makers = {output: node for node in body.node for output in node.output}
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer if not tensor.dims}
    name = body.output[0].name
    while (node := makers.get(name)) is not None:
        if node.op_type == "Constant":
            return any(a.name == "value" and bool(numpy_helper.to_array(a.t).flat[0]) for a in node.attribute)
        if node.op_type not in ("Identity", "Cast"):
            return False
        name = node.input[0]
    if name == body.input[1].name:
        return True
    own = {value.name for value in body.input}
    value = held.get(name, outside.get(name) if name not in own else None)
    return value is not None and bool(value.flat[0])


def _rename_captured(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    """Give the tensors that a nested body reads from outside their new names."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {output for node in graph.node for output in node.output}
    outside = {name: other for name, other in new.items() if name not in own}
    for node in graph.node:
        node.input[:] = [outside.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename_captured(inner, outside)
    for value in graph.output:
        value.name = outside.get(value.name, value.name)


def has_graphs(node: onnx.NodeProto) -> bool:
    """Whether the node is control flow: whether it has graphs inside."""
    return any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)


def nested(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and all that are inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.type in _GRAPHS else ():
                yield from nested(body)


_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
