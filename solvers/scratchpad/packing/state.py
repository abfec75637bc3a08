"""The arrays that the compiled packing search changes: its choices, its groups, its trail.

Compiled code allocates nothing, so each array is as large as it can ever get, and ``PackingState.counts``
says how many of its entries are in use. Three of them are stacks, which grow with every choice and are cut
back to their former height when the choice is undone; a frame notes these heights::

    trail     what to restore    | choice 0: barred, lifted | choice 1: barred, lifted | ...
    members   buffers of groups  | the whole problem | what choice 0 left | what choice 1 left | ...
    groups    ranges of members  | those of the whole problem | those that choice 0 left | ...
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.sections import Sections

Array = NDArray[Any]

TRAIL_LENGTH, MEMBERS_LISTED, GROUPS_MADE, SEARCHES_BEGUN, MOST_PLACED = range(5)
"""Entries of ``PackingState.counts``: entries in use of ``trail``, ``members`` and ``groups``, the searches
begun with this workspace, and the most buffers that the last one had placed at once."""


class Frames(NamedTuple):
    """The choices made so far, an entry each: the group it is made in, and what undoing it goes back to."""

    parent: Array
    """The choice that made the group; -1 for the groups of the whole problem."""
    group: Array
    """The group whose next buffer is chosen."""
    placed: Array
    """The buffer placed by it; -1 while there is none."""
    forced: Array
    """Whether that buffer is the only choice ("Forced")."""
    choice_trail: Array
    """Entries of ``PackingState.trail`` in use before the choice: what undoing all of it goes back to."""
    trail: Array
    """The same before the placement, when what the choice has barred so far is on the trail: what trying the
    next buffer goes back to."""
    members: Array
    """Entries of ``PackingState.members`` in use before the placement."""
    groups: Array
    """The same of ``PackingState.groups``."""


class Groups(NamedTuple):
    """Sets of buffers not placed yet that share no section with any other such buffer."""

    first: Array
    """Where the group's members begin in ``PackingState.members``, in the order of their starts."""
    end: Array
    """Where they end."""
    parent: Array
    """The choice that made the group; -1 for the groups of the whole problem."""
    next_group: Array
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
    """The buffers of groups, one group after the other."""
    trail: Array
    """[entries, 3] what to restore: a buffer, its address and its least one."""
    rank: Array
    """[buffers] the order in which buffers at equal addresses are tried, 0 first."""
    failures: Array
    """[sections] how often a placement left too little capacity there; the caller sets it to 0."""
    nogoods: Array
    """[entries, 3] groups without a solution: key, other key, number of the search that found so. A group is
    noted where its key, modulo the number of entries, points; the search's number saves clearing the
    table."""
    counts: Array
    """[5] numbers named by the constants above."""
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
        nogoods=np.zeros((1 << min(18, 8 + n // 8), 3), np.int64),
        counts=np.zeros(5, np.int64),
        frames=Frames(*(np.zeros(n + 1, np.int64) for _ in range(len(Frames._fields)))),
        groups=Groups(*(np.zeros(most, np.int64) for _ in range(len(Groups._fields)))),
    )
