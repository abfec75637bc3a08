"""The partitions of a leaf whose parts fit the buffers of tiles, and what they cost without NoC and DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.leaf.reduction import Adding
from costmodel.schedule.leaf.sharing import most_slices
from costmodel.schedule.leaf.streams import LeafRun
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.tile_cost import TileCosts, TileRows

Array = NDArray[Any]


@dataclass(frozen=True)
class PartitionRows:
    """The n partitions of one batch of a layer that fit the buffers; all arrays have a row for each."""

    parts: Array
    """[n, 4]: into how many parts K, B, H and W are cut."""
    tiles_pj: Array
    """[n]: energy within tiles."""
    transfers_pj: Array
    """[n]: energy of transfers into and out of the tiles' buffers, but for weights that are parameters."""
    weights_pj: Array
    """[n]: energy of filling the buffers once with the weights that are parameters."""
    cycles: Array
    """[n]: of the slowest tile."""
    leakage_pj: Array
    """[n]: of all tiles, per cycle."""
    slices: Array
    """[n]: into how many slices of output channels a tile divides its part (:class:`.tile_cost.TileRows`)."""
    sharers: Array
    """[n]: among how many tiles the weights are divided (:class:`.tile_cost.TileRows`)."""
    held: Array
    """[n]: bits of inputs, weights and partial sums on the fullest tile."""
    pinned: Array
    """[n]: those of them that stay between runs: weights that are parameters, or a tile's share of them."""
    band_cycles: Array
    """[n, bands]: of the slowest tile for each band, which add up to ``cycles``; [n, 0] without bands."""

    def kept(self, which: Array) -> PartitionRows:
        """Only the rows ``which`` [n] is true for."""
        return PartitionRows(*(getattr(self, one.name)[which] for one in fields(self)))


