"""The protocol by which the chip model asks what layers cost within tiles.

That is everything from the tiles' buffers inwards: NoC, DRAM and transfers into and out of the buffers are
the chip model's own. Mapping solvers stand behind it (``solvers/schedule/tiles``), or tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.whole_chip.cost import WholeChipCost

Array = NDArray[Any]


@dataclass(frozen=True)
class TileRows:
    """The partitions of one batch of a layer that may be used; all arrays have a row for each.

    ``parts`` [n, 4] int: into how many parts K, B, H and W are cut; their product is the number of tiles, or
    of groups of tiles where the input channels are cut, too.
    ``energy_pj`` [n]: of one batch on all tiles, from the tiles' buffers inwards: reads and writes by the PEs
    are included, filling buffers over the NoC and leakage are not. ``cycles`` [n] int: of the slowest tile.
    ``leakage_pj_per_cycle`` [n]: of all tiles, in each cycle in which they belong to the layer. A partition
    that no tile can compute has no row. The chip model picks rows; it never asks how a tile computes its
    part.

    ``slices`` [n] int: into how many slices of output channels a tile divides its part, to compute them one
    after the other with the weights of one slice at a time; 1 unless said otherwise. All slices of a tile
    take equally many of its ``cycles``. ``sharers`` [n] int: among how many tiles with the same weights these
    are divided (:mod:`costmodel.schedule.leaf.sharing`); 1 unless said otherwise. Each sharer has equally
    many slices.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    leakage_pj_per_cycle: Array
    slices: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    sharers: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        count = len(self.parts)
        if not len(self.slices):
            object.__setattr__(self, "slices", np.ones(count, np.int64))
        if not len(self.sharers):
            object.__setattr__(self, "sharers", np.ones(count, np.int64))
        columns = (self.energy_pj, self.cycles, self.leakage_pj_per_cycle, self.slices, self.sharers)
        if self.parts.shape != (count, 4) or {array.shape for array in columns} != {(count,)}:
            shapes = [array.shape for array in (self.parts, *columns)]
            raise InputError("tile costs", "arrays of [n, 4], [n], [n], [n], [n] and [n]", shapes)
        if count and (self.slices.min() < 1 or (self.cycles % self.slices).any()):
            raise InputError("tile costs", "at least 1 slice, and equally many cycles of each", self.slices)
        if count and (self.sharers.min() < 1 or (self.slices % self.sharers).any()):
            raise InputError("tile costs", "at least 1 sharer, and equally many slices of each", self.sharers)
        least_pj = min((array.min() for array in (columns[0], columns[2]) if count), default=0)
        if count and not (self.parts.min() >= 1 and least_pj >= 0 and self.cycles.min() >= 1):
            raise InputError("tile costs", "parts and cycles of at least 1, energies of at least 0", "less")

    def kept(self, which: Array) -> TileRows:
        """Only the rows ``which`` [n] is true for."""
        return TileRows(*(getattr(self, one.name)[which] for one in fields(self)))

    @staticmethod
    def of(
        rows: Sequence[tuple[tuple[int, int, int, int], float, int]],
        leakage: Sequence[float] | None = None,
        slices: Sequence[int] = (),
        sharers: Sequence[int] = (),
    ) -> TileRows:
        """From (parts, energy in pJ on all tiles, cycles) of every partition.

        ``leakage``: pJ per cycle of every partition; None where nothing leaks. ``slices`` of every partition;
        empty where none has several. ``sharers``: alike.
        """
        return TileRows(
            np.array([row[0] for row in rows], np.int64).reshape(-1, 4),
            np.array([row[1] for row in rows], np.float64),
            np.array([row[2] for row in rows], np.int64),
            np.zeros(len(rows)) if leakage is None else np.array(leakage, np.float64),
            np.array(slices, np.int64),
            np.array(sharers, np.int64),
        )


@dataclass(frozen=True)
class FloorRows:
    """The least that a layer takes in each of n groups of its partitions; all arrays are [n].

    A group is all partitions of ``batch`` samples among ``tiles`` tiles that cut the outputs into ``k_parts``
    along the channels, and ``other_parts`` along samples, rows and columns together. Where there are more
    parts than indices of a dim, those without an index are counted in neither. ``energy_pj`` and ``cycles``
    are the least of :class:`TileRows`, perhaps of different rows.
    """

    batch: Array
    tiles: Array
    k_parts: Array
    other_parts: Array
    energy_pj: Array
    cycles: Array

    def kept(self, which: Array) -> FloorRows:
        """Only the groups ``which`` [n] is true for."""
        return FloorRows(*(getattr(self, one.name)[which] for one in fields(self)))

    @staticmethod
    def of(sizes: tuple[int, int, int, int], tiles: int, rows: TileRows) -> FloorRows:
        """The groups of ``rows``, whose partitions cut outputs of ``sizes`` among ``tiles`` tiles."""
        parts = np.minimum(rows.parts, sizes)
        cut = np.stack([parts[:, 0], parts[:, 1:].prod(axis=1)], axis=1)
        groups, group = np.unique(cut, axis=0, return_inverse=True)
        energy, cycles = np.full(len(groups), np.inf), np.full(len(groups), np.inf)
        np.minimum.at(energy, group.ravel(), rows.energy_pj)
        np.minimum.at(cycles, group.ravel(), rows.cycles)
        same = np.ones(len(groups), np.int64)
        return FloorRows(sizes[1] * same, tiles * same, groups[:, 0], groups[:, 1], energy, cycles)

    @staticmethod
    def together(found: Sequence[FloorRows]) -> FloorRows:
        """The groups of all of them; at least one."""
        return FloorRows(
            *(np.concatenate([getattr(one, each.name) for one in found]) for each in fields(FloorRows))
        )


