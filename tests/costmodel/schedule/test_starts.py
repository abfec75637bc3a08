"""When the children of a cut can start, from runs of leaves that are stated and not counted."""

from __future__ import annotations

import pytest

from costmodel.schedule.starts import BatchRun, NodeRuns, pipelined, turns
from tests.costmodel.schedule.chip_cases import chip

ON = chip(2, 1, dram=1000, link=1000)


def leaf(running: int, from_tiles: int = 0) -> NodeRuns:
    """A leaf to which tiles send data for so many cycles, and which needs nothing else."""
    run = BatchRun.of_leaf(0, from_tiles, from_tiles, running, 0, from_tiles)
    return NodeRuns(run, run)


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_what_the_last_leaf_of_a_nested_cut_makes_moves_while_it_runs(runs: int) -> None:
    """The inner cut takes 50 + 10 cycles a sub-batch, and what follows gets 40 cycles of data from it.

    With one sub-batch all of that moves in the last 10 cycles, and 30 more; with several only a part of it is
    made by the last run, and the last 10 cycles may suffice.
    """
    inner = turns([leaf(50), leaf(10)], runs, ON, 0)
    assert inner.first.running == 60 * runs
    whole = turns([inner, leaf(7, from_tiles=40)], 1, ON, 0)
    assert whole.first.running == 60 * runs + max(0, 40 // runs - 10) + 7


def test_in_one_cut_it_moves_while_the_child_before_runs() -> None:
    assert turns([leaf(50), leaf(10), leaf(7, from_tiles=40)], 1, ON, 0).first.running == 50 + 40 + 7


def test_a_link_carries_what_leaves_one_child_and_what_comes_to_the_next() -> None:
    """90 cycles on one link, of which 40 are over before the cut starts."""
    first = leaf(10, from_tiles=40)
    assert turns([first, leaf(10, from_tiles=20)], 1, ON, 90).first.running == 50
    assert turns([first, leaf(10, from_tiles=20)], 1, ON, 60).first.running == 20 + 10


def test_data_for_the_next_sub_batch_is_not_made_by_this_one() -> None:
    """The first leaf gets 30 cycles of data from outside of the cut, during all of the sub-batch before."""
    inner = turns([leaf(50), leaf(1)], 1, ON, 0)
    again = turns([NodeRuns(inner.first, inner.later), leaf(60)], 1, ON, 0)
    assert turns([leaf(20, from_tiles=30), leaf(60)], 3, ON, 0).first.running == 3 * 80
    assert again.first.running == 51 + 60


def test_the_fill_of_a_pipeline_waits_for_what_is_handed_on() -> None:
    """Two stages of 20 cycles with 50 cycles of data in between: these are the period, too."""
    found = pipelined([leaf(20), leaf(20, from_tiles=50)], [0, 1], 3, ON, 0)
    assert found.first.running == 50 + 20 + 2 * 50
