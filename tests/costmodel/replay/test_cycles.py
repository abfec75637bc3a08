"""Replays of small programs whose cycles can be computed by hand."""

from __future__ import annotations

import pytest

from costmodel.replay.replay import replay
from costmodel.replay.tables import ReplayOptions
from tests.costmodel.replay.programs import (
    Body,
    compute,
    free,
    load,
    message,
    program,
    receive,
    repeat,
    send,
    store,
    work,
)
from tests.costmodel.schedule.chip_cases import chip

ONE = chip(1, 1, link=4, dram=4)
ROW = chip(3, 1, link=4, dram=100)
"""Three tiles in a row; a DRAM that is faster than links."""
BYTEWISE = ReplayOptions(packet_bytes=1, packets_in_flight=1)


def test_load_compute_store() -> None:
    """40 bytes at 4 a cycle, then 7 cycles, then nothing: 16 bytes leave during these."""
    messages = [message(40, (), (0,)), message(16, (0,), ())]
    found = replay(
        program(ONE, messages, [work(7, 99)], [load(0), compute(0, 0), store(1), free(0)]), log=True
    )
    assert found.cycles == 17
    assert (found.dram_read_bytes, found.dram_write_bytes, found.operations) == (40, 16, 99)
    assert found.peak_bytes == [40]
    assert (found.busy_cycles.tolist(), found.waited_for_data.tolist()) == ([7], [10])
    assert [(layer.first_start, layer.last_end) for layer in found.layers] == [(10, 17)]
    assert found.log is not None
    assert (found.log.moved / found.log.ticks)[:, 1:].tolist() == [[0, 10], [10, 17]]


def test_outputs_that_take_longer_than_their_compute_hold_up_the_next_one() -> None:
    """Compute 0 to 7, its 40 bytes leave 0 to 10; the next runs 10 to 17, its bytes leave by 20."""
    body = [compute(0), store(0), compute(0), store(1)]
    found = replay(program(ONE, [message(40, (0,), ()), message(40, (0,), ())], [work(7)], body))
    assert found.cycles == 20
    assert found.waited_for_outputs.tolist() == [3]


def test_a_free_waits_for_the_compute_and_a_load_for_the_free() -> None:
    """The second load takes the place of the first: load to 10, compute to 17, load to 27, compute to 34."""
    messages = [message(40, (), (0,)), message(40, (), (0,))]
    body = [load(0), compute(0, 0), free(0), load(1), compute(0, 1)]
    assert replay(program(ONE, messages, [work(7)], body)).cycles == 34
    ahead = [load(0), load(1, 40), compute(0, 0), compute(0, 1)]
    # both loads take turns packet by packet; with packets of 40 bytes the first is there after 10 cycles
    whole = ReplayOptions(packet_bytes=40)
    assert replay(program(ONE, messages, [work(7)], ahead), whole).cycles == 27


def test_dram_bound() -> None:
    """Ten loads of 40 bytes a compute of 3 cycles: DRAM is never idle, and the last compute follows."""
    turn = [load(0), load(1, 40), compute(0, 0), free(0), load(0), compute(0, 1), free(1)]
    body: Body = [*turn[:2], repeat(10, compute(0, 0), free(0), load(0), compute(0, 1), free(1), load(1, 40))]
    body += [compute(0, 0), compute(0, 1)]
    messages = [message(40, (), (0,)), message(40, (), (0,))]
    found = replay(program(ONE, messages, [work(3)], body), ReplayOptions(packet_bytes=40))
    assert found.cycles == 22 * 10 + 3
    assert found.dram_read_bytes == 22 * 40


def test_dram_latency_is_paid_once_a_load_and_hop_latency_once_a_link() -> None:
    messages = [message(40, (), (0,)), message(16, (0,), ())]
    body = [load(0), compute(0, 0), store(1)]
    assert replay(program(ONE, messages, [work(1)], body), ReplayOptions(dram_latency=5)).cycles == 15 + 4
    sent = program(ROW, [message(8, (0,), (2,))], [work(1)], [compute(0), send(0)], [], [receive(0)])
    assert replay(sent).cycles == 2
    assert replay(sent, ReplayOptions(hop_latency=3)).cycles == 2 + 2 * 3


def test_two_tiles_stream() -> None:
    """A pipeline: 5 samples of 6 cycles, then 4 cycles on the next tile; 8 bytes take 2 cycles on the link.

    The outputs of sample n leave while it is computed, so the second tile works during sample n + 1: 5 times
    6 cycles, and 4 more to drain. With the second tile slower, 6 cycles fill it and 5 times 9 follow.
    """

    def pipeline(first: int, second: int) -> int:
        """The second tile has place for two samples, which two messages fill in turn."""
        messages = [message(8, (0,), (1,)), message(8, (0,), (1,))]
        sender = [repeat(3, compute(0), send(0), compute(0), send(1))]
        turn = [compute(1, 0), free(0), receive(0), compute(1, 1), free(1), receive(1, 8)]
        receiver: Body = [receive(0), receive(1, 8), repeat(2, *turn), compute(1, 0), compute(1, 1)]
        works = [work(first, layer="first"), work(second, layer="second")]
        return replay(program(ROW, messages, works, sender, receiver)).cycles

    assert pipeline(6, 4) == 6 * 6 + 4
    assert pipeline(6, 9) == 6 + 6 * 9


