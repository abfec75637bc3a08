"""What the compiled packing search changes: its choices, its groups, its trail."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.sections import Sections

Array = NDArray[Any]

TRAIL, MEMBERS, GROUPS, RUNS, DEEPEST = 0, 1, 2, 3, 4
"""Places in ``PackingState.used``."""


class Frames(NamedTuple):
    """The choices made so far, one entry each: which group it splits, and what its undoing restores."""

    parent: Array
    """The choice that made the group; -1: none."""
    group: Array
    placed: Array
    """The buffer placed here; -1: none at the moment."""
    forced: Array
    """Whether that one is the only choice."""
    choice_trail: Array
    """Entries of ``PackingState.trail`` in use before the choice."""
    trail: Array
    """The same before the placement, that is with what the choice has barred so far."""
    members: Array
    """Entries of ``PackingState.members`` in use before the placement."""
    groups: Array
    """The same of ``PackingState.groups``."""


class Groups(NamedTuple):
    """Sets of buffers not placed yet that share no section with any other such buffer."""

    first: Array
    """Where its members begin in ``PackingState.members``, in the order of their starts."""
    end: Array
    parent: Array
    after: Array
    """The group to place when this one is; -1: none."""
    key: Array
    """The same for groups with equal members at equal least addresses: a hash, and another one."""
    other_key: Array


class PackingState(NamedTuple):
    """Everything a search changes."""

    address: Array
    """[buffers] where each is placed; of one not placed yet, the least address that its neighbours leave."""
    least: Array
    """[buffers] of one not placed yet, the least address that the search has left; not below the other."""
    floor: Array
    """[sections] scratch: how far up what is alive there reaches at least."""
    lowest: Array
    """[sections, 2] scratch: the two least tops (or addresses) of buffers not placed yet."""
    lowest_of: Array
    """[sections] scratch: whose the least one is."""
    certain: Array
    """[buffers] scratch: ``least``, raised for barred buffers by what could carry them."""
    order: Array
    """[buffers] scratch: buffers by that."""
    members: Array
    trail: Array
    """[entries, 3] what to restore: a buffer, its address and its least one."""
    rank: Array
    """[buffers] which to try first."""
    failures: Array
    """[sections] how often a placement left too little room there; the caller sets it to 0."""
    hopeless: Array
    """[entries, 3] groups without a solution: key, other key, which search."""
    used: Array
    """[5] entries in use of ``trail``, ``members`` and ``groups``; searches started; most buffers placed."""
    frames: Frames
    groups: Groups


def workspace(instance: Sections) -> PackingState:
    """Room for any search over ``instance``."""
    n, sections = instance.buffers, len(instance.load)
    room = (n + 1) * (n + 2) // 2 + n
    return PackingState(
        address=np.zeros(n, np.int64),
        least=np.zeros(n, np.int64),
        floor=np.zeros(sections, np.int64),
        lowest=np.zeros((sections, 2), np.int64),
        lowest_of=np.zeros(sections, np.int64),
        certain=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        members=np.zeros(room, np.int64),
        trail=np.zeros((2 * room, 3), np.int64),
        rank=np.arange(n, dtype=np.int64),
        failures=np.zeros(sections, np.int64),
        hopeless=np.zeros((1 << min(18, 8 + n // 8), 3), np.int64),
        used=np.zeros(5, np.int64),
        frames=Frames(*(np.zeros(n + 1, np.int64) for _ in range(len(Frames._fields)))),
        groups=Groups(*(np.zeros(room, np.int64) for _ in range(len(Groups._fields)))),
    )
