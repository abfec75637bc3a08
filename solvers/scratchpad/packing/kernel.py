"""The compiled half of :mod:`solvers.scratchpad.packing.search`, which has the proof. Imports numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.compiled import entry, inlined
from solvers.scratchpad.packing.capacity_kernel import NO_BUFFER, NO_VALUE, fits, forced_buffer
from solvers.scratchpad.packing.state import (
    GROUPS_MADE,
    MEMBERS_LISTED,
    MOST_PLACED,
    SEARCHES_BEGUN,
    TRAIL_LENGTH,
)

if TYPE_CHECKING:
    from solvers.scratchpad.packing.sections import Sections
    from solvers.scratchpad.packing.state import PackingState

Int = Any
"""A 64-bit integer of compiled code."""

FOUND, EXHAUSTED, CUT_SHORT = 1, 0, -1
NO_SOLUTION = -2
"""Stands for the next group to solve where one of them is known to have no solution."""


@entry
def search(instance: Sections, work: PackingState, capacity: Int, nodes: Int) -> Int:
    """Look for addresses below ``capacity`` with at most ``nodes`` placements; fills ``work.address``.

    Returns FOUND, EXHAUSTED (there are none) or CUT_SHORT. The buffer with the lowest address is tried first,
    of equal ones that of the least rank.
    """
    # Depth-first search with one frame per placed buffer. The outer loop opens a frame for the group to solve
    # next (``goal``). The inner loop tries one buffer of that group after the other:
    # - none is left: the group has no solution. Go back to the choice that made it (``parent``), undoing the
    #   frames in between, which belong to other groups, and let that choice try its next buffer;
    # - a buffer is placed and the rest may still fit: split the rest into groups and open the next frame;
    # - it does not fit: take the buffer back, and try the next one.
    frames = work.frames
    n = len(instance.size)
    for buffer in range(n):
        work.address[buffer] = 0
        work.least[buffer] = 0
        work.members[buffer] = buffer
    work.counts[TRAIL_LENGTH], work.counts[MEMBERS_LISTED], work.counts[GROUPS_MADE] = 0, n, 0
    work.counts[MOST_PLACED] = 0
    work.counts[SEARCHES_BEGUN] += 1
    if not fits(instance, work, (0, n), (0, len(instance.load) - 1), capacity):
        return EXHAUSTED
    goal = _split(instance, work, (0, n), (-1, -1))
    depth = 0
    while goal >= 0:
        _open(work, depth, goal)
        while True:
            buffer = _choose(instance, work, depth, capacity)
            if buffer == NO_BUFFER:
                parent = frames.parent[depth]
                if parent < 0:
                    return EXHAUSTED
                _remember(work, frames.group[depth])
                _restore(work, frames.choice_trail[depth])
                while depth > parent:
                    depth -= 1
                    _take_back(work, depth)
                    if depth > parent:
                        _restore(work, frames.choice_trail[depth])
            elif nodes == 0:
                return CUT_SHORT
            else:
                nodes -= 1
                changed = _place(instance, work, depth, buffer)
                rest = (frames.members[depth], work.counts[MEMBERS_LISTED])
                if fits(instance, work, rest, changed, capacity):
                    goal = _split(instance, work, rest, (depth, work.groups.next_group[frames.group[depth]]))
                    if goal != NO_SOLUTION:
                        depth += 1
                        work.counts[MOST_PLACED] = max(work.counts[MOST_PLACED], depth)
                        break
                _take_back(work, depth)
    return FOUND


@inlined
def _open(work: PackingState, depth: Int, goal: Int) -> None:
    """Start choosing the next buffer of group ``goal``."""
    frames = work.frames
    frames.parent[depth] = work.groups.parent[goal]
    frames.group[depth] = goal
    frames.placed[depth] = NO_BUFFER
    frames.forced[depth] = 0
    frames.choice_trail[depth] = work.counts[TRAIL_LENGTH]


@inlined
def _choose(instance: Sections, work: PackingState, depth: Int, capacity: Int) -> Int:
    """The buffer to place next, after barring the one tried last; NO_BUFFER if none is left.

    So the frame of a choice goes through the group's buffers: each is placed, and when that has failed it is
    barred for as long as the frame stays open. What is barred already makes later ones fail sooner.
    """
    frames, group = work.frames, work.frames.group[depth]
    first, end = work.groups.first[group], work.groups.end[group]
    if frames.forced[depth]:
        return NO_BUFFER
    if frames.placed[depth] != NO_BUFFER:
        changed = _bar(instance, work, (first, end), frames.placed[depth])
        if not fits(instance, work, (first, end), changed, capacity):
            return NO_BUFFER
    forced = forced_buffer(instance, work, (first, end))
    if forced != NO_BUFFER:
        frames.forced[depth] = 1
        return NO_BUFFER if work.least[forced] > work.address[forced] else forced
    best = NO_BUFFER
    for index in range(first, end):
        buffer = work.members[index]
        if work.least[buffer] == work.address[buffer] and (best == NO_BUFFER or _sooner(work, buffer, best)):
            best = buffer
    return best


@inlined
def _sooner(work: PackingState, one: Int, other: Int) -> bool:
    """Whether ``one`` is tried before ``other``."""
    if work.address[one] != work.address[other]:
        return bool(work.address[one] < work.address[other])
    return bool(work.rank[one] < work.rank[other])


@inlined
def _bar(instance: Sections, work: PackingState, rest: tuple[Int, Int], buffer: Int) -> tuple[Int, Int]:
    """Raise the least address of ``buffer``, which does not stand at its address: another one carries it.

    Returns its first and last section.
    """
    least = NO_VALUE
    for index in range(rest[0], rest[1]):
        other = work.members[index]
        if other != buffer and _together(instance, buffer, other):
            least = min(least, work.least[other] + instance.size[other])
    _note(work, buffer)
    work.least[buffer] = max(least, work.address[buffer] + 1)
    return instance.first[buffer], instance.last[buffer]


@inlined
def _together(instance: Sections, one: Int, other: Int) -> bool:
    """Whether both are alive at some time."""
    return bool(instance.first[other] <= instance.last[one] and instance.first[one] <= instance.last[other])


@inlined
def _note(work: PackingState, buffer: Int) -> None:
    """Write the buffer's addresses, which are about to change, on the trail."""
    at = work.counts[TRAIL_LENGTH]
    work.trail[at, 0] = buffer
    work.trail[at, 1] = work.address[buffer]
    work.trail[at, 2] = work.least[buffer]
    work.counts[TRAIL_LENGTH] += 1