def test_fill_and_drain_of_three_stages() -> None:
    """Three tiles, 4 samples of 5 cycles each: (4 + 2) periods."""
    messages = [message(8, (tile,), (tile + 1,)) for tile in (0, 0, 1, 1)]
    works = [work(5, layer=name) for name in "abc"]
    first = [repeat(2, compute(0), send(0), compute(0), send(1))]
    middle = [receive(0), receive(1, 8), compute(1, 0), send(2), free(0), receive(0), compute(1, 1), send(3)]
    middle += [free(1), receive(1, 8), compute(1, 0), send(2), compute(1, 1), send(3)]
    last = [receive(2), receive(3, 8), compute(2, 2), free(2), receive(2), compute(2, 3), free(3)]
    last += [receive(3, 8), compute(2, 2), compute(2, 3)]
    found = replay(program(ROW, messages, works, first, middle, last))
    assert found.cycles == (4 + 2) * 5
    assert [(layer.first_start, layer.last_end) for layer in found.layers] == [(0, 20), (5, 25), (10, 30)]


def test_a_multicast_takes_as_long_as_one_message() -> None:
    """From the middle of the row to both ends: each link carries the 40 bytes once, at the same time."""
    sent = program(
        ROW, [message(40, (1,), (0, 2))], [work(1)], [receive(0)], [compute(0), send(0)], [receive(0)]
    )
    found = replay(sent)
    assert found.cycles == 10
    assert found.hop_bytes == 80


def test_dram_sends_equal_parts_from_both_ends() -> None:
    """To tile 0 of three: half the bytes come over two links, the other half over none."""
    found = replay(program(ROW, [message(41, (), (0,))], [], [load(0)]))
    assert found.ports == 2
    assert found.hop_bytes == 41
    assert found.link_port_bits[:, 0, 2].tolist() == [0, 8 * 41, 8 * 41]
    assert found.cycles == 6  # 20.5 bytes at 4 a cycle


def test_partial_sums_merge_on_their_way() -> None:
    """All three tiles store sums of the same 40 bytes: each link carries the half of a port once."""
    body = [compute(0), store(0)]
    found = replay(program(ROW, [message(40, (0, 1, 2), ())], [work(1)], body, body, body))
    assert found.hop_bytes == 4 * 20
    assert found.cycles == 5


def test_two_messages_share_a_link() -> None:
    """Tiles 0 and 1 both send to tile 2: 40 bytes each over the link from 1 to 2.

    They take turns, so both need about as long as both together. A shorter message of 8 bytes ends when 16
    bytes have crossed the link, and the longer one when all 48 have.
    """

    def ends(size: int, other: int) -> list[float]:
        body = [compute(0), send(0)]
        messages = [message(size, (0,), (2,)), message(other, (1,), (2,))]
        tiles = [body, [compute(0), send(1)], [receive(0), receive(1, 40)]]
        found = replay(program(ROW, messages, [work(1)], *tiles), BYTEWISE, log=True)
        assert found.log is not None
        return [end / found.log.ticks for _, _, end in sorted(found.log.moved.tolist())]

    assert ends(40, 40) == [19.75, 20]
    assert ends(40, 8) == [12, 4]


def test_a_message_that_is_held_up_leaves_other_links_free() -> None:
    """Tile 0 sends to tile 2 over a link that tile 1 also uses; tile 0 to tile 1 has the first link."""
    body = [compute(0), send(0), send(2)]
    messages = [message(40, (0,), (2,)), message(40, (1,), (2,)), message(40, (0,), (1,))]
    tiles = [body, [receive(2), compute(0), send(1)], [receive(0), receive(1, 40)]]
    assert replay(program(ROW, messages, [work(1)], *tiles), BYTEWISE).cycles == 20


def test_dram_serves_first_what_is_needed_first() -> None:
    """Each tile asks for 40 bytes that it needs after 50 cycles, and then for 40 that it needs at once.

    The four take DRAM 40 cycles, and the tiles wait for half of them. What they need later is there in time.
    """
    two = chip(2, 1, link=1000, dram=4)
    messages = [message(40, (), (tile,)) for tile in (0, 0, 1, 1)]
    tiles = [[load(far), load(near, 40), compute(0, near), compute(0, far)] for far, near in ((0, 1), (2, 3))]
    found = replay(program(two, messages, [work(50)], *tiles), BYTEWISE, log=True)
    assert found.log is not None
    ends = {number: end / found.log.ticks for number, _, end in found.log.moved.tolist()}
    assert sorted([ends[1], ends[3]]) == [19.75, 20]
    assert max(ends.values()) == 40
    assert found.cycles == 20 + 2 * 50


def test_loads_wait_for_the_stores_of_their_elements() -> None:
    """40 bytes leave by 10 and come back by 20; without ``after`` both use DRAM at once."""
    messages = [message(40, (0,), ()), message(40, (), (0,), after=(0,))]
    body = [load(1), compute(0), store(0), compute(0, 1)]
    whole = ReplayOptions(packet_bytes=40)
    assert replay(program(ONE, messages, [work(3)], body), whole).cycles == 20 + 3


@pytest.mark.parametrize("packet", [1, 7, 40, 4096])
def test_one_message_takes_as_long_in_any_packets(packet: int) -> None:
    options = ReplayOptions(packet_bytes=packet)
    assert replay(program(ONE, [message(41, (), (0,))], [], [load(0)]), options).cycles == 11
