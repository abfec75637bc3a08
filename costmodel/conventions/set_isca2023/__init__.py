"""What the released SET evaluator counts for an RA tree (``costmodel/conventions`` says what for).

The semantics are those of SET-ISCA2023 at commit a7bd739, bug by bug, so that its published numbers can be
read and checked: among others weights are charged once a run although the paper reloads them, and of outputs
that are concatenated on the chip only the first producer's are sent. No study uses this.
"""

from costmodel.conventions.set_isca2023.evaluator import (
    NodeCost,
    TreeEvaluator,
    spatial_temporal,
)
from costmodel.conventions.set_isca2023.hardware import PLATFORMS, Platform, Tile, load_platform
from costmodel.conventions.set_isca2023.layers import load_graph
from costmodel.conventions.set_isca2023.tile_tables import TileTables

__all__ = [
    "PLATFORMS",
    "NodeCost",
    "Platform",
    "Tile",
    "TileTables",
    "TreeEvaluator",
    "load_graph",
    "load_platform",
    "spatial_temporal",
]
