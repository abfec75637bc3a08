"""A layer with the numbers that all its leaves have in common, whatever their batch and tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import kernel_space
from costmodel.schedule.leaf.reduction import channel_parts
from costmodel.schedule.leaf.streams import streams_of

Array = NDArray[Any]


class LeafLayer:
    """Layer ``number`` of a network on the tiles of a chip.

    ``bits``: of an element of each tensor. ``streams``: all data of the layer. ``space``: its iteration space
    as compiled code has it. ``has_parameters``: whether its weights are parameters, which may be pinned or
    streamed; the weights of attention are not. ``parameter_bits``: of all those weights, each counted once.
    """

    def __init__(self, graph: LayerGraph, number: int, chip: Chip) -> None:
        self.layer = layer = graph.layers[number]
        self.bits = ElementBits.of(layer, chip.tile.widths)
        self.streams = streams_of(graph, number)
        self.space = kernel_space(layer)
        self.has_parameters = any(stream.pinned for stream in self.streams)
        elements = layer.compulsory_elements(1).weights if self.has_parameters else 0
        self.parameter_bits = self.bits.weights * elements
        self._spaces_of_channels: dict[int, list[Any]] = {}

    def spaces_of_channels(self, reduced: int) -> list[Any]:
        """The iteration space of each of ``reduced`` parts of the input channels."""
        if reduced not in self._spaces_of_channels:
            parts = channel_parts(self.layer, reduced)
            self._spaces_of_channels[reduced] = [kernel_space(self.layer, part) for part in parts]
        return self._spaces_of_channels[reduced]

    def volumes(self, batch: int, parts: Array, ranges: Any, space: Any = None) -> Array:
        """Elements [n, 4] of each partition of ``parts`` [n, 4] of so many samples.

        A row has the inputs on the fullest tile and on all tiles, then the weights. ``ranges``: scratch
        arrays for as many tiles (:func:`.geometry.ranges_of`). ``space``: that of some of the input channels;
        None stands for all of them.
        """
        from costmodel.schedule.leaf.kernels.volumes_kernel import volumes

        found = np.zeros((len(parts), 4), np.int64)
        volumes(self.space if space is None else space, self.layer.sizes(batch), parts, ranges, False, found)
        return found

    def slice_bits(self, weights: Array, slices: Any) -> Array:
        """Bits [n] of the largest slice of parts with ``weights`` [n] bits, each divided into ``slices``."""
        of_channel = self.parameter_bits // self.layer.k
        largest: Array = -(-weights // (of_channel * slices)) * of_channel
        return largest

    def first_slices_bits(self, k_parts: int, slices: int) -> int:
        """Bits of the first slice of each of ``k_parts`` parts of the output channels.

        Parts along other dims have the same weights, which DRAM sends once.
        """
        channels = self.layer.k
        firsts = (part_of(channels, k_parts * slices, part * slices) for part in range(k_parts))
        return self.parameter_bits // channels * sum(end - first for first, end in firsts)
