"""Several layers at once on a tiled chip: tiles, NoC, DRAM, buffers, and pipelines of RA trees."""

from costmodel.chip.alone import AloneCost, alone_cost, local_alone_cost
from costmodel.chip.bounds import ScheduleBounds, lower_bounds
from costmodel.chip.evaluate import ChipEvaluator
from costmodel.chip.evaluation import ChipEvaluation
from costmodel.chip.hardware import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.chip.layers import KINDS, LayerGraph, NetworkLayer
from costmodel.chip.schedule import Granularity, Path, Schedule, granularity_violations
from costmodel.chip.segment import ENERGY_PARTS, NodeCost
from costmodel.chip.tile_costs import TileCosts, TileFloor, TileRows, table_floor
from costmodel.chip.whole_chip import whole_architecture

__all__ = [
    "ENERGY_PARTS",
    "KINDS",
    "AloneCost",
    "Chip",
    "ChipEvaluation",
    "ChipEvaluator",
    "Dram",
    "Granularity",
    "LayerGraph",
    "NetworkLayer",
    "Noc",
    "NodeCost",
    "Path",
    "Schedule",
    "ScheduleBounds",
    "Tile",
    "TileBuffer",
    "TileCosts",
    "TileFloor",
    "TileRows",
    "alone_cost",
    "granularity_violations",
    "local_alone_cost",
    "lower_bounds",
    "table_floor",
    "whole_architecture",
]