@inlined
def _restore(work: PackingState, trail: Int) -> None:
    """Undo changes until the trail has ``trail`` entries."""
    while work.counts[TRAIL_LENGTH] > trail:
        work.counts[TRAIL_LENGTH] -= 1
        at = work.counts[TRAIL_LENGTH]
        work.address[work.trail[at, 0]] = work.trail[at, 1]
        work.least[work.trail[at, 0]] = work.trail[at, 2]


@inlined
def _place(instance: Sections, work: PackingState, depth: Int, buffer: Int) -> tuple[Int, Int]:
    """Place ``buffer`` at its address, lift what lives with it, and list the rest of the group anew.

    Returns the first and the last section of all that this changed.
    """
    frames, group = work.frames, work.frames.group[depth]
    frames.placed[depth] = buffer
    frames.trail[depth] = work.counts[TRAIL_LENGTH]
    frames.members[depth] = work.counts[MEMBERS_LISTED]
    frames.groups[depth] = work.counts[GROUPS_MADE]
    top = work.address[buffer] + instance.size[buffer]
    first, last = instance.first[buffer], instance.last[buffer]
    for index in range(work.groups.first[group], work.groups.end[group]):
        other = work.members[index]
        if other == buffer:
            continue
        work.members[work.counts[MEMBERS_LISTED]] = other
        work.counts[MEMBERS_LISTED] += 1
        if work.address[other] < top and _together(instance, buffer, other):
            _note(work, other)
            work.address[other] = top
            work.least[other] = max(work.least[other], top)
            first, last = min(first, instance.first[other]), max(last, instance.last[other])
    return first, last


