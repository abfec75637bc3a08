"""Whether all partial sums are added up, and outputs leave only after that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

import numpy as np

from costmodel.schedule.program.instruction_values import COMPUTE, SEND, STORE
from costmodel.schedule.program.listing import Listing
from costmodel.schedule.program.program import OUTPUT_DIMS, Box, Program, Work


def partial_sum_reasons(program: Program, listing: Listing) -> Iterator[str]:
    """Partial sums that are not all added up, and outputs that leave before they are.

    Only layers with a work that ``adds`` are looked at. A layer that is mapped on the whole chip may have
    partial sums without such a work: they are added on their way to DRAM.
    """
    nests = {nest.layer: [dim for dim, _ in nest.dims] for nest in program.layers}
    adding = {work.layer for work in program.works if work.adds}
    lost = {one.tensor for one in program.messages if one.partial} - adding
    yield from (f"{layer}: partial sums that no compute adds up" for layer in sorted(lost))
    if not adding:
        return

    def outputs(work: Work) -> Box:
        return tuple(work.box[nests[work.layer].index(dim)] for dim in OUTPUT_DIMS)

    def points(work: Work) -> int:
        """Points of the dims that are summed over."""
        return prod(
            end - first
            for dim, (first, end) in zip(nests[work.layer], work.box, strict=True)
            if dim not in OUTPUT_DIMS
        )

    rows = np.arange(len(listing.code))
    before = np.maximum.accumulate(np.where(listing.code == COMPUTE, rows, -1))
    made: dict[int, set[int]] = defaultdict(set)
    for at in np.flatnonzero((listing.code == SEND) | (listing.code == STORE)).tolist():
        message = program.messages[number := int(listing.number[at])]
        passed_on = listing.code[at] == SEND and listing.reads_begin[at + 1] > listing.reads_begin[at]
        if message.tensor not in adding or passed_on:
            continue
        if before[at] < listing.begin[listing.tile[at]]:
            yield f"tile {listing.tile[at]}: message {number} leaves before any compute"
            continue
        work = program.works[by := int(listing.number[before[at]])]
        if message.partial == work.adds:
            what = "partial sums, and leave" if message.partial else "not partial sums, but leave"
            how = "adds them up" if work.adds else "makes partial sums"
            yield f"message {number}: {what} after a compute that {how}"
        elif message.partial:
            made[number].add(by)
    added: set[int] = set()
    for at in np.flatnonzero(listing.code == COMPUTE).tolist():
        work = program.works[int(listing.number[at])]
        if not work.adds:
            continue
        read = listing.reads[listing.reads_begin[at] : listing.reads_begin[at + 1]].tolist()
        added |= set(read)
        other = [
            one
            for one in read
            if not program.messages[one].partial or program.messages[one].box != outputs(work)
        ]
        if other:
            what = f"message {other[0]}, which is no partial sums of {outputs(work)}"
            yield f"tile {listing.tile[at]}: adds {what}"
            continue
        makers = [by for one in read for by in made[one]]
        if len(set(makers)) < len(makers) or sum(points(program.works[by]) for by in makers) != points(work):
            yield f"tile {listing.tile[at]}: adds {read}, which are not all partial sums of {outputs(work)}"
    for number, message in enumerate(program.messages):
        if message.partial and message.tensor in adding and number not in added:
            yield f"message {number}: partial sums of {message.tensor} that no compute adds up"
