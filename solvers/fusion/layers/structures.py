"""What layers share and keep: all structures of a run of layers of a group.

A *run* is a sequence of layers that nothing cuts in two: of every two neighbours either some loop is shared,
or an intermediate that stays on the chip passes over the border. Between runs nothing but the outermost
memory connects layers, so their costs add up and their room does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

from costmodel.mapping.fused.layers.checker import tree_violations
from costmodel.mapping.fused.layers.group import Intermediate, LayerGroup
from costmodel.mapping.fused.layers.turns import common_depth, held_tiles
from costmodel.mapping.fused.mapping import FusedMapping, KeptTile, Loops
from solvers.fusion.shared_loops import lists_beside


@dataclass(frozen=True)
class Run:
    """The layers ``first`` to ``last`` of a group as a group of their own, numbered from 0.

    Whatever passes to or from other layers goes to the outermost memory.
    """

    whole: LayerGroup
    first: int
    last: int

    @cached_property
    def group(self) -> LayerGroup:
        inside = range(self.first, self.last + 1)
        intermediates = []
        for one in self.whole.intermediates:
            reads = [read for read in one.reads if read.layer in inside]
            if one.producer in inside and reads:
                moved = tuple(replace(read, layer=read.layer - self.first) for read in reads)
                beside = {
                    other.producer for read in reads for other in self.whole.sources(read.layer, read.tensor)
                }
                # what is read together with something from outside comes from where that is
                leaves = one.leaves or len(reads) < len(one.reads) or not beside <= set(inside)
                intermediates.append(Intermediate(one.producer - self.first, moved, leaves))
        return LayerGroup(
            self.whole.architecture,
            self.whole.layers[self.first : self.last + 1],
            tuple(intermediates),
            names=self.whole.loops[self.first : self.last + 1],
        )


@dataclass(frozen=True)
class GroupStructure:
    """Shared loops and backing levels of a run, without hoisted tiles."""

    run: Run
    shared: FusedMapping

    @cached_property
    def tiles(self) -> tuple[KeptTile, ...]:
        """The backing tiles."""
        return tuple(held_tiles(self.run.group, self.shared))


def structures(run: Run, most_loops: int | None = None) -> Iterator[GroupStructure]:
    """The structures of a run whose backing tiles fit, of up to ``most_loops`` loops a layer (None: any)."""
    group, count = run.group, run.last - run.first + 1
    if count == 1:
        yield GroupStructure(run, FusedMapping((), ((),), ()))
        return
    most = len(group.loops[0]) * count if most_loops is None else most_loops
    for lists in _lists_of_pairs(group, 0, (), most):
        around = ((), *lists, ())
        paths = tuple(max(left, right, key=len) for left, right in pairwise(around))
        bare = FusedMapping(tuple(map(len, lists)), paths, ())
        if tree_violations(group, bare):
            continue
        for backing in _backings(group, bare):
            shared = FusedMapping(bare.prefix, bare.paths, (), backing)
            if _is_whole(group, shared) and _fits(found := GroupStructure(run, shared)):
                yield found


def _lists_of_pairs(group: LayerGroup, pair: int, before: Loops, most: int) -> Iterator[tuple[Loops, ...]]:
    """For every pair from ``pair`` on the loops it shares; its first layer shares ``before`` already."""
    if pair == len(group.layers) - 1:
        yield ()
        return
    for loops in _shared_lists(group, pair, before, most):
        for rest in _lists_of_pairs(group, pair + 1, loops, most):
            yield (loops, *rest)


def _shared_lists(group: LayerGroup, pair: int, before: Loops, most: int) -> Iterator[Loops]:
    """The lists of loops that a pair can share; one of this list and ``before`` begins with the other."""
    ours, theirs = group.dim_of[pair], group.dim_of[pair + 1]
    allowed = [name for name in ours if name in theirs and group.layers[pair].sizes[ours[name]] > 1]
    if (cutting := group.cutting.get((pair, pair + 1))) is not None:
        allowed = [name for name in allowed if name in cutting]
    sizes = {
        name: group.layers[pair].sizes[ours[name]]
        for name in allowed
        if group.layers[pair].sizes[ours[name]] == group.layers[pair + 1].sizes[theirs[name]]
    }
    yield from lists_beside(before, sizes, most)


def _backings(group: LayerGroup, bare: FusedMapping) -> Iterator[dict[str, int]]:
    """Every choice of backing levels. What neighbours with shared loops pass on stays, if it can."""
    names, choices = [], []
    for one in group.intermediates:
        levels = _levels(group, one)
        if not levels:
            continue
        must = any(
            common_depth(bare, one.producer, read.layer) and read.layer == one.producer + 1
            for read in one.reads
        )
        names.append(group.layers[one.producer].name)
        choices.append(levels if must else [None, *levels])
    for chosen in product(*choices):
        backing = {name: level for name, level in zip(names, chosen, strict=True) if level is not None}
        if not tree_violations(group, FusedMapping(bare.prefix, bare.paths, (), backing)):
            yield backing


def _levels(group: LayerGroup, one: Intermediate) -> list[int | None]:
    """The levels that can keep an intermediate for its producer and all readers."""
    if one.leaves:
        return []
    tensors = [group.layers[one.producer].output]
    tensors += [group.layers[read.layer].tensor(read.tensor) for read in one.reads]
    levels = group.architecture.levels
    return [level for level in group.holding if all(levels[level].can_keep(tensor) for tensor in tensors)]


def _fits(structure: GroupStructure) -> bool:
    """Whether no backing tile is larger than its level."""
    levels = structure.run.group.architecture.levels
    return all(tile.words <= levels[tile.level].usable_words for tile in structure.tiles)


def _is_whole(group: LayerGroup, shared: FusedMapping) -> bool:
    """Whether no border between neighbours is without a shared loop and without a kept intermediate."""
    for border, depth in enumerate(shared.prefix):
        over = any(
            one.producer <= border < one.last and group.layers[one.producer].name in shared.backing
            for one in group.intermediates
        )
        if not depth and not over:
            return False
    return True
