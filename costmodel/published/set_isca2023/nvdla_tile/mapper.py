"""How one tile computes its part of a layer, as the ``polar`` mapper of the released SET program finds it.

The loop order is fixed. The mapper tries every spatial split of the PE grid with every useful block of
outputs, and takes the nest that is cheapest by the objective (SET, section 4.2.2, on intra-tile dataflow).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.published.set_isca2023.nvdla_tile.hardware import NvdlaBuffer, NvdlaTile
from costmodel.schedule.layer_graph.graph import NetworkLayer


@dataclass(frozen=True)
class NvdlaCost:
    """Energies (pJ) and cycles of one tile for its part of a layer.

    ``energy_pj`` is the total; the other energies are its parts, ``shared_pj`` that of the global buffer.
    """

    energy_pj: float
    cycles: int
    shared_pj: float
    buffers_pj: float
    bus_pj: float
    mac_pj: float


@dataclass(frozen=True)
class OutputPart:
    """A tile's part of a layer: outputs ``k`` x ``h`` x ``w`` for ``b`` samples.

    Where tiles have uneven parts this is the largest, which the other tiles wait for.
    """

    k: int
    h: int
    w: int
    b: int

    @staticmethod
    def of(layer: NetworkLayer, parts: tuple[int, int, int, int], batch: int) -> OutputPart:
        """The largest part when K, B, H and W are cut into ``parts`` [4] parts."""
        k, b, h, w = (-(-size // part) for size, part in zip(layer.sizes(batch), parts, strict=True))
        return OutputPart(k, h, w, b)


class NvdlaMapper:
    """Costs of tile parts for one objective; equal parts, of which a search meets many, are mapped once."""

    def __init__(self, tile: NvdlaTile, exponent: int) -> None:
        self._tile, self._exponent = tile, exponent
        self._known: dict[tuple[int, ...], NvdlaCost | None] = {}
        self._numbers = _numbers(tile)

    def cost(self, layer: NetworkLayer, part: OutputPart) -> NvdlaCost | None:
        """The cost of ``part``; None where no loop nest fits the buffers of a PE."""
        if not layer.has_weights:
            return self._without_weights(layer, part)
        work = _workload(layer, part)
        # A search meets the same part hundreds of times: on other tiles, in other trees, in layers of equal
        # shape.
        if work not in self._known:
            self._known[work] = self.searched(work)
        return self._known[work]

    def _without_weights(self, layer: NetworkLayer, part: OutputPart) -> NvdlaCost:
        """Pooling and element-wise layers run on the tile's vector units; only operations are counted."""
        operations = part.k * part.h * part.w * layer.operands * layer.r * layer.s * part.b
        energy = operations * self._tile.vector_operation_pj
        return NvdlaCost(energy, -(-operations // self._tile.vector_units), 0.0, 0.0, 0.0, energy)

    def searched(self, work: tuple[int, ...]) -> NvdlaCost | None:
        """The cheapest nest of ``work``, numbers of a :class:`.mapper_values.TileWork`; None: none fits."""
        from costmodel.published.set_isca2023.nvdla_tile.mapper_kernel import best_nest
        from costmodel.published.set_isca2023.nvdla_tile.mapper_values import NestProblem, TileWork

        best = np.empty(6)
        best_nest(NestProblem(self._numbers, TileWork(*work), self._exponent), best)
        if not np.isfinite(best[0]):
            return None
        energy, cycles, shared, buffers, bus, macs = best.tolist()
        return NvdlaCost(energy, int(cycles), shared, buffers, bus, macs)


def _workload(layer: NetworkLayer, part: OutputPart) -> tuple[int, ...]:
    """The numbers of a :class:`.mapper_values.TileWork`.

    Where a layer's weights are activations, every sample has its own, so every sample is a group.
    """
    c, k, b, groups = layer.c, part.k, part.b, 1
    if layer.kind == "groupconv":
        groups, c = -(-k // layer.group_k), layer.group_c
        k = layer.group_k if groups > 1 else k
    if layer.weight_producers:
        groups, b = groups * b, 1
    return (c, k, part.h, part.w, layer.r, layer.s, layer.stride_h, layer.stride_w, b, groups)


def _numbers(tile: NvdlaTile) -> Any:
    from costmodel.published.set_isca2023.nvdla_tile.mapper_values import TileNumbers

    def energies(buffer: NvdlaBuffer) -> tuple[float, float]:
        return buffer.read_pj_per_byte, buffer.write_pj_per_byte

    return TileNumbers(
        vector=tile.vector,
        lanes=tile.lanes,
        grid=tile.grid,
        activation_bytes=tile.activation.size_bytes // tile.vector,
        weight_bytes=tile.weight.size_bytes // tile.vector,
        output_bytes=tile.output.size_bytes // tile.lanes,
        bus_bytes_per_cycle=tile.bus_bytes_per_cycle,
        shared_bytes_per_cycle=tile.shared_bytes_per_cycle,
        mac_units=tile.macs,
        mac_pj=tile.mac_pj,
        bus_pj=tile.bus_pj_per_byte,
        activation_pj=energies(tile.activation),
        weight_pj=energies(tile.weight),
        output_pj=energies(tile.output),
        output_shared_pj=energies(tile.output_shared),
        shared_pj=energies(tile.shared),
    )
