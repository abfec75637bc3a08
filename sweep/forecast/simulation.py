"""How long a run on N workers would take, how busy its workers would be, and what would keep them waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from clusters.pace import pace_for, sub_drivers_for
from sweep.blocks.sizes import solves_of_block
from sweep.forecast.simulated_run import BlockCosts, DriverCosts, SimulatedBlockRun, SimulatedRun
from sweep.forecast.simulated_shares import SimulatedShares

MEASURED = DriverCosts()


MEASURED_BLOCKS = BlockCosts()

LONGEST_SIMULATED = 20
"""Blocks of the longest time that are simulated for each worker; longer studies go on at the same rate."""

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
    which the driver computes; with ``sub_drivers``, the driver or the busiest of these.
    """

    workers: int
    solves: int
    wall_seconds: float
    efficiency: float
    driver_busy: float
    lost: dict[str, float]
    sub_drivers: int = 0

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
    return _forecast(run, solves, run.now + (more / rate if more else 0.0), run.useful * solves / simulated)


def _forecast(run: SimulatedRun | SimulatedShares, solves: int, wall: float, useful: float) -> Forecast:
    """The forecast of a run whose simulated part is ``run``; wall and useful seconds are of all of it."""
    total = wall * run.workers
    start = min(run.start, wall) * run.workers
    # a worker that never gets a block is idle to the end from the beginning on: its start counts once
    lost = {"start": start, "tail": max(0.0, min(run.idle_end, total - useful - start))}
    lost["driver"] = max(0.0, total - useful - sum(lost.values()))
    return Forecast(
        run.workers,
        solves,
        wall,
        useful / total,
        min(1.0, run.busy / run.now),
        {cause: seconds / total for cause, seconds in lost.items()},
        run.sub_drivers,
    )


def block_forecast(
    seconds: Sequence[float],
    solves: int,
    workers: int,
    costs: BlockCosts = MEASURED_BLOCKS,
    seed: int = 0,
    shards: int | None = None,
) -> Forecast:
    """As :func:`forecast`, of a run that hands out blocks (:mod:`sweep.run.block_run`).

    ``shards``: how many sub-drivers there are; None: as many as a runtime would have.
    """
    shards = sub_drivers_for(workers) if shards is None else shards
    size = solves_of_block(fmean(seconds) + costs.worker, solves, workers, shards)
    simulated = min(solves, max(FEWEST, LONGEST_SIMULATED * workers * size))
    run = _simulated(seconds, simulated, workers, costs, seed, shards)
    wall = run.now
    if simulated < solves and shards:
        # half as many solves are hardly more than the first shares, which are not of the usual size; so the
        # rate is that of the whole simulated run, its slow begin and end included: rather too low
        wall += (solves - simulated) * (run.now - run.start) / simulated
    elif simulated < solves:
        # what half as many solves take less has neither the start nor the end of a run in it
        half = _simulated(seconds, simulated // 2, workers, costs, seed, shards)
        wall += (solves - simulated) * (run.now - half.now) / (simulated - simulated // 2)
    return _forecast(run, solves, wall, run.useful * solves / simulated)


def _simulated(
    seconds: Sequence[float], solves: int, workers: int, costs: BlockCosts, seed: int, shards: int
) -> SimulatedBlockRun | SimulatedShares:
    run: SimulatedBlockRun | SimulatedShares
    if shards:
        run = SimulatedShares(seconds, solves, workers, shards, costs, Random(seed))
    else:
        run = SimulatedBlockRun(seconds, solves, workers, costs, Random(seed))
    run.to_the_end()
    return run


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
