"""The sources of a layer's tensors: DRAM, or the outputs of other layers.

A layer that reads a concatenation, a slice of channels or the heads of a product reads ranges of channels of
several layers, in some order. Each range is a *source*: a box of the layer's tensor, with the offset between
its channels and those of the producer's outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.schedule.boxes.arrays import Array, Box, boxes_of, intersection, shifted
from costmodel.schedule.layer_graph.graph import LayerGraph, Read
from costmodel.workload.network import Layer, Role, Tensor


@dataclass(frozen=True)
class Source:
    """The elements ``box`` of ``tensor``, which are outputs of the layer number ``producer``.

    ``producer`` None: no layer computes them; they are the network's input, or parameters. ``first``: which
    channel of the tensor is the producer's channel 0. It is below 0 where the producer's first channels are
    not read, or belong to another source; it is 0 without a producer. Samples, rows and columns have the same
    numbers in both.
    """

    tensor: str
    role: Role
    producer: int | None
    first: int
    box: Box

    @property
    def is_parameter(self) -> bool:
        """Whether these are parameters: weights that no layer computes."""
        return self.role == "weights" and self.producer is None

    def needed(self, images: Array) -> Array:
        """The part of this source in the boxes [tiles, axes, 2] that tiles touch of the tensor.

        It is numbered like the producer's outputs; without a producer, like the tensor.
        """
        part = intersection(images, boxes_of([self.box]))
        return shifted(part, (-self.first, *(0 for _ in self.box[1:])))


def sources_of(graph: LayerGraph, number: int, batch: int) -> tuple[Source, ...]:
    """All sources of ``batch`` samples of a layer: weights, then inputs in the order of their channels."""
    layer = graph.layers[number]
    space = layer.space(batch)
    inputs, weights = graph.reads(layer)
    read = [tensor for tensor in space.tensors if tensor.role == "inputs"]
    found: list[Source] = []
    for tensor in space.tensors:
        if tensor.role == "weights" and not weights:
            found.append(Source(tensor.name, tensor.role, None, 0, _box(space, tensor)))
        elif tensor.role == "weights":
            found += _side_by_side(weights, space, [tensor], 0)
    return (*found, *_side_by_side(inputs, space, read, layer.external_c))


ALONE = -1
"""No source is sent together with this one."""


def joined_sources(graph: LayerGraph, number: int, sources: Sequence[Source]) -> tuple[int, ...]:
    """For each of a layer's ``sources`` the first of those that are sent together with it, or ``ALONE``.

    These are weights that one layer computes for several groups of output channels, such as the keys of
    heads that share them (grouped-query attention):

        output channels          | head 0 | head 1 | head 2 | head 3 |
        their weights are from   | keys 0 | keys 0 | keys 1 | keys 1 |      two pairs of joined sources

    Where parts need the same box of such a layer's outputs, for whichever head, that box is one message to
    all of their tiles. It is sent once for each part along other axes that needs something else, as ever.
    """
    members: dict[int, list[int]] = defaultdict(list)
    space = graph.layers[number].space(1)
    for at, source in enumerate(sources):
        if source.role == "weights" and source.producer is not None:
            channels = space.tensor(source.tensor).axes[0]
            if any(step.dim == "K" for step in channels.steps):
                members[source.producer].append(at)
    first = {at: each[0] for each in members.values() if len(each) > 1 for at in each}
    return tuple(first.get(at, ALONE) for at in range(len(sources)))


def _side_by_side(
    reads: Sequence[Read], space: Layer, operands: Sequence[Tensor], external: int
) -> Iterator[Source]:
    """The sources of operands whose channels follow one another: the network's ``external`` ones, then reads.

    An operand of an element-wise layer may end within a read, whose other channels are then the next
    operand's: the read is a source of both.
    """
    firsts = np.cumsum([0, *(space.length(tensor.axes[0]) for tensor in operands)]).tolist()
    pieces: list[tuple[int | None, int, int]] = [(None, 0, external)]
    pieces += [(read.producer, read.first, read.channels) for read in reads]
    begin = 0
    for producer, skipped, channels in pieces:
        for tensor, start, end in zip(operands, firsts, firsts[1:], strict=False):
            low, high = max(begin, start), min(begin + channels, end)
            if low < high:
                first = 0 if producer is None else begin - skipped - start
                box = ((low - start, high - start), *_box(space, tensor)[1:])
                yield Source(tensor.name, tensor.role, producer, first, box)
        begin += channels


def _box(space: Layer, tensor: Tensor) -> Box:
    """All elements of a tensor."""
    return tuple((0, space.length(axis)) for axis in tensor.axes)
