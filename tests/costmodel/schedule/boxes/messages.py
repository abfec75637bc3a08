"""The messages between tiles: intersections of the boxes that consumers need with those that producers make.

    made by the parts of the producer    |---- 0 ----|---- 1 ----|---- 2 ----|
    needed by part 0 of the consumer     [=============]                          messages from 0 and from 1
    needed by part 1 of the consumer               [=============]                messages from 0 and from 1

Parts of the consumer that need equal boxes get them in one multicast. Where boxes overlap without being equal
(halos), each is sent whole. Boxes in this module are numbered like the producer's outputs, with the axes
channels, samples, rows and columns.

It is what the chip model counts in sums, listed one by one: the second way by which tests check the compiled
counts of ``leaf/kernels``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    overlap. Elements that no part of the producer makes are left out: they belong to other samples, which
    come in another run (:func:`of_run`).
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
