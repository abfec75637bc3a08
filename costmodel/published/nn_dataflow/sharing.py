"""Buffer sharing: nodes that need the same tile hold a part of it each, and rotate the parts.

In each step of a rotation every node passes the part that it has to the next node; after all steps each node
has seen all parts. A buffer then holds one part instead of the whole tile, and the price is word-hops:

    four nodes, parts a b c d      step 1: d a b c      step 2: c d a b      step 3: b c d a

The tool divides word-hops by a tensor's unique words (those of the whole layer, each counted once) until the
very end; functions below that do so say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import ceil, prod

from costmodel.published.nn_dataflow.blocking import AT_DRAM, AT_GBUF, GBUF, OFM, Blocking, fetched
from costmodel.published.nn_dataflow.hops import distance
from costmodel.published.nn_dataflow.layers import LOOPS, TENSORS, Counts, LayerShape
from costmodel.published.nn_dataflow.partition import BATP, INPP, OFMP, OUTP, Partition, Sides
from costmodel.published.nn_dataflow.row_stationary import ProcessingPass

Loops = tuple[tuple[int, int], ...]
"""(loop, factor) of a nest, from the outside in."""


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that need the same tile; a rectangle in the mesh, perhaps with other nodes between them.

    ``sides``: rows and columns of these nodes. ``steps``: mean hops from a node to the next one down a
    column, and to the next one along a row; infinite where there is no next one.
    """

    sides: Sides
    steps: tuple[float, float]

    @property
    def size(self) -> int:
        return prod(self.sides)

    def subgroup_sides(self, parts: int) -> Sides:
        """Rows and columns of a subgroup: the nodes that together hold one tile, cut into ``parts`` parts.

        It has the fewest nodes that are enough and divide the group evenly. As many of them as possible lie
        along the side with the shorter steps.
        """
        nodes = next(count for count in range(parts, self.size + 1) if self.size % count == 0)
        near = self.near
        along = max(f for f in range(1, self.sides[near] + 1) if self.sides[near] % f == nodes % f == 0)
        return (along, nodes // along) if near == 0 else (nodes // along, along)

    @cached_property
    def near(self) -> int:
        """The side along which neighbours are nearer: 0 down a column, 1 along a row."""
        return 0 if self.steps[0] <= self.steps[1] else 1

    def rotation_hops(self, parts: int, units: int) -> float:
        """Word-hops of one rotation, divided by the tensor's unique words.

        The nodes of a subgroup form a snake: ``along`` the near side, one step across, and back.

            0 - 1 - 2 - 3
                        |        along 4, across 2; the way back from node 7 to node 0 is one step across
            7 - 6 - 5 - 4

        ``units``: how many reads a walk over the tile takes. A read that spans several parts meets the last
        of them that many steps early, so a rotation then has fewer steps.
        """
        sides, near = self.subgroup_sides(parts), self.near
        along, across = sides[near], sides[1 - near]
        to_next_node = self._hops(near, (along - 1) * across) + self._hops(1 - near, across - 1)
        # every second line of the snake runs towards the side where the first node is
        line, column = divmod(parts - 1, along)
        column = along - 1 - column if line % 2 else column
        last_to_first = self._hops(near, column) + self._hops(1 - near, line)
        # the step that would bring every part home again shows nobody anything new: at least one is left out
        steps = parts - max(1, parts / units)
        return (to_next_node + last_to_first) * steps / parts * (self.size // parts)

    def wide_fetch_hops(self, parts: int, width: float) -> float:
        """Word-hops, divided by the unique words, when every node reads ``width`` parts at a time.

        One part is the node's own. The others are 1, 2, ... steps away, and each is carried that far. Of the
        farthest only a fraction is read where ``width`` is not whole.
        """
        if width <= 1:
            return 0
        step = self.rotation_hops(parts, parts) / (parts - 1)
        touched = ceil(width - 1e-6)
        farthest = touched - 1
        part_steps = farthest * touched / 2 - farthest * (touched - width)
        return step * part_steps / width

    def _hops(self, side: int, count: int) -> float:
        return count * self.steps[side] if count else 0


def sharing_groups(layer: LayerShape, partition: Partition) -> tuple[NodeGroup, ...]:
    """For each tensor the group of nodes that need the same data of it.

    A kind of division that cuts only loops which do not index the tensor gives every node the same data. Each
    tensor leaves out one loop, and :data:`LOOPS` has input channels, output channels and batch in this order.
    """
    kinds = {0: _group(partition, INPP), 1: _group(partition, OUTP), 2: _maps_and_batch(partition)}
    unrelated = [set(range(len(LOOPS))) - set(related) for related in layer.related]
    return tuple(kinds[min(loops)] for loops in unrelated)


def _maps_and_batch(partition: Partition) -> NodeGroup:
    """The nodes along batch and output maps, both of which divide no filters.

    If both kinds are divided and are not next to each other in the order, the tool counts only the lower one.
    """
    maps, batch = _group(partition, OFMP), _group(partition, BATP)
    if 1 in (maps.size, batch.size):
        return batch if maps.size == 1 else maps
    of_maps, of_batch = partition.order.index(OFMP), partition.order.index(BATP)
    if abs(of_maps - of_batch) > 1:
        return maps if of_maps > of_batch else batch
    rows, columns = (a * b for a, b in zip(maps.sides, batch.sides, strict=True))
    near_rows, near_columns = (min(a, b) for a, b in zip(maps.steps, batch.steps, strict=True))
    return NodeGroup((rows, columns), (near_rows, near_columns))


def _group(partition: Partition, kind: int) -> NodeGroup:
    """The nodes along one kind of division, with the mean hops from each to the one before it."""
    steps = []
    for side in (0, 1):
        hops = []
        for index in partition.indices():
            if index[kind][side]:
                before = list(index)
                before[kind] = (index[kind][0] - (side == 0), index[kind][1] - (side == 1))
                hops.append(distance(partition.position(index), partition.position(tuple(before))))
        steps.append(sum(hops) / len(hops) if hops else float("inf"))
    return NodeGroup(partition.sizes[kind], (steps[0], steps[1]))


@dataclass(frozen=True)
class Rotation:
    """How tiles are shared.

    ``parts``: for each tensor how many nodes hold a tile together, one part each. ``hops``: word-hops of a
    whole layer on all nodes.
    """

    parts: Counts
    hops: float


def best_rotation(
    unit: ProcessingPass, blocking: Blocking, groups: tuple[NodeGroup, ...], buffer_words: int, nodes: int
) -> Rotation:
    """The sharing with the fewest word-hops that leaves all accesses as they are.

    Two things are searched, each combined with each. The parts of tensors: one for every node of the group,
    or as few as fit ``buffer_words``. The nest of loops at the buffer: any that fetches as ``blocking`` does.
    ``nodes``: how many there are in all groups together.
    """
    nest = _BufferNest(unit, blocking)
    all_nodes = tuple(group.size for group in groups)
    choices = dict.fromkeys((all_nodes, *_fewer_parts(nest, groups, buffer_words)))
    rotations = (
        Rotation(parts, nest.word_hops(groups, parts, loops, nodes))
        for parts, loops in product(choices, nest.orders())
    )
    return min(rotations, key=lambda rotation: rotation.hops)


def _fewer_parts(nest: _BufferNest, groups: tuple[NodeGroup, ...], buffer_words: int) -> Iterator[Counts]:
    """The fewest parts of each tensor that fit the buffer, one answer for every order of the tensors.

    All tensors start with the most parts, one for each node, and so with the fewest words in a buffer. Then
    the tensors, in order, take as few parts as the words that the buffer has free allow.
    """
    tiles = nest.tile_words
    for order in permutations(range(len(TENSORS))):
        parts = [group.size for group in groups]
        free = buffer_words - sum(ceil(tile / part) for tile, part in zip(tiles, parts, strict=True))
        for t in order:
            held = ceil(tiles[t] / parts[t])
            fewer_and_fewer = [n for n in range(parts[t], 0, -1) if groups[t].size % n == 0]
            for count in fewer_and_fewer:
                if ceil(tiles[t] / count) > free + held:
                    break
                parts[t] = count
            free -= ceil(tiles[t] / parts[t]) - held
        yield tuple(parts)


class _BufferNest:
    """The loops over a buffer's tile, and the rotations that they need.

    ``fetches``: for each tensor how often it comes from DRAM, and from the buffer. ``tile_words``: for each
    tensor the words of a whole tile in the buffer.
    """

    def __init__(self, unit: ProcessingPass, blocking: Blocking) -> None:
        self.unit, self.blocking = unit, blocking
        self.fetches = fetched(blocking, unit, AT_DRAM), fetched(blocking, unit, AT_GBUF)
        inside = blocking.inside(AT_DRAM)
        self.tile_words = tuple(
            words * prod(inside[loop] for loop in related)
            for words, related in zip(unit.buffer_words, unit.related, strict=True)
        )

    def orders(self) -> Iterator[Loops]:
        """The nests that fetch as often as the blocking does.

        How often a tensor is fetched is decided by the innermost loop that changes its tile. Each tensor has
        one such loop; take the outermost of them. All loops inside of it stay as they are. It and the loops
        outside of it may stand in any order and may be split in two: fetches do not change, as only products
        of their factors count there. Splitting lets a rotation lie between the two parts of a loop.
        """
        factors, order = self.blocking.factors[AT_GBUF], self.blocking.orders[AT_GBUF]
        loops = sorted(
            (loop for loop in range(len(LOOPS)) if factors[loop] > 1), key=lambda loop: -order[loop]
        )
        # positions count from the inside, so the innermost loop of a tensor is its minimum
        changing = [[order[loop] for loop in related if factors[loop] > 1] for related in self.unit.related]
        outermost = max((min(positions) for positions in changing if positions), default=-1)
        fixed = tuple((loop, factors[loop]) for loop in loops if order[loop] < outermost)
        free = [loop for loop in loops if order[loop] >= outermost]
        splits = ([f for f in range(1, factors[loop] + 1) if factors[loop] % f == 0] for loop in free)
        for split in product(*splits):
            outer_loops = [(loop, f) for loop, f in zip(free, split, strict=True) if f > 1]
            inner_loops = [
                (loop, factors[loop] // f) for loop, f in zip(free, split, strict=True) if f < factors[loop]
            ]
            for outer, inner in product(permutations(outer_loops), permutations(inner_loops)):
                yield (*outer, *inner, *fixed)

    def word_hops(self, groups: tuple[NodeGroup, ...], parts: Counts, loops: Loops, nodes: int) -> float:
        """Word-hops of all tensors, in all groups of nodes, of which there are ``nodes // group.size``."""
        return sum(
            self.unit.words_once(GBUF, t) * self.hops(t, group, count, loops) * (nodes // group.size)
            for t, (group, count) in enumerate(zip(groups, parts, strict=True))
        )

    def hops(self, t: int, group: NodeGroup, parts: int, loops: Loops) -> float:
        """Word-hops of tensor ``t`` in one group, divided by its unique words.

        They are those of rotations and those of reads that reach beyond a node's own part.

        Take the outermost loop that indexes the tensor, and the loops directly inside of it that index it,
        too. Together they walk once over the tile, in ``units`` steps; a step reads ``width`` parts. The
        loops outside repeat the walk, with one rotation each time (``rounds``). A walk's first step reads
        what is there; the rotation serves the reads of all other steps.
        """
        if parts == 1:
            return 0
        related = self.unit.related[t]
        first = next((number for number, (loop, _) in enumerate(loops) if loop in related), None)
        rounds, units = 0, 1
        if first is not None:
            rounds = self._rounds(t, loops[:first])
            for loop, factor in loops[first:]:
                if loop not in related:
                    break
                units *= factor
        width = parts / units
        reads = self.fetches[AT_GBUF][t]
        walks = rounds
        if t == OFM:  # a rotation serves a walk of reads and one of writes; the very first reads nothing
            walks = 2 * rounds if reads > 2 * rounds - 1 else 2 * rounds - 1
        not_served = reads - walks * (units - 1) / units
        return group.rotation_hops(parts, units) * rounds + group.wide_fetch_hops(parts, width) * not_served

    def _rounds(self, t: int, outside: Loops) -> int:
        """The number of rotations: one for each walk over the tensor's tile.

        Walks are repeated by the loops ``outside`` and by those at DRAM that do not index the tensor. If
        every walk gets its tile anew from DRAM, none finds parts that an earlier walk left in other nodes'
        buffers, and there is no rotation.
        """
        repeated = [
            self.blocking.factors[AT_DRAM][loop]
            for loop in range(len(LOOPS))
            if loop not in self.unit.related[t]
        ]
        walks = prod(repeated) * prod(factor for _, factor in outside)
        from_dram = self.fetches[AT_DRAM][t]
        if t == OFM:  # n walks over outputs count as 2 n - 1 fetches, n of them writes
            from_dram = (from_dram + 1) // 2
        return 0 if walks == from_dram else walks
