"""Checks a program: whether it can run, and whether it computes its network once.

The checker knows nothing of schedules; it reads the program only. A large program has millions of
instructions, done tens of millions of times. So the instructions are listed once as arrays (``listing.py``).
The questions that need no order are answered on these arrays, and a compiled loop then runs the program
(``run_kernel.py``). Each question has a module in ``checks/``.
"""

from __future__ import annotations

from costmodel.schedule.program.checks.coverage import coverage_reasons
from costmodel.schedule.program.checks.issued import IssuedMessages
from costmodel.schedule.program.checks.partial_sums import partial_sum_reasons
from costmodel.schedule.program.checks.passing import passing_reasons
from costmodel.schedule.program.checks.references import reference_reasons
from costmodel.schedule.program.checks.stores import StoredOutputs
from costmodel.schedule.program.checks.untimed_run import UntimedRun
from costmodel.schedule.program.listing import Listing
from costmodel.schedule.program.program import Program

MOST_REASONS = 20
"""How many reasons are given at most."""


def violations(program: Program) -> list[str]:
    """Why a program cannot run, or does not compute its network once; empty if all is well.

    At most ``MOST_REASONS`` reasons are given. A program without reasons keeps these rules:

    - Every message is issued by all its sources and targets, equally often, and by no other tile.
    - Data lies within the buffer, and no two messages lie at the same bytes while both are there.
    - A compute reads messages that its tile has loaded or received before and has not freed.
    - Data that a tile sends or stores belongs to the outputs of its last compute, and leaves once for each
      compute. Data that leaves from held bytes leaves once, while the bytes are held.
    - Data that a tile passes on is some of a message that it has loaded or received and not freed.
    - The boxes of a layer's works cover its nest exactly once a batch.
    - Where partial sums are added up, the tiles that made them send them to the tile that adds them and send
      nothing else. Outputs leave when all of them are added.
    - Outputs of a layer that are loaded from DRAM have been stored there before.
    - All tiles get to their last instruction: none waits for data that never comes.
    """
    listing = Listing.of(program)
    reasons = list(reference_reasons(program, listing))
    if reasons:  # what follows looks up messages and works by number
        return reasons[:MOST_REASONS]
    issued = IssuedMessages(program, listing)
    reasons += issued.reasons()
    reasons += coverage_reasons(program, listing)
    reasons += partial_sum_reasons(program, listing)
    reasons += passing_reasons(program, listing)
    stored = StoredOutputs(program)
    reasons += stored.reasons()
    if not reasons:
        reasons += UntimedRun(program, listing, issued, stored).reasons()
    return reasons[:MOST_REASONS]
