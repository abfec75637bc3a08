"""What layers cost alone on the chip, their loop nests mapped on it as one stack of levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from costmodel.chip.hardware import Chip
from costmodel.chip.layers import NetworkLayer
from costmodel.workload import Layer

if TYPE_CHECKING:
    from costmodel.chip.alone import AloneCost

NestShape = tuple[Any, ...]
"""``Layer.shape``: what makes two loop nests the same problem."""


@dataclass(frozen=True)
class LayersAlone:
    """Layers of one network alone on ``chip``, the single-layer segments of section IV-B.

    ``known``: costs by the shape of the loop nest, None where no mapping was found. Others are asked of
    ``solve`` and remembered; without it LookupError is raised. Layers without products need no mapping.
    """

    chip: Chip
    known: Mapping[NestShape, AloneCost | None]
    solve: Callable[[Layer], AloneCost | None] | None = None
    _solved: dict[NestShape, AloneCost | None] = field(default_factory=dict)

    def cost(self, layer: NetworkLayer, batch: int) -> AloneCost | None:
        """Of ``batch`` samples; None where no mapping was found."""
        from costmodel.chip.alone import local_alone_cost

        if not layer.has_weights:
            return local_alone_cost(self.chip, layer, batch)
        nest = layer.nest(batch)
        for costs in (self.known, self._solved):
            if nest.shape in costs:
                return costs[nest.shape]
        if self.solve is None:
            raise LookupError(f"no cost of {layer.name} alone with {batch} samples")
        self._solved[nest.shape] = self.solve(nest)
        return self._solved[nest.shape]

    def has(self, layer: NetworkLayer, batch: int) -> bool:
        """Whether :meth:`cost` has an answer, or can get one in this process."""
        return not layer.has_weights or self.solve is not None or layer.nest(batch).shape in self.known
