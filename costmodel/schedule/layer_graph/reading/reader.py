"""Reads a network, which is a graph of operators, into the layers that a chip's scheduler sees.

Layers are those of one sample. The rules are these:

- Convolutions and products become layers with weights; in attention, activations are the weights.
- Pooling, sums of several operands, softmax and normalisations become layers of vector units.
- Activation functions, batch normalisation and arithmetic with constants are folded into the layer before
  them if no other layer reads its output. Otherwise they are a layer of their own.
- Views (reshape, transpose, slice) are no layers. The reader knows where the elements of every value lie, so
  a layer that reads a view reads just its elements. There are two exceptions. A transposing layer is added
  where rows must become channels, as for the keys of attention (one for each head). A copy is added where
  rows other than the first ones are read.
- The tokens of a sequence are rows, and their features are channels.

Operator graphs in JSON may leave out views; they are *folded*. The reader then derives from the shapes which
axis is which, where their lengths differ, and which rows and channels stay as they were. It refuses a network
whose shapes do not prove that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.reading.data import Builder, chunks_along
from costmodel.schedule.layer_graph.reading.drafts import EXTERNAL, Slice, layer_graph_of
from costmodel.schedule.layer_graph.reading.experts import Routing
from costmodel.schedule.layer_graph.reading.factors import FACTORS, with_factors
from costmodel.schedule.layer_graph.reading.folded import folded_rows
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    as_image,
    external,
    full,
    in_order,
    in_order_if_known,
    known_axes,
    listed_for_each,
    reshaped,
    side_by_side,
    spatial_dims,
)
from costmodel.schedule.layer_graph.reading.products import ProductOperands, attention, product
from costmodel.schedule.layer_graph.reading.views import (
    ViewNode,
    concatenation_axis,
    part,
    reduced_axes,
    split,
    viewed,
)
from costmodel.schedule.layer_graph.stated import stated_graph
from costmodel.workload.digits import Digits, Shape
from costmodel.workload.network import Network, Node, Value
from costmodel.workload.operators import SCHEDULED, OperatorKind, OperatorRole
from costmodel.workload.windows import Windows, even_window, pooling_windows


def layer_graph(network: Network) -> LayerGraph:
    """The layers of ``network``, each with the layers whose outputs it reads; the network's batch must be 1.

    Raises InputError, which names the node, for a node that a schedule cannot have. It may have an unknown
    operator, three spatial axes or a dilation; it may read its input in a form that no layer makes; or it may
    not say which part of its input it reads.
    """
    if (stated := stated_graph(network)) is not None:
        return stated
    reader = _LayerReader(network)
    for node in network.nodes:
        try:
            reader.read(node)
        except InputError as error:
            where = f"network {network.name}: node {node.name} ({node.operator})"
            raise InputError(where, error.expected, error.found, error.remedy, key=error.key) from None
    graph = layer_graph_of(network.name, reader.builder.drafts, reader.results())
    if not graph.layers:
        raise InputError(f"network {network.name}", "layers to schedule", "none")
    return graph


# A statistic is one number for each position, such as a mean over channels. It is no layer: the normalisation
# to which it belongs computes it. So only operators of which normalisations are made may read one.
_TAKE_STATISTICS = ("activation", "elementwise", "reduction", "view")
_TAKE_SEVERAL = ("products", "elementwise", "concatenation")
"""The roles of operators that may have several operands made by layers."""
_WHY_NOT: Mapping[OperatorRole, str] = {
    "search": ", which chooses by data: where its results go is known only when the network runs",
    "attention": ", several products in one",
    "resampling": ", which reads between positions",
    "rearrangement": ", which moves data as no view does",
}
"""By role, why no schedule on a chip can have it."""
_LAYER_BY_LAYER = "Layers can be mapped one by one all the same: 'solve mapping', or a study of architectures"


class _LayerReader:
    """Reads nodes in topological order, and notes for every value where its elements lie.

    ``_data``: by value; None for constants and for numbers about shapes, which no layer reads.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._values = {value.name: value for value in network.values}
        self._data: dict[str, Data | None] = {
            value.name: external(value.shape) if value.kind == "input" else None
            for value in network.values
            if value.kind in ("input", "parameter")
        }
        self.builder = Builder()
        self._routing = Routing(network, self.builder)

    def results(self) -> list[Slice]:
        """The channels of the network's outputs, and of the values that no node reads."""
        read = {name for node in self._network.nodes for name in node.inputs}
        ends = [
            self._data.get(value.name)
            for value in self._network.values
            if value.kind == "output" or value.name not in read
        ]
        return [*(part for data in ends if data for part in data.parts), *self.builder.ends]

    def read(self, node: Node) -> None:
        """Add the node's layers, and note where the elements of its outputs lie."""
        if unmade := [name for name in node.inputs if name not in self._data]:
            raise InputError("", "first outputs of other nodes", f"others, which no layer makes: {unmade}")
        if (routed := self._routing.read(node, self._data)) is not None:
            self._data.update(routed)
            return
        operands = [data for name in node.inputs if (data := self._data[name]) is not None]
        if not operands or node.kind.role == "numbers":
            self._data.update(dict.fromkeys(node.outputs))
            return
        role = self._role(node, operands)
        if node.kind.name == "split":
            self._split(node, operands[0])
            return
        made, extra = self._made(node, role, operands)
        for step in self._with_operands(node, extra):
            made = self._fused(node, step, made)
        value, folded = self._values[node.outputs[0]], self._network.views_folded
        self._data[value.name] = _checked(made, value, folded)

    def _role(self, node: Node, operands: Sequence[Data]) -> OperatorRole:
        """The role of the node's first operator; InputError for a node that no schedule can have."""
        role, head = node.kind.role, node.operator.split("+")[0]
        if node.uncounted:
            raise InputError("", "an operator whose work is known", node.uncounted.why)
        # Parts of a transposed convolution would add to one another's outputs, and boxes have no such sums.
        if role not in SCHEDULED or node.kind.nest == "transposed_convolution":
            why = _WHY_NOT.get(role, "")
            raise InputError("", "an operator that a chip's schedule can have", head + why, _LAYER_BY_LAYER)
        products = 2 if node.kind.nest == "attention" else 1
        if role == "products" and len(node.layers) != products:
            raise InputError("", f"an operator of {products} products", len(node.layers))
        for name in node.outputs if role == "cut" else node.outputs[:1]:
            if not self._values[name].elements:
                raise InputError("", "an output of known shape", self._values[name].shape, key=name)
        if role not in _TAKE_STATISTICS and any(data.statistic for data in operands):
            raise InputError("", "numbers over all channels only within a normalisation", head)
        computed = {data.parts for data in operands if not data.external}
        if role not in _TAKE_SEVERAL and len(node.kinds) == 1 and len(computed) > 1:
            raise InputError("", "one operand that the network computes", len(computed))
        return role

    def _made(self, node: Node, role: OperatorRole, operands: list[Data]) -> tuple[Data, list[str]]:
        """The result of a node's first operator, and the operands that belong to those fused to it."""
        if role == "products":
            return self._products(node, operands)
        if role == "elementwise":
            return self._elementwise(node, node.inputs), []
        if role == "concatenation":
            return self._concatenated(node), []
        return self._of_one(node, role, operands[0]), self._others(node)

    def _of_one(self, node: Node, role: OperatorRole, data: Data) -> Data:
        """The result of an operator that has one operand besides constants."""
        value = self._values[node.outputs[0]]
        first = next(name for name in node.inputs if self._data[name] is not None)
        view = ViewNode(node.name, node.kind, node.attributes, self._values[first].shape, value.shape)
        if 0 in view.read:
            raise InputError("", "an input of known shape", view.read, key=first)
        if role in ("activation", "normalisation"):
            return self.builder.pointwise(node.name, data, foldable=role == "activation")
        if role == "pooling":
            return self._pooled(node, data, view)
        if role == "reduction":
            return self._reduced(node, data, view)
        if role == "lookup" and self._data[node.inputs[0]] is None:
            return self._looked_up(node, value)
        if data.statistic:
            return data
        if role in ("lookup", "cut"):
            return part(self.builder, data, view)
        return viewed(self.builder, data, view)

    def _others(self, node: Node) -> list[str]:
        """The operands after the first that are no constants: they belong to fused operators."""
        found = [name for name in node.inputs if self._data[name] is not None]
        return found[1:] if len(node.kinds) > 1 else []

    def _products(self, node: Node, operands: list[Data]) -> tuple[Data, list[str]]:
        """The result of a product, a convolution or fused attention, and the operands of fused operators."""
        output = self._values[node.outputs[0]].shape
        if len(node.layers) == 2:  # scores and weighted values
            # behind queries, keys and values a mask that comes from the network's input counts as a constant
            names = [
                name
                for i, name in enumerate(node.inputs)
                if (one := self._data[name]) is not None and not (i > 2 and one.external)
            ]
            operands = [one for name in names if (one := self._data[name]) is not None]
            shapes = [self._values[name].shape for name in names]
            return attention(self.builder, node, operands, shapes, output), []
        first, second = node.kind.factors
        if len(node.inputs) == 1:  # x @ x, or two views of one tensor
            first = second = 0
        if max(first, second) >= len(node.inputs):
            raise InputError(
                "", f"factors at positions {first} and {second} of its operands", list(node.inputs)
            )
        names = [node.inputs[position] for position in (first, second)]
        others = [name for i, name in enumerate(node.inputs) if i not in (first, second)]
        extra = [name for name in others if self._data[name] is not None]
        if extra and len(node.kinds) == 1:
            raise InputError("", "two factors, and constants", f"more that the network computes: {extra}")
        shapes, data = ([self._values[name].shape for name in names], [self._data[name] for name in names])
        factors = ProductOperands((shapes[0], shapes[1]), (data[0], data[1]), output)
        return product(self.builder, node, factors, self._network.views_folded), extra

    def _with_operands(self, node: Node, extra: Sequence[str]) -> list[tuple[str, OperatorKind, Data | None]]:
        """The fused operators in their order: name in the file, kind, and second operand (None: a constant).

        ``extra``: the operands that the first operator does not read; element-wise ones take them in turn.
        """
        names = node.operator.split("+")[1:]
        fused = list(zip(names, node.kinds[1:], strict=True))
        takers = [i for i, (_, kind) in enumerate(fused) if kind.role == "elementwise"]
        if extra and len(takers) != len(extra):
            raise InputError("", f"{len(takers)} operands for the fused {' and '.join(names)}", list(extra))
        taken = dict(zip(takers, (self._data[name] for name in extra), strict=False))
        return [(name, kind, taken.get(i)) for i, (name, kind) in enumerate(fused)]

    def _fused(self, node: Node, step: tuple[str, OperatorKind, Data | None], made: Data) -> Data:
        """The result of a fused operator; ``made`` is the result of the operators before it in the node.

        ``step``: its name, its kind and its second operand. An operand that is broadcast from the network's
        input (a mask) counts as a constant.
        """
        (operator, kind, operand), shape = step, self._values[node.outputs[0]].shape
        name = f"{node.name}.{operator}"
        if kind.role not in ("activation", "normalisation", "elementwise"):
            expected = "element-wise operators, normalisations and softmax in a fused one"
            raise InputError("", expected, operator)
        if operand is not None and (not operand.external or operand.elements == prod(shape)):
            operand = self.builder.plain(name, operand)
            return self.builder.combined(name, _alike([made, operand]))
        return self.builder.pointwise(name, made, foldable=kind.role != "normalisation")

    def _elementwise(self, node: Node, names: Sequence[str]) -> Data:
        """The result of arithmetic on the values ``names``.

        Operands that are broadcast from the network's input (masks) count as constants: they cost nothing.
        """
        value = self._values[node.outputs[0]]
        operands = [data for name in names if (data := self._data[name]) is not None]
        if FACTORS in node.attributes:
            return with_factors(self.builder, node, operands, [self._values[x].shape for x in names], value)
        inner = [data for data in operands if not data.external]
        whole = [data for data in operands if data.external and data.elements == value.elements]
        if not inner:
            return operands[0] if not whole else whole[0]
        kept = [data for data in operands if data in inner or data in whole]
        plain = [self.builder.plain(f"{node.name}.{i}", data) for i, data in enumerate(kept)]
        plain = _rows_together(self.builder, node.name, plain)
        return self.builder.combined(node.name, _alike(plain))

    def _pooled(self, node: Node, data: Data, view: ViewNode) -> Data:
        """A pooling of an image (1, channels, rows, columns), or of a sequence (1, channels, positions)."""
        if not 1 <= len(view.made) - 2 <= 2:
            raise InputError("", "one or two spatial axes", view.made)
        if len(view.read) != len(view.made):
            raise InputError("", f"an input of {len(view.made)} axes, as its result", view.read)
        # The windows of adaptive pooling divide all rows, rows of constant padding included; so the padding
        # has to be part of the data.
        if node.pooling is None:
            data = self.builder.plain(node.name, data)
        data = as_image(data, view.read)
        windows = pooling_windows(node, view.read[2:], view.made[2:])
        data, rows, columns = self.builder.under(node.name, data, windows)
        made = self.builder.pool(node.name, data, rows, columns)
        spatial = (full(dim, one.count) for dim, one in zip(spatial_dims(data), windows, strict=True))
        return replace(made, axes=(*known_axes(data)[:2], *spatial))

    def _looked_up(self, node: Node, value: Value) -> Data:
        """A look-up of rows of a constant table: a layer that reads them from DRAM, as an input.

        The indices must be the network's input.
        """
        if not all(data.external for name in node.inputs if (data := self._data[name]) is not None):
            raise InputError("", "indices that are the network's input", "indices that it computes")
        width = value.shape[-1]
        made = self.builder.looked_up(node.name, width, value.elements // width)
        return reshaped(made, value.shape)

    def _reduced(self, node: Node, data: Data, view: ViewNode) -> Data:
        """The result of a reduction.

        Over all rows, all columns or both it is a pooling; over all channels it is a statistic, which becomes
        part of the normalisation that reads it.
        """
        if data.statistic:
            return data
        data = self.builder.plain(node.name, data)
        axes, over = known_axes(data), reduced_axes(node.attributes, view.read, view.made)
        # The dims among C, H and W that the reduction sums over, and those that stay. A dim in both would be
        # summed in part, which no layer does.
        gone = {digit.dim for axis in over for digit in axes[axis]}
        kept = {digit.dim for i, axis in enumerate(axes) if i not in over for digit in axis}
        if not gone:
            return reshaped(data, view.made)
        if gone == {"C"} and "C" not in kept:
            return replace(data, axes=None) if data.external else self.builder.statistic(data)
        if gone & kept or "C" in gone or "" in gone:
            expected = "a reduction over all channels or over all rows and columns"
            raise InputError("", expected, f"{view.read} -> {view.made}")
        rows, columns = (
            even_window(1, size) if dim in gone else Windows(size)
            for dim, size in (("H", data.h), ("W", data.w))
        )
        made = self.builder.pool(node.name, data, rows, columns)
        left = tuple(() if i in over else axis for i, axis in enumerate(axes))
        return reshaped(replace(made, axes=left), view.made)

    def _concatenated(self, node: Node) -> Data:
        """Values one after the other along an axis.

        Along channels that needs no layer: whoever reads them reads several layers. Along rows or columns
        each value is copied into a box of the result's size, and the copies are summed
        (:meth:`Builder.stacked`).
        """
        made = self._values[node.outputs[0]].shape
        shapes = _seen_as([self._values[name].shape for name in node.inputs], node, made)
        axis = concatenation_axis(node.attributes, shapes, made)
        pieces: list[Data | None] = []
        for i, (name, shape) in enumerate(zip(node.inputs, shapes, strict=True)):
            data = self._data[name]
            if data is not None:
                data = self.builder.plain(f"{node.name}.{i}", folded_rows(data, shape))
            pieces.append(data)
        pieces = _laid_alike(pieces, shapes, axis)
        operands = [data for data in pieces if data]
        if len(operands) == len(pieces) and all(data.external and not data.repeats for data in operands):
            return external(made)
        if any(len(known_axes(data)) != len(made) for data in operands):
            found = [len(known_axes(data)) for data in operands]
            raise InputError("", f"operands of {len(made)} axes, as the result {made}", found)
        dims = {digit.dim for data in operands for digit in known_axes(data)[axis]}
        # Tokens of one row each: the axis has length 1 in every operand, so its digits do not say that it is
        # an axis of rows.
        single = not dims and all((data.h, data.w) == (1, 1) and data.k > 1 for data in operands)
        if dims & {"H", "W"} or single:
            counts = [shape[axis] for shape in shapes]
            rows = [data and _one_dim(self.builder, data, axis) for data in pieces]
            return self.builder.stacked(node.name, list(zip(rows, counts, strict=True)), axis)
        if missing := [name for name, data in zip(node.inputs, pieces, strict=True) if data is None]:
            raise InputError("", "activations side by side", missing)
        if not all(data.repeats for data in operands):
            # as where keys of every head and a part that all heads share become one
            operands = [listed_for_each(data) for data in operands]
        return side_by_side(operands, axis)

    def _split(self, node: Node, data: Data) -> None:
        """Note where the outputs of a split lie. Of all other nodes only the first output is read."""
        shapes = [self._values[name].shape for name in node.outputs]
        view = ViewNode(node.name, node.kind, node.attributes, self._values[node.inputs[0]].shape, ())
        self._data.update(zip(node.outputs, split(self.builder, data, view, shapes), strict=True))


def _one_dim(builder: Builder, data: Data, axis: int) -> Data:
    """The value with all positions as rows, where the axis runs over rows and columns (an image's)."""
    data = in_order(data)
    return builder.as_rows(data) if len(known_axes(data)[axis]) > 1 else data


def _laid_alike(pieces: list[Data | None], shapes: Sequence[Shape], axis: int) -> list[Data | None]:
    """Operands of a concatenation, the network's input laid out as what a layer computes.

    So caches of heads, rows and channels lie in DRAM as the new keys and values do that are put behind them.
    """
    made = [data for data in pieces if data and not data.external and data.axes is not None]
    if not made or not known_axes(made[0])[axis : axis + 1]:
        return pieces
    first, found = made[0], list[Data | None]()
    along = first.axes[axis] if first.axes else ()
    for data, shape in zip(pieces, shapes, strict=True):
        # of one token the axis has no digit: it is that of rows if it is none of the channels
        whole = along == full("H", first.h) and first.w == 1 and (along or first.h == 1)
        if data is None or not data.external or data.repeats or any(data.padding) or not whole:
            found.append(data)
            continue
        axes = tuple(full("H", shape[i]) if i == axis else one for i, one in enumerate(first.axes or ()))
        laid = Data((Slice(EXTERNAL, 0, first.k),), shape[axis], 1, axes)
        found.append(laid if laid.sizes == shape else data)
    return found


def _seen_as(shapes: Sequence[Shape], node: Node, made: Shape) -> list[Shape]:
    """The operands' shapes as a concatenation with the result ``made`` sees them.

    One operand may have another number of axes, because its view is folded away: its shape is then the
    result's, with the length along the axis that the other operands leave.
    """
    odd = [i for i, shape in enumerate(shapes) if len(shape) != len(made)]
    if not odd:
        return list(shapes)
    if len(odd) > 1 or "dim" not in node.attributes:
        remedy = "Export the graph with its views, or state dim where only one operand is viewed"
        raise InputError("", f"operands of {len(made)} axes, as the result {made}", list(shapes), remedy)
    axis = node.attributes.number("dim") % len(made)
    rest = made[axis] - sum(shape[axis] for i, shape in enumerate(shapes) if i not in odd)
    seen = (*made[:axis], rest, *made[axis + 1 :])
    return [seen if i in odd else shape for i, shape in enumerate(shapes)]


def _rows_together(builder: Builder, name: str, operands: Sequence[Data]) -> list[Data]:
    """Operands whose rows lie in chunks as rows, where those of another operand are rows."""
    found = list(operands)
    known = [data for data in operands if data.axes is not None and not data.statistic]
    for i, data in enumerate(operands):
        for axis in range(len(data.axes or ())):
            if not chunks_along(data, axis):
                continue
            rows = full("H", data.sizes[axis])
            if any(len(one.sizes) > axis and known_axes(one)[axis] == rows for one in known):
                found[i] = builder.together(f"{name}.{i}.rows", data, axis)
    return found


def _shown(axes: Sequence[Digits]) -> str:
    """``(1, H 64, C 128)``: the length of each axis, and which of a layer's axes it lies along."""
    each = (" x ".join(f"{digit.dim} {digit.size}" for digit in axis) or "1" for axis in axes)
    return f"({', '.join(each)})"


def _alike(operands: Sequence[Data]) -> list[Data]:
    """Element-wise operands with their channels in one order, that of their axes.

    The result lies as the operand with the most elements does; of two equal ones, as the one that a layer
    computes. An operand that is the network's input is laid out likewise. InputError where the same channel,
    row and column of two operands do not belong to the same element of the result.
    """
    ordered = [data if data.statistic else in_order_if_known(data) for data in operands]
    largest = max(ordered, key=lambda data: (not data.statistic, data.elements, not data.external))
    if largest.axes is None or largest.statistic:
        return ordered
    found = []
    for data in ordered:
        if data.external and not data.statistic and data.elements == largest.elements:
            data = Data((Slice(EXTERNAL, 0, largest.k),), largest.h, largest.w, largest.axes)
        if not data.statistic and data.axes is not None and not _lies_as(data, largest.axes):
            lying = " and ".join(_shown(one) for one in (data.axes, largest.axes))
            raise InputError("", "operands that lie alike", lying, _LAYER_BY_LAYER)
        found.append(data)
    return found


def _lies_as(data: Data, axes: tuple[Digits, ...]) -> bool:
    """Whether each position along ``axes`` leads to the same channel, row and column of the value.

    Its axes must be the same, or broadcast: of length 1, or missing in front.
    """
    own = known_axes(data)
    if [axis for axis in own if axis] == [axis for axis in axes if axis]:
        return True
    own = ((),) * (len(axes) - len(own)) + own
    return len(own) == len(axes) and all(one in ((), other) for one, other in zip(own, axes, strict=True))


def _checked(made: Data, value: Value, views_folded: bool) -> Data:
    """``made`` if it has the value's shape; else InputError, which a network of several samples gets here.

    Where the file leaves out views, a value may have other axes and as many elements. Its axes are then
    unknown (None), and the layer that reads it derives them from shapes.
    """
    if made.statistic or not value.elements:
        return made
    if made.external and (made.axes is None or made.sizes != value.shape):
        return replace(made, axes=None)
    if made.axes is not None and made.sizes == value.shape:
        return made
    if made.elements == value.elements and (made.axes is None or views_folded):
        return replace(made, axes=None)
    remedy = "Load it with a batch of 1: how many samples there are is the schedule's business"
    raise InputError("", f"an output of {made.elements} elements for one sample", value.shape, remedy)
