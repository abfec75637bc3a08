"""What of a network's operators can be computed apart: rows, channels, and sums band by band.

COSMA takes an operator as one unit, so that nothing can be planned below what the hungriest one needs. An
operator that can be cut makes a box of its output (some rows of some channels) from a box of each input::

    rows of the input    |--- band 0 ---|--- band 1 ---|--- band 2 ---|
    a 3 x 3 convolution  |-- output 0 --|-- output 1 --|-- output 2 --|      output 1 reads bands 0, 1 and 2

Convolutions, pooling, matrix products with parameters, and all that works element by element or joins
channels have rows and channels of their own. A convolution reads all channels, or adds up products of one
band of them after the other; an average over all rows adds up its rows. Any other operator (attention, the
transposed convolution) reads and makes whole tensors.

Rows are those of images (samples, channels, rows, columns), the frames of clips, and the positions of
sequences (samples, positions, channels). :mod:`.cut` makes operator graphs of these facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Literal, NamedTuple

from costmodel.errors import InputError
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from costmodel.workload.network import Network, Node, Value
from costmodel.workload.operators import OperatorKind
from costmodel.workload.windows import each, pooling_windows, stated_windows

Span = tuple[int, int]
"""Rows or channels from the first up to, not including, the second."""


class Box(NamedTuple):
    """Some rows of some channels of a tensor, with all of its samples and columns."""

    rows: Span
    channels: Span

    @property
    def parts(self) -> int:
        """How many rows of one channel it holds."""
        return (self.rows[1] - self.rows[0]) * (self.channels[1] - self.channels[0])


@dataclass(frozen=True)
class Extent:
    """A tensor as ``rows`` x ``channels``, with ``elements`` in one row of one channel."""

    rows: int
    channels: int
    elements: int

    @property
    def whole(self) -> Box:
        return Box((0, self.rows), (0, self.channels))


@dataclass(frozen=True)
class RowWindow:
    """Which rows of an input an operator's rows need: ``size`` rows ``dilation`` apart, ``stride`` a row, the
    first of them ``before`` rows above."""

    size: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1

    def of(self, rows: Span) -> Span:
        """The input rows for these output rows; those that are padding are outside of the input."""
        first = rows[0] * self.stride - self.before
        return first, (rows[1] - 1) * self.stride - self.before + (self.size - 1) * self.dilation + 1

    def touches(self, made: Span, rows: Span) -> bool:
        """Whether any of these input rows is needed for the output rows ``made``: strides may skip all."""
        if self.dilation == 1 and self.size >= self.stride:
            first, end = self.of(made)
            return rows[0] < end and first < rows[1]
        taps = range(0, self.size * self.dilation, self.dilation)
        return any(
            rows[0] <= row * self.stride - self.before + tap < rows[1] for row in range(*made) for tap in taps
        )


@dataclass(frozen=True)
class InputRead:
    """Which box of input ``tensor`` a box of the output needs.

    ``window``: its rows; None: all of them. ``groups``: channels are in so many groups, and an output reads
    the inputs of its own group; 1: all channels. ``first``: the output's channel at which this input's begin
    (an operator that joins channels).
    """

    tensor: int
    window: RowWindow | None = None
    groups: int = 1
    joined_at: int | None = None


Axis = Literal["", "rows", "channels"]


@dataclass(frozen=True)
class Division:
    """How one operator can be cut.

    ``rows``, ``channels``: whether those of its one output can be made apart. ``sums``: along which axis the
    one input can be read band by band, with a sum so far between two of them. ``weights``: elements of its
    parameters for one output channel and all channels of the input; ``others``: further elements for each
    output channel (bias, normalisation), ``loose``: those that every piece needs. ``macs``: of all of it.
    """

    reads: tuple[InputRead, ...]
    rows: bool = False
    channels: bool = False
    sums: Axis = ""
    weights: int = 0
    others: int = 0
    loose: int = 0
    macs: int = 0

    @property
    def cuttable(self) -> bool:
        return self.rows or self.channels or bool(self.sums)


@dataclass(frozen=True)
class DivisibleGraph:
    """An operator graph, and by its tensors' and operators' numbers how each can be cut."""

    whole: OperatorGraph
    extents: tuple[Extent, ...]
    divisions: tuple[Division, ...]

    def needs(self, operator: int, read: InputRead, made: Box) -> Box | None:
        """The box of an input from which a box of the output is made; None if that input has no part in it.

        Padding is left out, and what strides skip between two rows is in it.
        """
        own = self.extents[read.tensor]
        (output,) = self.whole.operators[operator].outputs
        channels = _channels_read(read, made.channels, own.channels, self.extents[output].channels)
        rows = (0, own.rows) if read.window is None else _clipped(read.window.of(made.rows), own.rows)
        return None if rows[0] >= rows[1] or channels[0] >= channels[1] else Box(rows, channels)

    def least_bytes(self, operator: int) -> int:
        """What some piece of the operator holds in any cut: a lower bound on the scratchpad that it needs."""
        own, division = self.whole.operators[operator], self.divisions[operator]
        if not division.cuttable:
            return self.whole.working_bytes(own)
        output, settings = self.extents[own.outputs[0]], self.whole.settings
        row, rows = output.rows // 2, (0, output.rows)
        made = Box(
            (row, row + 1) if division.rows else rows, (0, 1 if division.channels else output.channels)
        )
        held = settings.bytes_of(output.elements * made.parts)
        for read in division.reads:
            needed = self.needs(operator, read, made)
            if needed is None:
                continue
            if division.sums:
                needed = needed._replace(**{division.sums: (0, 1)})
            same = any(source == read.tensor for source, _ in own.overwrites) and needed.parts == made.parts
            held += 0 if same else settings.bytes_of(self.extents[read.tensor].elements * needed.parts)
        return held


def _channels_read(read: InputRead, made: Span, channels: int, outputs: int) -> Span:
    if read.joined_at is not None:
        return _clipped((made[0] - read.joined_at, made[1] - read.joined_at), channels)
    made_by_group, read_by_group = outputs // read.groups, channels // read.groups
    first, last = made[0] // made_by_group, (made[1] - 1) // made_by_group
    return first * read_by_group, (last + 1) * read_by_group


def _clipped(span: Span, length: int) -> Span:
    return max(span[0], 0), min(span[1], length)


def divisible_graph(network: Network, settings: ScratchpadSettings) -> DivisibleGraph:
    """The network's operator graph with what can be cut of it."""
    whole = operator_graph(network, settings)
    values = {value.name: value for value in network.values}
    extents = tuple(_extent(values[tensor.name]) for tensor in whole.tensors)
    facts = _Facts(whole, values, extents)
    return DivisibleGraph(
        whole, extents, tuple(facts.division(number, node) for number, node in enumerate(network.nodes))
    )


