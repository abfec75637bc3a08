"""The simulated run against closed forms, and against what no run can beat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweep.forecast.simulated_run import BlockCosts
from sweep.forecast.simulation import MEASURED, block_forecast, forecast

FREE = replace(MEASURED, item=0.0, study=0.0, call=0.0, scan=0.0, latency=0.0, worker=0.0, start=0.0)
ONLY_ITEMS = replace(FREE, item=1e-3)


@pytest.mark.parametrize(("workers", "solves"), [(1, 40), (2, 40), (7, 70), (16, 1600)])
def test_without_costs_equal_solves_take_their_share(workers: int, solves: int) -> None:
    run = forecast([0.5], solves, workers, FREE)
    assert run.wall_seconds == pytest.approx(0.5 * solves / workers)
    assert run.efficiency == pytest.approx(1)


def test_the_remainder_is_one_round_more() -> None:
    run = forecast([2.0], 9, 4, FREE)
    assert run.wall_seconds == pytest.approx(6.0)
    assert run.lost["tail"] == pytest.approx(6 / 24)
    assert run.bottleneck.startswith("the end")


def test_start_is_lost_once_a_worker() -> None:
    run = forecast([1.0], 12, 3, replace(FREE, start=4.0))
    assert run.wall_seconds == pytest.approx(8.0)
    assert run.lost["start"] == pytest.approx(0.5)


@pytest.mark.parametrize("workers", [100, 1000])
def test_the_driver_bounds_the_rate(workers: int) -> None:
    """1 ms of driver for an item: never more than 1,000 a second, and nearly so with enough workers."""
    run = forecast([0.01], 20_000, workers, ONLY_ITEMS)
    assert 18 <= 20_000 * 1e-3 * 0.9 <= run.wall_seconds <= 20 * 1.2
    assert run.driver_busy > 0.9
    assert run.bottleneck.startswith("the driver")


@pytest.mark.parametrize("workers", [1, 2, 10, 100, 1000])
def test_no_run_beats_its_solves_and_all_shares_are_one(workers: int) -> None:
    seconds = [0.2, 0.4, 0.9]
    run = forecast(seconds, 30 * workers, workers)
    assert run.wall_seconds > 30 * min(seconds)
    assert run.efficiency + sum(run.lost.values()) == pytest.approx(1)
    assert all(share >= 0 for share in run.lost.values())


@pytest.mark.slow
def test_a_thousand_workers_of_half_a_second_are_sustained_and_ten_thousand_are_not() -> None:
    enough = forecast([0.25, 0.5, 0.75], 100_000, 1000)
    assert enough.efficiency > 0.8
    assert enough.solves / enough.wall_seconds > 1600
    too_many = forecast([0.25, 0.5, 0.75], 100_000, 10_000)
    assert too_many.efficiency < 0.2
    assert too_many.bottleneck.startswith("the driver")


def test_a_longer_study_goes_on_at_the_same_rate() -> None:
    short, long = (forecast([1.0], n, 10, FREE) for n in (2000, 20_000))
    assert long.wall_seconds == pytest.approx(10 * short.wall_seconds, rel=0.01)


NO_COSTS = BlockCosts(block=0.0, solve=0.0, worker=0.0, part=0.0, runtime=FREE)


@pytest.mark.parametrize(("mean", "workers"), [(0.001, 2), (0.03, 7), (2.0, 100)])
def test_blocks_without_costs_take_their_share(mean: float, workers: int) -> None:
    run = block_forecast([mean], 20_000 * workers, workers, NO_COSTS)
    assert run.solves == 20_000 * workers
    # the last blocks, of an eighth of 1.4 s, do not end together
    assert mean * 20_000 * 0.999 <= run.wall_seconds <= mean * 20_000 * 1.001 + 0.2
    assert run.efficiency == pytest.approx(1, abs=0.01)


def test_the_worker_s_own_time_is_lost_and_the_driver_s_is_spread_over_a_block() -> None:
    """Solves of 1 ms, to which a worker adds 1 ms; blocks of 4.1 s that cost the driver 41 ms."""
    half = block_forecast([1e-3], 100_000, 1, replace(NO_COSTS, worker=1e-3))
    assert half.efficiency == pytest.approx(0.5, rel=0.02)
    run = block_forecast([1e-3], 1_000_000, 10, replace(NO_COSTS, block=0.041))
    # of what is simulated, a third or so are the smaller blocks of the end
    assert 0.1 < run.driver_busy < 0.17, "10 workers; the last blocks are smaller"
    assert run.efficiency > 0.93, "and the small blocks at the end"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 30, 1000])
def test_blocks_beat_single_solves_where_these_are_short_and_no_bound(workers: int) -> None:
    seconds = [0.005, 0.01, 0.02]
    blocks, single = (run(seconds, 300 * workers, workers) for run in (block_forecast, forecast))
    # beside the start, which is the same, and solves, whose times are drawn
    lost = [run.lost["driver"] + run.lost["tail"] for run in (blocks, single)]
    assert lost[0] < lost[1]
    assert blocks.wall_seconds > 300 * min(seconds)
    assert blocks.efficiency + sum(blocks.lost.values()) == pytest.approx(1)


FREE_SHARES = replace(NO_COSTS, share=0.0, share_solve=0.0, cut=0.0)


@pytest.mark.parametrize(("workers", "shards"), [(6, 1), (6, 2), (40, 4)])
def test_shares_without_costs_take_their_part(workers: int, shards: int) -> None:
    run = block_forecast([0.01], 6000 * workers, workers, FREE_SHARES, shards=shards)
    assert (run.solves, run.sub_drivers) == (6000 * workers, shards)
    # at the end sub-drivers have an eighth of a share more or less: two blocks of an eighth of 1.4 s
    assert 60 * 0.999 <= run.wall_seconds <= 60 + 3 * 1.4
    assert run.efficiency + sum(run.lost.values()) == pytest.approx(1)


def test_what_the_driver_does_for_a_share_is_spread_over_its_solves() -> None:
    """40 workers at 10 ms ask for 4,000 solves a second; 0.5 ms of the driver for each lets 2,000 pass."""
    slow = replace(FREE_SHARES, share_solve=0.5e-3)
    run = block_forecast([0.01], 100_000, 40, slow, shards=4)
    assert run.efficiency == pytest.approx(0.5, abs=0.06)
    assert run.driver_busy > 0.9
    assert run.bottleneck.startswith("the driver")
    fast = block_forecast([0.01], 100_000, 40, replace(FREE_SHARES, share_solve=1e-6), shards=4)
    assert fast.efficiency > 0.9


def test_sub_drivers_and_their_workers_start_one_after_the_other() -> None:
    late = replace(FREE_SHARES, runtime=replace(FREE, start=4.0))
    run = block_forecast([1.0], 40, 4, late, shards=2)
    assert run.wall_seconds == pytest.approx(8 + 10, abs=0.1)


def test_equal_seeds_give_equal_runs() -> None:
    assert forecast([1.0, 2.0], 99, 5, seed=3) == forecast([1.0, 2.0], 99, 5, seed=3)
