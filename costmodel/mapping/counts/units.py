"""The words of a mapping as units of bits: see :mod:`costmodel.mapping.element_bits`."""

from __future__ import annotations

from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.element_bits import LevelUnits, OpenSums
from costmodel.workload.network import Tensor


def counts_in_units(tensor: Tensor, counts: Counts, units: LevelUnits, sums: OpenSums) -> Counts:
    """What a tensor moves at a level in units, from its words."""
    one = units.elements[tensor.name]
    if not tensor.is_output:
        return Counts(*(one * words for words in counts))
    # The last update of each sum finishes it.
    finished = 0 if sums.split else min(counts.updates, counts.partition_words)
    return Counts(
        reads=counts.reads * units.sums,
        fills=counts.fills * units.sums,
        updates=counts.updates * units.sums - finished * (units.sums - one),
        tile_words=counts.tile_words * (units.sums if sums.arrive else one),
        partition_words=counts.partition_words * one,
    )
