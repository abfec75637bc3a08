"""The parameters of chains of segments: which segments there are, and how a chain is improved."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check_counts, check_switches


@dataclass(frozen=True)
class Params:
    """Which segments are counted, and how the best chain of them is improved.

    ``longest``: the most layers of a segment. With ``blocks`` there are longer segments, too, but these begin
    and end at necks (:func:`.necks`).
    ``misses``: after so many lengths in a row that did not fit, longer segments with the same first layer are
    not tried. A longer one may still fit: if its last layer has no weights, it may hold fewer bytes.
    ``combs``: the most children, combs or T cuts of blocks, of a pipeline; 1: there are no such pipelines.
    ``bands``: the most bands of rows of a segment; 1: there are no bands.
    ``blocks``: T cuts of blocks instead of combs; segments with bands have combs all the same.
    ``reductions``: the input channels of the best chain's leaves are cut where that pays
    (:mod:`.channel_cuts`).
    ``joined``: neighbouring segments of the best chain are joined where that pays (:mod:`.joining`).
    ``changes``: the most trees that are tried by rearranging its cuts (:mod:`.rearranging`); 0: none.
    ``reshapes``: the most trees that are tried then by changing how the layers below its cuts run as well
    (the same module); 0: none.
    """

    longest: int = 8
    misses: int = 5
    combs: int = 4
    bands: int = 1
    reductions: bool = False
    blocks: bool = True
    joined: bool = True
    changes: int = 4000
    reshapes: int = 4000

    def __post_init__(self) -> None:
        least = {"longest": 1, "misses": 1, "combs": 1, "bands": 1, "changes": 0, "reshapes": 0}
        check_counts("chains of segments", self, least)
        check_switches("chains of segments", self, "blocks", "joined", "reductions")
