"""How cuts run: the compiled joins against the same in plain Python, child by child."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from costmodel.formats.chips import load_chip
from costmodel.hardware.chip import Chip
from costmodel.schedule.starts import BatchRun, NodeRuns, pipelined, slowest_by_stage, turns


def handed_on(run: BatchRun, tile_link_cycles: int) -> int:
    """Cycles from the start of a batch until what it makes has reached the next child."""
    return run.running - run.last_run + -(-tile_link_cycles // run.last_runs)


def one_after_the_other(runs: Sequence[BatchRun], chip: Chip, then: BatchRun | None = None) -> int:
    """Cycles of children that run one after the other, once the data of the first one is there.

    While a child computes DRAM takes its outputs and brings what the next child needs; links do, too.
    ``then``: what follows the last child, if its data comes meanwhile; no child here makes any of that.
    """
    following, last = [*runs[1:], then], len(runs) - 1
    return sum(
        _turn(run, after, chip, number < last)
        for number, (run, after) in enumerate(zip(runs, following, strict=True))
    )


def _turn(run: BatchRun, after: BatchRun | None, chip: Chip, hands_on: bool) -> int:
    """Cycles of a child during which the data comes of what is ``after`` it; ``hands_on``: it makes some."""
    links = 0 if after is None else after.link_cycles
    if after is not None and hands_on:
        links = max(links, handed_on(run, after.tile_link_cycles))
    return max(run.running, _at_dram(run, after, chip), links)


def _at_dram(run: BatchRun, after: BatchRun | None, chip: Chip) -> int:
    """Cycles that DRAM needs for the outputs of a child and the data of what is ``after`` it."""
    bits = run.dram_bits - run.ahead_bits + (0 if after is None else after.ahead_bits)
    return -(-bits // chip.dram.bits_per_cycle)


def plain_turns(children: Sequence[NodeRuns], subbatches: int, chip: Chip, on_links: int) -> NodeRuns:
    """A T cut: all children in turn for one sub-batch after the other.

    ``on_links``: cycles that the busiest link needs for a batch of all children. It may carry what leaves one
    child and what comes to the next, so the cut takes no less, but for what comes before it starts.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    brought, moved = sum(run.dram_bits for run in first), sum(run.dram_bits for run in later)
    begun, last = one_after_the_other(first, chip), one_after_the_other(later, chip)
    more = 0
    if subbatches > 1:
        # each sub-batch but the last one fetches for the next
        between = one_after_the_other(later, chip, later[0])
        begun = one_after_the_other(first, chip, later[0]) + (subbatches - 2) * between + last
        more = (subbatches - 1) * between

    def whole(runs: Sequence[BatchRun], ends: BatchRun, running: int, dram_bits: int) -> BatchRun:
        """The cut's batch, whose first sub-batch is ``runs``, with the run that ``ends`` it."""
        begins, early = runs[0], runs[0].early
        running = max(running, on_links - begins.link_cycles)
        if early:
            # what has not come at the start comes during the first turn, if DRAM and links have the time
            after = runs[1] if len(runs) > 1 else later[0] if subbatches > 1 else None
            turn = _turn(begins, after, chip, len(runs) > 1)
            early = min(early, turn - _at_dram(begins, after, chip), running + begins.link_cycles - on_links)
        return begins._replace(
            early=early,
            running=running,
            last_run=ends.last_run,
            last_runs=subbatches * ends.last_runs,
            dram_bits=dram_bits,
            all_link_cycles=on_links,
        )

    return NodeRuns(
        whole(first, (first if subbatches == 1 else later)[-1], begun, brought + (subbatches - 1) * moved),
        whole(later, later[-1], more + last, subbatches * moved),
    )


