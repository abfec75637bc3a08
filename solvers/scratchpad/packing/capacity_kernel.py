"""What capacity is left, compiled: "Forced" and "Capacity" of :mod:`solvers.scratchpad.packing.search`.

``rest`` is everywhere a range [begin, end) of ``work.members``: the buffers of a group, in the order of
their starts. ``lowest`` holds the two least values of each section, and ``lowest_of`` whose the least is. So
the least value of all *other* buffers is known for every buffer after one pass over the group.
"""

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

NO_BUFFER = -1
"""Stands for the number of a buffer where there is none."""
NO_VALUE = 1 << 62
"""Stands for the least value of no buffers: above every address."""


@inlined
def forced_buffer(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> Int:
    """A buffer of ``rest`` below whose top, at its address, no other can reach; else NO_BUFFER."""
    # First every buffer enters its least address in its sections; then each is compared with the others.
    _clear(instance, work, rest)
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        _enter(instance, work, buffer, work.least[buffer])
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        top = work.address[buffer] + instance.size[buffer]
        if _least_of_others(instance, work, buffer, top) >= top:
            return buffer
    return NO_BUFFER


@inlined
def _clear(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> None:
    """Forget the least values in all sections that ``rest`` lives in."""
    first: Int = len(instance.load)
    last: Int = -1
    if rest[0] < rest[1]:
        first = instance.first[work.members[rest[0]]]
    for index in range(rest[0], rest[1]):
        last = max(last, instance.last[work.members[index]])
    for section in range(first, last + 1):
        work.lowest[section, 0] = work.lowest[section, 1] = NO_VALUE


@inlined
def _enter(instance: Sections, work: PackingState, buffer: Int, value: Int) -> None:
    """Enter a value of ``buffer`` in each of its sections, which keep their two least ones."""
    for section in range(instance.first[buffer], instance.last[buffer] + 1):
        if value < work.lowest[section, 0]:
            work.lowest[section, 1] = work.lowest[section, 0]
            work.lowest[section, 0] = value
            work.lowest_of[section] = buffer
        elif value < work.lowest[section, 1]:
            work.lowest[section, 1] = value


@inlined
def _least_of_others(instance: Sections, work: PackingState, buffer: Int, enough: Int) -> Int:
    """The least value that another buffer has entered in a section of ``buffer``; NO_VALUE if there is none.

    A value below ``enough`` ends the search for it.
    """
    least = NO_VALUE
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
    """Whether the buffers ``rest`` may still fit: False is certain, True is not.

    They did before the sections ``changed`` (first, last), so only these are looked at, and the sections of
    barred buffers, whose least addresses depend on others.
    """
    if not _carried(instance, work, rest):
        return False
    first, last = changed
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        if work.address[buffer] < work.least[buffer]:
            first, last = min(first, instance.first[buffer]), max(last, instance.last[buffer])
    for section in range(first, last + 1):
        work.floor[section] = 0
    count = 0
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        if instance.first[buffer] <= last and first <= instance.last[buffer]:
            work.order[count] = buffer
            count += 1
    # "Capacity": the buffers are stacked in the order of their certain addresses, each in all its sections.
    # A buffer begins at its certain address or on what the section has so far, whichever is higher.
    _sort(work, count)
    for index in range(count):
        buffer = work.order[index]
        for section in range(max(first, instance.first[buffer]), min(last, instance.last[buffer]) + 1):
            work.floor[section] = max(work.floor[section], work.certain[buffer]) + instance.size[buffer]
            if work.floor[section] > capacity:
                work.failures[section] += 1
                return False
    return True


@inlined
def _carried(instance: Sections, work: PackingState, rest: tuple[Int, Int]) -> Bool:
    """Fill ``work.certain``, the addresses that buffers have at least; False if nothing can carry one.

    A barred buffer stands on another: not below the least top of its neighbours.
    """
    barred = 0
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        work.certain[buffer] = work.least[buffer]
        barred += work.address[buffer] < work.least[buffer]
    if not barred:
        return True
    _clear(instance, work, rest)
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        _enter(instance, work, buffer, work.least[buffer] + instance.size[buffer])
    for index in range(rest[0], rest[1]):
        buffer = work.members[index]
        if work.address[buffer] < work.least[buffer]:
            least = _least_of_others(instance, work, buffer, 0)
            if least == NO_VALUE:
                return False
            work.certain[buffer] = max(work.least[buffer], least)
    return True


@inlined
def _sort(work: PackingState, count: Int) -> None:
    """Sort ``work.order[:count]`` by ``work.certain`` (Shell's sort, which allocates nothing)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, count):
            buffer = work.order[index]
            at = index
            while at >= gap and work.certain[work.order[at - gap]] > work.certain[buffer]:
                work.order[at] = work.order[at - gap]
                at -= gap
            work.order[at] = buffer
        gap //= 3
