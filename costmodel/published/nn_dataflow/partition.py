"""Dividing a layer among nodes: which divisions nn-dataflow tries, and which part each node gets.

Four kinds of division are nested in each other, each with some rows and columns of parts. A node is indexed
by its row and column within each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from math import ceil, prod

from costmodel.errors import InputError
from costmodel.published.nn_dataflow.layers import Counts, LayerShape

PARALLEL = ("OUTP", "OFMP", "BATP", "INPP")
"""What is divided, in the tool's order: output channels, output maps, batch, input channels."""
OUTP, OFMP, BATP, INPP = range(len(PARALLEL))
Sides = tuple[int, int]
"""Rows and columns."""
Range = tuple[int, int]
"""From the first to before the last."""


@dataclass(frozen=True)
class Partition:
    """How a layer is divided among rows and columns of nodes.

    ``sizes[kind]``: rows and columns of parts, for each kind of PARALLEL. ``order``: how kinds are nested,
    from the top (outermost) to the bottom; the parts of the kind at the bottom lie on neighbouring nodes.
    """

    order: tuple[int, ...]
    sizes: tuple[Sides, ...]

    def __post_init__(self) -> None:
        kinds = list(range(len(PARALLEL)))
        if sorted(self.order) != kinds or len(self.sizes) != len(kinds):
            raise InputError("partition", f"an order of and sizes for {PARALLEL}", self.order, key="order")
        if any(side < 1 for sides in self.sizes for side in sides):
            raise InputError("partition", "at least a row and a column each", self.sizes, key="sizes")

    def parts(self, *kinds: int) -> int:
        """The number of parts of ``kinds`` together; without arguments, of all kinds."""
        return prod(prod(self.sizes[kind]) for kind in kinds or range(len(PARALLEL)))

    @property
    def nodes(self) -> Sides:
        """Rows and columns of nodes that all kinds take together."""
        rows, columns = (prod(sides) for sides in zip(*self.sizes, strict=True))
        return rows, columns

    def indices(self) -> Iterator[tuple[Sides, ...]]:
        """The index of every node: its row and column within each kind."""
        return product(*(product(range(rows), range(columns)) for rows, columns in self.sizes))

    def sharing(self) -> Counts:
        """How many nodes work on the same data, for each of filters, inputs and outputs.

        Nodes that differ in batch or output maps need the same filters. If both kinds are divided and are not
        next to each other in the order, the tool only counts the lower one of them.
        """
        maps, batch = self.parts(OFMP), self.parts(BATP)
        apart = abs(self.order.index(OFMP) - self.order.index(BATP)) > 1
        if apart and maps > 1 and batch > 1:
            filters = maps if self.order.index(OFMP) > self.order.index(BATP) else batch
        else:
            filters = maps * batch
        return filters, self.parts(OUTP), self.parts(INPP)

    def position(self, index: tuple[Sides, ...]) -> Sides:
        """The row and column in the mesh of the node with that index."""
        row = column = 0
        for kind in self.order:
            row = row * self.sizes[kind][0] + index[kind][0]
            column = column * self.sizes[kind][1] + index[kind][1]
        return row, column

    def number(self, kind: int, index: tuple[Sides, ...]) -> int:
        """The number of the node's part within a kind, counted row by row."""
        return index[kind][0] * self.sizes[kind][1] + index[kind][1]


@dataclass(frozen=True)
class NodePart:
    """The largest part: its layer and batch.

    ``occupied``: the layer's operations as a fraction of those that all nodes do, each charged as the largest
    part.
    """

    layer: LayerShape
    batch: int
    occupied: float


def largest_part(layer: LayerShape, batch: int, partition: Partition) -> NodePart:
    """What the node with the largest part computes.

    Raises InputError where a local layer is divided in input channels, which follow from its output channels.
    """
    if not layer.has_filters and partition.parts(INPP) > 1:
        raise InputError("partition", "one part in input channels of a local layer", partition.parts(INPP))
    rows, columns = partition.sizes[OFMP]
    part = layer.part((partition.parts(INPP), partition.parts(OUTP), rows, columns))
    if not layer.has_filters:  # of several operands the tool forgets all but one here
        part = replace(part, channels_in=part.channels_out)
    part_batch = ceil(batch / partition.parts(BATP))
    occupied = layer.operations(batch) / (part.operations(part_batch) * partition.parts())
    return NodePart(part, part_batch, occupied)


def partitions(layer: LayerShape, batch: int, nodes: Sides) -> Iterator[Partition]:
    """All divisions that the tool tries on rows and columns of nodes.

    It may mix kinds (its option for hybrid partitions), and divide input channels. Padding may be up to one
    element or a tenth. A kind other than OFMP that has both rows and columns must take all nodes of one side.
    If no division is allowed, one is made up that gives all nodes to output channels (where outputs have a
    single row and column) or to output maps.
    """
    none = True
    for rows, columns in product(_factorizations(nodes[0]), _factorizations(nodes[1])):
        sizes = tuple(zip(rows, columns, strict=True))
        if not _allowed(layer, batch, nodes, sizes) or _is_transposed(sizes):
            continue
        for order in _orders(sizes):
            none = False
            yield Partition(order, sizes)
    if none:
        only = OUTP if layer.out_h == layer.out_w == 1 else OFMP
        sizes = tuple(nodes if kind == only else (1, 1) for kind in range(len(PARALLEL)))
        yield Partition(tuple(range(len(PARALLEL))), sizes)


