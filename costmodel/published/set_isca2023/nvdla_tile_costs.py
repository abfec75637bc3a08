"""The chip model's tile costs from the mapper of NVDLA-style tiles that SET's released program has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from costmodel.hardware.chip import Chip, Dram, Noc, TileBuffer
from costmodel.hardware.chip import Tile as ChipTile
from costmodel.published.set_isca2023.hardware import Platform
from costmodel.published.set_isca2023.nvdla_tile.hardware import NvdlaTile
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaMapper, OutputPart
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import same_shapes
from costmodel.schedule.leaf.partitions import factorizations, well_used
from costmodel.schedule.tile_cost import TileFloor, TileRows, table_floor


class NvdlaTileCosts:
    """Costs on the tiles of SET's section 5.1; every tile is charged as the one with the largest part.

    ``exponent``: stands for the objective by which loop nests are chosen (see ``objective_value``).
    """

    def __init__(self, graph: LayerGraph, tile: NvdlaTile, exponent: int = 1) -> None:
        self._graph, self._tile = graph, tile
        self._mapper = NvdlaMapper(tile, exponent)
        self._rows: dict[tuple[int, int, int], TileRows] = {}
        self._floors: dict[tuple[int, tuple[int, ...], int], TileFloor] = {}

    @cached_property
    def _same(self) -> list[int]:
        return same_shapes(self._graph)

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        key = (self._same[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._tabulated(*key)
        return self._rows[key]

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """None: SET's leaves keep their weights."""
        return TileRows.of([])

    shares_weights = False

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """None: SET's tiles share no weights."""
        return TileRows.of([])

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        """None: SET has no bands."""
        return [TileRows.of([]) for _ in heights]

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        """None: SET has no bands."""
        return [TileRows.of([]) for _ in heights]

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        """None: SET cuts no input channels."""
        return TileRows.of([])

    def _tabulated(self, number: int, batch: int, tiles: int) -> TileRows:
        layer, found = self._graph.layers[number], []
        for parts in well_used(layer.sizes(batch), factorizations(tiles)):
            cost = self._mapper.cost(layer, OutputPart.of(layer, parts, batch))
            if cost is not None:
                found.append((parts, cost.energy_pj * tiles, cost.cycles))
        return TileRows.of(found)

    def normalized_cycles(self, layer: int) -> float:
        tile = self._tile
        return self._graph.layers[layer].normalized_cycles(
            tile.vector, tile.lanes, tile.macs, tile.vector_units
        )

    def on_whole_chip(self, layer: int, batch: int) -> None:
        """None: this mapper has no loops outside a tile's buffer, so it cannot map the whole chip."""

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        key = (self._same[layer], tuple(batches), tiles)
        if key not in self._floors:
            self._floors[key] = table_floor(self, self._graph, *key)
        return self._floors[key]


def chip_of(platform: Platform, name: str) -> Chip:
    """A platform of the released evaluator as a chip; hardware that the evaluator ignores is not added."""
    tile = platform.tile
    shared = tile.shared
    return Chip(
        name=name,
        columns=platform.columns,
        rows=platform.rows,
        tile=ChipTile(
            buffer=TileBuffer(shared.size_bytes, shared.read_pj_per_byte, shared.write_pj_per_byte),
            macs=tile.macs,
            mac_pj=tile.mac_pj,
            vector_units=tile.vector_units,
            vector_operation_pj=tile.vector_operation_pj,
            output_stream_bytes=tile.output_stream_bytes,
        ),
        noc=Noc(platform.link_bytes_per_cycle, platform.hop_pj_per_byte),
        dram=Dram(platform.dram_bytes_per_cycle, platform.dram_pj_per_byte, platform.dram_pj_per_byte),
        stripe=platform.stripe,
    )
