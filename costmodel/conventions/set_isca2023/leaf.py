"""One leaf of an RA tree: the partition and placement that the released evaluator picks, and what they cost.

Section 4.2.2: every partition into K x B x H x W parts and every placement order of them, exhaustively, for
the objective of this leaf alone; link contention is counted only for the one picked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.chip.geometry import kernel_shape, placement_orders, same_shapes
from costmodel.chip.layers import LayerGraph
from costmodel.conventions.set_isca2023.hardware import Platform
from costmodel.conventions.set_isca2023.intra_tile import Share, TileCost, TileMapper
from costmodel.conventions.set_isca2023.partitions import Parts, admitted

Array = NDArray[Any]
FROM_DRAM = (0,) * 15
"""What a source from DRAM has in place of its producer's numbers."""


@dataclass(frozen=True)
class Place:
    """Where a layer's outputs are: its batch and partition, the placement order, tiles from ``tile`` on."""

    batch: int
    tile: int
    parts: Parts
    order: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, int, int, int]:
        """How many tiles further the next part along K, B, H and W is."""
        steps, step = [0, 0, 0, 0], 1
        for axis in reversed(self.order):
            steps[axis], step = step, step * self.parts[axis]
        return steps[0], steps[1], steps[2], steps[3]


@dataclass(frozen=True)
class LeafCost:
    """What a leaf costs for one batch; arrays are a number a link or a tile of the whole mesh.

    ``shared_pj`` is the global buffers' energy, ``cycles`` the larger of the tiles' and DRAM's.
    """

    place: Place
    tile: TileCost
    energy_pj: float
    shared_pj: float
    cycles: int
    hop_bytes: int
    dram_bytes: int
    links: Array
    inputs: Array
    weights: Array


@dataclass(frozen=True)
class TableRows:
    """The tile cost table of a layer, number of tiles, batch and share of the weights' single load.

    ``parts`` [n, 4]; energies (pJ) of all tiles [n] and of the global buffers for the layer's data [n].
    """

    parts: Array
    energy_pj: Array
    shared_pj: Array
    cycles: Array
    tiles: tuple[TileCost, ...]


