"""How cuts run from how their children run, compiled; :mod:`.starts` says what the numbers mean.

A run is a row of the fields of :class:`.starts.BatchRun`, and a child has two: of its first batch and of each
later one. Cycles and bits are whole numbers throughout.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

AHEAD, LINKS, TILE_LINKS, EARLY, RUNNING, LAST_RUN, LAST_RUNS, DRAM, ALL_LINKS = range(9)
"""The fields of a run."""
FIRST, LATER = 0, 1


@inlined
def ceil_divided(number: Int, by: Int) -> Int:
    """The quotient, rounded up."""
    return -(-number // by)


@inlined
def at_dram(bits: Int, rate: Int) -> Int:
    """Cycles in which DRAM moves so many bits."""
    return max(0, ceil_divided(bits, rate))


@inlined
def handed_on(run: Array, tile_links: Int) -> Int:
    """Cycles from the start of a child's batch until what it makes has reached the tiles of the next child.

    ``tile_links``: of the data of the next child that tiles make. All of it is taken to come from the last
    leaf, a part with each of its runs, and no link carries any before that run begins.
    """
    return run[RUNNING] - run[LAST_RUN] + ceil_divided(tile_links, run[LAST_RUNS])


@inlined
def between_turns(run: Array, after: Array, rate: Int) -> Int:
    """Cycles that DRAM needs for the outputs of a child and the data of what is ``after`` it."""
    return ceil_divided(run[DRAM] - run[AHEAD] + after[AHEAD], rate)


@inlined
def turn(run: Array, after: Array, rate: Int, hands_on: bool) -> Int:
    """Cycles of a child during which the data of what is ``after`` it comes; ``hands_on``: it makes some."""
    links = after[LINKS]
    if hands_on:
        links = max(links, handed_on(run, after[TILE_LINKS]))
    return max(run[RUNNING], between_turns(run, after, rate), links)


@inlined
def last_turn(run: Array, rate: Int) -> Int:
    """Cycles of a child behind which nothing comes."""
    return max(run[RUNNING], ceil_divided(run[DRAM] - run[AHEAD], rate))


@called
def in_turn(children: Array, which: Int, rate: Int) -> Int:
    """Cycles of all children but the last one, one after the other, once the data of the first is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    """
    cycles: Int = 0
    for child in range(children.shape[0] - 1):
        cycles += turn(children[child, which], children[child + 1, which], rate, True)
    return cycles


@entry
def join_turns(children: Array, subbatches: Int, rate: Int, on_links: Int, runs: Array) -> None:
    """Fill ``runs`` [2, 9] of a T cut; see :func:`.starts.turns`."""
    last = children.shape[0] - 1
    brought: Int = 0
    moved: Int = 0
    for child in range(last + 1):
        brought += children[child, FIRST, DRAM]
        moved += children[child, LATER, DRAM]
    begun, later = in_turn(children, FIRST, rate), in_turn(children, LATER, rate)
    ended = later + last_turn(children[last, LATER], rate)
    more: Int = 0
    if subbatches > 1:
        # each sub-batch but the last one fetches for the next; no child makes any of that
        between = later + turn(children[last, LATER], children[0, LATER], rate, False)
        begun += turn(children[last, FIRST], children[0, LATER], rate, False)
        begun += (subbatches - 2) * between + ended
        more = (subbatches - 1) * between
    else:
        begun += last_turn(children[last, FIRST], rate)
    for which in (FIRST, LATER):
        for number in range(runs.shape[1]):
            runs[which, number] = children[0, which, number]
        ends = children[last, FIRST if which == FIRST and subbatches == 1 else LATER]
        running = begun if which == FIRST else more + ended
        running = max(running, on_links - runs[which, LINKS])
        if runs[which, EARLY] > 0:
            # what has not come at the start comes during the first turn, if DRAM and links have the time
            begins, spared = children[0, which], 0
            if last > 0:
                after = children[1, which]
                spared = turn(begins, after, rate, True) - between_turns(begins, after, rate)
            elif subbatches > 1:
                after = children[0, LATER]
                spared = turn(begins, after, rate, False) - between_turns(begins, after, rate)
            else:
                spared = last_turn(begins, rate) - ceil_divided(begins[DRAM] - begins[AHEAD], rate)
            early = min(runs[which, EARLY], spared, running + runs[which, LINKS] - on_links)
            runs[which, EARLY] = early
        runs[which, RUNNING] = running
        runs[which, LAST_RUN] = ends[LAST_RUN]
        runs[which, LAST_RUNS] = subbatches * ends[LAST_RUNS]
        runs[which, DRAM] = (brought if which == FIRST else moved) + (subbatches - 1) * moved
        runs[which, ALL_LINKS] = on_links


@entry
def join_pipeline(
    children: Array,
    stages: Array,
    subbatches: Int,
    rate: Int,
    on_links: Int,
    handed: Array,
    passing: Array,
    runs: Array,
) -> None:
    """Fill ``runs`` [2, 9] of an S cut; see :func:`.starts.pipelined`.

    ``stages`` [children]: in which stage each child runs. ``handed``, ``passing`` [children]: workspace, for
    each stage the cycles that links need for what the next one gets of it, and those until it has that.
    """
    last: Int = 0
    moved: Int = 0
    for child in range(stages.shape[0]):
        last = max(last, stages[child])
        moved += children[child, LATER, DRAM]
    hand_on(children, stages, LATER, last, handed)
    period = max(at_dram(moved, rate), ceil_divided(on_links, subbatches))
    for child in range(stages.shape[0]):
        run = children[child, LATER]
        period = max(period, run[RUNNING], at_dram(run[DRAM], rate), run[ALL_LINKS])
        period = max(period, handed_on(run, handed[stages[child]]))
    for which in (FIRST, LATER):
        hand_on(children, stages, which, last, handed)
        filled: Int = 0
        for stage in range(last + 1):
            passing[stage] = handed[stage]
        for child in range(stages.shape[0]):
            stage = stages[child]
            passing[stage] = max(passing[stage], children[child, which, RUNNING])
        for stage in range(last + 1):
            filled += passing[stage]
        run = runs[which]
        run[:] = 0
        run[LAST_RUNS] = -1
        for child in range(stages.shape[0]):
            own, stage = children[child, which], stages[child]
            run[AHEAD] += own[AHEAD]
            run[DRAM] += own[DRAM]
            run[LINKS] = max(run[LINKS], own[LINKS])
            if stage == 0:
                run[TILE_LINKS] = max(run[TILE_LINKS], own[TILE_LINKS])
            if stage == last:
                run[LAST_RUN] = max(run[LAST_RUN], own[LAST_RUN])
                fewest = own[LAST_RUNS] if run[LAST_RUNS] < 0 else min(run[LAST_RUNS], own[LAST_RUNS])
                run[LAST_RUNS] = fewest
        run[LAST_RUNS] *= subbatches
        run[DRAM] += (subbatches - 1) * moved
        rest = at_dram(run[DRAM] - run[AHEAD], rate)
        run[RUNNING] = max(filled + (subbatches - 1) * period, rest, on_links)
        # by how much the last stage is through earlier than if nothing ran before all data is there
        spared = max(at_dram(run[AHEAD], rate), run[LINKS]) + filled
        spared -= fill(children, stages, which, last, rate, passing)
        # what has not come at the start DRAM still has to bring, besides all else
        run[EARLY] = min(spared, run[RUNNING] - rest)
        run[ALL_LINKS] = on_links


@called
def hand_on(children: Array, stages: Array, which: Int, last: Int, handed: Array) -> None:
    """Fill ``handed`` with the cycles that links need, for each stage, for what the next one gets of it."""
    for stage in range(last + 1):
        handed[stage] = 0
    for child in range(stages.shape[0]):
        if stages[child] > 0:
            before = stages[child] - 1
            handed[before] = max(handed[before], children[child, which, TILE_LINKS])


@called
def fill(children: Array, stages: Array, which: Int, last: Int, rate: Int, passing: Array) -> Int:
    """Cycles until the last stage has been through once, from the moment when the fetch begins.

    Stages fetch one after the other. ``passing``: for each stage the cycles from its start until the next one
    has what it makes.
    """
    cycles: Int = 0
    bits: Int = 0
    links: Int = 0
    for stage in range(last + 1):
        early: Int = -1
        for child in range(stages.shape[0]):
            if stages[child] == stage:
                own = children[child, which]
                bits += own[AHEAD]
                links = max(links, own[LINKS])
                early = own[EARLY] if early < 0 else min(early, own[EARLY])
        fetched = max(at_dram(bits, rate), links) - early
        cycles = max(cycles, fetched) + passing[stage]
    return cycles
