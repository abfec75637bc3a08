"""The lower bound of an assignment, computed in several calls so that the clock is looked at in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solvers.budget import InTime, OutOfTimeError

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Space

AT_ONCE = 1_000_000
"""Tiles between two looks at the clock. Most layers have fewer; of large ones this many take up to 0.1 s."""


def bound_in_time(
    space: Space, assignment: Assignment, lattice: Lattice, any_order: bool, in_time: InTime
) -> float:
    """``bound_of_assignment``, interrupted to ask ``in_time()`` whenever ``AT_ONCE`` tiles have been filled.

    Tiles of earlier bounds count as well (``lattice.steps.left``), so that many small bounds do not go
    unchecked. Raises OutOfTimeError if time ends before the bound is known; ``lattice`` is then half filled
    and must not be read.
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