class LeafSearch:
    """Searches leaves of one network on one platform; the tile cost table is computed once."""

    def __init__(self, graph: LayerGraph, platform: Platform, batch: int, exponent: int) -> None:
        self._graph, self._platform, self._batch, self._exponent = graph, platform, batch, exponent
        self._mapper = TileMapper(platform.tile, exponent)
        self._tables: dict[tuple[int, int, int], TableRows] = {}
        self._shapes = [kernel_shape(layer) for layer in graph.layers]
        self._ids = same_shapes(graph)
        self._room, self._room_with_links = _rooms(platform)

    def search(
        self, layer: int, place: tuple[int, int, int], producers: dict[int, Place], to_dram: bool
    ) -> LeafCost | None:
        """The cheapest way for ``layer`` with ``place`` = (batch, first tile, tiles); None if none fits.

        ``producers``: where the outputs that come over the NoC are; all other inputs come from DRAM.
        """
        from costmodel.conventions.set_isca2023.leaf_kernel import search
        from costmodel.conventions.set_isca2023.leaf_values import Leaf, Prices, Table

        batch, first, tiles = place
        table = self._table(layer, batch, tiles)
        if not len(table.parts):
            return None
        sources = self._sources(layer, producers)
        sizes = self._graph.layers[layer].sizes(batch)
        leaf = Leaf(self._shapes[layer], sizes, first, sources, to_dram, self._batch // batch)
        platform = self._platform
        prices = Prices(
            platform.hop_pj_per_byte, platform.dram_pj_per_byte, platform.dram_bytes_per_cycle, self._exponent
        )
        rows = Table(table.parts, table.energy_pj, table.cycles, *placement_orders())
        found, bounds = np.zeros(4, np.int64), np.zeros(len(table.parts))
        search(self._room, leaf, rows, prices, bounds, found)
        return self._picked(leaf, table, found) if found[0] >= 0 else None

    def _picked(self, leaf: Any, table: TableRows, found: Array) -> LeafCost:
        from costmodel.conventions.set_isca2023.leaf_kernel import links_and_buffers

        row, number, hops, dram = found.tolist()
        parts, platform = table.parts[row], self._platform
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        held = np.zeros((2, platform.tiles), np.int64)
        links_and_buffers(self._room_with_links, leaf, parts, order, held)
        noc = hops * platform.hop_pj_per_byte + dram * platform.dram_pj_per_byte
        return LeafCost(
            place=Place(leaf.sizes[1], leaf.tile, tuple(parts.tolist()), tuple(order.tolist())),
            tile=table.tiles[row],
            energy_pj=float(table.energy_pj[row] + noc),
            shared_pj=float(table.shared_pj[row]),
            cycles=max(int(table.cycles[row]), -(-dram // platform.dram_bytes_per_cycle)),
            hop_bytes=hops,
            dram_bytes=dram,
            links=self._room_with_links.mesh.links.copy(),
            inputs=held[0],
            weights=held[1],
        )

    def _table(self, layer: int, batch: int, tiles: int) -> TableRows:
        key = (self._ids[layer], batch, tiles)
        if key not in self._tables:
            self._tables[key] = self._tabulated(layer, batch, tiles)
        return self._tables[key]

    def _tabulated(self, number: int, batch: int, tiles: int) -> TableRows:
        layer, tile = self._graph.layers[number], self._platform.tile
        rows: list[tuple[Parts, float, float, TileCost]] = []
        for parts in admitted(layer, batch, tiles, self._platform):
            largest_in, bytes_in, largest_w, bytes_w = self._volumes(number, batch, parts)
            if tile.output_stream_bytes + largest_in + largest_w > tile.shared.size_bytes:
                continue
            cost = self._mapper.cost(layer, Share.of(layer, parts, batch))
            if cost is None:
                continue
            load = bytes_w * tile.shared.write_pj_per_byte
            if not layer.weight_producers:
                load /= self._batch // batch
            data = load + layer.k * layer.h * layer.w * batch * tile.shared.read_pj_per_byte
            data += bytes_in * tile.shared.write_pj_per_byte
            rows.append((parts, cost.energy_pj * tiles + data, data, cost))
        return TableRows(
            np.array([row[0] for row in rows], np.int64).reshape(-1, 4),
            np.array([row[1] for row in rows]),
            np.array([row[2] + row[3].shared_pj * tiles for row in rows]),
            np.array([row[3].cycles for row in rows], np.int64),
            tuple(row[3] for row in rows),
        )

    def _volumes(self, number: int, batch: int, parts: Parts) -> tuple[int, int, int, int]:
        """Largest and total bytes of inputs, then of weights, over the tiles of a partition."""
        from costmodel.chip.volumes_kernel import volumes

        layer, found = self._graph.layers[number], np.zeros(4, np.int64)
        volumes(self._shapes[number], layer.sizes(batch), np.array(parts), self._room.ranges, found)
        largest_in, bytes_in, largest_w, bytes_w = found.tolist()
        return largest_in * layer.operands, bytes_in * layer.operands, largest_w, bytes_w

    def _sources(self, number: int, producers: dict[int, Place]) -> Array:
        """Where inputs and such weights as are activations come from [n, WIDTH], in the order of channels."""
        layer, rows = self._graph.layers[number], []
        channel = 0
        for producer in layer.weight_producers:
            k = self._graph.layers[producer].k
            rows.append(self._source(1, channel, producer, producers))
            channel += k
        if layer.external_c:
            rows.append([0, 0, layer.external_c, *FROM_DRAM])
        channel = layer.external_c
        for producer in layer.producers:
            if layer.kind == "eltwise" and channel == layer.k:
                channel = 0
            rows.append(self._source(0, channel, producer, producers))
            channel += self._graph.layers[producer].k
        return np.array(rows, np.int64).reshape(-1, 3 + len(FROM_DRAM))

    def _source(self, weights: int, channel: int, number: int, producers: dict[int, Place]) -> list[int]:
        producer, place = self._graph.layers[number], producers.get(number)
        channels = [weights, channel, channel + producer.k]
        if place is None:
            return [*channels, *FROM_DRAM]
        return [
            *channels,
            1,
            place.batch,
            *producer.sizes(place.batch),
            *place.parts,
            *place.steps,
            place.tile,
        ]


def _rooms(platform: Platform) -> tuple[Any, Any]:
    """The mesh and room for ranges, without and with links."""
    from costmodel.chip.geometry import mesh_of, ranges_of
    from costmodel.conventions.set_isca2023.leaf_values import Room

    positions = [platform.position(tile) for tile in range(platform.tiles)]
    ranges, sizes = ranges_of(platform.tiles), (platform.columns, platform.rows)
    without, links = (mesh_of(sizes, positions, platform.ports, with_links) for with_links in (False, True))
    return Room(without, ranges), Room(links, ranges)
