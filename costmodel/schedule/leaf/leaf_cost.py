"""The cost of a leaf in its cheapest partition and placement, which is what a leaf search gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from costmodel.schedule.leaf.reduction import Gathering
from costmodel.schedule.leaf.sharing import SharedWeights
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.starts import LeafRuns

Array = NDArray[Any]


@dataclass(frozen=True)
class LeafCost:
    """What a leaf costs over all its runs, where a field does not say otherwise.

    For a leaf with bands of rows, ``cycles`` and ``held`` are of one band, and ``tile_cycles`` of all bands
    of a run. For a leaf whose input channels are cut, ``tile_cycles`` are those of an owner, which also adds,
    and ``cycles`` include what it waits for others' sums.
    """

    placement: Placement
    """Its partition, and the tiles of its parts. Equal placements of one search are the same object."""
    tiles_pj: float
    """Energy within tiles."""
    transfers_pj: float
    """Energy of filling and emptying the tiles' buffers."""
    cycles: int
    """Of one run, including the time in which tiles wait for DRAM and links."""
    tile_cycles: int
    """Of one run on the slowest tile, without waiting."""
    dram_read_bits: int
    dram_write_bits: int
    links: Array
    """[X * Y * 4]: bits on each link, times the number of DRAM ports."""
    held: Array
    """[streams, tiles]: bits of one batch of each of the layer's streams on every tile."""
    leakage_pj_per_cycle: float
    """Of the leaf's tiles, in each cycle in which they belong to it."""
    runs: LeafRuns
    """How it runs its first batch, and each later one, without what it sends to other leaves."""
    received: tuple[tuple[int, Array], ...]
    """What the tiles of producers send: numbers of streams, each with the bits times ports on each link."""
    slices: int
    """How many slices a tile computes one after the other in a run, taking in the weights of each anew; 0
    where the weights are pinned, or the layer has none."""
    value: float
    """E^n D^m, by which the leaf was chosen; without the price of its bits."""
    stay_bits: int
    """Bits on the fullest tile that stay between runs."""
    run_bits: int
    """Bits on the fullest tile, beside these, that it takes while it runs."""
    bands: LeafBands | None = None
    band_cycles: tuple[int, ...] = ()
    """[bands]: of one run on the slowest tile, without waiting."""
    kept: Array | None = None
    """[tiles]: bits of inputs that stay from one band to the next."""
    gathering: Gathering | None = None
    """How partial sums are added, where the input channels are cut."""
    sharing: SharedWeights | None = None
    """How tiles share the weights, where they do; ``slices`` then come from tiles, else from DRAM."""
