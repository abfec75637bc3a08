"""How children of a cut run together, compiled: in turn in a T cut, side by side in an S cut.

:mod:`.starts` says what is counted. Here a child's first batch and each later one are rows of arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""

FIRST, LATER = 0, 1
"""The first batch of a node, and each later one."""
AHEAD, DURING = 0, 1
"""What links carry before a batch starts, and besides that."""


class RunNumbers(NamedTuple):
    """The numbers of a batch; :class:`.starts.BatchRun` says what they are."""

    ahead_bits: int
    link_cycles: int
    early: int
    running: int
    dram_bits: int


RUN = RunNumbers(*range(len(RunNumbers._fields)))
"""The column of each of them."""


class Runs(NamedTuple):
    """The runs of one node or, with one axis more in front, of several.

    ``numbers`` [2, columns]: of the first batch and of each later one. ``loads`` [2, 2, links]: what links
    carry for them, ahead and during, in bits times DRAM ports.
    """

    numbers: Array
    loads: Array


class BitRates(NamedTuple):
    """What DRAM moves in a cycle, in bits, and what a link does, in bits times DRAM ports."""

    dram: int
    link: int


class Turns(NamedTuple):
    """Children in turn: the cycles of all, and of the first one, and for how many of these data moves."""

    cycles: Int
    first: Int
    moving: Int


@entry
def join_in_turn(children: Runs, subbatches: Int, rates: BitRates, found: Runs) -> None:
    """Fill ``found`` with the runs of a T cut, as :func:`.starts.turns` has them."""
    last = _in_turn(children, LATER, False, rates, found.loads[LATER, DURING])
    if subbatches == 1:
        begun = _in_turn(children, FIRST, False, rates, found.loads[FIRST, DURING])
        _join(children, FIRST, begun, begun.cycles, 1, rates, found)
        _join(children, LATER, last, last.cycles, 1, rates, found)
        return
    # each sub-batch but the last one fetches for the next
    begun = _in_turn(children, FIRST, True, rates, found.loads[FIRST, DURING])
    between = _in_turn(children, LATER, True, rates, found.loads[LATER, DURING])
    rest = (subbatches - 2) * between.cycles + last.cycles
    during, ahead = found.loads, children.loads[0, LATER, AHEAD]
    for link in range(ahead.shape[0]):
        others = (subbatches - 1) * (during[LATER, DURING, link] + ahead[link])
        during[FIRST, DURING, link] += others
        during[LATER, DURING, link] += others
    _join(children, FIRST, begun, begun.cycles + rest, subbatches, rates, found)
    _join(children, LATER, between, between.cycles + rest, subbatches, rates, found)


@called
def _in_turn(children: Runs, which: Int, again: Truth, rates: BitRates, during: Array) -> Turns:
    """Children in turn, once the data of the first one is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    ``again``: a later sub-batch follows the last child, whose data comes meanwhile. Fills ``during`` [links]
    with what links carry, but for what comes before the first child starts and for what follows the last one.
    """
    numbers, loads = children.numbers, children.loads
    count = numbers.shape[0]
    cycles, first, of_first = 0, 0, 0
    during[:] = 0
    for child in range(count):
        run, own = numbers[child, which], loads[child, which, DURING]
        bits, taken, busiest = run[RUN.dram_bits] - run[RUN.ahead_bits], run[RUN.running], 0
        if child + 1 < count or again:
            following, batch = (child + 1, which) if child + 1 < count else (0, LATER)
            after, coming = numbers[following, batch], loads[following, batch, AHEAD]
            bits += after[RUN.ahead_bits]
            taken = max(taken, after[RUN.link_cycles])
            counted = 1 if child + 1 < count else 0
            for link in range(own.shape[0]):
                busiest = max(busiest, own[link] + coming[link])
                during[link] += own[link] + counted * coming[link]
        else:
            for link in range(own.shape[0]):
                busiest = max(busiest, own[link])
                during[link] += own[link]
        moving = _cycles(bits, busiest, rates)
        taken = max(taken, moving)
        cycles += taken
        if child == 0:
            first, of_first = taken, moving
    return Turns(cycles, first, of_first)


@inlined
def _join(
    children: Runs, which: Int, own: Turns, running: Int, subbatches: Int, rates: BitRates, found: Runs
) -> None:
    """Fill in the cut's batch, whose first sub-batch is ``which`` of the children, in turn as ``own`` says.

    ``running``: the cycles of all sub-batches by their turns. What links carry during it is there.
    """
    numbers, loads = children.numbers, children.loads
    begins, whole = numbers[0, which], found.numbers[which]
    on_links = _on_links(found.loads[which, DURING], rates)
    running = max(running, on_links)
    early: Int = 0
    if begins[RUN.early] > 0:
        # what has not come at the start comes during the first turn, if DRAM and links have the time
        early = min(begins[RUN.early], own.first - own.moving, running - on_links)
    dram_bits: Int = 0
    for child in range(numbers.shape[0]):
        dram_bits += numbers[child, which, RUN.dram_bits]
        dram_bits += (subbatches - 1) * numbers[child, LATER, RUN.dram_bits]
    whole[RUN.ahead_bits], whole[RUN.link_cycles] = begins[RUN.ahead_bits], begins[RUN.link_cycles]
    whole[RUN.early], whole[RUN.running], whole[RUN.dram_bits] = early, running, dram_bits
    for link in range(loads.shape[3]):
        found.loads[which, AHEAD, link] = loads[0, which, AHEAD, link]


@entry
def join_pipelined(
    children: Runs,
    stages: Array,
    in_turn: Array,
    subbatches: Int,
    rates: BitRates,
    passing: Array,
    found: Runs,
) -> None:
    """Fill ``found`` with the runs of an S cut, as :func:`.starts.pipelined` has them.

    ``stages`` [children]. ``in_turn`` [children]: 1 for T cuts, else 0. ``passing`` [stages]: scratch.
    """
    numbers, loads = children.numbers, children.loads
    together = found.loads[LATER, DURING]
    period = _period(children, in_turn, rates, together)
    # of later batches last, as these sums are read until then
    for which in (FIRST, LATER):
        whole, during = found.numbers[which], found.loads[which, DURING]
        bits, dram_bits, link_cycles = 0, 0, 0
        passing[:] = 0
        for child in range(numbers.shape[0]):
            run = numbers[child, which]
            bits += run[RUN.ahead_bits]
            dram_bits += run[RUN.dram_bits] + (subbatches - 1) * numbers[child, LATER, RUN.dram_bits]
            link_cycles = max(link_cycles, run[RUN.link_cycles])
            passing[stages[child]] = max(passing[stages[child]], run[RUN.running])
        for link in range(during.shape[0]):
            ahead, own = 0, (subbatches - 1) * together[link]
            for child in range(numbers.shape[0]):
                ahead += loads[child, which, AHEAD, link]
                own += loads[child, which, DURING, link]
            found.loads[which, AHEAD, link], during[link] = ahead, own
        link_cycles = max(link_cycles, _on_links(found.loads[which, AHEAD], rates))
        through = passing.sum()
        rest = _cycles(dram_bits - bits, 0, rates)
        rest = max(rest, _on_links(during, rates))
        running = max(through + (subbatches - 1) * period, rest)
        whole[RUN.ahead_bits], whole[RUN.link_cycles], whole[RUN.early] = bits, link_cycles, 0
        whole[RUN.running], whole[RUN.dram_bits] = running, dram_bits
        if which == FIRST:
            # by how much the last stage is through earlier than if nothing ran before all data is there
            spared = max(_cycles(bits, 0, rates), link_cycles) + through
            spared -= _filled(children, stages, passing, rates, found.loads[FIRST, AHEAD])
            # what has not come at the start DRAM and links still have to bring, besides all else
            whole[RUN.early] = min(spared, running - rest)


@called
def _period(children: Runs, in_turn: Array, rates: BitRates, together: Array) -> Int:
    """Cycles of a sub-batch for which all stages run at a time.

    Fills ``together`` [links] with what links carry in them.
    """
    numbers, loads = children.numbers, children.loads
    together[:] = 0
    moved: Int = 0
    period: Int = 0
    for child in range(numbers.shape[0]):
        run, busiest = numbers[child, LATER], 0
        moved += run[RUN.dram_bits]
        for link in range(together.shape[0]):
            load = loads[child, LATER, AHEAD, link] + loads[child, LATER, DURING, link]
            busiest = max(busiest, load)
            together[link] += load
        period = max(period, run[RUN.running], _cycles(run[RUN.dram_bits], busiest, rates))
    # Data that leaves wait for within a turn waits once for what the other children send at a time.
    for child in range(numbers.shape[0]):
        if in_turn[child] == 0:
            continue
        others: Int = 0
        for link in range(together.shape[0]):
            during = loads[child, LATER, DURING, link]
            if during > 0:
                others = max(others, together[link] - during - loads[child, LATER, AHEAD, link])
        period = max(period, numbers[child, LATER, RUN.running] + _cycles(0, others, rates))
    return max(period, _cycles(moved, 0, rates), _on_links(together, rates))


@called
def _filled(children: Runs, stages: Array, passing: Array, rates: BitRates, loads: Array) -> Int:
    """Cycles until the last stage has been through once, from the moment when the fetch begins.

    Stages fetch one after the other. ``passing`` [stages]: the cycles from the start of each until the next
    one has what it makes. ``loads`` [links] ends as it was: what links carry for all stages.
    """
    numbers = children.numbers
    cycles: Int = 0
    bits: Int = 0
    links: Int = 0
    loads[:] = 0
    for stage in range(passing.shape[0]):
        early: Int = -1
        for child in range(numbers.shape[0]):
            if stages[child] != stage:
                continue
            run, ahead = numbers[child, FIRST], children.loads[child, FIRST, AHEAD]
            bits += run[RUN.ahead_bits]
            links = max(links, run[RUN.link_cycles])
            early = run[RUN.early] if early < 0 else min(early, run[RUN.early])
            for link in range(loads.shape[0]):
                loads[link] += ahead[link]
        links = max(links, _on_links(loads, rates))
        cycles = max(cycles, max(_cycles(bits, 0, rates), links) - early) + passing[stage]
    return cycles


@inlined
def _cycles(dram_bits: Int, busiest: Int, rates: BitRates) -> Int:
    """Cycles that DRAM needs for so many bits, and the busiest link for its bits times ports."""
    return max((dram_bits + rates.dram - 1) // rates.dram, (busiest + rates.link - 1) // rates.link)


@inlined
def _on_links(loads: Array, rates: BitRates) -> Int:
    """Cycles that the busiest of all links needs."""
    busiest: Int = 0
    for link in range(loads.shape[0]):
        busiest = max(busiest, loads[link])
    return _cycles(0, busiest, rates)
