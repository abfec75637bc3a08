"""Lower bounds on the bits, energy and cycles of a layer, for all its partitions and mappings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.compulsory import touched_inputs
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from solvers.divisors import divisors

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerFloor:
    """Lower bounds for one sample of a layer.

    ``inputs``: the bits of inputs that windows touch, each with the layer that produces them (None: the
    network's input).
    ``weights``: bits of pinned weights, once for all samples; 0 for a layer without.
    ``outputs``: bits of outputs.
    ``energy_pj``: of computing, of writing the inputs into buffers and of reading the outputs out of them.
    ``inside_pj``: the part of it that is spent from the tiles' buffers inwards.
    ``weights_pj``: of writing the weights into buffers, once for all samples; not in ``energy_pj``.
    ``tile_cycles``: cycles that the sample takes on one tile; n tiles take a fraction 1/n of it at best.
    ``repeats``: whether partitions repeat data: tiles with different output channels K then need the same
    inputs, and tiles with the same output channels the same weights.
    """

    inputs: tuple[tuple[int | None, int], ...]
    weights: int
    outputs: int
    energy_pj: float
    inside_pj: float
    weights_pj: float
    tile_cycles: float
    repeats: bool

    @property
    def input_bits(self) -> int:
        """Bits of inputs from all producers."""
        return sum(count for _, count in self.inputs)

    @staticmethod
    def of(graph: LayerGraph, number: int, chip: Chip) -> LayerFloor:
        """The least of layer ``number``: all PEs busy, every bit into a buffer once or out of it once.

        No partition and no mapping takes less.
        """
        layer, tile = graph.layers[number], chip.tile
        bits = ElementBits.of(layer, tile.widths)
        inputs = _inputs(graph, layer, bits)
        # activations as weights are not pinned: they arrive as inputs do, and count among those
        pinned = layer.has_weights and not layer.weight_producers
        # an update computes its outputs once a batch, so a sample has none
        outputs = 0 if layer.part == "update" else layer.k * layer.h * layer.w * bits.outputs
        weights = _weights(layer) * bits.weights if pinned else 0
        operation_pj = tile.mac_pj if layer.has_weights else tile.vector_operation_pj
        rate = tile.macs if layer.has_weights else tile.vector_units
        moved_pj = 0.0 if layer.has_weights else outputs * tile.buffer.read_pj_per_bit
        moved_pj += sum(count for _, count in inputs) * tile.buffer.write_pj_per_bit
        return LayerFloor(
            inputs=inputs,
            weights=weights,
            outputs=outputs,
            energy_pj=layer.operations * operation_pj + moved_pj,
            inside_pj=layer.operations * operation_pj,
            weights_pj=weights * tile.buffer.write_pj_per_bit,
            tile_cycles=layer.operations / rate,
            repeats=pinned and layer.groups == 1,
        )

    def raised(self, inside_pj: float, tile_cycles: float) -> LayerFloor:
        """The same layer with more energy inside tiles and more cycles, where these arguments are more.

        They come from a mapping of one sample on one tile. The result is a closer estimate, but not proven:
        parts of a layer may have mappings that are better than the whole layer's.
        """
        more_pj = max(0.0, inside_pj - self.inside_pj)
        return replace(
            self,
            energy_pj=self.energy_pj + more_pj,
            inside_pj=self.inside_pj + more_pj,
            tile_cycles=max(self.tile_cycles, tile_cycles),
        )

    def without_producers(self) -> LayerFloor:
        """The same for a layer whose inputs come from others: what its leaves take is the same."""
        return replace(self, inputs=((None, self.input_bits),))

    def held_bits(self, samples: Array, tiles: int, bands: Array) -> Array:
        """Bits [n] that ``tiles`` tiles hold at least: inputs of ``samples`` [n] samples, and the weights.

        With several ``bands`` [n] the inputs are those of one band, by their mean, which some band exceeds.

        Cut K into d parts and everything else into tiles / d. Then each input is held by d tiles, one for
        each part of K, and each weight by tiles / d. The least is over all divisors d of ``tiles``.
        """
        inputs: Array = samples * self.input_bits // bands
        if not self.repeats:
            return inputs + self.weights
        parts = np.array(divisors(tiles))
        held: Array = (parts * inputs[:, None] + tiles // parts * self.weights).min(axis=1)
        return held


def _inputs(graph: LayerGraph, layer: NetworkLayer, bits: ElementBits) -> tuple[tuple[int | None, int], ...]:
    """Bits of inputs that the windows of all outputs touch, by producer; each bit counts once."""
    of_input = bits.inputs * touched_inputs(layer, 1)
    inputs, weights = graph.reads(layer)
    found: list[tuple[int | None, int]] = []
    if layer.external_c:
        found.append((None, layer.external_c * of_input))
    found += [(one.producer, one.channels * of_input) for one in inputs]
    # activations as weights: each channel of their producer has the weights of one output channel, or of one
    # of each head that shares them
    of_channel = bits.weights * (layer.compulsory_elements(1).weights // layer.k)
    return (*found, *((one.producer, one.channels * of_channel) for one in dict.fromkeys(weights)))


def _weights(layer: NetworkLayer) -> int:
    """How many weights there are: K filters over the input channels of one group."""
    return layer.k * layer.group_c * layer.r * layer.s
