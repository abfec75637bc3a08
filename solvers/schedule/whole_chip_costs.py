"""The costs of layers that are mapped on the whole chip: a table that solves the costs that it lacks.

Such a layer is a segment of its own, with its mapping spread over all tiles and its data in DRAM. The other
way to run a layer, cut among tiles with pinned weights, is in ``tiles/cost_table.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import Widths
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.whole_chip.cost import WholeChipCost, streamed_layer_cost
from costmodel.schedule.whole_chip.padding import padded_inputs
from costmodel.workload.network import Layer, Tensor

NestShape = tuple[Any, ...]
"""``Layer.shape`` of a nest, its padded inputs, and bits of its elements: equal ones have the same cost."""

WholeChipNests = Mapping[NestShape, WholeChipCost | None]
"""Costs by the shape of the loop nest; None where a solver found no mapping."""


def nest_shape(layer: NetworkLayer, batch: int, widths: Widths) -> NestShape:
    """All that the cost of ``batch`` samples of a layer with weights on the whole chip depends on."""
    return layer.nest(batch).shape, padded_inputs(layer), ElementBits.of(layer, widths)


@dataclass(frozen=True)
class WholeChipCosts:
    """Costs of a network's layers, each mapped on the whole ``chip``: KAPLA's single-layer segments (IV-B).

    ``known``: costs that are there beforehand. ``solve``: maps a nest that is not ``known``; its answer is
    remembered. Without ``solve``, such a nest raises LookupError.
    Layers without weights have no products to map: they are streamed through the tiles.
    """

    chip: Chip
    known: WholeChipNests
    solve: Callable[[Layer, Tensor | None, ElementBits], WholeChipCost | None] | None = None
    _solved: dict[NestShape, WholeChipCost | None] = field(default_factory=dict)
    _streamed: dict[tuple[NetworkLayer, int], WholeChipCost | None] = field(default_factory=dict)

    def cost(self, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
        """The cost of ``batch`` samples of a layer; None where no mapping was found."""
        if not layer.has_weights:
            return self._streamed_cost(layer, batch)
        shape = nest_shape(layer, batch, self.chip.tile.widths)
        for costs in (self.known, self._solved):
            if shape in costs:
                return costs[shape]
        if self.solve is None:
            raise LookupError(f"no cost of {batch} samples of {layer.name} on the whole chip")
        bits = ElementBits.of(layer, self.chip.tile.widths)
        self._solved[shape] = self.solve(layer.nest(batch), padded_inputs(layer), bits)
        return self._solved[shape]

    def _streamed_cost(self, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
        """The cost of a layer without weights, counted once for all layers of its sizes."""
        sizes = replace(layer, name="", external_c=0, producers=(), weight_producers=(), channels=())
        if (sizes, batch) not in self._streamed:
            self._streamed[sizes, batch] = streamed_layer_cost(self.chip, sizes, batch)
        return self._streamed[sizes, batch]

    def learn(self, costs: WholeChipNests) -> None:
        """Add costs that were solved elsewhere."""
        self._solved.update((shape, cost) for shape, cost in costs.items() if shape not in self.known)

    @property
    def solves(self) -> int:
        """How many nests were solved, here or elsewhere, since the table was made."""
        return len(self._solved)

    def knows(self, layer: NetworkLayer, batch: int) -> bool:
        """Whether :meth:`cost` has an answer without solving anything."""
        if not layer.has_weights:
            return True
        shape = nest_shape(layer, batch, self.chip.tile.widths)
        return shape in self.known or shape in self._solved
