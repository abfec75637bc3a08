"""The lower bound of an assignment, asked for a part at a time so that the clock is looked at in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solvers.budget import InTime, OutOfTimeError

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Space

AT_ONCE = 1_000_000
"""Tiles between two looks at the clock: most layers have fewer, large ones need up to 0.1 s for so many."""


def bound_in_time(
    space: Space, assignment: Assignment, lattice: Lattice, any_order: bool, in_time: InTime
) -> float:
    """``bound_of_assignment``. Whenever ``AT_ONCE`` tiles were looked at, for one bound or for several,
    ``in_time()`` is asked.

    Raises OutOfTimeError where that ends it before the bound is known; ``lattice`` is then of no use.
    """
    from solvers.mapping.exact.kernels.bound_kernel import bound_of_assignment

    steps = lattice.steps
    steps.done[0] = 0
    while True:
        if steps.left[0] <= 0:
            if not in_time():
                raise OutOfTimeError("the bound of an assignment is not known in time")
            steps.left[0] = AT_ONCE
        bound = float(bound_of_assignment(space, assignment, lattice, any_order))
        if not steps.done[0]:
            return bound
