"""When the children of a cut can start, from runs of leaves that are stated and not counted."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.schedule.starts import BatchRun, LeafRuns, NodeRuns, each_of, link_cycles, pipelined, turns
from tests.costmodel.schedule.chip_cases import chip
from tests.costmodel.schedule.joined_runs import Batch, Node, Resources, in_turn, side_by_side

Array = NDArray[np.int64]
ON = chip(2, 1, dram=1000, link=1000)
PORT_BITS = ON.noc.link_bits_per_cycle * len(ON.ports)
"""What a link carries in a cycle."""


def loads(cycles: Mapping[int, int]) -> Array:
    """What keeps links, by their number, busy for so many cycles."""
    bits = np.zeros(8, np.int64)
    for link, taken in cycles.items():
        bits[link] = taken * PORT_BITS
    return bits


def leaf(
    running: int, *, sent: Mapping[int, int] | None = None, ahead: Mapping[int, int] | None = None
) -> NodeRuns:
    """A leaf that takes so many cycles; by links, the cycles of what it sends and of what it waits for."""
    waits, nothing = loads(ahead or {}), loads({})
    one = BatchRun(0, link_cycles(ON, waits), 0, running, 0, waits, nothing)
    return LeafRuns(one, one, 1, nothing, nothing).sending(ON, [loads(sent or {})])


def runs(first: BatchRun, later: BatchRun) -> NodeRuns:
    """A leaf that sends nothing."""
    return LeafRuns(first, later, 1, loads({}), loads({})).sending(ON)


def test_a_leaf_runs_until_all_that_it_sends_has_left() -> None:
    """Messages on one link come one after the other, those on different links at a time."""
    assert leaf(50, sent={0: 40}).first.running == 50
    assert leaf(50, sent={0: 70, 1: 20}).first.running == 70
    apart = leaf(50)
    assert turns([leaf(50, sent={0: 70}), apart, apart], 1, ON).first.running == 70 + 50 + 50


def test_outputs_that_begin_to_leave_late_leave_later() -> None:
    """Partial sums come first: 30 cycles of them, and then 40 of outputs."""
    one = BatchRun(0, 0, 0, 50, 0, loads({}), loads({}))
    late = LeafRuns(one, one, 1, loads({}), loads({}), (30, 30)).sending(ON, [loads({0: 40})])
    assert late.first.running == 30 + 40


def test_what_a_leaf_sends_shares_links_with_what_comes_for_the_next_one() -> None:
    """40 and 20 cycles: on one link they take 60, on two 40, and the first leaf computes for 10."""
    first = leaf(10, sent={0: 40})
    assert turns([first, leaf(7, ahead={0: 20})], 1, ON).first.running == 60 + 7
    assert turns([first, leaf(7, ahead={1: 20})], 1, ON).first.running == 40 + 7
    assert turns([first, leaf(7, ahead={1: 90})], 1, ON).first.running == 90 + 7


def test_what_comes_before_the_cut_starts_is_not_waited_for_again() -> None:
    first = leaf(10, ahead={0: 500}, sent={0: 40})
    found = turns([first, leaf(7)], 1, ON).first
    assert (found.link_cycles, found.running) == (500, 40 + 7)


def test_data_for_a_nested_cut_comes_while_the_cut_before_it_runs() -> None:
    """Of 50 cycles of the first cut 20 are left on link 0, in which a part of 60 cycles of data comes."""
    inner = turns([leaf(10, sent={0: 30}), leaf(20)], 1, ON)
    assert inner.first.running == 50
    outer = turns([inner, turns([leaf(5, ahead={0: 60}), leaf(5)], 1, ON)], 1, ON)
    assert outer.first.running == 30 + 60 + 10


def test_weights_that_stay_come_once_and_inputs_before_each_sub_batch() -> None:
    """Three sub-batches of 50 cycles; 80 cycles of weights and inputs come before the first one."""
    weights, inputs = loads({0: 60}), loads({0: 20})
    once = BatchRun(0, 80, 0, 50, 0, weights + inputs, loads({}))
    again = BatchRun(0, 20, 0, 50, 0, inputs, loads({}))
    found = turns([runs(once, again)], 3, ON)
    assert (found.first.link_cycles, found.first.running) == (80, 3 * 50)
    assert link_cycles(ON, found.first.during) == 2 * 20
    slow = again._replace(ahead=loads({0: 70}), link_cycles=70)
    assert turns([runs(once, slow)], 3, ON).first.running == 2 * 70 + 50


def test_a_pipeline_goes_on_when_what_is_handed_on_has_left() -> None:
    """Two stages of 20 cycles with 50 cycles of data in between: these are the period, too."""
    found = pipelined([leaf(20, sent={0: 50}), leaf(20)], [0, 1], 3, ON, [False, False])
    assert found.first.running == 50 + 20 + 2 * 50


def test_stages_share_links_in_each_period() -> None:
    """Each of two stages sends for 50 cycles, in turn on one link and at a time on two."""
    both = [
        pipelined([leaf(20, sent={0: 50}), leaf(20, sent={link: 50})], [0, 1], 4, ON, [False, False])
        for link in (0, 1)
    ]
    assert [one.first.running for one in both] == [50 + 50 + 3 * 100, 50 + 50 + 3 * 50]


def test_what_leaves_in_turn_wait_for_stands_behind_what_other_stages_send() -> None:
    """A turn takes 90 cycles and uses link 0, on which others send 50; on link 1 its data comes ahead."""
    turn = turns([leaf(10, sent={0: 40}, ahead={1: 8}), leaf(50)], 1, ON)
    assert turn.later.running == 90
    stage = leaf(20, sent={0: 50, 1: 80})
    as_cut, as_leaf = (pipelined([stage, turn], [0, 1], 4, ON, [False, cut]) for cut in (True, False))
    assert as_cut.first.running == 80 + 90 + 3 * (90 + 50)
    assert as_leaf.first.running == 80 + 90 + 3 * 90


def test_a_part_of_a_batch_is_rounded_up_to_whole_bits() -> None:
    """A third of 100 bits are 34, in which three parts are no less than the whole; all parts of 60 are 20."""
    assert each_of(np.array([100, 60, 0]), 3).tolist() == [34, 20, 0]


def random_node(random: Random, is_fast: bool) -> Node:
    """A node with or without pinned weights, an early start and data on four links."""

    def batch(weights: int) -> Batch:
        inputs, outputs = random.randrange(4000), random.randrange(4000)
        of_weights, ahead, during = (
            [random.randrange(most) for _ in range(4)] for most in (3000 * bool(weights) + 1, 3000, 6000)
        )
        return Batch(
            weights + inputs,
            random.randrange(12),
            random.randrange(6) if weights else 0,
            random.randrange(4 if is_fast else 40),
            weights + inputs + outputs,
            tuple(a + b for a, b in zip(ahead, of_weights, strict=True)),
            tuple(during),
        )

    return Node(batch(random.choice((0, 5000))), batch(0))


@pytest.mark.parametrize("kind", "ST")
def test_joined_runs_are_those_of_a_count_step_by_step(kind: str) -> None:
    """Also where the busiest link, DRAM or the computation decides, and with early starts."""
    random, on = Random(7), Resources(ON.dram.bits_per_cycle, PORT_BITS)
    early = 0
    for _ in range(400):
        nodes = [random_node(random, random.random() < 0.5) for _ in range(random.randint(1, 6))]
        stages = [0, *sorted(random.randrange(len(nodes)) for _ in nodes[1:])]
        stages = [sorted(set(stages)).index(stage) for stage in stages]
        subbatches = random.randint(1, 5)
        given = [
            NodeRuns.of(
                np.array([(*batch[:5],) for batch in node]),
                np.array([(batch.ahead, batch.during) for batch in node]),
            )
            for node in nodes
        ]
        if kind == "T":
            found, expected = turns(given, subbatches, ON), in_turn(nodes, subbatches, on)
        else:
            cuts = [random.random() < 0.3 for _ in nodes]
            found = pipelined(given, stages, subbatches, ON, cuts)
            expected = side_by_side(nodes, stages, subbatches, on, cuts)
        for mine, theirs in zip((found.first, found.later), expected, strict=True):
            assert (*mine[:5], tuple(mine.ahead), tuple(mine.during)) == theirs
        early += found.first.early > 0
    assert early > 40
