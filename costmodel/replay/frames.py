"""A replay cut into frames of equal length: what each tile mostly does in one, and what moves meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.replay.replay import Replay
from costmodel.schedule.program.program import Program

Array = NDArray[Any]
IDLE = -1


@dataclass(frozen=True)
class Moving:
    """A message on its way during a frame, and how many of its bytes the frame carries.

    ``sources``, ``targets``: tiles; none stands for DRAM. ``tensor``: as :class:`Message` says.
    """

    tensor: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    bytes: float


@dataclass(frozen=True)
class ReplayFrames:
    """``begins`` [frames + 1]: the cycle in which each frame begins, and the end of the last one.

    ``layers``: names, by their first start. ``computed`` [frames, tiles]: the number of the layer that a
    tile computes for the most cycles of a frame, IDLE where it computes in none. ``busy`` [frames, tiles]:
    the fraction of the frame in which it computes anything. ``moving``: for every frame the messages that
    carry the most bytes in it, the most first.
    """

    begins: Array
    layers: tuple[str, ...]
    computed: Array
    busy: Array
    moving: tuple[tuple[Moving, ...], ...]


def replay_frames(program: Program, found: Replay, frames: int, most_moving: int) -> ReplayFrames:
    """Cut a replay that has a log into so many frames, with at most ``most_moving`` messages in each.

    ValueError for a replay without a log.
    """
    if found.log is None:
        raise ValueError("a replay without a log has no frames: ask for it with log=True")
    length = max(found.cycles, 1) * found.log.ticks / frames
    layers = tuple(layer.layer for layer in found.layers)
    number_of = {name: number for number, name in enumerate(layers)}
    of_work = np.array([number_of.get(work.layer, IDLE) for work in program.works], int)
    ticks = np.zeros((frames, program.chip.tiles, len(layers)))
    events, frame, inside = _pieces(found.log.computed[:, 2:], length, frames)
    computed = found.log.computed[events]
    np.add.at(ticks, (frame, computed[:, 1], of_work[computed[:, 0]]), inside)
    busy = ticks.sum(axis=2) / length
    most = ticks.argmax(axis=2) if layers else np.zeros(busy.shape, int)
    return ReplayFrames(
        np.linspace(0, max(found.cycles, 1), frames + 1),
        layers,
        np.where(busy > 0, most, IDLE),
        busy.clip(0, 1),
        _moving(program, found.log.moved, length, frames, most_moving),
    )


def _pieces(spans: Array, length: float, frames: int) -> tuple[Array, Array, Array]:
    """Spans [n, 2] of ticks cut where frames end: for every piece its span, its frame and its ticks."""
    start, end = spans.T.astype(float)
    first = np.minimum(start // length, frames - 1).astype(int)
    last = np.maximum(np.minimum(np.ceil(end / length) - 1, frames - 1).astype(int), first)
    counts = last - first + 1
    span = np.repeat(np.arange(len(spans)), counts)
    frame = first[span] + np.arange(len(span)) - np.repeat(np.cumsum(counts) - counts, counts)
    inside = np.minimum(end[span], (frame + 1) * length) - np.maximum(start[span], frame * length)
    return span, frame, inside.clip(0)


def _moving(
    program: Program, moved: Array, length: float, frames: int, most: int
) -> tuple[tuple[Moving, ...], ...]:
    """The messages of each frame; one that takes no time is in the frame in which it arrives."""
    span, frame, inside = _pieces(moved[:, 1:], length, frames)
    took = (moved[:, 2] - moved[:, 1]).astype(float)
    fraction = np.where(took[span] > 0, inside / np.maximum(took[span], 1), 1.0)
    sizes = np.array([float(message.size_bytes) for message in program.messages])
    # a message that is sent again and again counts once a frame, with all its bytes
    keys, which = np.unique(frame * len(sizes) + moved[span, 0], return_inverse=True)
    carried = np.bincount(which, fraction * sizes[moved[span, 0]], len(keys))
    frame_of, message_of = np.divmod(keys, len(sizes)) if len(keys) else (keys, keys)
    found = []
    for number in range(frames):
        here = np.flatnonzero(frame_of == number)
        here = here[np.argsort(-carried[here], kind="stable")][:most]
        found.append(
            tuple(
                Moving(message.tensor, message.sources, message.targets, float(carried[one]))
                for one in here
                if carried[one] > 0
                for message in (program.messages[message_of[one]],)
            )
        )
    return tuple(found)
