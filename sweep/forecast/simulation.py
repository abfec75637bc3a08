"""How long a run on N workers would take, how busy its workers would be, and what would keep them waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from statistics import fmean

from clusters.pace import pace_for
from sweep.blocks.sizes import solves_of_block
from sweep.forecast.simulated_run import DriverCosts, SimulatedRun

MEASURED = DriverCosts()


@dataclass(frozen=True)
class BlockCosts:
    """The costs in seconds of having blocks done, apart from the solves.

    block: the run loop's work in the driver for a block, whatever is in it: make it, store its two batches.
    solve: the same for each solve in it. worker: the worker's time for a solve beside solving: its task, its
    row, its part of a design's row. runtime: what the runtime does for an item; a block is one.

    The defaults are CPU seconds of ``benchmarks/blocks.py`` with 2 workers, on one core of an x86-64 VM.
    """

    block: float = 3e-3
    solve: float = 3e-6
    worker: float = 180e-6
    runtime: DriverCosts = MEASURED


MEASURED_BLOCKS = BlockCosts()

BLOCKS_DRAWN = 200
"""Different blocks of which the simulated ones are drawn."""

FEWEST, FEWEST_A_WORKER, FEWEST_FILLINGS = 2000, 30, 6
"""Solves that are simulated, at least: in all, for each worker, and in fillings of the runtime's window.

The largest of the three counts. The remaining solves of a longer study are added at the rate of the middle
half of the simulated ones, which neither the start nor the end of the run slows down.
"""

CAUSES = {
    "start": "the start of the workers",
    "driver": "the driver; split the study into runs of their own on the same cluster",
    "tail": "the end, when there is not a solve left for every worker",
}


@dataclass(frozen=True)
class Forecast:
    """A simulated run.

    ``efficiency`` is the fraction of all worker seconds (workers times wall seconds) spent in solves.
    ``lost`` has the other fractions by cause (start, driver, tail); with the efficiency they add up to 1.
    The driver's includes the way to a worker and back. ``driver_busy`` is the fraction of the wall time in
    which the driver computes.
    """

    workers: int
    solves: int
    wall_seconds: float
    efficiency: float
    driver_busy: float
    lost: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """What costs the workers most time beside solves, in words; what costs 2 % or less does not count."""
        cause, fraction = max(self.lost.items(), key=lambda entry: entry[1])
        return CAUSES[cause] if fraction > 0.02 else "nothing but the solves"


def forecast(
    seconds: Sequence[float], solves: int, workers: int, costs: DriverCosts = MEASURED, seed: int = 0
) -> Forecast:
    """A run of ``solves`` solves (at least 1), each of which takes one of the measured ``seconds``."""
    simulated = min(solves, _enough(fmean(seconds), workers))
    run = SimulatedRun(seconds, simulated, workers, costs, Random(seed))
    run.to_the_end()
    more, rate = solves - simulated, _rate(run.answered)
    wall = run.now + (more / rate if more else 0.0)
    total = wall * workers
    useful = run.useful * solves / simulated
    lost = {
        "start": min(costs.start, wall) * workers,
        "tail": min(run.idle_end, total - useful),
    }
    lost["driver"] = max(0.0, total - useful - sum(lost.values()))
    return Forecast(
        workers,
        solves,
        wall,
        useful / total,
        min(1.0, run.busy / run.now),
        {cause: seconds / total for cause, seconds in lost.items()},
    )


def block_forecast(
    seconds: Sequence[float], solves: int, workers: int, costs: BlockCosts = MEASURED_BLOCKS, seed: int = 0
) -> Forecast:
    """As :func:`forecast`, of a run that hands out blocks (:mod:`sweep.run.block_run`): each is an item.

    All blocks have the size of the first ones that are handed out once solves were timed; the smaller ones at
    the beginning and end of a run are left out.
    """
    size = solves_of_block(fmean(seconds) + costs.worker, solves, workers)
    random = Random(seed)
    blocks = [sum(random.choices(seconds, k=size)) for _ in range(BLOCKS_DRAWN)]
    of_a_block = replace(costs.runtime, study=costs.block + size * costs.solve, worker=size * costs.worker)
    return replace(forecast(blocks, ceil(solves / size), workers, of_a_block, seed), solves=solves)


def _enough(seconds: float, workers: int) -> int:
    """How many solves of ``seconds`` each have to be simulated until their rate is steady."""
    pace = pace_for(workers)
    # what the runtime accepts ahead, as Ledger.capacity: two calls with a worker, as much again queued
    held = workers * min(pace.window, 4 * int(pace.target_seconds / max(seconds, 1e-6)) + 1)
    return max(FEWEST, FEWEST_A_WORKER * workers, FEWEST_FILLINGS * held)


def _rate(answered: Sequence[float]) -> float:
    """Answers a second in the middle half of the run; ``answered`` has the time of each answer."""
    quarter = len(answered) // 4
    return 2 * quarter / max(answered[3 * quarter] - answered[quarter], 1e-9) if quarter else float("inf")