class PartitionTables:
    """The partition rows of all layers of a network on one chip; each table is made once.

    ``layers``: by number. ``ranges``: the scratch arrays in which volumes are counted.
    """

    def __init__(self, layers: Sequence[LeafLayer], chip: Chip, tile_costs: TileCosts, ranges: Any) -> None:
        self._layers, self._chip, self._costs, self._ranges = layers, chip, tile_costs, ranges
        self._rows: dict[tuple[int, int, int, bool, LeafBands | None], PartitionRows] = {}
        self._sliced: dict[tuple[int, int, int], PartitionRows] = {}
        self._reduced: dict[tuple[int, int, int, int], PartitionRows] = {}
        self._shared: dict[tuple[int, int, int, LeafBands | None], PartitionRows] = {}

    def rows(self, number: int, run: LeafRun) -> PartitionRows:
        """The partitions of a leaf with all its input channels on each tile, of bands where it has bands."""
        key = (number, run.batch, run.tiles, run.streamed, run.bands)
        if key not in self._rows:
            self._rows[key] = (
                self._whole(*key[:4])
                if run.bands is None
                else self._in_bands(number, run.batch, run.tiles, run.bands)
            )
        return self._rows[key]

    def sliced_rows(self, number: int, run: LeafRun) -> PartitionRows:
        """The partitions of a leaf whose weights are streamed in several slices.

        A partition whose weights come in one slice holds all of them, so it may as well pin them.
        """
        key = (number, run.batch, run.tiles)
        if key not in self._sliced:
            rows = self.rows(number, run)
            self._sliced[key] = rows.kept(rows.slices > 1)
        return self._sliced[key]

    def reduced_rows(self, number: int, run: LeafRun) -> PartitionRows:
        """The partitions of a leaf with its input channels cut, with the costs of computing and of adding.

        ``cycles`` are those of an owner, which does both.
        """
        key = (number, run.batch, run.tiles, run.reduced)
        if key not in self._reduced:
            self._reduced[key] = self._with_channels_cut(*key)
        return self._reduced[key]

    def shared_rows(self, number: int, run: LeafRun) -> PartitionRows:
        """The partitions of a leaf whose tiles share their weights (:mod:`.sharing`).

        ``weights_pj`` is of writing each share into the buffers of those that have it. What tiles pass on and
        take in is of every run, and among ``transfers_pj``.
        """
        key = (number, run.batch, run.tiles, run.bands)
        if key not in self._shared:
            self._shared[key] = self._with_weights_shared(*key)
        return self._shared[key]

    def _whole(self, number: int, batch: int, tiles: int, streamed: bool) -> PartitionRows:
        source = self._costs.streamed_rows if streamed else self._costs.rows
        costs = source(number, batch, tiles)
        return self._fitting(
            number, batch, costs, np.zeros((len(costs.parts), 0), np.int64), streamed=streamed
        )

    def _in_bands(self, number: int, batch: int, tiles: int, bands: LeafBands) -> PartitionRows:
        """The partitions whose bands fit the buffers, with the costs of all bands together."""
        heights = sorted(set(bands.heights), reverse=True)
        found = dict(zip(heights, self._costs.band_rows(number, batch, tiles, heights), strict=True))
        whole, cycles = _together([found[height] for height in bands.heights])
        return self._fitting(number, batch, whole, cycles, self._rows_held(number, bands))

    def _rows_held(self, number: int, bands: LeafBands) -> tuple[int, int]:
        """How many rows of its inputs a tile holds at a time, and out of how many."""
        rows = max(
            sum(bands.held(stream.producer, False))
            for stream in self._layers[number].streams
            if stream.kind == "inputs"
        )
        return rows, bands.rows_read

    def _fitting(
        self,
        number: int,
        batch: int,
        costs: TileRows,
        band_cycles: Array,
        rows_held: tuple[int, int] = (1, 1),
        streamed: bool = False,
    ) -> PartitionRows:
        """The rows of ``costs`` that fit the buffers, with the energy of filling these.

        A tile must hold the inputs and weights of its part, and the stream of its outputs. Of weights that
        are ``streamed`` in several slices it holds two slices, as one arrives while the other is used. An
        element-wise layer with several operands holds the inputs once for each operand. With bands a tile
        holds some rows of the inputs: ``rows_held`` are how many, and out of how many.

        Outputs of a layer with weights cost nothing here when they leave: its mapping counts their update in
        the buffer, as ``evaluate`` does. Outputs of vector units, which have no mapping, are read from the
        buffer once.
        """
        leaf, tile = self._layers[number], self._chip.tile
        layer, bits, buffer = leaf.layer, leaf.bits, tile.buffer
        volumes = leaf.volumes(batch, costs.parts, self._ranges)
        inputs, weights = volumes[:, :2] * (layer.input_tensors * bits.inputs), volumes[:, 2:] * bits.weights
        fullest = weights[:, 0]
        stays = np.zeros_like(fullest) if streamed or layer.weight_producers else fullest
        if streamed:
            fullest = leaf.slice_bits(fullest, costs.slices) * np.minimum(costs.slices, 2)
        held = inputs[:, 0] // rows_held[1] * rows_held[0] + fullest
        fits = held <= tile.free_bits
        filled = inputs[:, 1] + (weights[:, 1] if layer.weight_producers else 0)
        outputs = 0 if layer.has_weights else layer.k * layer.h * layer.w * batch * bits.outputs
        emptied = outputs * buffer.read_pj_per_bit
        pinned = weights[:, 1] * (0 if layer.weight_producers else buffer.write_pj_per_bit)
        return PartitionRows(
            parts=costs.parts,
            tiles_pj=costs.energy_pj,
            transfers_pj=filled * buffer.write_pj_per_bit + emptied,
            weights_pj=pinned,
            cycles=costs.cycles,
            leakage_pj=costs.leakage_pj_per_cycle,
            slices=costs.slices,
            sharers=costs.sharers,
            held=held,
            pinned=stays,
            band_cycles=band_cycles,
        ).kept(fits)

    def _with_channels_cut(self, number: int, batch: int, tiles: int, reduced: int) -> PartitionRows:
        """The rows for ``reduced`` parts of the input channels; ``tiles`` are those of all groups."""
        leaf, tile = self._layers[number], self._chip.tile
        layer, bits = leaf.layer, leaf.bits
        costs = self._costs.reduced_rows(number, batch, tiles // reduced, reduced)
        adding = Adding.of(layer, self._chip, batch, costs.parts, reduced)
        volumes = np.array(
            [
                leaf.volumes(batch, costs.parts, self._ranges, space)
                for space in leaf.spaces_of_channels(reduced)
            ]
        )
        inputs, weights = volumes[..., :2] * bits.inputs, volumes[..., 2:] * bits.weights
        # Each tile of a group has a part of the channels to itself. The owner has the first part, which is
        # the largest one, and holds the partial sums of the whole group.
        held = (inputs[..., 0] + weights[..., 0]).max(axis=0) + adding.held
        weights_filled, inputs_filled = weights[..., 1].sum(axis=0), inputs[..., 1].sum(axis=0)
        filled = inputs_filled + (weights_filled if layer.weight_producers else 0)
        return PartitionRows(
            parts=costs.parts,
            tiles_pj=costs.energy_pj + adding.tiles_pj,
            transfers_pj=filled * tile.buffer.write_pj_per_bit + adding.transfers_pj,
            weights_pj=weights_filled * (0 if layer.weight_producers else tile.buffer.write_pj_per_bit),
            cycles=costs.cycles + adding.cycles,
            leakage_pj=costs.leakage_pj_per_cycle,
            slices=costs.slices,
            sharers=costs.sharers,
            held=held,
            pinned=weights[..., 0].max(axis=0) * (0 if layer.weight_producers else 1),
            band_cycles=np.zeros((len(costs.parts), 0), np.int64),
        ).kept(held <= tile.free_bits)

    def _with_weights_shared(
        self, number: int, batch: int, tiles: int, bands: LeafBands | None
    ) -> PartitionRows:
        """A tile holds its inputs, its share, and up to two slices of others."""
        leaf, buffer = self._layers[number], self._chip.tile.buffer
        if bands is None:
            costs, times, rows_held = self._costs.shared_rows(number, batch, tiles), 1, (1, 1)
            cycles = np.zeros((len(costs.parts), 0), np.int64)
        else:
            heights = sorted(set(bands.heights), reverse=True)
            of_heights = self._costs.shared_band_rows(number, batch, tiles, heights)
            found = dict(zip(heights, of_heights, strict=True))
            costs, cycles = _together([found[height] for height in bands.heights])
            times, rows_held = bands.count, self._rows_held(number, bands)
        volumes = leaf.volumes(batch, costs.parts, self._ranges)
        inputs, weights = volumes[:, :2] * leaf.bits.inputs, volumes[:, 2:] * leaf.bits.weights
        slices, sharers = costs.slices, costs.sharers
        share = leaf.slice_bits(weights[:, 0], sharers)
        held = inputs[:, 0] // rows_held[1] * rows_held[0] + share
        held = held + most_slices(slices, sharers) * leaf.slice_bits(weights[:, 0], slices)
        of_all_shares = weights[:, 1] // sharers
        passed_pj = of_all_shares * (buffer.read_pj_per_bit + (sharers - 1) * buffer.write_pj_per_bit)
        return PartitionRows(
            parts=costs.parts,
            tiles_pj=costs.energy_pj,
            transfers_pj=inputs[:, 1] * buffer.write_pj_per_bit + times * passed_pj,
            weights_pj=of_all_shares * buffer.write_pj_per_bit,
            cycles=costs.cycles,
            leakage_pj=costs.leakage_pj_per_cycle,
            slices=slices,
            sharers=sharers,
            held=held,
            pinned=share,
            band_cycles=cycles,
        ).kept(held <= self._chip.tile.free_bits)


def _together(costs: Sequence[TileRows]) -> tuple[TileRows, Array]:
    """The costs of the same partitions in all bands, from those of each band, and the cycles [n, bands]."""
    cycles = np.stack([one.cycles for one in costs], axis=1)
    leaked = sum(one.leakage_pj_per_cycle * one.cycles for one in costs)
    whole = TileRows(
        costs[0].parts,
        np.sum([one.energy_pj for one in costs], axis=0),
        cycles.sum(axis=1),
        leaked / np.maximum(cycles.sum(axis=1), 1),  # the mean rate: bands may leak at different ones
        costs[0].slices,
        costs[0].sharers,
    )
    return whole, cycles
