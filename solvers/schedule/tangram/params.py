"""The parameters of Tangram's segments."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check, check_counts, check_switches, is_number


@dataclass(frozen=True)
class Params:
    """Which segments there are, and how a chain of them is chosen.

    ``spatial``: the layers of a segment may run as a pipeline, on regions of tiles.
    ``temporal``: they may take turns on all tiles and hand on data without DRAM.
    ``alternate``: pipelines may have alternate loop orders; false is the basic pipeline, in which every layer
    hands on whole sub-batches.
    ``idle``: the greatest fraction of a pipeline's tile-cycles that may be idle because its regions are not
    equally fast; a pipeline that wastes more is left out. 0.05 is the released program's.
    ``kept``: for each layer so many of the best chains that end with it are kept and extended. 1 is the
    released program's default. 0: the best chain of all, exactly.
    ``bands``: the most bands of rows of a segment (:mod:`costmodel.schedule.row_bands`); 1: no bands. Bands
    are not Tangram's.
    """

    spatial: bool = True
    temporal: bool = True
    alternate: bool = True
    idle: float = 0.05
    kept: int = 0
    bands: int = 1

    def __post_init__(self) -> None:
        check_counts("tangram", self, {"kept": 0, "bands": 1})
        check_switches("tangram", self, "spatial", "temporal", "alternate")
        check("tangram", "idle", is_number(self.idle, 0, 1), "a number from 0 to 1", self.idle)
