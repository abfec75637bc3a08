"""Several layers at once on a tiled chip: tiles, NoC, DRAM, buffers, and pipelines of RA trees."""

from costmodel.chip.hardware import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.chip.layers import KINDS, LayerGraph, NetworkLayer
from costmodel.chip.schedule import Granularity, Path, Schedule, granularity_violations
from costmodel.chip.tile_costs import TileCosts, TileFloor, TileRows

__all__ = [
    "KINDS",
    "Chip",
    "Dram",
    "Granularity",
    "LayerGraph",
    "NetworkLayer",
    "Noc",
    "Path",
    "Schedule",
    "Tile",
    "TileBuffer",
    "TileCosts",
    "TileFloor",
    "TileRows",
    "granularity_violations",
]
