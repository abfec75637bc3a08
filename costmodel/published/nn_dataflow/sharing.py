"""Buffer sharing: nodes that need the same tile hold a part of it each, and rotate the parts.

In a rotation every node passes the part that it has to the next node, step by step, until each node has seen
all parts. So each buffer holds one part instead of the whole tile, at the price of word-hops.
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
    """Nodes that need the same tile.

    ``sides``: rows and columns of them. ``steps``: mean hops from one to the next, down a column and along a
    row; infinite where there is no next one.
    """

    sides: Sides
    steps: tuple[float, float]

    @property
    def size(self) -> int:
        return prod(self.sides)

    def subgroup_sides(self, parts: int) -> Sides:
        """Rows and columns of the nodes that together hold ``parts`` parts.

        They are as few as divide the group evenly, and as many of them as possible lie along the side with
        the shorter steps.
        """
        nodes = next(count for count in range(parts, self.size + 1) if self.size % count == 0)
        near = self.near
        along = max(f for f in range(1, self.sides[near] + 1) if self.sides[near] % f == nodes % f == 0)
        return (along, nodes // along) if near == 0 else (nodes // along, along)

    @cached_property
    def near(self) -> int:
        """The side along which neighbours are nearer, 0 for rows; parts go to its end, then turn."""
        return 0 if self.steps[0] <= self.steps[1] else 1

    def rotation_hops(self, parts: int, units: int) -> float:
        """Word-hops of one rotation, divided by the tensor's unique words.

        The nodes form a snake: along the near side, one step across, and back. In every step each node sends
        its part to the next one in the snake (``chain``), and the last one to the first (``back``). Every
        node has seen all parts one step before they are home again, so that step is left out. ``units``:
        how many accesses a round over the tile takes; an access that spans several parts saves more steps.
        """
        sides, near = self.subgroup_sides(parts), self.near
        along, across = sides[near], sides[1 - near]
        chain = self._hops(near, (along - 1) * across) + self._hops(1 - near, across - 1)
        turn, place = divmod(parts - 1, along)
        place = along - 1 - place if turn % 2 else place
        back = self._hops(near, place) + self._hops(1 - near, turn)
        steps = parts - max(1, parts / units)
        return (chain + back) * steps / parts * (self.size // parts)

    def wide_fetch_hops(self, parts: int, width: float) -> float:
        """Word-hops, divided by the unique words, when every node reads ``width`` parts at a time.

        One part is its own; the others come from the nodes 1, 2, ... steps away, the last of them only for
        the fraction by which ``width`` is not whole.
        """
        if width <= 1:
            return 0
        step = self.rotation_hops(parts, parts) / (parts - 1)
        whole = ceil(width - 1e-6)
        return step * ((whole - 1) * whole / 2 - (whole - 1) * (whole - width)) / width

    def _hops(self, side: int, count: int) -> float:
        return count * self.steps[side] if count else 0


def sharing_groups(layer: LayerShape, partition: Partition) -> tuple[NodeGroup, ...]:
    """For each tensor the group of nodes that need the same data of it.

    These are the nodes along the kinds that divide only loops that do not index the tensor.
    """
    kinds = {0: _group(partition, INPP), 1: _group(partition, OUTP), 2: _maps_and_batch(partition)}
    unrelated = [set(range(len(LOOPS))) - set(related) for related in layer.related]
    return tuple(kinds[min(loops)] for loops in unrelated)


def _maps_and_batch(partition: Partition) -> NodeGroup:
    """The nodes along batch and output maps, if these are next to each other in the order; else the lower."""
    maps, batch = _group(partition, OFMP), _group(partition, BATP)
    if 1 in (maps.size, batch.size):
        return batch if maps.size == 1 else maps
    places = partition.order.index(OFMP), partition.order.index(BATP)
    if abs(places[0] - places[1]) > 1:
        return maps if places[0] > places[1] else batch
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
                hops.append(distance(partition.place(index), partition.place(tuple(before))))
        steps.append(sum(hops) / len(hops) if hops else float("inf"))
    return NodeGroup(partition.sizes[kind], (steps[0], steps[1]))


@dataclass(frozen=True)
class Rotation:
    """How tiles are shared.

    ``parts``: for each tensor how many nodes hold a tile together; ``hops``: word-hops of all rotations.
    """

    parts: Counts
    hops: float


def best_rotation(
    unit: ProcessingPass, blocking: Blocking, groups: tuple[NodeGroup, ...], buffer_words: int, nodes: int
) -> Rotation:
    """The sharing with the fewest word-hops that leaves all accesses as they are.

    It tries two kinds of parts: as many as there are nodes, and as few as fit the buffer, in any order of
    tensors. It combines these with all nests of loops at the buffer that fetch as ``blocking`` does, where a
    loop may be split into an outer part, across nodes, and an inner part.
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

    All tensors start with the most parts, one for each node. In order, each takes as few parts as the words
    that are left in the buffer (``room``) allow.
    """
    tiles = nest.tile_words
    for order in permutations(range(len(TENSORS))):
        parts = [group.size for group in groups]
        room = buffer_words - sum(ceil(tile / part) for tile, part in zip(tiles, parts, strict=True))
        for t in order:
            held = ceil(tiles[t] / parts[t])
            fitting = [n for n in range(parts[t], 0, -1) if groups[t].size % n == 0]
            for count in fitting:
                if ceil(tiles[t] / count) > room + held:
                    break
                parts[t] = count
            room -= ceil(tiles[t] / parts[t]) - held
        yield tuple(parts)


class _BufferNest:
    """The loops over a buffer's tile, and the rotations that they need."""

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

        ``changing`` has for each tensor the positions of the loops that change its tile; the innermost of
        these decides how often it is fetched. Loops inside the outermost of these innermost positions stay as
        they are. The others are split and reordered.
        """
        factors, order = self.blocking.factors[AT_GBUF], self.blocking.orders[AT_GBUF]
        loops = sorted(
            (loop for loop in range(len(LOOPS)) if factors[loop] > 1), key=lambda loop: -order[loop]
        )
        changing = [[order[loop] for loop in related if factors[loop] > 1] for related in self.unit.related]
        outermost = max((min(places) for places in changing if places), default=-1)
        fixed = tuple((loop, factors[loop]) for loop in loops if order[loop] < outermost)
        free = [loop for loop in loops if order[loop] >= outermost]
        splits = ([f for f in range(1, factors[loop] + 1) if factors[loop] % f == 0] for loop in free)
        for split in product(*splits):
            across = [(loop, f) for loop, f in zip(free, split, strict=True) if f > 1]
            within = [
                (loop, factors[loop] // f) for loop, f in zip(free, split, strict=True) if f < factors[loop]
            ]
            for outer, inner in product(permutations(across), permutations(within)):
                yield (*outer, *inner, *fixed)

    def word_hops(self, groups: tuple[NodeGroup, ...], parts: Counts, loops: Loops, nodes: int) -> float:
        """Word-hops of all tensors, in all groups of nodes."""
        return sum(
            self.unit.words_once(GBUF, t) * self.hops(t, group, count, loops) * (nodes // group.size)
            for t, (group, count) in enumerate(zip(groups, parts, strict=True))
        )

    def hops(self, t: int, group: NodeGroup, parts: int, loops: Loops) -> float:
        """Word-hops of tensor ``t`` in one group, divided by its unique words.

        They are those of all rotations and of reads that reach beyond a node's own part. ``first`` is the
        outermost loop that indexes the tensor. The loops outside of it repeat the tile (``rounds``); it and
        the indexing loops directly inside it divide the tile into ``units``, each ``width`` parts wide.
        Outputs are read and written, so rotations serve twice as many of their reads. ``alone``: reads that
        no rotation serves; a rotation serves all reads of a round but one unit.
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
        combined = rounds
        if t == OFM:
            combined = 2 * rounds if reads > 2 * rounds - 1 else 2 * rounds - 1
        alone = reads - combined * (units - 1) / units
        return group.rotation_hops(parts, units) * rounds + group.wide_fetch_hops(parts, width) * alone

    def _rounds(self, t: int, outside: Loops) -> int:
        """The number of rotations: one each time that the nest starts over with the tensor's tile.

        There is none if each of these times brings the tile anew from memory: each tile is then gone over
        once. The number of fetches of outputs, 2 n - 1 for n times, is turned back into n.
        """
        around = [
            self.blocking.factors[AT_DRAM][loop]
            for loop in range(len(LOOPS))
            if loop not in self.unit.related[t]
        ]
        rounds = prod(around) * prod(factor for _, factor in outside)
        from_memory = self.fetches[AT_DRAM][t]
        return 0 if rounds == ((from_memory + 1) // 2 if t == OFM else from_memory) else rounds
