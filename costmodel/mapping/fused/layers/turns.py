"""The turns of one layer of a fused group: the part that it runs, how often, and where tensors are held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from costmodel.mapping.fused.layers.group import Intermediate, LayerGroup
from costmodel.mapping.fused.mapping import FusedMapping, KeptTile, Loops
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class HoistedTile:
    """A tensor's tile above shared loop ``depth``: its words, and the words that enter it in all."""

    tensor: str
    depth: int
    words: int
    entering: int


@dataclass(frozen=True)
class LayerTurns:
    """One layer of a group below the shared loops of ``shared``, which must be those of the group.

    A *turn* is one iteration of all its shared loops. Every turn finds the chip empty, but for held tensors.
    """

    group: LayerGroup
    shared: FusedMapping
    position: int

    @property
    def layer(self) -> Layer:
        return self.group.layers[self.position]

    @property
    def path(self) -> Loops:
        """Its shared loops, by the group's names."""
        return self.shared.paths[self.position]

    def sizes(self, depth: int) -> dict[str, int]:
        """What the ``depth`` outermost shared loops leave of each dim."""
        own = self.group.dim_of[self.position]
        return self.layer.sizes | {own[name]: step for name, step in self.path[:depth]}

    @cached_property
    def part(self) -> Layer:
        """What one turn computes."""
        left = self.sizes(len(self.path))
        return self.layer if not self.path else replace(self.layer, dims=tuple(left.items()))

    @cached_property
    def iterations(self) -> tuple[tuple[str, int], ...]:
        """For every shared loop the own dim, and how many iterations it has."""
        own, found = self.group.dim_of[self.position], []
        for depth, (name, step) in enumerate(self.path):
            found.append((own[name], self.sizes(depth)[own[name]] // step))
        return tuple(found)

    @cached_property
    def turns(self) -> int:
        """How often the layer runs its part."""
        return prod(times for _, times in self.iterations)

    @cached_property
    def continued(self) -> int:
        """How many of the turns go on with partial sums of earlier ones."""
        first = prod(times for dim, times in self.iterations if dim in self.layer.output.dims)
        return self.turns - first

    @cached_property
    def hoisted(self) -> tuple[HoistedTile, ...]:
        """The tiles that are kept above a shared loop, in the outermost level of the chip."""
        found = []
        for name, depth in self.shared.hoisted(self.layer.name).items():
            tensor = self.layer.tensor(name)
            words = tensor.words(self.sizes(depth))
            moved = self.shared.emptied_below(self.position, depth)
            for number, (dim, times) in enumerate(self.iterations[:depth]):
                if dim in tensor.dims and times > 1:
                    moved = max(moved, number + 1)
            entering = words * prod(times for _, times in self.iterations[:moved])
            found.append(HoistedTile(name, depth, words, entering))
        return tuple(found)

    @cached_property
    def held(self) -> dict[str, int]:
        """By tensor, the level that holds it from turn to turn, or from layer to layer."""
        found = {tile.tensor: self.group.outermost - 1 for tile in self.hoisted}
        for tensor in self.layer.tensors:
            for one in self.group.sources(self.position, tensor.name):
                if (level := self.shared.backing.get(self.group.layers[one.producer].name)) is not None:
                    found[tensor.name] = level
        return found

    def own_words(self, nest: Mapping, level: int) -> int:
        """The words that a turn's nest keeps at a level, beside what is held there."""
        return sum(
            tensor.words(nest.tiles[level])
            for tensor in self.part.tensors
            if tensor.name in nest.levels[level].keep and self.held.get(tensor.name) != level
        )


def turns_of(group: LayerGroup, shared: FusedMapping) -> tuple[LayerTurns, ...]:
    """The turns of every layer, in order."""
    return tuple(LayerTurns(group, shared, position) for position in range(len(group.layers)))


def common_depth(shared: FusedMapping, first: int, last: int) -> int:
    """How many loops the layers from ``first`` to ``last`` all share."""
    return min(shared.prefix[first:last], default=0)


def held_tiles(group: LayerGroup, shared: FusedMapping) -> list[KeptTile]:
    """All backing and hoisted tiles."""
    turns, found = turns_of(group, shared), []
    for one in turns:
        for tile in one.hoisted:
            during = shared.sharing(one.position, tile.depth + 1)
            level = group.outermost - 1
            found.append(
                KeptTile(one.position, tile.tensor, level, tile.words, tile.depth, during, hoisted=True)
            )
    found += [
        _backing_tile(group, shared, intermediate, turns)
        for intermediate in group.intermediates
        if group.layers[intermediate.producer].name in shared.backing
    ]
    return found


def _backing_tile(
    group: LayerGroup, shared: FusedMapping, one: Intermediate, turns: tuple[LayerTurns, ...]
) -> KeptTile:
    """The tile of an intermediate directly above the outermost split between its producer and its readers.

    It has what the producer makes below the loops that all of them share, or what a reader touches there if
    that is more, as with padding.
    """
    depth = common_depth(shared, one.producer, one.last)
    producer = turns[one.producer]
    output = producer.layer.output
    words = backing_words(group, one, producer.path[:depth])
    during = range(shared.sharing(one.producer, depth + 1).start, shared.sharing(one.last, depth + 1).stop)
    level = shared.backing[producer.layer.name]
    return KeptTile(one.producer, output.name, level, words, depth, during, hoisted=False)


def backing_words(group: LayerGroup, one: Intermediate, loops: Loops) -> int:
    """Words of an intermediate's backing tile below the ``loops`` that its producer and all readers share."""
    tensors = [(one.producer, group.layers[one.producer].output)]
    tensors += [(read.layer, group.layers[read.layer].tensor(read.tensor)) for read in one.reads]
    words = 0
    for position, tensor in tensors:
        own = group.dim_of[position]
        words = max(
            words, tensor.words(group.layers[position].sizes | {own[name]: step for name, step in loops})
        )
    return words
