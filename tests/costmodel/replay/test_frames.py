"""Frames of replays, held against what every single event says."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from costmodel.replay.frames import IDLE, replay_frames
from costmodel.replay.replay import replay
from tests.costmodel.replay.programs import random_program

ALL = 10**6


def overlap(start: float, end: float, frame: int, length: float) -> float:
    return max(0.0, min(end, (frame + 1) * length) - max(start, frame * length))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("frames", [1, 7, 50])
def test_frames_hold_what_the_events_say(seed: int, frames: int) -> None:
    program = random_program(Random(seed))
    found = replay(program, log=True)
    assert found.log is not None
    cut = replay_frames(program, found, frames, ALL)
    length = found.cycles * found.log.ticks / frames
    for frame in range(frames):
        for tile in range(program.chip.tiles):
            by_layer: dict[str, float] = defaultdict(float)
            for number, on, start, end in found.log.computed.tolist():
                if on == tile:
                    by_layer[program.works[number].layer] += overlap(start, end, frame, length)
            busy = sum(by_layer.values())
            assert cut.busy[frame, tile] == pytest.approx(busy / length)
            layer = cut.computed[frame, tile]
            assert (layer == IDLE) == (busy == 0)
            if busy:
                assert by_layer[cut.layers[layer]] == max(by_layer.values())
    carried = sum(one.bytes for each in cut.moving for one in each)
    sent = [program.messages[number].size_bytes for number, _, _ in found.log.moved.tolist()]
    assert carried == pytest.approx(float(sum(sent)))
    assert cut.begins[-1] == found.cycles


def test_frames_need_a_log_and_keep_the_largest_messages() -> None:
    program = random_program(Random(1))
    with pytest.raises(ValueError, match="log=True"):
        replay_frames(program, replay(program), 4, ALL)
    found = replay(program, log=True)
    few, every = (replay_frames(program, found, 4, most).moving for most in (2, ALL))
    assert max(map(len, every)) > 2
    assert few == tuple(frame[:2] for frame in every)
    assert all(list(frame) == sorted(frame, key=lambda one: -one.bytes) for frame in every)
