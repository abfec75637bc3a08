"""The messages between tiles: intersections of the boxes that consumers need with those that producers make.

    made by the parts of the producer    |---- 0 ----|---- 1 ----|---- 2 ----|
    needed by part 0 of the consumer     [=============]                          messages from 0 and from 1
    needed by part 1 of the consumer               [=============]                messages from 0 and from 1

Parts of the consumer that need equal boxes get them in one multicast. Where boxes overlap without being equal
(halos), each is sent whole. Boxes in this module are numbered like the producer's outputs, with the axes
channels, samples, rows and columns.

This is the definition of the messages, written to be read, and the chip model itself does not call it: tests
hold the compiled counts of ``leaf/kernels`` equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.errors import InputError
from costmodel.schedule.boxes.arrays import Array, Box, box_at, groups, intersection, shifted, volume

SAMPLES = 1
"""The axis of samples in the outputs of a layer."""


@dataclass(frozen=True)
class Transfer:
    """The elements ``box`` from one part of the producer to parts of the consumer.

    ``source`` None: DRAM sends them. ``volume``: how many elements. Where a target lies on the source's tile,
    nothing moves.
    """

    box: Box
    source: int | None
    targets: tuple[int, ...]
    volume: int


def transfers(needed: Array, made: Array) -> list[Transfer]:
    """The messages of one run, by target group, then by source.

    ``needed`` [parts of the consumer, axes, 2]. ``made`` [parts of the producer, axes, 2]: boxes that do not
    overlap (see :func:`owned`). Elements that no part of the producer makes are left out: they belong to
    other samples, which come in another run (:func:`of_run`).
    """
    wanted = groups(needed)
    common = intersection(wanted.boxes[:, None], made[None])
    sizes = volume(common)
    return [
        Transfer(box_at(common[group], source), source, wanted.members[group], int(sizes[group, source]))
        for group, source in np.argwhere(sizes).tolist()
    ]


def loads(needed: Array) -> list[Transfer]:
    """The messages from DRAM: every different box once, to all parts that need it."""
    wanted = groups(needed)
    sizes = volume(wanted.boxes).tolist()
    return [
        Transfer(box_at(wanted.boxes, number), None, members, sizes[number])
        for number, members in enumerate(wanted.members)
    ]


def reductions(made: Array) -> list[Transfer]:
    """The messages that add up partial sums, in an order in which they can be sent.

    ``made`` [parts, axes, 2]: what parts make. Where a dim that is summed over was cut, several parts make
    partial sums of the same outputs. They add along a chain: the last part sends its sums to the one before
    it, which adds its own and sends on, and the first one ends up with the outputs. So every part but the
    first sends one box, and no tile receives more than one. (Leaves of schedules add them at one owner
    instead: see :mod:`costmodel.schedule.reductions`.) Partial sums are wider than outputs: a ``volume``
    is in elements, whose bytes the caller knows.

    Raises InputError where parts make boxes that overlap and are not equal, as errors of strided convolutions
    do at their halos: for them there is no such chain.
    """
    same = groups(made)
    common = volume(intersection(same.boxes[:, None], same.boxes[None]))
    if len(twice := np.argwhere(np.triu(common, 1))):
        boxes = [box_at(same.boxes, number) for number in twice[0].tolist()]
        raise InputError("partial sums", "parts that make equal boxes, or nothing in common", boxes)
    sizes = volume(same.boxes).tolist()
    return [
        Transfer(box_at(same.boxes, number), members[rank], (members[rank - 1],), sizes[number])
        for number, members in enumerate(same.members)
        for rank in range(len(members) - 1, 0, -1)
    ]


def owned(made: Array) -> Array:
    """The outputs that each part has after :func:`reductions`: all of its box, or nothing."""
    first = np.zeros(len(made), bool)
    first[[members[0] for members in groups(made).members]] = True
    return np.where(first[:, None, None], made, 0)


def of_run(boxes: Array, run: int, batch: int) -> Array:
    """The boxes of one sample batch, in the numbers of all samples of all runs: those of the run ``run``."""
    steps = [0] * boxes.shape[-2]
    steps[SAMPLES] = run * batch
    return shifted(boxes, steps)


def exchanged(needed: Array, made: Array, batches: tuple[int, int], samples: int) -> Array:
    """How many elements each part of the producer sends to each part of the consumer over ``samples``
    samples.

    The result is [parts of the consumer, parts of the producer]. ``batches``: of the consumer and of the
    producer. Both repeat their boxes batch by batch, and neither batch has to be a multiple of the other:
    data that is needed in one run may be made in several.
    """
    theirs = np.stack([of_run(made, run, batches[1]) for run in range(-(-samples // batches[1]))])
    found = np.zeros((len(needed), len(made)), np.int64)
    for run in range(samples // batches[0]):
        mine = of_run(needed, run, batches[0])
        found += volume(intersection(mine[None, :, None], theirs[:, None])).sum(axis=0)
    return found