@dataclass(frozen=True)
class TileFloor:
    """Proven lower bounds for one sample of a layer, for all partitions and mappings on the whole chip.

    ``energy_pj``: the energy of :class:`TileRows`, divided by the batch. ``whole_chip_pj``: that of tiles and
    transfers of a :class:`WholeChipCost`, divided by the batch; infinite where none is offered.
    ``tile_cycles``: tiles times cycles of either, divided by the batch; ``whole_chip_tile_cycles``: those of
    the latter alone.

    ``rows``: what each way to cut the layer takes at least; None: only what all of them take is known.

    ``on_whole_chip``: what the layer costs mapped on the whole chip, by samples, as far as that is known;
    None: there is no such mapping of so many samples.
    """

    energy_pj: float
    tile_cycles: float
    whole_chip_pj: float = float("inf")
    whole_chip_tile_cycles: float = float("inf")
    rows: FloorRows | None = None
    on_whole_chip: Mapping[int, WholeChipCost | None] = field(default_factory=dict)


class TileFloors(Protocol):
    """A source of lower bounds for the layers (by index) of one network on one kind of tile."""

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        """Bounds on leaves of this layer with any of ``batches`` samples on up to ``tiles`` tiles.

        They bound the layer mapped on the whole chip with these batches as well.
        """
        ...


class TileCosts(TileFloors, Protocol):
    """A source of tile costs for the layers (by index) of one network on one kind of tile."""

    @property
    def shares_weights(self) -> bool:
        """Whether the tiles of a leaf may share their weights: whether :meth:`shared_rows` has any."""
        ...

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The partitions of ``batch`` samples among ``tiles`` tiles that may be used; asked repeatedly."""
        ...

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The same for a layer whose weights come anew for each batch, slice by slice.

        Each partition has one number of slices. No rows: that is not offered, or the layer has no weights
        that are parameters.
        """
        ...

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The same for a layer whose weights are shared by the tiles that need the same ones.

        A partition may come with several numbers of slices and of sharers, at least 2 of either. No rows: as
        above, or no two tiles need the same weights.
        """
        ...

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        """The same for bands, as :meth:`band_rows` has them: equal slices and sharers for all ``heights``."""
        ...

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        """The partitions along K, B and W of bands of a layer, each of so many rows of ``batch`` samples.

        For each of ``heights`` the rows of the same partitions, in the same order. No rows: that is not
        offered.
        """
        ...

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        """The partitions of outputs among ``tiles`` groups of ``reduced`` tiles, each with some of the input
        channels: those of :func:`costmodel.schedule.boxes.partition.part_of`.

        The costs are those of all tiles, without adding up the partial sums. No rows: that is not offered, or
        the input channels of the layer cannot be cut.
        """
        ...

    def normalized_cycles(self, layer: int) -> float:
        """Cycles of one sample on one tile, above 0: a layer's weight when S cuts divide tiles."""
        ...

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        """What ``batch`` samples cost with the layer mapped on the whole chip, all data in DRAM.

        None: that is not offered, or there is no mapping.
        """
        ...


def table_floor(
    costs: TileCosts, graph: LayerGraph, layer: int, batches: Sequence[int], most_tiles: int
) -> TileFloor:
    """The bounds that ``costs`` implies, by going through all its rows; infinite where there is none."""
    energy, whole_chip_pj, tile_cycles, whole_chip_cycles = (float("inf"),) * 4
    groups: list[FloorRows] = []
    whole_chip: dict[int, WholeChipCost | None] = {}
    for batch in batches:
        for tiles in range(1, most_tiles + 1):
            for rows in (
                costs.rows(layer, batch, tiles),
                costs.streamed_rows(layer, batch, tiles),
                *([costs.shared_rows(layer, batch, tiles)] if costs.shares_weights else []),
            ):
                if len(rows.parts):
                    # Least energy and least tile-cycles may be those of different rows. Each is a bound by
                    # itself, and whoever multiplies them has a bound on the product.
                    energy = min(energy, float(rows.energy_pj.min()) / batch)
                    tile_cycles = min(tile_cycles, int(rows.cycles.min()) * tiles / batch)
                    groups.append(FloorRows.of(graph.layers[layer].sizes(batch), tiles, rows))
        on_chip = whole_chip[batch] = costs.on_whole_chip(layer, batch)
        if on_chip is not None:
            whole_chip_pj = min(whole_chip_pj, (on_chip.parts_pj[0] + on_chip.parts_pj[1]) / batch)
            whole_chip_cycles = min(whole_chip_cycles, on_chip.tile_cycles / batch)
    return TileFloor(
        energy,
        min(tile_cycles, whole_chip_cycles),
        whole_chip_pj,
        whole_chip_cycles,
        FloorRows.together(groups) if groups else None,
        whole_chip,
    )
