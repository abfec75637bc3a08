"""The arrays that the compiled packing search changes: its choices, its groups, its trail."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.sections import Sections

Array = NDArray[Any]

TRAIL, MEMBERS, GROUPS, RUNS, DEEPEST = 0, 1, 2, 3, 4
"""Entries of ``PackingState.used``."""


class Frames(NamedTuple):
    """The choices made so far, an entry each: the group it is made in, and what undoing it goes back to."""

    parent: Array
    """The choice that made the group; -1 for the groups of the whole problem."""
    group: Array
    placed: Array
    """The buffer placed by it; -1 while there is none."""
    forced: Array
    """Whether that buffer is the only choice ("Forced")."""
    choice_trail: Array
    """Entries of ``PackingState.trail`` in use before the choice."""
    trail: Array
    """The same before the placement, when what the choice has barred so far is on the trail."""
    members: Array
    """Entries of ``PackingState.members`` in use before the placement."""
    groups: Array
    """The same of ``PackingState.groups``."""


class Groups(NamedTuple):
    """Sets of buffers not placed yet that share no section with any other such buffer."""

    first: Array
    """Where the group's members begin in ``PackingState.members``, in the order of their starts."""
    end: Array
    parent: Array
    after: Array
    """The group to place once this one is; -1 if none is left."""
    key: Array
    """A hash that is equal for groups with equal members at equal addresses; ``other_key`` is another one."""
    other_key: Array


class PackingState(NamedTuple):
    """Everything a search changes."""

    address: Array
    """[buffers] where each is placed; of one not placed yet the highest top of its placed neighbours."""
    least: Array
    """[buffers] of one not placed yet the least address that its bars leave it; at least ``address``."""
    floor: Array
    """[sections] scratch: the height that the buffers alive there reach at least."""
    lowest: Array
    """[sections, 2] scratch: the two least tops (or addresses) of buffers not placed yet."""
    lowest_of: Array
    """[sections] scratch: the buffer that has the least one."""
    certain: Array
    """[buffers] scratch: ``least``, raised for barred buffers by what could carry them."""
    order: Array
    """[buffers] scratch: the buffers in the order of ``certain``."""
    members: Array
    trail: Array
    """[entries, 3] what to restore: a buffer, its address and its least one."""
    rank: Array
    """[buffers] the order in which buffers at equal addresses are tried, 0 first."""
    failures: Array
    """[sections] how often a placement left too little capacity there; the caller sets it to 0."""
    hopeless: Array
    """[entries, 3] groups without a solution: key, other key, number of the search that found so."""
    used: Array
    """[5] entries in use of ``trail``, ``members`` and ``groups``; searches begun; most buffers placed."""
    frames: Frames
    groups: Groups


def workspace(instance: Sections) -> PackingState:
    """Arrays large enough for any search over ``instance``."""
    n, sections = instance.buffers, len(instance.load)
    # Each choice lists the rest of its group anew: n, n - 1, ... members, and as many groups at most.
    most = (n + 1) * (n + 2) // 2 + n
    return PackingState(
        address=np.zeros(n, np.int64),
        least=np.zeros(n, np.int64),
        floor=np.zeros(sections, np.int64),
        lowest=np.zeros((sections, 2), np.int64),
        lowest_of=np.zeros(sections, np.int64),
        certain=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        members=np.zeros(most, np.int64),
        trail=np.zeros((2 * most, 3), np.int64),
        rank=np.arange(n, dtype=np.int64),
        failures=np.zeros(sections, np.int64),
        hopeless=np.zeros((1 << min(18, 8 + n // 8), 3), np.int64),
        used=np.zeros(5, np.int64),
        frames=Frames(*(np.zeros(n + 1, np.int64) for _ in range(len(Frames._fields)))),
        groups=Groups(*(np.zeros(most, np.int64) for _ in range(len(Groups._fields)))),
    )