def plain_pipelined(
    children: Sequence[NodeRuns], stages: Sequence[int], subbatches: int, chip: Chip, on_links: int
) -> NodeRuns:
    """An S cut: a pipeline, whose children use DRAM and links at the same time.

    DRAM and links may be fast enough for each child and too slow for all together. ``on_links``: cycles that
    the busiest link needs for a batch of all children. Tiles of later stages fetch their weights and first
    inputs behind those of the stages before. So the first stage starts when its own data is there, and each
    later one when its data is there and the stage before has been through once: its slowest child, or as long
    as links need for what it hands on (fill). After the last stage has been through once the pipeline takes
    a period for each further sub-batch, in which DRAM and links move what all stages need for one.
    """
    first, later = [child.first for child in children], [child.later for child in children]
    moved, last = sum(run.dram_bits for run in later), max(stages)
    period = max(_period(later, stages, chip), chip.least_cycles(moved, 0), -(-on_links // subbatches))

    def whole(runs: Sequence[BatchRun]) -> BatchRun:
        """The cut's batch, of which ``runs`` is the first sub-batch."""
        ahead = sum(run.ahead_bits for run in runs)
        dram = sum(run.dram_bits for run in runs) + (subbatches - 1) * moved
        links = max(run.link_cycles for run in runs)
        taken = slowest_by_stage([run.running for run in runs], stages)
        passing = list(map(max, taken, _handed(runs, stages)))
        filled, rest = sum(passing), chip.least_cycles(dram - ahead, 0)
        running = max(filled + (subbatches - 1) * period, rest, on_links)
        # by how much the last stage is through earlier than if nothing ran before all data is there
        spared = max(chip.least_cycles(ahead, 0), links) + filled - _filled(runs, stages, passing, chip)
        begins = [run for run, stage in zip(runs, stages, strict=True) if stage == 0]
        ends = [run for run, stage in zip(runs, stages, strict=True) if stage == last]
        return BatchRun(
            ahead_bits=ahead,
            link_cycles=links,
            tile_link_cycles=max(run.tile_link_cycles for run in begins),
            # what has not come at the start DRAM still has to bring, besides all else
            early=min(spared, running - rest),
            running=running,
            last_run=max(run.last_run for run in ends),
            last_runs=subbatches * min(run.last_runs for run in ends),
            dram_bits=dram,
            all_link_cycles=on_links,
        )

    return NodeRuns(whole(first), whole(later))


def _handed(runs: Sequence[BatchRun], stages: Sequence[int]) -> list[int]:
    """For each stage the cycles that links need for what the next one gets of it."""
    return [*slowest_by_stage([run.tile_link_cycles for run in runs], stages)[1:], 0]


def _period(runs: Sequence[BatchRun], stages: Sequence[int], chip: Chip) -> int:
    """Cycles from one sub-batch of a pipeline to the next: those of its slowest child.

    A child begins the next one when what it has made of the last one has left for the stage behind it.
    """
    handed = _handed(runs, stages)
    return max(
        max(
            max(run.running, chip.least_cycles(run.dram_bits, 0), run.all_link_cycles),
            handed_on(run, handed[stage]),
        )
        for run, stage in zip(runs, stages, strict=True)
    )


def _filled(runs: Sequence[BatchRun], stages: Sequence[int], passing: Sequence[int], chip: Chip) -> int:
    """Cycles until the last stage has been through once, from the moment when the fetch begins.

    Stages fetch one after the other. ``passing``: for each stage the cycles from its start until the next one
    has what it makes.
    """
    cycles = bits = links = 0
    for stage, passed in enumerate(passing):
        own = [run for run, its_stage in zip(runs, stages, strict=True) if its_stage == stage]
        bits += sum(run.ahead_bits for run in own)
        links = max(links, *(run.link_cycles for run in own))
        fetched = max(chip.least_cycles(bits, 0), links) - min(run.early for run in own)
        cycles = max(cycles, fetched) + passed
    return cycles


def random_run(random: Random, early: bool) -> BatchRun:
    ahead, running = random.randint(0, 5000), random.randint(1, 400)
    links, last_run = random.randint(0, 200), random.randint(1, running)
    return BatchRun(
        ahead,
        links,
        random.randint(0, links),
        random.randint(0, 40) if early else 0,
        running,
        last_run,
        random.randint(1, running // last_run),
        ahead + random.randint(0, 9000),
        links + random.randint(0, 300),
    )


def test_cuts_run_as_counted_child_by_child() -> None:
    random, chip, early = Random(3), load_chip("set-edge"), 0
    for _ in range(400):
        count, subbatches = random.randint(1, 7), random.choice((1, 1, 2, 3, 8))
        begins = random.random() < 0.5
        children = [NodeRuns(random_run(random, begins), random_run(random, begins)) for _ in range(count)]
        on_links = random.randint(0, 6000)
        found = turns(children, subbatches, chip, on_links)
        assert found == plain_turns(children, subbatches, chip, on_links)
        stages = [0]
        for _ in children[1:]:
            stages.append(random.randint(0, max(stages) + 1))
        piped = pipelined(children, stages, subbatches, chip, on_links)
        assert piped == plain_pipelined(children, stages, subbatches, chip, on_links)
        early += (found.first.early > 0) + (piped.first.early > 0)
    assert 50 < early < 750
