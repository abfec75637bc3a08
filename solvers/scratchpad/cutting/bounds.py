"""Bytes that every plan moves, however the graph is cut: what barriers and frontiers prove together."""

from __future__ import annotations

from costmodel.scratchpad.divisions import DivisibleGraph
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.cutting.barriers import barrier_proofs
from solvers.scratchpad.cutting.frontiers import frontier_proofs
from solvers.scratchpad.cutting.proofs import added_up


def bound_of_all_cuts(
    divisible: DivisibleGraph,
    capacity: int,
    in_time: InTime = always_in_time,
    recomputed: bool = True,
) -> int:
    """Bytes that every plan of every cut moves in so many bytes of scratchpad.

    ``recomputed`` off: every plan of a cut that makes nothing twice. What is not proven when the time is up
    is left out, which makes the bound lower, never wrong.
    """
    barriers = barrier_proofs(divisible, capacity)
    frontiers = list(frontier_proofs(divisible, capacity, in_time, recomputed))
    together = added_up(divisible.whole, [*barriers, *frontiers])
    # the barriers' tensors may lie between one another's in the order, where adding up spans leaves some out
    return max(together, sum(proof.moved for proof in barriers))
