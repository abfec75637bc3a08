"""The order in which a tile runs the leaves of a segment, and when data for each run begins to arrive.

The steps of a tile are the runs of all leaves that have this tile, in the order of the tree. A step has its
way down the tree: for every cut above the leaf, the sub-batch and the rank of the child.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from costmodel.hardware.chip import Chip
from costmodel.schedule.segment.node_cost import NodeCost, runs_on_tiles
from costmodel.schedule.tree.tree import Cut, Leaf

Way = tuple[tuple[int, int], ...]
"""For every cut from the top down: (sub-batch, rank of the child). Bands count as sub-batches here."""


@dataclass(frozen=True)
class TileStep:
    """One run of a leaf on a tile, or one slice of it; ``cuts`` are those of its ``way``.

    ``slice``: which of the ``slices`` that a tile computes one after the other where weights are streamed.
    """

    layer: str
    cuts: tuple[Cut, ...]
    way: Way
    slice: int = 0
    slices: int = 1

    def run(self, depth: int = 0) -> int:
        """Number of the run within one run of a child of the cut at ``depth - 1``; 0: of the segment."""
        number = 0
        for cut, (subbatch, _) in zip(self.cuts[depth:], self.way[depth:], strict=True):
            number = number * cut.child_runs + subbatch
        return number


def steps_of(cost: NodeCost, tile: int, cuts: tuple[Cut, ...] = (), way: Way = ()) -> Iterator[TileStep]:
    """The steps of a tile in a node of a segment."""
    if isinstance(cost.node, Leaf):
        slices = max(cost.leaf.slices, 1) if cost.leaf else 1
        yield from (TileStep(cost.node.layer, cuts, way, number, slices) for number in range(slices))
        return
    children = [
        (rank, child)
        for rank, child in enumerate(cost.children)
        if child.first_tile <= tile < child.first_tile + child.tiles
    ]
    for subbatch in range(cost.node.child_runs):
        for rank, child in children:
            yield from steps_of(child, tile, (*cuts, cost.node), (*way, (subbatch, rank)))


@dataclass(frozen=True)
class Meeting:
    """The lowest cut above a producer and its consumer.

    ``depth`` of the cut, 0 for the segment's root, and the ``ranks`` on the way down to it; ``before`` and
    ``after``: the ranks of its children that hold producer and consumer.
    """

    cut: Cut
    depth: int
    ranks: tuple[int, ...]
    before: int
    after: int


def meeting(ways: Mapping[str, tuple[Sequence[Cut], Sequence[int]]], producer: str, consumer: str) -> Meeting:
    """Where two leaves meet; ``ways`` has the cuts above each layer and the ranks on the way down."""
    (cuts, left), (_, right) = ways[producer], ways[consumer]
    depth = next(i for i, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
    return Meeting(cuts[depth], depth, tuple(left[:depth]), left[depth], right[depth])


def begun(step: TileStep, before: TileStep | None) -> Iterator[tuple[int, int]]:
    """The children of cuts that a tile begins with a step: (depth of the cut, sub-batch)."""
    ways = () if before is None else before.way
    changed = False
    for depth, (subbatch, rank) in enumerate(step.way):
        changed = changed or depth >= len(ways) or ways[depth] != (subbatch, rank)
        if changed:
            yield depth, subbatch


def fetching(steps: Sequence[TileStep]) -> Iterator[int | None]:
    """For every step of a tile the first one with which its data may come; None for the first step.

    A step is the first of some child of a cut, or of the child's next sub-batch. Its data may come while the
    tile runs the child before, from that child's first step on: the buffer has bytes for it during that time
    (:func:`costmodel.schedule.segment.buffers.cut_in_time`). A further slice of a leaf comes during the slice
    before.
    """
    begins: list[int] = []  # for every depth, the first step of the child that the tile is in
    for number, step in enumerate(steps):
        if number == 0:
            yield None
            begins = [0] * len(step.way)
            continue
        before = steps[number - 1].way
        if step.slice:
            yield number - 1
            continue
        depth = next(
            at for at, (one, other) in enumerate(zip(before, step.way, strict=False)) if one != other
        )
        yield begins[depth]
        begins = begins[:depth] + [number] * (len(step.way) - depth)


def asking(steps: Sequence[TileStep], leaves: Mapping[str, NodeCost], chip: Chip) -> list[int | None]:
    """For every step of a tile the step with which it asks DRAM for its data; None for the first one.

    It could ask as soon as the buffer has bytes for it (:func:`fetching`). But links carry packets in the
    order in which these set out, so data that is needed much later would stand in front of data that is
    waited for. So a tile asks as late as it may if no tile ever waited: then each step begins when those
    before it have computed. DRAM and links need some cycles for the data of a step (``BatchRun.fetched``),
    which have to pass before the step begins, and before the data of later steps has to set out::

        computing   | a   | b  | c      | d     | e         |
        data               | of d | of e        |
        asked for         with b   with c               b, and c, is the last step that begins before that

    Cycles in which DRAM takes outputs, or brings further slices, do not count: a step leaves for other data
    what its computing takes longer than these. Where data takes longer than that leaves, it is asked for as
    soon as the buffer has bytes. ``leaves``: with their times, by layer. The first run of a leaf brings its
    weights, too.
    """
    begun_before: set[str] = set()
    times: list[int] = []  # of each step's data
    left: list[int] = []  # that a step leaves for other data
    for step in steps:
        runs, leaf = runs_on_tiles(leaves[step.layer]), leaves[step.layer].leaf
        assert leaf is not None
        run = runs.later if step.layer in begun_before else runs.first
        begun_before.add(step.layer)
        # what comes for a further slice comes during the slice before
        times.append(0 if step.slice else run.fetched(chip))
        moving = chip.least_cycles(run.dram_bits - run.ahead_bits, 0)
        computing = leaf.tile_cycles // max(len(leaf.band_cycles), 1)
        left.append(max(computing - moving, 0) // step.slices)
    begins = list(accumulate(left, initial=0))
    latest = begins[-1]
    found = list(fetching(steps))
    for number in range(len(steps) - 1, 0, -1):
        latest = min(latest, begins[number]) - times[number]
        in_time = max(min(bisect_right(begins, latest), number) - 1, 0)
        # slices that tiles pass on keep links busy: what follows is asked for with the first of them
        found[number] = max(found[number] or 0, in_time - steps[in_time].slice)
    return found


def ways_of(cost: NodeCost) -> dict[str, tuple[tuple[Cut, ...], tuple[int, ...]]]:
    """For every layer of a segment the cuts above it and the ranks of the children on the way down to it."""
    found = {}
    waiting: list[tuple[NodeCost, tuple[Cut, ...], tuple[int, ...]]] = [(cost, (), ())]
    while waiting:
        at, cuts, ranks = waiting.pop()
        if isinstance(at.node, Leaf):
            found[at.node.layer] = cuts, ranks
        else:
            waiting += [(child, (*cuts, at.node), (*ranks, rank)) for rank, child in enumerate(at.children)]
    return found
