"""The parameters of KAPLA's segment search: which segments there are, and how many are costed in full."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check, check_counts, check_switches, is_number


@dataclass(frozen=True)
class Params:
    """How KAPLA searches. A scheme is a segment with a number of sub-batches.

    These decide which schemes there are:

    - ``most_layers``: the most layers of a segment; 0 is no limit.
    - ``spatial``: the layers of a segment may run as a pipeline, each on a region of tiles of its own.
    - ``grouped``: there are also pipelines in which a layer without weights takes turns with the layer before
      it, in the same region.
    - ``temporal``: the layers of a segment may take turns on all tiles and hand on data without DRAM.
    - ``bands``: the most bands of rows of a segment, which then hands on some rows of a sample at a time
      (:mod:`costmodel.schedule.row_bands`); 1: whole samples only.
    - ``all_passes``: a chain may run in several passes (the chip model's rounds), each for a part of the
      batch; each pass loads all weights again. False takes the fewest passes with which there is a chain;
      true tries every number.

    These decide which schemes are pruned:

    - ``prune``: schemes whose data cannot fit the buffers are dropped; false keeps them, for comparison.
    - ``pareto``: a scheme is dropped if another one of the same layers has no more accesses of any kind (of
      each layer the bits read from DRAM, written to it and filled into buffers; of all layers the bits sent)
      and at most this fraction of its cycles; 1 is plain Pareto pruning, 0 none.
    - ``probability``: each scheme is kept with this probability, drawn from the seed, as in a random search;
      single layers in one sub-batch are costed in any case.

    These decide which schemes are costed in full:

    - ``chains`` (k_S of section IV-B): the chains up to each layer are ranked by their optimistic costs, and
      the last schemes of this many of the best are costed. 0 costs all schemes that may fit and ignores
      ``pareto``, which makes the answer the best of all chains.
    - ``rounds``: how often chains are ranked, each time with the costs known by then; 1 is the paper's, 0
      goes on until the best chains have no new scheme.
    """

    chains: int = 4
    rounds: int = 0
    most_layers: int = 0
    spatial: bool = True
    grouped: bool = True
    temporal: bool = True
    bands: int = 1
    all_passes: bool = False
    prune: bool = True
    pareto: float = 0.9
    probability: float = 1.0

    def __post_init__(self) -> None:
        where = "kapla_schedule"
        check_counts(where, self, {"chains": 0, "rounds": 0, "most_layers": 0, "bands": 1})
        check_switches(where, self, "spatial", "grouped", "temporal", "all_passes", "prune")
        for key in ("pareto", "probability"):
            fraction = getattr(self, key)
            check(where, key, is_number(fraction, 0, 1), "a number from 0 to 1", fraction)
