"""An operator graph whose large tensors are cut into bands of rows, for scratchpads that hold no whole one.

COSMA takes an operator as one unit, so that nothing can be planned below what the hungriest one needs. Here
an operator whose rows can be computed one after the other becomes several, each of which makes a band of rows
of the output::

    rows of the input    |--- band 0 ---|--- band 1 ---|--- band 2 ---|
    a 3 x 3 convolution  |-- output 0 --|-- output 1 --|-- output 2 --|      output 1 reads bands 0, 1 and 2

The rows that two bands of an output both read (the halo) are kept or retrieved with the band that they are
in; none is computed twice. A band is a tensor like any other, so a plan of the cut graph is replayed and
counted as every plan is. What is proven of it holds for this cut.

Convolutions, pooling, and all that works element by element or joins channels are cut. An average over all
rows adds up band by band. Any other operator reads and makes whole tensors: all of their bands at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from math import prod

from costmodel.errors import InputError
from costmodel.scratchpad.graph import (
    GraphTensor,
    Operator,
    OperatorGraph,
    ScratchpadSettings,
    operator_graph,
)
from costmodel.workload.attributes import Attributes
from costmodel.workload.network import Network, Node, Value

Rows = tuple[int, int]
"""The rows from the first up to, not including, the second."""

ROW_AXIS = 2
"""Of a tensor (samples, channels, rows, columns)."""


def banded_graph(network: Network, settings: ScratchpadSettings, size_bytes: int) -> OperatorGraph:
    """The network's operator graph as a scratchpad of ``size_bytes`` can run it.

    It is uncut where every operator fits; else tensors are cut into bands of at most half of ``size_bytes``,
    or a quarter and so on, the coarsest that lets every operator fit. Where not even single rows do, the
    finest cut is returned, whose :attr:`OperatorGraph.required_bytes` are above the size. InputError for
    settings with parameters: every band would bring its operator's in again, which the model does not count.
    """
    whole = operator_graph(network, settings)
    if whole.required_bytes <= size_bytes:
        return whole
    if settings.parameters:
        remedy = "Plan activations only, or give the scratchpad the size that its operators need whole"
        raise InputError("scratchpad", "no parameters with bands", True, remedy, key="parameters")
    finest = whole
    limit = size_bytes // 2
    while limit > 0:
        found = _Cut(network, settings, limit).graph()
        if found.required_bytes <= size_bytes:
            return found
        if len(found.operators) == len(finest.operators) and finest is not whole:
            return found
        finest, limit = found, limit // 2
    return finest


@dataclass
class _Cut:
    """One cut of a network: every tensor with rows is in bands of at most ``limit`` bytes, or of one row."""

    network: Network
    settings: ScratchpadSettings
    limit: int
    _tensors: list[GraphTensor] = field(default_factory=list)
    _operators: list[tuple[int, Operator]] = field(default_factory=list)
    """Each with the number of the node that it is a part of."""

    def graph(self) -> OperatorGraph:
        for name in self._touched:
            if self._values[name].kind != "parameter":
                self._add_bands(self._values[name])
        for number, node in enumerate(self.network.nodes):
            self._operators += [(number, operator) for operator in self._parts(node)]
        return OperatorGraph(self.network.name, self._deepest_first(), tuple(self._tensors), self.settings)

    @cached_property
    def _values(self) -> dict[str, Value]:
        return {value.name: value for value in self.network.values}

    @cached_property
    def _touched(self) -> dict[str, None]:
        return dict.fromkeys(name for node in self.network.nodes for name in (*node.inputs, *node.outputs))

    @cached_property
    def _bands(self) -> dict[str, list[tuple[Rows, int]]]:
        """By value, the rows of each of its bands, and the band's number among the graph's tensors."""
        return {}

    def _add_bands(self, value: Value) -> None:
        rows = value.shape[ROW_AXIS] if len(value.shape) == 4 else 1
        size = self.settings.padded(self.settings.bytes_of(value.elements))
        parts = max(1, min(rows, -(-size // self.limit)))
        edges = [index * rows // parts for index in range(parts + 1)]
        found: list[tuple[Rows, int]] = []
        for number, (start, end) in enumerate(pairwise(edges)):
            name = value.name if parts == 1 else f"{value.name}#{number}"
            band = self.settings.bytes_of(value.elements // max(rows, 1) * (end - start))
            if parts == 1:
                band = self.settings.bytes_of(value.elements)
            found.append(((start, end), self._tensor(name, band, given=value.kind == "input")))
        self._bands[value.name] = found

    def _tensor(self, name: str, size_bytes: int, *, given: bool) -> int:
        self._tensors.append(GraphTensor(name, size_bytes, self.settings.padded(size_bytes), given))
        return len(self._tensors) - 1

    def _parts(self, node: Node) -> Iterator[Operator]:
        """The operators that a node becomes: one for each band of its output, if its rows can be cut."""
        inputs = [name for name in dict.fromkeys(node.inputs) if name in self._bands]
        outputs = list(dict.fromkeys(node.outputs))
        if len(inputs) == 1 and len(outputs) == 1 and self._averages_all_rows(node, inputs[0], outputs[0]):
            yield from self._sums(node, inputs[0], outputs[0])
            return
        window = _window(node, self._values) if len(outputs) == 1 else None
        bands = self._bands[outputs[0]] if outputs else []
        if window is None or len(bands) < 2:
            read = [tensor for name in inputs for _, tensor in self._bands[name]]
            made = [tensor for name in outputs for _, tensor in self._bands[name]]
            yield Operator(node.name, tuple(read), tuple(made), 0)
            return
        for number, (rows, band) in enumerate(bands):
            read = [tensor for name in inputs for tensor in self._read(name, window.of(rows), outputs[0])]
            yield Operator(f"{node.name}#{number}", tuple(read), (band,), 0)

    def _read(self, name: str, rows: Rows, output: str) -> list[int]:
        """The bands of an input that hold any of the rows; all of one that is spread over the rows."""
        shape, bands = self._values[name].shape, self._bands[name]
        if len(shape) != 4 or (shape[ROW_AXIS] == 1 and self._values[output].shape[ROW_AXIS] > 1):
            return [tensor for _, tensor in bands]
        return [tensor for (start, end), tensor in bands if start < rows[1] and rows[0] < end]

    def _averages_all_rows(self, node: Node, source: str, target: str) -> bool:
        """Whether the operator adds up all rows of an input that is in bands."""
        kinds, made = node.kinds, self._values[target].shape
        averaging = kinds[0].name in ("adaptive_avg_pool", "mean") and all(_is_local(k) for k in kinds[1:])
        one_row = len(made) != 4 or made[ROW_AXIS] == 1
        smaller = prod(made) * self._values[source].shape[-1] <= self._values[source].elements
        return averaging and one_row and smaller and len(self._bands[source]) > 1

    def _sums(self, node: Node, source: str, target: str) -> Iterator[Operator]:
        """A chain: each operator adds a band to the sum so far."""
        ((_, last),) = self._bands[target][:1]
        read = self._bands[source]
        before: tuple[int, ...] = ()
        for number, (_, band) in enumerate(read):
            end = number == len(read) - 1
            size = self._tensors[last].traffic_bytes
            so_far = last if end else self._tensor(f"{target}#sum{number}", size, given=False)
            yield Operator(f"{node.name}#{number}", (*before, band), (so_far,), 0)
            before = (so_far,)

    def _deepest_first(self) -> tuple[Operator, ...]:
        """The operators in an order in which a band goes through as many layers as it can before the next.

        It is the graph's default order; solvers look for their own.
        """
        made_by = {t: index for index, (_, operator) in enumerate(self._operators) for t in operator.outputs}
        waits = [sum(t in made_by for t in operator.inputs) for _, operator in self._operators]
        readers: dict[int, list[int]] = {}
        for index, (_, operator) in enumerate(self._operators):
            for tensor in operator.inputs:
                if tensor in made_by:
                    readers.setdefault(tensor, []).append(index)
        ready: list[tuple[int, int]] = []
        for index, count in enumerate(waits):
            if not count:
                heappush(ready, (-self._operators[index][0], index))
        order = []
        while ready:
            _, index = heappop(ready)
            order.append(self._operators[index][1])
            for tensor in self._operators[index][1].outputs:
                for reader in readers.get(tensor, ()):
                    waits[reader] -= 1
                    if not waits[reader]:
                        heappush(ready, (-self._operators[reader][0], reader))
        return tuple(order)


@dataclass(frozen=True)
class _Window:
    """Which rows of its inputs an operator's rows need: ``size`` rows ``dilation`` apart, ``stride`` a row,
    the first of them ``before`` rows above."""

    size: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1

    def of(self, rows: Rows) -> Rows:
        """The input rows for these output rows; those that are padding are outside of the input."""
        first = rows[0] * self.stride - self.before
        return first, (rows[1] - 1) * self.stride - self.before + (self.size - 1) * self.dilation + 1


def _window(node: Node, values: dict[str, Value]) -> _Window | None:
    """The window of an operator that can be cut into rows; None for any other."""
    kinds = node.kinds
    shapes = [values[name].shape for name in node.inputs if values[name].kind != "parameter"]
    output = values[node.outputs[0]].shape
    if len(output) != 4 or not shapes or not all(_is_local(kind) for kind in kinds[1:]):
        return None
    head = kinds[0]
    if head.nest == "convolution" or (node.pooling is not None and "adaptive" not in head.name):
        return _slid(node, values, shapes, output)
    if head.role == "concatenation" and node.attributes.get("dim", node.attributes.get("axis")) in (1, -3):
        return _Window() if all(len(s) == 4 and s[ROW_AXIS] == output[ROW_AXIS] for s in shapes) else None
    same = all(len(s) == 4 and s[ROW_AXIS] in (1, output[ROW_AXIS]) for s in shapes)
    return _Window() if _is_local(head) and same else None


def _is_local(kind: object) -> bool:
    """Whether an operator of this kind makes an element of those at its own position, or of constants."""
    return getattr(kind, "elements", "") == "pointwise" or getattr(kind, "name", "") == "batch_norm"


def _slid(
    node: Node, values: dict[str, Value], shapes: list[tuple[int, ...]], output: tuple[int, ...]
) -> _Window | None:
    """The window of a convolution or a pooling, of which one input is an activation."""
    if len(shapes) != 1 or len(shapes[0]) != 4 or node.attributes.get("transposed"):
        return None
    stated = node.attributes
    if node.pooling is not None:
        size, stride = node.pooling.size[0], node.pooling.stride[0]
    else:
        weights = [values[name].shape for name in node.inputs if values[name].kind == "parameter"]
        kernel = stated.numbers("weight_shape", weights[0] if weights else ())
        if len(kernel) != 4:
            return None
        size, stride = kernel[ROW_AXIS], _stated(stated, "stride", "strides", 1)
    dilation = _stated(stated, "dilation", "dilations", 1)
    above, below = _padding(stated)
    left = shapes[0][ROW_AXIS] + above + below - (size - 1) * dilation - 1
    # Where the rows do not come out as the window says, the node means something that is not read here.
    counts = {left // stride + 1, -(-left // stride) + 1} if stated.get("ceil_mode") else {left // stride + 1}
    return _Window(size, stride, above, dilation) if output[ROW_AXIS] in counts else None


def _stated(attributes: Attributes, name: str, onnx_name: str, default: int) -> int:
    """The number along the rows, by the name that PyTorch or the one that ONNX has for it."""
    return attributes.numbers(name, attributes.numbers(onnx_name, (default,)))[0]


def _padding(attributes: Attributes) -> Rows:
    """Rows of padding above and below: ONNX states each, PyTorch one for both, a fused pad comes on top."""
    if pads := attributes.numbers("pads", ()):
        return pads[0], pads[len(pads) // 2]
    both = attributes.numbers("padding", (0,))[0]
    fused = attributes.numbers("fused_pad", ())
    above, below = (fused[2], fused[3]) if len(fused) >= 4 else (0, 0)
    return both + above, both + below
