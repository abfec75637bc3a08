"""What room is left, compiled: "Forced" and "Room" of :mod:`solvers.scratchpad.packing.search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.compiled import inlined

if TYPE_CHECKING:
    from solvers.scratchpad.packing.sections import Sections
    from solvers.scratchpad.packing.state import PackingState

Int = Any
"""A 64-bit integer of compiled code."""
Bool = Any
"""A truth value of compiled code."""

NOBODY = -1
FAR = 1 << 62


@inlined
def forced_buffer(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> Int:
    """A buffer below whose top no other one can reach, at its least address; NOBODY: none."""
    _clear(instance, work, rest)
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        _enter(instance, work, buffer, work.least[buffer])
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        top = work.address[buffer] + instance.size[buffer]
        if _least_of_others(instance, work, buffer, top) >= top:
            return buffer
    return NOBODY


@inlined
def _clear(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> None:
    """Forget the least values in all sections of ``rest``, which is in the order of starts."""
    first: Int = len(instance.load)
    last: Int = -1
    if rest[0] < rest[1]:
        first = instance.first[work.members[rest[0]]]
    for place in range(rest[0], rest[1]):
        last = max(last, instance.last[work.members[place]])
    for section in range(first, last + 1):
        work.lowest[section, 0] = work.lowest[section, 1] = FAR


@inlined
def _enter(instance: Sections, work: PackingState, buffer: Int, value: Int) -> None:
    """Keep the two least values in every section of ``buffer``."""
    for section in range(instance.first[buffer], instance.last[buffer] + 1):
        if value < work.lowest[section, 0]:
            work.lowest[section, 1] = work.lowest[section, 0]
            work.lowest[section, 0] = value
            work.lowest_of[section] = buffer
        elif value < work.lowest[section, 1]:
            work.lowest[section, 1] = value


@inlined
def _least_of_others(instance: Sections, work: PackingState, buffer: Int, enough: Int) -> Int:
    """The least value that another one has entered in a section of ``buffer``; FAR: none.

    The search for it ends with any value below ``enough``.
    """
    least = FAR
    for section in range(instance.first[buffer], instance.last[buffer] + 1):
        which = 1 if work.lowest_of[section] == buffer else 0
        least = min(least, work.lowest[section, which])
        if least < enough:
            break
    return least


@inlined
def fits(
    instance: Sections, work: PackingState, rest: tuple[Int, Int], changed: tuple[Int, Int], capacity: Int
) -> Bool:
    """Whether the buffers ``rest`` (places in members) may still fit: false is certain, true is not.

    They did before the sections ``changed``; so only those are looked at, and those of barred buffers.
    """
    if not _carried(instance, work, rest):
        return False
    first, last = changed
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        if work.address[buffer] < work.least[buffer]:
            first, last = min(first, instance.first[buffer]), max(last, instance.last[buffer])
    for section in range(first, last + 1):
        work.floor[section] = 0
    count = 0
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        if instance.first[buffer] <= last and first <= instance.last[buffer]:
            work.order[count] = buffer
            count += 1
    _sort(work, count)
    for place in range(count):
        buffer = work.order[place]
        for section in range(max(first, instance.first[buffer]), min(last, instance.last[buffer]) + 1):
            work.floor[section] = max(work.floor[section], work.certain[buffer]) + instance.size[buffer]
            if work.floor[section] > capacity:
                work.failures[section] += 1
                return False
    return True


@inlined
def _carried(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> Bool:
    """Fill ``work.certain``: a barred buffer is as high as what could carry it; false: nothing can."""
    barred = 0
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        work.certain[buffer] = work.least[buffer]
        barred += work.address[buffer] < work.least[buffer]
    if not barred:
        return True
    _clear(instance, work, rest)
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        _enter(instance, work, buffer, work.least[buffer] + instance.size[buffer])
    for place in range(rest[0], rest[1]):
        buffer = work.members[place]
        if work.address[buffer] < work.least[buffer]:
            least = _least_of_others(instance, work, buffer, 0)
            if least == FAR:
                return False
            work.certain[buffer] = max(work.least[buffer], least)
    return True


@inlined
def _sort(work: PackingState, count: Int) -> None:
    """Shell's sort of ``work.order[:count]``."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, count):
            buffer = work.order[place]
            at = place
            while at >= gap and work.certain[work.order[at - gap]] > work.certain[buffer]:
                work.order[at] = work.order[at - gap]
                at -= gap
            work.order[at] = buffer
        gap //= 3
