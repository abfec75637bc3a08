"""One leaf of an RA tree: the partition and placement that the released evaluator picks, and what they cost.

As in section 4.2.2, every partition into K x B x H x W parts and every order in which these can lie on the
tiles are searched exhaustively. The best by the objective is picked with no regard to the rest of the tree.
Bytes on links are counted only for the one that is picked, so contention does not influence the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.published.set_isca2023.hardware import Platform
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaCost
from costmodel.published.set_isca2023.tile_tables import TableRows, TileTables
from costmodel.schedule.leaf.geometry import placement_orders, ranges_of
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.mesh.geometry import mesh_of

Array = NDArray[Any]

FROM_DRAM = (0,) * 15
"""The columns from DIRECT on of a source whose data DRAM sends: there is no producer to describe."""


@dataclass(frozen=True)
class ReleasedLeafCost:
    """What a leaf costs for one batch; ``shared_pj`` is the energy of the tiles' global buffers.

    ``numbers`` [3 + 6 tiles] is what compiled code fills in: cycles (the larger of the tiles' and DRAM's),
    hops times bytes, DRAM bytes; then the bytes of inputs [tiles] and of weights [tiles] on every tile of the
    mesh; then the bytes on every link [4 tiles].
    """

    placement: Placement
    tile: NvdlaCost
    energy_pj: float
    shared_pj: float
    numbers: Array

    @property
    def cycles(self) -> int:
        return int(self.numbers[0])

    @property
    def hop_bytes(self) -> int:
        return int(self.numbers[1])

    @property
    def dram_bytes(self) -> int:
        return int(self.numbers[2])

    @property
    def inputs(self) -> Array:
        return self.numbers[3 : 3 + len(self.numbers) // 6]

    @property
    def weights(self) -> Array:
        tiles = len(self.numbers) // 6
        return self.numbers[3 + tiles : 3 + 2 * tiles]

    @property
    def links(self) -> Array:
        return self.numbers[3 + 2 * (len(self.numbers) // 6) :]


class ReleasedLeafSearch:
    """Searches leaves of the network, on the platform and for the objective of ``tables``."""

    def __init__(self, tables: TileTables) -> None:
        from costmodel.published.set_isca2023.leaf.values import ReleasedPrices

        self.tables = tables
        self._graph, self._platform, self._batch = tables.graph, tables.platform, tables.batch
        platform = tables.platform
        self._workspace = _workspace(platform)
        self._prices = ReleasedPrices(
            platform.hop_pj_per_byte,
            platform.dram_pj_per_byte,
            platform.dram_bytes_per_cycle,
            tables.exponent,
        )
        self._from_dram = [self._sources(number) for number in range(len(tables.graph.layers))]

    def search(
        self, layer: int, on: tuple[int, int, int], producers: dict[int, Placement], to_dram: bool
    ) -> ReleasedLeafCost | None:
        """The cheapest partition and placement of ``layer``; None if no partition fits.

        ``on`` = (batch, first tile, number of tiles). ``producers``: placements of those producers whose
        outputs come over the NoC; all other inputs come from DRAM.
        """
        from costmodel.published.set_isca2023.leaf.search_kernel import search
        from costmodel.published.set_isca2023.leaf.values import ReleasedLeaf, ReleasedTable

        batch, first, tiles = on
        table = self.tables.rows(layer, batch, tiles)
        if not len(table.parts):
            return None
        leaf = ReleasedLeaf(
            self.tables.spaces[layer],
            self._graph.layers[layer].sizes(batch),
            first,
            self._from(layer, producers),
            to_dram,
            self._batch // batch,
        )
        rows = ReleasedTable(table.parts, table.energy_pj, table.cycles, *placement_orders())
        found, bounds = np.zeros(2, np.int64), np.empty(len(table.parts))
        numbers = np.zeros(3 + 6 * self._platform.tiles, np.int64)
        search(self._workspace, leaf, rows, self._prices, bounds, (found, numbers))
        return self._picked(leaf, table, found.tolist(), numbers)

    def _picked(self, leaf: Any, table: TableRows, found: list[int], numbers: Array) -> ReleasedLeafCost:
        (row, number), (_, hops, dram) = found, numbers[:3].tolist()
        parts = tuple(table.parts[row].tolist())
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        noc = hops * self._platform.hop_pj_per_byte + dram * self._platform.dram_pj_per_byte
        return ReleasedLeafCost(
            placement=Placement(leaf.sizes[1], leaf.tile, parts, tuple(order.tolist())),
            tile=table.tiles[row],
            energy_pj=float(table.energy_pj[row] + noc),
            shared_pj=float(table.shared_pj[row]),
            numbers=numbers,
        )

    def _from(self, layer: int, producers: dict[int, Placement]) -> Array:
        """The layer's sources [n, WIDTH]: of inputs, and of weights that are activations, by channel."""
        rows, numbers = self._from_dram[layer]
        if not producers:
            return rows
        # The rows are kept for the layer, and with other producers in the segment other ones come over the
        # NoC.
        rows = rows.copy()
        for row, number in enumerate(numbers):
            if number in producers:
                placement, producer = producers[number], self._graph.layers[number]
                sizes = producer.sizes(placement.batch)
                rows[row, 3:] = (
                    1,
                    placement.batch,
                    *sizes,
                    *placement.parts,
                    *placement.steps,
                    placement.tile,
                )
        return rows

    def _sources(self, number: int) -> tuple[Array, list[int]]:
        """The layer's sources if all come from DRAM, and the producer of each row (-1: the network's input).

        Producers are concatenated along channels. Those of an element-wise layer are operands with the same
        channels: once they have reached the layer's last channel, the next one starts at 0.
        """
        layer, rows, numbers = self._graph.layers[number], [], []
        channel = 0
        for producer in layer.weight_producers:
            k = self._graph.layers[producer].k
            rows.append([1, channel, channel + k, *FROM_DRAM])
            numbers.append(producer)
            channel += k
        if layer.external_c:
            rows.append([0, 0, layer.external_c, *FROM_DRAM])
            numbers.append(-1)
        channel = layer.external_c
        for producer in layer.producers:
            # Operands of an element-wise layer have the same channels, so each begins anew at channel 0.
            if layer.kind == "eltwise" and channel == layer.k:
                channel = 0
            k = self._graph.layers[producer].k
            rows.append([0, channel, channel + k, *FROM_DRAM])
            numbers.append(producer)
            channel += k
        return np.array(rows, np.int64).reshape(-1, 3 + len(FROM_DRAM)), numbers


def _workspace(platform: Platform) -> Any:
    """What compiled code works with: the mesh with its links, and arrays for the ranges of a partition."""
    from costmodel.published.set_isca2023.leaf.values import ReleasedWorkspace

    positions = [platform.position(tile) for tile in range(platform.tiles)]
    mesh = mesh_of((platform.columns, platform.rows), positions, platform.ports, with_links=True)
    return ReleasedWorkspace(mesh, ranges_of(platform.tiles))
