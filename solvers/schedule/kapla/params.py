"""What can be set in KAPLA's segment search: which segments there are, how many chains are looked into."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check, check_counts, check_switches, is_number


@dataclass(frozen=True)
class Params:
    """KAPLA's knobs.

    ``chains`` (k_S of section IV-B): of the chains that end with a layer so many, the best by their
    optimistic costs, give their last segments to be costed in full; 0 costs all that may fit, ``pareto`` or
    not, which makes the answer the best chain that there is. ``rounds``: how often chains are ranked, each
    time with what has been costed by then; 1 is the paper's, 0 goes on until no segment is new.
    ``most_layers``: of a segment; 0 is no limit.
    ``spatial``: segments may be pipelines, a region of tiles for each layer; ``grouped``: also ones in which
    layers without weights take turns with the layer before them, in its region. ``temporal``: the layers of a
    segment may take turns on all tiles and hand on data without DRAM.
    A chain may run in several passes, for a part of the batch each, loading all weights each time.
    ``all_passes`` false takes the fewest passes for which there is a chain; true tries every number.
    ``prune`` false looks at segments whose data cannot fit the buffers, too, for comparison. ``pareto``: of
    segments of the same layers, with their sub-batches, those go that have as many accesses of every tensor
    as another one or more, where that one takes at most this share of the time; 1 is plain Pareto pruning, 0
    none.
    ``probability``: each segment with its sub-batches is kept with it, drawn from the seed, as in a random
    search; single layers with the whole batch always are.
    """

    chains: int = 4
    rounds: int = 0
    most_layers: int = 0
    spatial: bool = True
    grouped: bool = True
    temporal: bool = True
    all_passes: bool = False
    prune: bool = True
    pareto: float = 0.9
    probability: float = 1.0

    def __post_init__(self) -> None:
        where = "kapla_schedule"
        check_counts(where, self, {"chains": 0, "rounds": 0, "most_layers": 0})
        check_switches(where, self, "spatial", "grouped", "temporal", "all_passes", "prune")
        for key in ("pareto", "probability"):
            share = getattr(self, key)
            check(where, key, is_number(share, 0, 1), "a number from 0 to 1", share)