def _factorizations(side: int) -> list[tuple[int, ...]]:
    """The ways to write a side as a product with one factor for each kind."""
    divisors = [factor for factor in range(1, side + 1) if side % factor == 0]
    return [ways for ways in product(divisors, repeat=len(PARALLEL)) if prod(ways) == side]


def _allowed(layer: LayerShape, batch: int, nodes: Sides, sizes: tuple[Sides, ...]) -> bool:
    """Whether a division follows the tool's rules, which :func:`partitions` states."""
    for kind, (rows, columns) in enumerate(sizes):
        if kind != OFMP and 1 < rows < nodes[0] and 1 < columns < nodes[1]:
            return False
    parts = [rows * columns for rows, columns in sizes]
    if not layer.has_filters and parts[INPP] > 1:
        return False
    divided = (
        (layer.channels_out, parts[OUTP]),
        (layer.out_h, sizes[OFMP][0]),
        (layer.out_w, sizes[OFMP][1]),
        (layer.channels_in, parts[INPP]),
    )
    return batch % parts[BATP] == 0 and all(nearly_divides(total, count) for total, count in divided)


def nearly_divides(total: int, parts: int) -> bool:
    """Whether ``parts`` equal parts pad ``total`` by at most one or a tenth of the sum, and none is empty."""
    padded = ceil(total / parts) * parts
    return total >= parts and padded - total <= max(1, 0.1 * padded)


def _is_transposed(sizes: tuple[Sides, ...]) -> bool:
    """Whether a division is the transpose of another that is tried; both cost the same, so one is enough."""
    flat = all(1 in sides for sides in sizes)
    rows, columns = zip(*sizes, strict=True)
    return sizes[OFMP] == (1, 1) and flat and rows > columns


def _orders(sizes: tuple[Sides, ...]) -> Iterator[tuple[int, ...]]:
    """Orders that lead to different divisions: kinds that are not divided come first, then batch.

    The order of undivided kinds changes nothing, so only one is yielded.
    """
    parts = [rows * columns for rows, columns in sizes]
    for order in permutations(range(len(PARALLEL))):
        first = sum(count == 1 for count in parts)
        if parts[BATP] > 1 and order[first] != BATP:
            continue
        if all(_may_follow(above, below, sizes) for above, below in pairwise(order)):
            yield order


def _may_follow(above: int, below: int, sizes: tuple[Sides, ...]) -> bool:
    """Whether one kind may come directly below another in the order."""
    one_above, one_below = sizes[above] == (1, 1), sizes[below] == (1, 1)
    if one_below:
        return one_above and above < below
    # a row of parts below a column of parts is the same as the other way round
    crossed = sizes[below][0] == 1 and sizes[above][0] > 1 and sizes[above][1] == 1
    return above == BATP or not crossed


def ith_range(total: int, number: int, parts: int) -> Range:
    """The range of part ``number`` when ``total`` is divided into ``parts``; sizes differ by one at most."""
    return number * total // parts, (number + 1) * total // parts


@dataclass(frozen=True)
class NodeRanges:
    """What a node works on: of outputs and of inputs the ranges of batch, channels, rows and columns."""

    outputs: tuple[Range, Range, Range, Range]
    inputs: tuple[Range, Range, Range, Range]


def piece(layer: LayerShape, batch: int, partition: Partition, index: tuple[Sides, ...]) -> NodeRanges:
    """The data of the node with that index; its inputs include the halo of its windows.

    An output of a local layer merges the ``operands`` input channels around its own.
    """
    samples = ith_range(batch, partition.number(BATP, index), partition.parts(BATP))
    channels = ith_range(layer.channels_out, partition.number(OUTP, index), partition.parts(OUTP))
    rows = ith_range(layer.out_h, index[OFMP][0], partition.sizes[OFMP][0])
    columns = ith_range(layer.out_w, index[OFMP][1], partition.sizes[OFMP][1])
    inputs = ith_range(layer.channels_in, partition.number(INPP, index), partition.parts(INPP))
    if not layer.has_filters:
        half = layer.operands // 2
        inputs = max(0, channels[0] - half), min(layer.channels_in, channels[1] + layer.operands - half)
    return NodeRanges(
        (samples, channels, rows, columns),
        (
            samples,
            inputs,
            _window(rows, layer.stride_h, layer.window_h),
            _window(columns, layer.stride_w, layer.window_w),
        ),
    )


def _window(outputs: Range, stride: int, window: int) -> Range:
    first = outputs[0] * stride
    return first, max(first, (outputs[1] - 1) * stride + window)


def words(ranges: tuple[Range, ...]) -> int:
    """Words in the box of the ranges; 0 if one of them is empty."""
    return prod(max(0, end - begin) for begin, end in ranges)