def _extent(value: Value) -> Extent:
    shape = value.shape
    rows = shape[2] if len(shape) in (4, 5) else shape[1] if len(shape) == 3 else 1
    channels = shape[2] if len(shape) == 3 else shape[1] if len(shape) in (2, 4, 5) else 1
    if not value.elements:  # of unknown size: nothing to cut
        return Extent(1, 1, 0)
    return Extent(rows, channels, value.elements // (rows * channels))


@dataclass(frozen=True)
class _Facts:
    """Reads divisions off nodes."""

    whole: OperatorGraph
    values: dict[str, Value]
    extents: tuple[Extent, ...]

    def division(self, number: int, node: Node) -> Division:
        """What of the node can be cut; a node that is not understood is left whole."""
        operator = self.whole.operators[number]
        macs = sum(layer.macs for layer in node.layers)
        reads = tuple(InputRead(tensor) for tensor in operator.inputs)
        uncut = Division(reads, macs=macs, loose=sum(value.elements for value in self._parameters(node)))
        if len(operator.outputs) != 1 or not operator.inputs:
            return uncut
        output = operator.outputs[0]
        head, tail = node.kinds[0], node.kinds[1:]
        if not all(_is_local(kind) for kind in tail):
            return uncut
        if head.nest == "convolution" or (node.pooling is not None and "adaptive" not in head.name):
            return self._slid(node, operator.inputs, output, uncut)
        if head.nest == "linear":
            return self._product(node, operator.inputs, output, uncut)
        if head.name in ("adaptive_avg_pool", "mean"):
            return self._average(node, operator.inputs, output, uncut)
        if head.role == "concatenation":
            return self._joined(node, operator.inputs, output, uncut)
        if head.name in ("layer_norm", "softmax"):
            return self._along_channels(node, operator.inputs, output, uncut)
        return self._local(node, operator.inputs, output, uncut) if _is_local(head) else uncut

    def _parameters(self, node: Node) -> list[Value]:
        return [self.values[n] for n in dict.fromkeys(node.inputs) if self.values[n].kind == "parameter"]

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return self.values[self.whole.tensors[tensor].name].shape

    def _with_parameters(self, node: Node, division: Division, outputs: int, weights: int = 0) -> Division:
        """The division with the node's parameters as those of output channels, if they are.

        ``weights``: elements of the first parameter for one output channel. Channels of an operator with
        parameters of another shape are not made apart, for no part of them belongs to a channel.
        """
        own = self._parameters(node)
        weighing = own[:1] if weights else []
        others = [value for value in own if value not in weighing]
        loose = [v for v in others if v.elements != outputs and outputs != 1]
        if loose or (weighing and weighing[0].elements != weights * outputs):
            sums: Axis = "" if division.sums == "channels" else division.sums
            return replace(division, channels=False, sums=sums, loose=sum(value.elements for value in own))
        each = sum(value.elements for value in others) // outputs
        return replace(division, weights=weights if weighing else 0, others=each)

    def _slid(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """A convolution or a pooling, of which one input is an activation."""
        if len(inputs) != 1 or len(self._shape(inputs[0])) not in (4, 5) or len(self._shape(output)) < 4:
            return uncut
        source, made = self.extents[inputs[0]], self.extents[output]
        kernel: tuple[int, ...] = ()
        if node.pooling is None:
            weights = [value.shape for value in self._parameters(node)]
            kernel = node.attributes.numbers("weight_shape", weights[0] if weights else ())
            if len(kernel) < 4 or node.attributes.get("transposed"):
                return uncut
        # Without a window that makes these rows each piece reads all of the input's.
        window = _window(node, kernel[2:], self._shape(inputs[0])[2:], self._shape(output)[2:])
        rows = window is not None
        if node.pooling is not None:
            apart = source.channels == made.channels
            read = InputRead(inputs[0], window, made.channels if apart else 1)
            return self._with_parameters(node, Division((read,), rows, apart, macs=uncut.macs), made.channels)
        groups = source.channels // kernel[1] if source.channels % kernel[1] == 0 else 0
        known = groups > 0 and made.channels % groups == 0 and kernel[0] == made.channels
        read = InputRead(inputs[0], window, groups if known else 1)
        sums: Axis = "channels" if known and groups == 1 else ""
        division = Division((read,), rows, known, sums, macs=uncut.macs)
        return self._with_parameters(node, division, made.channels, prod(kernel[1:]))

    def _product(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """A product of a matrix of activations, (samples, positions, channels), with a parameter."""
        if len(inputs) != 1 or not self._parameters(node):
            return uncut
        source, made = self.extents[inputs[0]], self.extents[output]
        # of a tensor whose reshaping the file leaves out only the number of elements is as the product says
        same = len(self._shape(inputs[0])) == len(self._shape(output)) and source.elements == made.elements
        rows = same and source.rows == made.rows and len(self._shape(output)) == 3
        window = RowWindow() if rows else None
        read = source.rows * source.channels * source.elements * made.channels
        wide = read // max(made.rows * made.channels * made.elements, 1)
        sums: Axis = "channels" if same and source.rows == made.rows and wide == source.channels else ""
        division = Division((InputRead(inputs[0], window),), rows, True, sums, macs=uncut.macs)
        return self._with_parameters(node, division, made.channels, wide)

    def _average(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """An average over all rows and columns of each channel."""
        if len(inputs) != 1 or len(self._shape(inputs[0])) not in (4, 5):
            return uncut
        source, made = self.extents[inputs[0]], self.extents[output]
        one_each = made.rows == 1 and made.elements == self._shape(inputs[0])[0]
        if not one_each or made.channels != source.channels:
            return uncut
        read = InputRead(inputs[0], None, made.channels)
        return self._with_parameters(
            node, Division((read,), False, True, "rows", macs=uncut.macs), made.channels
        )

    def _joined(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """Tensors one after the other along their channels."""
        made = self.extents[output]
        shapes = [self._shape(tensor) for tensor in inputs]
        along = node.attributes.get("dim", node.attributes.get("axis"))
        length = len(self._shape(output))
        axis = 2 if length == 3 else 1
        alike = all(len(shape) == length for shape in shapes)
        if length < 3 or not alike or along not in (axis, axis - length) or self._parameters(node):
            return uncut
        names = [name for name in node.inputs if self.values[name].kind != "parameter"]
        channels = [self.extents[tensor].channels for tensor in inputs]
        rows = all(self.extents[tensor].rows == made.rows for tensor in inputs)
        # a tensor that is joined to itself stands at two positions, of which a read knows one
        if len(names) != len(inputs) or sum(channels) != made.channels or not rows:
            return uncut
        reads = tuple(
            InputRead(tensor, RowWindow(), joined_at=sum(channels[:number]))
            for number, tensor in enumerate(inputs)
        )
        return Division(reads, True, True, macs=uncut.macs)

    def _along_channels(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """A normalisation over the channels of each position of a sequence."""
        shape = self._shape(output)
        if len(inputs) != 1 or len(shape) != 3 or self._shape(inputs[0]) != shape:
            return uncut
        if node.kinds[0].name == "layer_norm":
            last = node.attributes.numbers("normalized_shape", ()) == (shape[-1],)
        else:
            last = node.attributes.get("dim", node.attributes.get("axis")) in (-1, 2)
        return (
            Division((InputRead(inputs[0], RowWindow()),), True, loose=uncut.loose, macs=uncut.macs)
            if last
            else uncut
        )

    def _local(self, node: Node, inputs: tuple[int, ...], output: int, uncut: Division) -> Division:
        """Element by element; what has one row or one channel only is spread over all."""
        made, length = self.extents[output], len(self._shape(output))
        reads = []
        for tensor in inputs:
            own, shape = self.extents[tensor], self._shape(tensor)
            if (
                len(shape) != length
                or own.rows not in (1, made.rows)
                or own.channels not in (1, made.channels)
            ):
                return uncut
            window = RowWindow() if own.rows == made.rows else None
            reads.append(InputRead(tensor, window, made.channels if own.channels == made.channels else 1))
        if length < 2 or (length == 2 and made.rows != 1):
            return uncut
        division = Division(tuple(reads), made.rows > 1, made.channels > 1, macs=uncut.macs)
        return self._with_parameters(node, division, made.channels)


def _is_local(kind: OperatorKind) -> bool:
    """Whether an operator of this kind makes an element of those at its own position, or of constants."""
    return kind.elements == "pointwise" or kind.name == "batch_norm"


def _window(
    node: Node, kernel: Sequence[int], lengths: Sequence[int], counts: Sequence[int]
) -> RowWindow | None:
    """The window along the rows of a convolution or a pooling; None where the file does not explain them.

    ``kernel``: sizes of a convolution's filter along its spatial axes. ``lengths``, ``counts``: those of the
    input's and of the output's axes.
    """
    stated = node.attributes
    try:
        if node.pooling is not None:
            sizes = each(node.pooling.size, len(counts))
            rows, *_ = pooling_windows(node, lengths, counts, dilated=True)
        else:
            sizes = tuple(kernel)
            strides = each(stated.numbers("strides", stated.numbers("stride", (1,))), len(counts))
            rows, *_ = stated_windows(stated, lengths, counts, (sizes, strides), dilated=True)
    except InputError:
        return None
    # a stated window reaches from its first row to its last one
    dilation = (rows.size - 1) // (sizes[0] - 1) if sizes[0] > 1 else 1
    return RowWindow(sizes[0], rows.stride, rows.before, dilation)


def pieces_of(number: int, parts: int) -> Iterator[Span]:
    """``number`` rows or channels in ``parts`` bands, as equal as whole ones can be."""
    edges = [index * number // parts for index in range(parts + 1)]
    return pairwise(edges)
