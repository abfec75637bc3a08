"""How many bits the elements of a layer's tensors have on a chip."""

from __future__ import annotations

from typing import NamedTuple

from costmodel.hardware.widths import Widths
from costmodel.schedule.layer_graph.layer import NetworkLayer


class ElementBits(NamedTuple):
    """Bits of an element of each tensor of a layer, by the role that the tensor has in the layer's nest.

    ``outputs`` are complete; ``partial_sums`` are outputs that still lack some of their products.
    """

    weights: int
    inputs: int
    outputs: int
    partial_sums: int

    @staticmethod
    def of_parameters(widths: Widths) -> ElementBits:
        """The widths of a layer of an inference whose weights are parameters."""
        return ElementBits(widths.weights, widths.activations, widths.activations, widths.partial_sums)

    @staticmethod
    def of(layer: NetworkLayer, widths: Widths) -> ElementBits:
        """The widths of a layer's tensors.

        Weights that another layer computes are activations. An update takes errors, which are activations, as
        weights; what it computes has the width of the weights.
        """
        plain, activations = ElementBits.of_parameters(widths), widths.activations
        if layer.part == "update":
            sums = max(widths.partial_sums, widths.weights)
            return ElementBits(activations, activations, widths.weights, sums)
        return plain._replace(weights=activations) if layer.weight_producers else plain