@inlined
def _take_back(work: PackingState, depth: Int) -> None:
    """Undo the placement of this choice."""
    _restore(work, work.frames.trail[depth])
    work.counts[MEMBERS_LISTED] = work.frames.members[depth]
    work.counts[GROUPS_MADE] = work.frames.groups[depth]


@inlined
def _split(instance: Sections, work: PackingState, rest: tuple[Int, Int], origin: tuple[Int, Int]) -> Int:
    """Make groups of ``rest`` that have no section in common; returns the first one to solve.

    ``origin`` is (the choice that made them, the group to solve after them). NO_SOLUTION means that one of
    the groups is known to have no solution.
    """
    # Members are in the order of their starts: a group ends where the next one starts after all ends so far.
    groups, next_group = work.groups, origin[1]
    index = rest[0]
    while index < rest[1]:
        start, reach = index, instance.last[work.members[index]]
        while index < rest[1] and instance.first[work.members[index]] <= reach:
            reach = max(reach, instance.last[work.members[index]])
            index += 1
        group = work.counts[GROUPS_MADE]
        work.counts[GROUPS_MADE] += 1
        groups.first[group], groups.end[group] = start, index
        groups.parent[group], groups.next_group[group] = origin[0], next_group
        _identify(work, group)
        if _is_nogood(work, group):
            return NO_SOLUTION
        next_group = group
    return next_group


@inlined
def _identify(work: PackingState, group: Int) -> None:
    """Set the keys of a group: two hashes of its members with their addresses and least addresses.

    Each is a sum over members, so the order of members does not matter. Two groups that agree in both keys
    are taken for equal: with one hash of 64 bits a search of billions of groups could meet two that only look
    so.
    """
    groups = work.groups
    key, other = np.uint64(0), np.uint64(0)
    for index in range(groups.first[group], groups.end[group]):
        buffer = work.members[index]
        text = np.uint64(buffer + 1)
        text = _mixed(text * np.uint64(0x9E3779B97F4A7C15) + np.uint64(work.address[buffer]))
        text = _mixed(text * np.uint64(0x9E3779B97F4A7C15) + np.uint64(work.least[buffer]))
        key += text
        other += _mixed(text ^ np.uint64(0xD1342543DE82EF95))
    groups.key[group], groups.other_key[group] = np.int64(key), np.int64(other)


@inlined
def _mixed(text: Any) -> Any:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    text = (text ^ (text >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    text = (text ^ (text >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return text ^ (text >> np.uint64(31))


@inlined
def _is_nogood(work: PackingState, group: Int) -> bool:
    """Whether this search has found that the group has no solution."""
    entry_ = work.groups.key[group] & (len(work.nogoods) - 1)
    return bool(
        work.nogoods[entry_, 2] == work.counts[SEARCHES_BEGUN]
        and work.nogoods[entry_, 0] == work.groups.key[group]
        and work.nogoods[entry_, 1] == work.groups.other_key[group]
    )


@inlined
def _remember(work: PackingState, group: Int) -> None:
    """Note that ``group`` has no solution.

    The table has an entry for each remainder of a key, so this may overwrite the note on another group: that
    one is then searched again, which costs time and no correctness.
    """
    entry_ = work.groups.key[group] & (len(work.nogoods) - 1)
    work.nogoods[entry_, 0] = work.groups.key[group]
    work.nogoods[entry_, 1] = work.groups.other_key[group]
    work.nogoods[entry_, 2] = work.counts[SEARCHES_BEGUN]
