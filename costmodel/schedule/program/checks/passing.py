"""Whether tiles pass on elements that they have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.schedule.program.instruction_values import SEND
from costmodel.schedule.program.listing import Listing
from costmodel.schedule.program.program import Program


def passing_reasons(program: Program, listing: Listing) -> Iterator[str]:
    """Sends of elements that the message from whose bytes they come does not have.

    That message and the one that is sent are for the same elements each time. Otherwise it would depend on
    how often each has come which elements are passed on.
    """
    passes = (listing.code == SEND) & (np.diff(listing.reads_begin) > 0)
    for at in np.flatnonzero(passes).tolist():
        sent = program.messages[number := int(listing.number[at])]
        held = program.messages[of := int(listing.reads[listing.reads_begin[at]])]
        what = f"tile {listing.tile[at]}: send of message {number} from the bytes of message {of}"
        if sent.moves or held.moves:
            yield f"{what}, whose elements change from one time to the next"
        elif (sent.tensor, len(sent.box)) != (held.tensor, len(held.box)) or any(
            first < begin or end > stop
            for (first, end), (begin, stop) in zip(sent.box, held.box, strict=True)
        ):
            yield f"{what}, which has not all of {sent.box} of {sent.tensor}"
