"""The packing solver: greedy placements, then the complete search with restarts."""

from __future__ import annotations

from dataclasses import replace
from math import gcd, lcm

from solvers.budget import Budget, Deadline, Stopwatch
from solvers.outcome import Outcome, Status, noting_limits
from solvers.scratchpad.packing.greedy import greedy_packing
from solvers.scratchpad.packing.params import Params
from solvers.scratchpad.packing.problem import Addresses, Buffer, PackingProblem, violations
from solvers.scratchpad.packing.search import search_packing
from solvers.scratchpad.packing.sections import sections, sorted_buffers

VERSION = "2"


@noting_limits
def solve(problem: PackingProblem, budget: Budget, params: Params = Params()) -> Outcome[Addresses]:  # noqa: B008
    """An address for every buffer; the objective is the highest top, the bound the largest load.

    The load is the sum of the sizes alive at a moment. The status is OPTIMAL where the height is the largest
    load, else FEASIBLE with addresses. INFEASIBLE: it is proven that there are none below the capacity.
    UNKNOWN: the budget, whose ``iterations`` are searches, ended before any were found. Buffers with
    alignments are searched with sizes rounded up to the alignments' common multiple; if alignments differ
    nothing is proven.
    """
    deadline = Deadline(budget.wall_seconds)
    clock = deadline.watch
    buffers = sorted_buffers(problem)
    load = int(sections(buffers).load.max()) if buffers else 0
    if load > problem.capacity:
        note = f"buffers of {load} are alive at once, the capacity is {problem.capacity}"
        return _without_addresses(clock, Status.INFEASIBLE, note, float(load))
    if params.greedy or not buffers:
        addresses, height = greedy_packing(buffers, problem.capacity, deadline.in_time)
        if height <= problem.capacity:
            return _with_addresses(problem, addresses, load, clock)
    if not deadline.in_time():
        note = f"no packing in {problem.capacity} found in {budget.wall_seconds:g} s"
        return _without_addresses(clock, Status.UNKNOWN, note, float(load))
    unit = _unit(buffers)
    rounded = _rounded(buffers, unit)
    found = search_packing(rounded, problem.capacity // unit, budget, params, clock)
    if found.addresses is not None:
        pairs = zip(buffers, found.addresses, strict=True)
        return _with_addresses(
            problem, {buffer.name: address * unit for buffer, address in pairs}, load, clock
        )
    if found.proven and not _exact(buffers, unit) and len({b.alignment for b in buffers}) == 1:
        # Rounding up can only push the highest buffers over the top. With the capacity rounded up as well,
        # the rounded problem is a relaxation, so that its proof holds.
        found = search_packing(rounded, -(-problem.capacity // unit), budget, params, clock)
    elif not _exact(buffers, unit):
        found = found._replace(proven=False)
    if found.proven:
        note = f"a complete search finds no packing in {problem.capacity} ({load} are alive at once)"
        return _without_addresses(clock, Status.INFEASIBLE, note, float(load))
    note = f"no packing in {problem.capacity} found in {found.searches} searches"
    return _without_addresses(clock, Status.UNKNOWN, note, float(load))


def _unit(buffers: tuple[Buffer, ...]) -> int:
    """The largest unit in which nothing is lost; with alignments, their least common multiple."""
    alignment = lcm(*(buffer.alignment for buffer in buffers))
    return alignment if alignment > 1 else gcd(*(buffer.size for buffer in buffers))


def _rounded(buffers: tuple[Buffer, ...], unit: int) -> tuple[Buffer, ...]:
    """The buffers in units, rounded up."""
    return tuple(replace(buffer, size=-(-buffer.size // unit), alignment=1) for buffer in buffers)


def _exact(buffers: tuple[Buffer, ...], unit: int) -> bool:
    """Whether rounding changes nothing: then all tops, and so all addresses, are multiples of the unit."""
    return all(buffer.size % unit == 0 == unit % buffer.alignment for buffer in buffers)


def _with_addresses(
    problem: PackingProblem, addresses: Addresses, load: int, clock: Stopwatch
) -> Outcome[Addresses]:
    everything = {buffer.name: addresses.get(buffer.name, 0) for buffer in problem.buffers}
    if reasons := violations(problem, everything):
        raise AssertionError(f"packing: {reasons[0]}")
    height = max((everything[b.name] + b.size for b in problem.buffers), default=0)
    status = Status.OPTIMAL if height == load else Status.FEASIBLE
    return Outcome(status, everything, float(height), float(load), clock.cpu_seconds, clock.wall_seconds)


def _without_addresses(clock: Stopwatch, status: Status, note: str, bound: float) -> Outcome[Addresses]:
    return Outcome(status, None, None, bound, clock.cpu_seconds, clock.wall_seconds, note)
